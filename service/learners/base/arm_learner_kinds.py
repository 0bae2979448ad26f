"""Learners over arms of which more is asked: those with pools, provisional defaults, or records of slots."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

from .arm_learner import ArmLearner
from .types import Information, Record, S


class PooledLearner(ArmLearner[S]):
    """A learner over arms that divides a loss by the mean probability of its arm over outstanding decisions."""

    @abstractmethod
    def settle(self, state: S, arm: Any, loss: Any, count: int = 1, divisor: float | None = None) -> S:
        """Learn from a loss and return the new state.

        Parameters
        ----------
        state, arm, loss, count : as for ``ArmLearner.settle``
        divisor : mean probability of the arm over outstanding decisions, where the caller knows it; 0 moves no sum
        """


class ProvisionalLearner(PooledLearner[S]):
    """A learner over arms that can learn a default loss when the arm is drawn, and correct it by the loss itself.

    In such a session ``charge`` takes the place of expiry at the default loss, ``correct`` that of ``settle``.
    """

    def charge(self, state: S, arm: Any, default: float) -> S:
        """Return the state after the arm just drawn has been charged with the default loss.

        Parameters
        ----------
        state : as ``draw`` has left it
        arm : its position, as ``draw`` returned it
        default : the loss, on the learner's scale
        """
        return self.settle(state, arm, default)

    @abstractmethod
    def correct(self, state: S, arm: Any, loss: Any, default: float, divisor: float | None = None) -> S:
        """Return the state after a decision's ``loss`` has replaced the ``default`` that it was charged with.

        Parameters
        ----------
        state, arm, loss : as for ``settle``
        default : the loss with which the decision was charged, on the learner's scale
        divisor : as for ``settle``
        """

    def correct_all(self, state: S, arms: Sequence[int], losses: Sequence[float], default: float) -> S:
        """Return the state after events of one run in order: to the bit what ``correct`` makes one by one.

        Parameters
        ----------
        state, arms, losses : as for ``settle_all``
        default : the loss with which each of the decisions was charged, on the learner's scale
        """
        for arm, loss in zip(arms, losses, strict=True):
            state = self.correct(state, arm, loss, default)
        return state

    @abstractmethod
    def uncharge(self, state: S, arm: Any, default: float, divisor: float | None = None) -> S:
        """Return the state after a decision was taken back, because it was never shown.

        Parameters
        ----------
        state, arm : as for ``settle``
        default : the loss with which the decision was charged, on the learner's scale
        divisor : as for ``settle``
        """


class SlotLearner(ArmLearner[S]):
    """A learner over arms that needs a record of each open slot together with the slot's loss."""

    information: ClassVar = Information.SLOT
    max_open_slots: int
    """Open slots kept; with one more, the oldest is dropped."""

    @abstractmethod
    def record(self, state: S, arm: Any) -> Record:
        """Return what the feedback of the open slot will need.

        Parameters
        ----------
        state : as ``draw`` has left it
        arm : position of the arm that was drawn in the slot; an int, or an int array over the leading axes

        Returns
        -------
        floats, or arrays over the leading axes; as many in every slot, and the same for each slot that ``open_all``
        opened with this arm
        """

    @abstractmethod
    def settle(self, state: S, arm: Any, loss: Any, count: int = 1, record: Record = ()) -> S:
        """Learn from the loss of one slot and return the new state.

        Parameters
        ----------
        state, arm, loss : as for ``ArmLearner.settle``
        count : 1
        record : what ``record`` returned of the slot
        """

    def forget(self, state: S, record: Record) -> S:  # noqa: ARG002 - for learners whose records hold something
        """Return the state after an open slot is given up without a loss.

        Parameters
        ----------
        state : before that
        record : what ``record`` returned of the slot
        """
        return state
