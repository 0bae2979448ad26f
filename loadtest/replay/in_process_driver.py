"""Driving a learner in this process, without the service."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from loadtest.client import CallLog
from loadtest.errors import LoadTestError
from loadtest.replay.driver import Counts, Event, Receipt
from loadtest.replay.plan import Plan
from loadtest.replay.simulated_time import pass_time
from service.engine.ledger import Action, ArmFeedback, Expiry, LossRange, Params, PointFeedback
from service.engine.run import start_run
from service.learners.base import ArmLearner, FloatArray, Information, Spec


class InProcessDriver:
    """Drives the same arithmetic without the service.

    Parameters
    ----------
    plan : the session
    clock : the time in seconds, for sessions whose decisions expire
    """

    def __init__(self, plan: Plan, clock: Callable[[], float] = lambda: 0.0) -> None:
        self.log = CallLog()
        self._spec = plan.spec
        self._knows_slots = plan.information is Information.SLOT
        best, worst = plan.session.get("loss_range", (0.0, 1.0))
        self._range = LossRange(best, worst, plan.session.get("normalize_losses", True))
        self._clock = clock
        self._expiry = _expiry(plan.session.get("expiry"), plan.spec, self._range)
        self._run = start_run(Params(plan.spec, plan.seed, self._range, self._expiry))

    def act(self) -> Action:
        with self.log.timed("act"):
            pass_time(self._run, self._clock())
            return self._run.act()

    def look(self, slot: int) -> FloatArray | None:  # noqa: ARG002 - nobody else can be in this session
        if not isinstance(self._run.learner, ArmLearner):
            return None
        with self.log.timed("view"):
            return self._run.probabilities

    def deliver(self, events: Sequence[Event]) -> Receipt:
        with self.log.timed("feedbacks"):
            pass_time(self._run, self._clock())
            feedbacks = [self._feedback(event) for event in events]
            surplus = set(self._run.surplus(feedbacks))
            if surplus and self._expiry is None:
                raise LoadTestError("an event answers no outstanding decision")
            for index, feedback in enumerate(feedbacks):
                if index not in surplus:
                    self._run.settle(feedback)
        return Receipt(len(events) - len(surplus), 0, len(surplus))

    def counts(self) -> Counts:
        pass_time(self._run, self._clock())
        ledger = self._run.ledger
        return Counts(ledger.slot, ledger.feedbacks, ledger.outstanding, ledger.expired)

    def describe(self) -> dict[str, Any]:
        parameters = self._spec.model_dump(mode="json") | self._run.learner.rates(self._run.state)
        return {"driver": "in_process", "session_id": None, "parameters": parameters}

    def _feedback(self, event: Event) -> Any:
        """Make of an event what a run of the plan's learner takes."""
        if event.arm is None:
            return PointFeedback(np.asarray(event.posted))
        slot = event.slot if self._knows_slots else None
        return ArmFeedback(event.arm, self._range.learned(event.posted), slot)


def _expiry(fields: dict[str, Any] | None, spec: Spec, losses: LossRange) -> Expiry | None:
    """Return a session's expiry as its run has it."""
    if fields is None:
        return None
    if (default := fields["default_loss"]) is None:
        return Expiry(fields["after_seconds"], None)
    is_provisional = spec.takes_provisional and fields.get("provisional") is not False
    return Expiry(fields["after_seconds"], losses.learned(default), is_provisional)
