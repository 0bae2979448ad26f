"""What a session is created with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ..learners.base import InitialArm, Spec
from .loss_range import LossRange


class Expiry(NamedTuple):
    """When an outstanding decision expires, and the loss it is then learned with."""

    after_seconds: float
    loss: float | None
    """On the learner's scale; None: nothing is learned."""
    provisional: bool = False
    """Whether it is learned at the act already, and corrected by an event."""


class Params(NamedTuple):
    """What a session is created with and never changes."""

    learner: Spec
    seed: int
    losses: LossRange = LossRange()
    expiry: Expiry | None = None
    floor: float = 0.0
    """Share of the draws that is uniform over the eligible arms."""
    initial: Sequence[InitialArm] = ()
    """What the learner begins with, on its scale of losses."""
    max_segments: int = 0
    """Segments that are kept at most; 0: acts and events name none."""
