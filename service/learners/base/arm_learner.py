"""What every learner over arms can do."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

from ..warm_start import InitialArm
from .arrays import draw
from .learner import Learner
from .types import FloatArray, IntArray, S, Slot


class ArmLearner(Learner[S]):
    """A learner over arms, which it knows by their positions 0, 1, ... among the live ones."""

    n_arms: int
    """Arms at the start; afterwards the length of the state's arrays."""
    takes_eligible: ClassVar[bool] = False
    """Whether a slot may name its eligible arms and have a floor."""

    def warmed(self, state: S, initial: Sequence[InitialArm]) -> S:
        """Return the state before the first slot of a learner that begins with means of arms.

        Parameters
        ----------
        state : as ``start`` returns it
        initial : one or more arms by position, each once, with the mean loss (on the learner's scale) of some acts
        """
        raise NotImplementedError

    def can_draw(self, state: S, eligible: IntArray, floor: float) -> bool:  # noqa: ARG002 - as ``fixed`` does
        """Return whether an arm can be drawn in a slot with these eligible arms.

        Parameters
        ----------
        state : before the slot is opened
        eligible : positions of the arms that may be drawn, ascending, one or more
        floor : share that is uniform over them, in [0, 1)
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
        """Draw the arm of the open slot by the inverse CDF at ``slot.u``.

        Parameters
        ----------
        state : as ``open`` has left it
        slot : the one that was opened

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

        Learners without ``takes_eligible`` ignore ``eligible`` and ``floor``.

        Parameters
        ----------
        state : at any moment
        eligible : positions of the arms that may be drawn, ascending: the distribution over these that follows
            from the state as it is, without a new slot. None: the last slot's over all arms, whichever were
            eligible then.
        floor : share that is uniform over the eligible arms, in [0, 1)
        """

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
        """Return the state after events in order, of one run alone: to the bit what ``settle`` makes one by one.

        Parameters
        ----------
        state : of one run, before the first event
        arms : position of each event's arm
        losses : of each event, as for ``settle``
        """
        for arm, loss in zip(arms, losses, strict=True):
            state = self.settle(state, arm, loss)
        return state

    def give_up(self, state: S, count: int) -> S:  # noqa: ARG002 - for learners that count decisions themselves
        """Return the state after outstanding decisions ended without a loss: expired, or of a removed arm.

        Parameters
        ----------
        state : before that
        count : how many ended, of whichever arms
        """
        return state

    def void(self, state: S, arm: Any) -> S:  # noqa: ARG002 - for learners that learn at the act
        """Return the state after an outstanding decision was taken back, because it was never shown.

        Parameters
        ----------
        state : before that
        arm : position of the decision's arm; an int, or an int array over the leading axes
        """
        return self.give_up(state, 1)

    @abstractmethod
    def remove_arms(self, state: S, positions: IntArray) -> S:
        """Return the state without some arms; the others keep their order and the ratios of their probabilities.

        Parameters
        ----------
        state : with these arms; their outstanding decisions have been given up before
        positions : of the arms, ascending, not all of them
        """

    @abstractmethod
    def add_arms(self, state: S, count: int) -> S:
        """Return the state with more arms behind the others, each with probability 1/n of n in all.

        Parameters
        ----------
        state : without them
        count : arms to add, one or more
        """
