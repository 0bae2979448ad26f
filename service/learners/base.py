"""What every learner is: parameters, state and inputs in, new state and outputs out.

A learner never does I/O, reads no clock and owns no randomness. Its state is a ``NamedTuple`` of integers,
floats and numpy arrays, replaced and never mutated, so that a caller may keep any earlier state. Arrays may
carry leading axes (one per run, say), so that many runs are stepped at once by the same code.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from enum import StrEnum
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
Rows = tuple[FloatArray, ...]
"""Arrays that a state replaces one by one; a commit sends only those that were replaced."""
Record = tuple[Any, ...]
"""Numbers a slot leaves for its feedback: floats, or arrays of them over the leading axes."""
S = TypeVar("S", bound=tuple[Any, ...])


class Information(StrEnum):
    """What a learner has to be told with a loss (design: the three information models)."""

    ARM = "arm"
    """The arm and its loss; the slot stays unknown."""
    SLOT = "slot"
    """The arm, its loss and the slot that was acted."""
    LOSSES = "losses"
    """The dim+1 losses at a point and its query points; slot and point stay unknown."""
    GRADIENT = "gradient"
    """The gradient at the played point."""


class Slot(NamedTuple):
    """What is known when slot ``t`` opens; ``outstanding`` excludes the decision about to be taken."""

    t: int
    """From 1."""
    outstanding: int
    """Decisions without feedback at the end of slot t-1."""
    u: Any
    """The slot's uniform u_t in [0, 1): a float, or an array over the leading axes."""
    v: Any = 0.0
    """The second stream's uniform v_t, for learners with ``second_stream``."""


class Spec(BaseModel):
    """A learner's parameters as a client posts them; unknown fields and loose types are refused."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    kind: str

    def build(self) -> Learner[Any]:
        """The arithmetic for these parameters."""
        raise NotImplementedError

    def resolved(self) -> dict[str, Any]:
        """Every field by name, as JSON has it, with the default where the client left one out."""
        return dict(self)


class Learner(ABC, Generic[S]):
    """The part common to learners over arms and over points."""

    information: ClassVar[Information]
    state_type: ClassVar[type]
    """The NamedTuple class of the state.

    Its annotations (int, float, bool, FloatArray, IntArray) are the codec's schema.
    """
    second_stream: ClassVar[bool] = False

    @abstractmethod
    def start(self) -> S:
        """The state before the first slot."""

    @abstractmethod
    def open(self, state: S, slot: Slot) -> S:
        """Close slot t-1 and open slot ``slot.t``."""

    def rates(self, state: S) -> dict[str, Any]:
        """The parameters as resolved, by their API names, beside those of the spec."""
        raise NotImplementedError


class ArmLearner(Learner[S]):
    """A learner over arms, which it knows by their positions among those there are now."""

    n_arms: int
    """Arms at the start; afterwards the state's arrays tell."""

    def draw(self, state: S, slot: Slot) -> tuple[S, Any]:
        """The arm of the open slot (int, or int array over the leading axes), by inverse CDF of ``slot.u``."""
        return state, draw(self.distribution(state), slot.u)

    @abstractmethod
    def distribution(self, state: S) -> FloatArray:
        """p_t, shape (..., n_arms): what the open slot's arm is (or, within a block, was) drawn from."""

    @abstractmethod
    def probabilities(self, state: S) -> FloatArray:
        """The distribution a reader is shown, shape (..., n_arms)."""

    @abstractmethod
    def settle(self, state: S, arm: Any, loss: Any, count: int = 1) -> S:
        """Learn from a loss of ``arm``, as the learner sees losses (>= 0; in [0, 1] for the theory).

        ``count`` decisions of the arm that expire together at the same loss are one step of that many times
        the size.
        """

    def give_up(self, state: S, count: int) -> S:  # noqa: ARG002 - for learners that count decisions themselves
        """Forget ``count`` outstanding decisions whose loss will never be learned."""
        return state

    @abstractmethod
    def remove_arms(self, state: S, positions: IntArray) -> S:
        """Go on without the arms at these positions; the others move up and keep their ratios."""

    @abstractmethod
    def add_arms(self, state: S, count: int) -> S:
        """Go on with ``count`` more arms behind the others, each at probability 1/n of n in all."""


class SlotLearner(ArmLearner[S]):
    """A learner over arms that keeps a record of every open slot, to be handed back with the slot's loss."""

    information: ClassVar = Information.SLOT
    max_open_slots: int
    """Open slots kept; with one more, the oldest is dropped."""

    @abstractmethod
    def record(self, state: S, arm: Any) -> Record:
        """What the feedback of the open slot, which drew ``arm``, will need."""

    @abstractmethod
    def settle(self, state: S, arm: Any, loss: Any, count: int = 1, record: Record = ()) -> S:
        """Learn from the loss of a slot with its ``record``; slots are settled one by one."""

    def forget(self, state: S, record: Record) -> S:  # noqa: ARG002 - for learners whose records hold something
        """Give up a slot whose loss will never be learned."""
        return state


class PointLearner(Learner[S]):
    """A learner over points of a convex set."""

    dim: int

    @abstractmethod
    def x(self, state: S) -> FloatArray:
        """The point to play, shape (..., dim)."""

    def query_points(self, state: S) -> FloatArray | None:  # noqa: ARG002 - overridden by learners that query
        """The dim query points x + perturbation e_k, shape (..., dim, dim); None where only x is played."""
        return None

    @abstractmethod
    def settle(self, state: S, values: FloatArray, outstanding: int) -> S:
        """Learn from one bundle of dim+1 losses or one gradient; ``outstanding`` no longer counts it."""


def draw(p: FloatArray, u: Any) -> Any:
    """Smallest k with u < p_0 + ... + p_k, summed left to right; the last arm with p > 0 where none is.

    Parameters
    ----------
    p : shape (..., n_arms)
    u : float in [0, 1), or an array of them over the leading axes
    """
    cumulative = np.cumsum(p, axis=-1)
    if p.ndim == 1:
        arm = int(cumulative.searchsorted(u, side="right"))
        return arm if arm < p.size else int(np.flatnonzero(p)[-1])
    arm = (cumulative <= np.asarray(u)[..., None]).sum(axis=-1)
    last = p.shape[-1] - 1 - np.argmax(p[..., ::-1] > 0, axis=-1)
    return np.minimum(arm, last)


def at(arm: Any) -> tuple[Any, ...]:
    """Index of ``arm`` on the last axis: an int for one run, an int array of shape (runs,) for many."""
    if isinstance(arm, np.ndarray):
        return (np.arange(arm.shape[0]), arm)
    return (arm,)


def many(state: S, runs: int) -> S:
    """The state of ``runs`` runs that all stand at ``state``: arrays gain a leading axis, numbers are shared."""
    parts = [_repeated(part, runs) for part in state]
    return type(state)._make(parts)  # type: ignore[attr-defined, no-any-return]


def _repeated(part: Any, runs: int) -> Any:
    if isinstance(part, tuple):
        return tuple(_repeated(row, runs) for row in part)
    return np.repeat(part[None], runs, axis=0) if isinstance(part, np.ndarray) else part
