"""What every learner is: a function of parameters, state and inputs to a new state and outputs; what each can do.

A learner does no I/O, reads no clock and draws no random numbers. Its state is a ``NamedTuple`` of integers,
floats and numpy arrays, which is replaced and never mutated, so that a caller may keep earlier states. Shapes are
written (..., n): the leading axes are there where many runs are stepped at once, one entry for each run.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Annotated, Any, ClassVar, Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict

# -- What learners are given: arrays, slots, and what is reported with a loss.

FloatArray = NDArray[np.float64]
FixedArray = Annotated[FloatArray, "fixed"]
"""In the state of a learner over arms: an array whose length has nothing to do with the number of arms.

In a state's other arrays of floats the last axis is that of the arms.
"""
IntArray = NDArray[np.int64]
Rows = tuple[FloatArray, ...]
"""Arrays that a state replaces one by one; a commit writes only those that were replaced."""
Steps = tuple[tuple[int, float], ...]
"""Numbers of a vector that were set: the position of each, and what it was set to."""
Record = tuple[Any, ...]
"""Numbers kept of a slot for its feedback: floats, or arrays over the leading axes."""
S = TypeVar("S", bound=tuple[Any, ...])


class Log(NamedTuple):
    """A vector, or all that a state has, at the opening of a slot, and what was done since."""

    base: FloatArray
    """Shape (n_arms,), or that of the whole; (0,) as long as it is still to be read."""
    steps: Steps
    opened: int
    """Steps before the open slot."""
    late: Mapping[int, FloatArray] = {}
    """Of arms with events in the open slot, by position: their column of the state's sums, shape (rows, 1)."""
    before: Any = None
    """An earlier state of the run, from which the steps may lead on, as long as the log is still to be read."""


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


class RateMode(StrEnum):
    """Where a learner's rates come from; a session view names it."""

    GIVEN = "given"
    THEOREM = "theorem"
    ANYTIME = "anytime"


class Visit(NamedTuple):
    """What is known of the visitor of a decision, in sessions with features."""

    x: FloatArray | None = None
    """Columns, multiples of 2^-14 in [-1, 1], shape (d,), the first of them 1; None: unknown."""
    ratios: tuple[float, ...] | None = None
    """How likely each expert made the arm that was drawn, relative to all; None: unknown."""


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
    x: FloatArray | None = None
    """The visitor's columns, shape (d,), for a learner of features."""


# -- Drawing from distributions, and states of many runs at once.

_latest: tuple[FloatArray, FloatArray] = (np.ones(1), np.ones(1))
"""A distribution of many arms, and its running sums: acts between two events draw from the same."""
SUMMED_ARMS = 1_000
"""Arms from which on these are kept."""


def _running_sums(p: FloatArray) -> FloatArray:
    global _latest
    if p.size < SUMMED_ARMS:
        return np.add.accumulate(p)  # In two thirds of the time of `cumsum`.
    if (latest := _latest)[0] is not p:
        _latest = latest = p, np.add.accumulate(p)
    return latest[1]


def draw(p: FloatArray, u: Any) -> Any:
    """Return the smallest k with u < p_0 + ... + p_k, summed left to right; else the last k with p_k > 0.

    The sum of p can be below u by rounding.

    Parameters
    ----------
    p : shape (..., n_arms), a distribution, or one times a number
    u : float in [0, 1), times this number, or an array of them over the leading axes

    Returns
    -------
    k, an int, or an int array over the leading axes
    """
    if p.ndim == 1:
        arm = int(_running_sums(p).searchsorted(u, "right"))
        return arm if arm < p.size else int(np.flatnonzero(p)[-1])
    arm = (p.cumsum(axis=-1) <= np.asarray(u)[..., None]).sum(axis=-1)
    last = p.shape[-1] - 1 - np.argmax(p[..., ::-1] > 0, axis=-1)
    return np.minimum(arm, last)


def draw_all(p: FloatArray, u: FloatArray) -> IntArray:
    """Return what ``draw`` returns of one run, p of shape (n_arms,), for each uniform, shape (draws,)."""
    arms = _running_sums(p).searchsorted(u, "right")
    if arms.max() == p.size:
        arms[arms == p.size] = np.flatnonzero(p)[-1]
    return arms


def at(arm: Any) -> tuple[Any, ...]:
    """Return the index of ``arm`` on the last axis: an int for one run, an int array of shape (runs,) for many."""
    return (np.arange(arm.shape[0]), arm) if isinstance(arm, np.ndarray) else (arm,)


