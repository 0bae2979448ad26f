"""What each kind of learner can do."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, Generic

from ..warm_start import InitialArm
from .arrays import draw
from .types import FloatArray, Information, IntArray, Record, S, Slot


class Learner(ABC, Generic[S]):
    """What learners over arms and over points share."""

    information: ClassVar[Information]
    state_type: ClassVar[type]
    """The NamedTuple class of the state.

    Its annotations (int, float, bool, FloatArray, IntArray, Rows) are the layout in which states are stored. A
    field with a default is not stored: it is of use only until the arm of the open slot is drawn.

    A state may have a ``log`` (``Log``, or None where it is not known) behind its other fields, and ``is_logged``
    where that is to be stored in place of its vectors: ``replayed(log)`` must be the state to the bit, on any
    processor. So replaying may add, multiply, divide and compare, but takes no power or logarithm.
    """
    second_stream: ClassVar[bool] = False
    """Whether a slot's second uniform, v_t, is needed."""

    @abstractmethod
    def start(self) -> S:
        """Return the state before the first slot."""

    @abstractmethod
    def open(self, state: S, slot: Slot) -> S:
        """Close slot t-1, open slot ``slot.t`` and return the new state."""

    def rates(self, state: S) -> dict[str, Any]:
        """Return the rates in use by their API names, and under ``"rates"`` the ``RateMode``."""
        raise NotImplementedError


class ArmLearner(Learner[S]):
    """A learner over arms, which it knows by their positions 0, 1, ... among the live ones."""

    n_arms: int
    """Arms at the start; afterwards the length of the state's arrays."""
    takes_eligible: ClassVar[bool] = False
    """Whether a slot may name its eligible arms and have a floor."""

    def warmed(self, state: S, initial: Sequence[InitialArm]) -> S:
        """Return the state before the first slot of a learner that begins with means of arms, one or more."""
        raise NotImplementedError

    def can_draw(self, state: S, eligible: IntArray, floor: float) -> bool:  # noqa: ARG002 - as ``fixed`` does
        """Return whether some arm has a positive probability in a slot with these eligible arms, one or more."""
        return True

    def open_all(self, state: S, slot: Slot, count: int) -> tuple[S, int]:  # noqa: ARG002 - for learners that can
        """Open slots in a row, of one run alone, while all of them draw from one distribution, without an event.

        Parameters
        ----------
        slot : the first; one more decision is outstanding in each after it
        count : slots to open at most, two or more

        Returns
        -------
        the state, to the bit as ``open`` makes it one by one, and how many slots were opened: one or more, and one
        alone where ``draw`` does something besides
        """
        return self.open(state, slot), 1

    def draw(self, state: S, slot: Slot) -> tuple[S, Any]:
        """Draw the arm of the open slot by the inverse CDF at ``slot.u``.

        Returns
        -------
        the state, and the arm's position: an int, or an int array over the leading axes
        """
        return state, draw(self.distribution(state), slot.u)

    @abstractmethod
    def distribution(self, state: S) -> FloatArray:
        """Return the distribution that the open slot's arm is (or, within a block, was) drawn from.

        Its shape is (..., n_arms). It is 0 for arms that are not eligible, and includes the slot's floor.
        """

    @abstractmethod
    def probabilities(self, state: S, eligible: IntArray | None = None, floor: float = 0.0) -> FloatArray:
        """Return the distribution shown to readers, shape (..., n_arms).

        Parameters
        ----------
        eligible : positions of the arms that may be drawn, ascending: the distribution over these that follows
            from the state as it is, without a new slot. None: the last slot's over all arms, whichever were
            eligible then.
        floor : share that is uniform over the eligible arms

        Learners without ``takes_eligible`` ignore both.
        """

    @abstractmethod
    def settle(self, state: S, arm: Any, loss: Any, count: int = 1) -> S:
        """Learn from a loss and return the new state.

        Parameters
        ----------
        arm : position of the arm; an int, or an int array over the leading axes
        loss : >= 0, and in [0, 1] where losses are normalised, as the theorems need it
        count : decisions of the arm that expire together at this loss: one step of ``count`` times the size
        """

    def settle_all(self, state: S, arms: Sequence[int], losses: Sequence[float]) -> S:
        """Return the state after events in order, of one run alone: to the bit what ``settle`` makes one by one."""
        for arm, loss in zip(arms, losses, strict=True):
            state = self.settle(state, arm, loss)
        return state

    def give_up(self, state: S, count: int) -> S:  # noqa: ARG002 - for learners that count decisions themselves
        """Return the state after ``count`` outstanding decisions expired without a loss."""
        return state

    def void(self, state: S, arm: Any) -> S:  # noqa: ARG002 - for learners that learn at the act
        """Return the state after an outstanding decision of ``arm``, by position, was taken back."""
        return self.give_up(state, 1)

    @abstractmethod
    def remove_arms(self, state: S, positions: IntArray) -> S:
        """Return the state without the arms at ``positions``, ascending; the others keep order and ratios."""

    @abstractmethod
    def add_arms(self, state: S, count: int) -> S:
        """Return the state with ``count`` more arms behind the others, each with probability 1/n of n in all."""


