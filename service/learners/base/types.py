"""What learners are given: arrays, slots, and what is reported with a loss."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
FixedArray = Annotated[FloatArray, "fixed"]
"""In the state of a learner over arms: an array whose length has nothing to do with the number of arms.

In a state's other arrays of floats the last axis is that of the arms.
"""
IntArray = NDArray[np.int64]
Rows = tuple[FloatArray, ...]
"""Arrays that a state replaces one by one; a commit writes only those that were replaced."""
Steps = tuple[tuple[int, float, float], ...]
"""Events: the position of the arm of each, the factor of its weight, and the least weight of an arm after it."""
Record = tuple[Any, ...]
"""Numbers kept of a slot for its feedback: floats, or arrays over the leading axes."""
S = TypeVar("S", bound=tuple[Any, ...])


class Log(NamedTuple):
    """A vector, and what events did to it since."""

    base: FloatArray
    """Shape (n_arms,); (0,) as long as it is still to be read."""
    steps: Steps
    opened: int
    """Steps before the open slot."""
    is_stored: bool = False
    """Whether it is stored in place of the state's vectors, and each commit adds to it."""


class Information(StrEnum):
    """What must be reported with a loss."""

    ARM = "arm"
    """The arm and its loss; the slot stays unknown."""
    SLOT = "slot"
    """The arm, its loss and the slot in which it was drawn."""
    LOSSES = "losses"
    """The dim+1 losses at a point and its query points; slot and point stay unknown."""
    GRADIENT = "gradient"
    """The gradient at the played point."""


class Slot(NamedTuple):
    """What is known when slot ``t`` opens."""

    t: int
    """From 1."""
    outstanding: int
    """Decisions without feedback at the end of slot t-1; slot t's own is not among them."""
    u: Any
    """The slot's uniform u_t in [0, 1): a float, or an array over the leading axes."""
    v: Any = 0.0
    """The second stream's uniform v_t, for learners with ``second_stream``."""
    eligible: IntArray | None = None
    """Positions of the arms that may be drawn, ascending, for learners with ``takes_eligible``; None: all arms."""
    floor: float = 0.0
    """Share of the draws that is uniform over the eligible arms, for learners with ``takes_eligible``."""
    provisional: bool = False
    """Whether every decision is charged with a default loss at once, for a ``ProvisionalLearner``."""