def many(state: S, runs: int) -> S:
    """Return the state of runs that all stand at ``state``: arrays gain a leading axis, numbers do not; no log."""

    def repeated(part: Any) -> Any:
        if isinstance(part, tuple):
            return None if isinstance(part, Log) else tuple(map(repeated, part))
        return np.repeat(part[None], runs, axis=0) if isinstance(part, np.ndarray) else part

    return type(state)._make(map(repeated, state))  # type: ignore[attr-defined, no-any-return]


class Learner(ABC, Generic[S]):
    """What learners over arms and over points share."""

    information: ClassVar[Information]
    second_stream: ClassVar[bool] = False
    """Whether a slot's second uniform, v_t, is needed."""
    mode: RateMode = RateMode.ANYTIME
    learning_rate: float = 0.0
    """eta where it is the same in every slot, else 0."""

    @abstractmethod
    def start(self) -> S:
        """Return the state before the first slot, a NamedTuple.

        The annotations of its class (int, float, bool, FloatArray, IntArray, Rows) are the layout in which states
        are stored. A field with a default is not stored: it is of use only until the arm of the open slot is drawn.

        A state may have a ``log`` (``Log``, or None where it is not known) behind its other fields, which may be
        stored in place of its vectors over arms: the learner's ``replayed(state, log)`` must be the state to the
        bit, and ``checked()`` refuse vectors of another one. Of ``weights`` and ``opened``, those of the slot's
        opening, few arms have the second stored, and what differs.
        """

    @abstractmethod
    def open(self, state: S, slot: Slot) -> S:
        """Close slot t-1, of which all events have come, open slot ``slot.t`` and return the new state."""

    def rates(self, state: S) -> dict[str, Any]:  # noqa: ARG002 - overridden where they change
        """Return the rates in use: numbers by their API names, and under ``"rates"`` the ``RateMode``."""
        return {"rates": self.mode} | ({"learning_rate": self.learning_rate} if self.learning_rate else {})


class PointLearner(Learner[S]):
    """A learner over points of a convex set, a ``FeasibleSet``, made smaller by ``perturbation``."""

    information: ClassVar = Information.LOSSES

    def __init__(self, feasible_set: Any, mode: RateMode, perturbation: float = 0.0) -> None:
        self.dim: int = feasible_set.center.size
        self.feasible_set, self.mode = feasible_set, mode
        self._project = feasible_set.onto_shrunk(perturbation)

    def open(self, state: S, slot: Slot) -> S:  # noqa: ARG002 - overridden by learners that count slots
        return state

    def x(self, state: Any) -> FloatArray:
        """Return the point to play, shape (..., dim)."""
        x: FloatArray = state.x
        return x

    def query_points(self, state: S) -> FloatArray | None:  # noqa: ARG002 - overridden by learners that query
        """Return the query points x + perturbation e_k, shape (..., dim, dim); None where only x is played."""
        return None

    @abstractmethod
    def settle(self, state: S, values: FloatArray, outstanding: int) -> S:
        """Learn from one bundle or one gradient and return the new state.

        Parameters
        ----------
        state : before the feedback
        values : the losses at x and its query points, shape (..., dim+1), or the gradient, shape (..., dim)
        outstanding : decisions still without feedback, this one not among them
        """


class Posted(BaseModel):
    """An object as a client posts it: unknown fields and loose types are refused, and it never changes."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


class Spec(Posted):
    """A learner's parameters as a client posts them; unknown fields and loose types are refused."""

    kind: str
    takes_initial: ClassVar[bool] = False
    """Whether its learner can begin with means of arms."""
    takes_provisional: ClassVar[bool] = False
    """Whether the learner is a ``ProvisionalLearner``."""
    takes_segments: ClassVar[bool] = False
    """Whether the learner can be the global part of segments; it is a ``PooledLearner`` then."""
    takes_features: ClassVar[bool] = False
    """Whether there is a learner of features beside its own."""
    takes_updates: ClassVar[bool] = False
    """Whether the learner has ``correct``: a loss that was learned can be replaced."""

    @property
    def size(self) -> int:
        """Number of arms at the start of the session, or of dimensions."""
        raise NotImplementedError

    def build(self) -> Learner[Any]:
        """Make the learner with these parameters."""
        raise NotImplementedError

    def resolved(self) -> dict[str, Any]:
        """Return every field by name, as JSON has it, with the default where the client left one out."""
        fields = type(self).model_fields  # Cached properties stand beside the fields.
        return {name: value for name, value in vars(self).items() if name in fields}


class InitialArm(NamedTuple):
    """An arm by its position, how often it was played somewhere else before, and its mean loss in [0, 1]."""

    position: int
    acts: int
    mean: float


