"""The run of a session whose default loss is provisional: learned at the act, corrected when an event comes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..learners.base import IntArray, ProvisionalLearner
from .actions import ArmAction
from .arm_run import ArmRun
from .feedback import ArmFeedback


@dataclass(slots=True)
class ProvisionalRun(ArmRun):
    """A session over arms in which nothing is left to learn when a decision's window ends.

    A decision is outstanding until an event corrects it, it is taken back, or its window ends, as in any session.
    """

    learner: ProvisionalLearner[Any]

    @property
    def default(self) -> float:
        """The loss that every act is charged with, on the learner's scale."""
        expiry = self.params.expiry
        return 0.0 if expiry is None or expiry.loss is None else expiry.loss

    def act(self, eligible: IntArray | None = None) -> ArmAction:
        """Open the next slot, draw its arm and charge it with the default loss."""
        action = ArmRun.act(self, eligible)
        self.state = self.learner.charge(self.state, self.arms.positions[action.arm], self.default)
        return action

    def settle(self, event: ArmFeedback) -> None:
        self._count_settled(event)
        position = self.arms.positions[event.arm]
        self.state = self.learner.correct(self.state, position, event.loss, self.default)

    def settle_all(self, arms: Sequence[int], losses: Sequence[float]) -> None:
        self.ledger.settle_all(arms, losses)
        positions = [self.arms.positions[arm] for arm in arms]
        self.state = self.learner.correct_all(self.state, positions, losses, self.default)

    def void(self, event: ArmFeedback) -> None:
        self.ledger.void_of(event.arm)
        self.state = self.learner.uncharge(self.state, self.arms.positions[event.arm], self.default)

    def expire(self, arm: int, count: int, loss: float | None) -> None:
        """Give up decisions of an arm, by index; their loss was learned when they were charged."""
        self.ledger.expire_of(arm, count)
        if loss is not None:
            self.ledger.learn(loss, count)