class PooledLearner(ArmLearner[S]):
    """A learner over arms that divides a loss by the mean probability of its arm over outstanding decisions.

    ``divisor`` takes the place of its own mean, where a caller knows a better one; at 0 no sum moves.
    """

    @abstractmethod
    def settle(self, state: S, arm: Any, loss: Any, count: int = 1, divisor: float | None = None) -> S:
        """Learn from a loss and return the new state: see ``ArmLearner.settle``."""


class ProvisionalLearner(PooledLearner[S]):
    """A learner over arms that can learn a default loss when the arm is drawn, and correct it by the loss itself.

    In such a session ``charge`` takes the place of expiry at the default loss, ``correct`` that of ``settle``.
    """

    def charge(self, state: S, arm: Any, default: float) -> S:
        """Return the state after the arm just drawn has been charged with the default loss."""
        return self.settle(state, arm, default)

    @abstractmethod
    def correct(self, state: S, arm: Any, loss: Any, default: float, divisor: float | None = None) -> S:
        """Return the state after a decision's ``loss`` has replaced the ``default`` that it was charged with.

        Parameters
        ----------
        arm, loss : as for ``settle``
        default : the loss with which the decision was charged
        """

    def correct_all(self, state: S, arms: Sequence[int], losses: Sequence[float], default: float) -> S:
        """Return the state after events of one run in order: to the bit what ``correct`` makes one by one."""
        for arm, loss in zip(arms, losses, strict=True):
            state = self.correct(state, arm, loss, default)
        return state

    @abstractmethod
    def uncharge(self, state: S, arm: Any, default: float, divisor: float | None = None) -> S:
        """Return the state after a decision charged with ``default`` was taken back: it was never shown."""


class SlotLearner(ArmLearner[S]):
    """A learner over arms that needs a record of each open slot together with the slot's loss."""

    information: ClassVar = Information.SLOT
    max_open_slots: int
    """Open slots kept; with one more, the oldest is dropped."""

    @abstractmethod
    def record(self, state: S, arm: Any) -> Record:
        """Return what the feedback of the open slot, in which ``arm`` was drawn, will need."""

    @abstractmethod
    def settle(self, state: S, arm: Any, loss: Any, count: int = 1, record: Record = ()) -> S:
        """Learn from the loss of a slot with its ``record``, one slot at a time, and return the new state."""

    def forget(self, state: S, record: Record) -> S:  # noqa: ARG002 - for learners whose records hold something
        """Return the state after an open slot expired without a loss."""
        return state


class PointLearner(Learner[S]):
    """A learner over points of a convex set."""

    dim: int

    def open(self, state: S, slot: Slot) -> S:  # noqa: ARG002 - overridden by learners that count slots
        return state

    @abstractmethod
    def x(self, state: S) -> FloatArray:
        """Return the point to play, shape (..., dim)."""

    def query_points(self, state: S) -> FloatArray | None:  # noqa: ARG002 - overridden by learners that query
        """Return the query points x + perturbation e_k, shape (..., dim, dim); None where only x is played."""
        return None

    @abstractmethod
    def settle(self, state: S, values: FloatArray, outstanding: int) -> S:
        """Learn from one bundle or one gradient and return the new state.

        Parameters
        ----------
        values : the losses at x and its query points, shape (..., dim+1), or the gradient, shape (..., dim)
        outstanding : decisions still without feedback, this one not among them
        """