class ArmLearner(Learner[S]):
    """A learner over arms, which it knows by their positions 0, 1, ... among the live ones."""

    information: ClassVar = Information.ARM
    n_arms: int
    """Arms at the start; afterwards the length of the state's arrays."""
    takes_eligible: ClassVar[bool] = False
    """Whether a slot may name its eligible arms and have a floor."""
    memory: ClassVar[Any] = math.inf
    """Slots of which means to begin with count at most, for learners whose specification ``takes_initial``."""

    def __init__(self, n_arms: int, learning_rate: float = 0.0, mode: RateMode = RateMode.ANYTIME) -> None:
        self.n_arms, self.learning_rate, self.mode = n_arms, learning_rate, mode

    def warmed(self, state: S, initial: Sequence[InitialArm]) -> S:
        """Return the state before the first slot of a learner that begins with means of arms, each once.

        There are one or more of them. Losses are on the learner's scale; ``state`` is as ``start`` returns it. Its
        counts, by their names, become those after N events, as many as the arms' acts, in as many slots, with the
        mean b of all: V = N b (1 - b), M = max(b, 1 - b)^2 and A = 2 V. Sums are of the last ``memory`` slots, each
        of which adds (m_k - b) n_k/(n_k + N/K) to that of arm k.
        """
        events = sum(arm.acts for arm in initial)
        mean = sum(arm.acts * arm.mean for arm in initial) / events
        advantages = np.zeros(self.n_arms)
        for arm in initial:
            advantages[arm.position] = (arm.mean - mean) * arm.acts / (arm.acts + events / self.n_arms)
        sums = np.minimum(events, self.memory) * advantages
        sums -= sums.min(axis=-1, keepdims=True)
        variance_sum = events * mean * (1 - mean)
        counts = {"sums": sums, "t": events, "events": events, "mean": mean, "variance_sum": variance_sum}
        counts |= {"variance_max": max(mean, 1 - mean) ** 2, "deviation_sum": 2 * variance_sum}
        known = {name: count for name, count in counts.items() if hasattr(state, name)}
        return state._replace(**known)  # type: ignore[attr-defined, no-any-return]

    def can_draw(self, state: S, eligible: IntArray, floor: float) -> bool:  # noqa: ARG002 - as ``fixed`` does
        """Return whether an arm can be drawn in the next slot with these eligible arms and this floor.

        The positions ascend and are one or more; the floor, uniform over them, is in [0, 1).
        """
        return True

    def open_all(self, state: S, slot: Slot, count: int) -> tuple[S, int]:  # noqa: ARG002 - for learners that can
        """Open slots in a row, of one run alone, while all of them draw from one distribution, without an event.

        Parameters
        ----------
        state : before the first of them
        slot : the first; one more decision is outstanding in each after it
        count : slots to open at most, two or more

        Returns
        -------
        the state, to the bit as ``open`` makes it one by one, and how many slots were opened: one or more, and one
        alone where ``draw`` does something besides
        """
        return self.open(state, slot), 1

    def draw(self, state: S, slot: Slot) -> tuple[S, Any]:
        """Draw the arm of the slot that ``open`` has just opened, by the inverse CDF at ``slot.u``.

        Returns
        -------
        the state, and the arm's position: an int, or an int array over the leading axes
        """
        weights, total = self.weights(state)
        return state, draw(weights, slot.u * total)

    def distribution(self, state: Any) -> FloatArray:
        """Return the distribution that the open slot's arm is (or, within a block, was) drawn from.

        Its shape is (..., n_arms). It is 0 for arms that are not eligible, and includes the slot's floor. It is the
        state's ``p``, unless the learner says otherwise.
        """
        p: FloatArray = state.p
        return p

    def weights(self, state: S) -> tuple[FloatArray, Any]:
        """Return ``distribution`` times a number, shape (..., n_arms), and this number, by which arms are drawn."""
        return self.distribution(state), 1.0

    def probabilities(self, state: S, eligible: IntArray | None = None, floor: float = 0.0) -> FloatArray:  # noqa: ARG002
        """Return the distribution shown to readers, shape (..., n_arms).

        Learners without ``takes_eligible`` ignore ``eligible`` and ``floor``.

        Parameters
        ----------
        state : at any moment
        eligible : positions of the arms that may be drawn, ascending: the distribution over these that follows
            from the state as it is, without a new slot. None: the last slot's over all arms, whichever were
            eligible then.
        floor : share that is uniform over the eligible arms, in [0, 1)
        """
        return self.distribution(state)

    @abstractmethod
    def settle(self, state: S, arm: Any, loss: Any, count: int = 1) -> S:
        """Learn from a loss and return the new state.

        Parameters
        ----------
        state : before the loss; its last slot need not be that of the loss
        arm : position of the arm; an int, or an int array over the leading axes
        loss : >= 0, and in [0, 1] where losses are normalised, as the theorems need it; a float, or an array over
            the leading axes
        count : decisions of the arm that expire together at this loss: one step of ``count`` times the size
        """

    def settle_all(self, state: S, arms: Sequence[int], losses: Sequence[float]) -> S:
        """Return the state after events in order, of one run alone: to the bit what ``settle`` makes one by one."""
        for arm, loss in zip(arms, losses, strict=True):
            state = self.settle(state, arm, loss)
        return state

    def give_up(self, state: S, count: int) -> S:  # noqa: ARG002 - for learners that count decisions themselves
        """Return the state after ``count`` outstanding decisions, of whichever arms, expired or lost their arm."""
        return state

    def expire(self, state: S, count: int) -> S:
        """Return the state after ``count`` outstanding decisions were taken back, or expired without a loss."""
        return self.give_up(state, count)

    def void(self, state: S, arm: Any) -> S:  # noqa: ARG002 - for learners that learn at the act
        """Return the state after an outstanding decision of an arm was taken back, because it was never shown.

        The position is an int, or an int array over the leading axes.
        """
        return self.expire(state, 1)

    @abstractmethod
    def remove_arms(self, state: S, positions: IntArray) -> S:
        """Return the state without some arms; the others keep their order and the ratios of their probabilities.

        The positions ascend and are not all; the outstanding decisions of these arms have been given up before.
        """

    @abstractmethod
    def add_arms(self, state: S, count: int) -> S:
        """Return the state with one or more arms behind the others, each with probability 1/n of n in all."""


