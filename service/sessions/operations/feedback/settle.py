"""Feedback: a batch of events is judged, and settled as a whole or not at all."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pydantic_core import to_json

from ....commit.batch import Applied, Draft, Operation
from ....engine.run import Run
from ....errors import MAX_INDEXES, FieldError, InvalidRequestError, SurplusFeedbackError
from ....models.events import Event, PlainEvents, Surplus
from .event_parsing import PARSERS
from .judged_events import Judged, ended, judge_each, settle_each, surplus_text
from .plain_losses import PlainLosses, plain_losses


@dataclass(slots=True)
class SettleFeedback(Operation):
    """Settle a batch of events, all or none of them (surplus may be skipped)."""

    events: Sequence[Event]
    on_surplus: Surplus | None
    """None: skip in sessions with expiry, refuse in others."""
    single: bool = False
    """Errors name no index: the request is one event."""
    skips_invalid: bool = False
    """Whether events that do not fit the session are skipped; else the request is refused."""

    @property
    def weight(self) -> int:
        return len(self.events)

    @property
    def segments(self) -> Iterable[str]:
        if isinstance(self.events, PlainEvents):
            return ("",)
        return dict.fromkeys(getattr(event, "segment", None) or "" for event in self.events)

    async def check(self, draft: Draft) -> Sequence[Any] | PlainLosses:
        """Read every event as the session's run takes it; None for those skipped as they do not fit.

        Plain events that fit are read as their losses alone.

        Raises
        ------
        InvalidRequestError
            with the indexes of events that do not fit, unless they are skipped.
        OlderSchemaError
            for a void, where states of the schema that has room for it may not be written.
        """
        run = draft.run
        if isinstance(self.events, PlainEvents) and (plain := plain_losses(self.events, run)) is not None:
            return plain
        parse = PARSERS[run.learner.information]
        errors: list[FieldError] = []
        feedback: list[Any] = []
        for index, event in enumerate(self.events):
            try:
                feedback.append(parse(event, run))
            except InvalidRequestError as error:
                feedback.append(None)
                errors += [replace(each, index=None if self.single else index) for each in error.errors]
                if len(errors) >= MAX_INDEXES and not self.skips_invalid:
                    break
            await draft.fair_yield()
        if errors and not self.skips_invalid:
            raise InvalidRequestError.of_all(errors)
        if any(each is not None and each.is_void for each in feedback):
            draft.check_schema("loss")
        return feedback

    async def apply(self, draft: Draft, feedback: Sequence[Any] | PlainLosses) -> Applied:
        """Settle all but duplicates, events of removed arms, and surplus.

        Raises
        ------
        SurplusFeedbackError
            where events have no outstanding decision to settle, unless such events are skipped.
        """
        if isinstance(feedback, PlainLosses):
            self._check_surplus(draft.run, judged := await feedback.judge(draft))
            return self._applied(draft, judged, await feedback.settle(draft, judged.applied))
        self._check_surplus(draft.run, judged := await judge_each(draft, self.events, feedback))
        delays = await settle_each(draft, [feedback[index] for index in judged.applied])
        for each in ended(self.events, judged, feedback):
            draft.journal.append(each)
            await draft.fair_yield()
        return self._applied(draft, judged, delays)

    def _check_surplus(self, run: Run, judged: Judged) -> None:
        if judged.surplus and not self._skips(run):
            raise SurplusFeedbackError.of(surplus_text(run, judged), len(self.events), judged.surplus)

    def _skips(self, run: Run) -> bool:
        return self.on_surplus == "skip" or (self.on_surplus is None and run.params.expiry is not None)

    def _applied(self, draft: Draft, judged: Judged, delays: Sequence[float] = ()) -> Applied:
        outcomes, ledger = _outcomes(judged), draft.run.ledger
        if self._skips(draft.run):
            outcomes["surplus"] = len(judged.surplus)
        settlement: dict[str, Any] = outcomes.copy()
        if self.skips_invalid:
            outcomes["invalid"] = settlement["invalid"] = len(judged.invalid)
            settlement["invalid_indexes"] = judged.invalid[:MAX_INDEXES]
        settlement["slot"], settlement["outstanding"] = ledger.slot, ledger.outstanding
        return Applied(
            to_json(settlement),
            event_ids=list(judged.event_ids),
            changed=bool(judged.applied or judged.event_ids),
            outcomes=outcomes,
            delays=delays,
        )


def _outcomes(judged: Judged) -> dict[str, int]:
    """Return what settlements and metrics count, but surplus and invalid events."""
    outcomes = {"applied": len(judged.applied) - judged.voided, "duplicates": judged.duplicates}
    if judged.removed:
        outcomes["removed"] = len(judged.removed)
    if judged.voided:
        outcomes["voided"] = judged.voided
    return outcomes
