"""The run of a learner over points."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..learners.base import Information, PointLearner
from ..learners.maths import LARGEST_VALUE
from .act_times import ActTimes
from .actions import PointAction
from .base_run import BaseRun
from .feedback import PointFeedback
from .surplus import SurplusChecker, check_by_count


@dataclass(slots=True)
class PointRun(BaseRun):
    """A session over the points of a convex set, in which feedback names neither point nor slot."""

    learner: PointLearner[Any]

    def act(self) -> PointAction:
        """Open the next slot and return the point to play."""
        t = self.open_slot()
        return PointAction(t, self.learner.x(self.state), self.learner.query_points(self.state))

    def open_slot(self) -> int:
        """Open the next slot and return its number; what to play is a function of the state then."""
        slot = self._open_slot(None)
        self.state = self.learner.open(self.state, slot)
        if self.act_times is not None:
            self.act_times.act(self.ledger.time, (0,), 1)
        return slot.t

    def settle(self, event: PointFeedback) -> None:
        self.ledger.settle()
        if self.learner.information is Information.LOSSES:
            self.ledger.learn(float(np.clip(event.values[0], -LARGEST_VALUE, LARGEST_VALUE)))
        self.state = self.learner.settle(self.state, event.values, self.ledger.outstanding)

    def void(self, event: PointFeedback) -> None:  # noqa: ARG002 - no learner over points keeps decisions
        self.ledger.void()

    def surplus_checker(self) -> SurplusChecker:
        return check_by_count(self.ledger.outstanding)

    def _acted_at(self, times: ActTimes, event: PointFeedback) -> float | None:  # noqa: ARG002 - the oldest is settled
        return times.acted_at(0, self.ledger.outstanding)