class PooledLearner(ArmLearner[S]):
    """A learner over arms that divides a loss by the mean probability of its arm over outstanding decisions."""

    counts_dropped: ClassVar = False
    """Whether decisions of which no loss will ever be known leave its scales; its state then counts them."""

    @abstractmethod
    def settle(self, state: S, arm: Any, loss: Any, count: int = 1, divisor: float | None = None) -> S:
        """Learn from a loss and return the new state.

        Parameters
        ----------
        state, arm, loss, count : as for ``ArmLearner.settle``
        divisor : mean probability of the arm over outstanding decisions, where the caller knows it; 0 moves no sum
        """

    @abstractmethod
    def correct(self, state: S, arm: Any, loss: Any, before: float, divisor: float | None = None) -> S:
        """Return the state after a decision's ``loss`` has replaced one ``before`` that was learned for it.

        That is the default, as it was charged, or the loss of an event that turned out better. Both are on the
        learner's scale; the others are as for ``settle``.
        """


class ProvisionalLearner(PooledLearner[S]):
    """A learner over arms that can learn a default loss when the arm is drawn, and correct it by the loss itself.

    In such a session ``charge`` takes the place of expiry at the default loss, ``correct`` that of ``settle``.
    """

    def charge(self, state: S, arm: Any, default: float) -> S:
        """Return the state after the arm that ``draw`` has just drawn has been charged with the default loss."""
        return self.settle(state, arm, default)

    def correct_all(self, state: S, arms: Sequence[int], losses: Sequence[float], default: float) -> S:
        """Return the state after events of one run in order: to the bit what ``correct`` makes one by one."""
        for arm, loss in zip(arms, losses, strict=True):
            state = self.correct(state, arm, loss, default)
        return state

    @abstractmethod
    def uncharge(self, state: S, arm: Any, default: float, divisor: float | None = None) -> S:
        """Return the state after a decision charged with ``default`` was taken back, because it was never shown."""


class SlotLearner(ArmLearner[S]):
    """A learner over arms that needs a record of each open slot together with the slot's loss."""

    information: ClassVar = Information.SLOT

    def __init__(
        self, n_arms: int, max_open_slots: int, learning_rate: float = 0.0, mode: RateMode = RateMode.ANYTIME
    ) -> None:
        super().__init__(n_arms, learning_rate, mode)
        self.max_open_slots = max_open_slots
        """Open slots kept; with one more, the oldest is dropped."""

    @abstractmethod
    def record(self, state: S, arm: Any) -> Record:
        """Return what the feedback of the slot, whose arm ``draw`` has just drawn, will need.

        Returns
        -------
        floats, or arrays over the leading axes; as many in every slot
        """

    @abstractmethod
    def settle(self, state: S, arm: Any, loss: Any, count: int = 1, record: Record = ()) -> S:
        """Learn from the loss of one slot, of which ``record`` was returned; ``count`` is 1."""

    def forget(self, state: S, record: Record) -> S:  # noqa: ARG002 - for learners whose records hold something
        """Return the state after an open slot, of which ``record`` was returned, is given up without a loss."""
        return state
