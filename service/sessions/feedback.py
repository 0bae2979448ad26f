"""Settling a batch of events: they are parsed, judged and settled."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from pydantic_core import to_json

from ..commit.batch import Applied, Draft, Ended, Operation, Settled
from ..engine.arm_run import ArmRun
from ..engine.ledger import ArmFeedback, PointFeedback
from ..engine.run import PointRun, ProvisionalRun, Run, SlotRun
from ..errors import MAX_INDEXES, FieldError, InvalidRequestError, SurplusFeedbackError
from ..learners.base import Information
from ..learners.specs import MAX_NAMED
from ..models.events import Event, GradientEvent, LossesEvent, OneArmEvent, PlainEvents, Surplus, digests
from .act import check_segments

# -- Events read as the run of a session takes them.

Parser = Callable[[Event, Any], Any]
"""Makes feedback for a run of an event; the kinds of both depend on the learner's information.

It raises ``InvalidRequestError`` where the event does not fit.
"""


_OTHER_WORD = {
    "loss": "this session takes rewards: post reward, or create a session with loss_range",
    "reward": "this session takes losses: post loss, or create a session with reward_range",
}


def _arm_feedback(event: Event, run: ArmRun) -> ArmFeedback:
    losses = run.params.losses
    if not isinstance(event, OneArmEvent):
        raise InvalidRequestError.of(losses.word, f"this session's learner takes one {losses.word} of one arm")
    if event.word != losses.word:
        raise InvalidRequestError.of(event.word, _OTHER_WORD[event.word])
    if event.segment is not None:
        check_segments(run)
    arm, segment = _arm(event, run), event.segment or ""
    if event.value is None:
        return ArmFeedback(arm, 0.0, event.slot, is_void=True, segment=segment)
    try:
        loss = losses.learned(event.value)
    except ValueError as error:
        raise InvalidRequestError.of(event.word, str(error)) from error
    return ArmFeedback(arm, loss, event.slot, segment=segment)


def _slot_feedback(event: Event, run: SlotRun) -> ArmFeedback:
    feedback = _arm_feedback(event, run)
    if isinstance(event, OneArmEvent) and event.slot is None:
        raise InvalidRequestError.of("slot", "this learner needs the slot that was acted; dexp3 does not")
    try:
        run.check_slot(feedback)
    except ValueError as error:
        raise InvalidRequestError.of("slot", str(error)) from error
    return feedback


def _arm(event: OneArmEvent, run: ArmRun) -> int:
    labels, n_arms = run.arms.labels, run.arms.size
    if event.label is not None:
        if event.arm is not None:
            raise InvalidRequestError.of("label", "give either arm or label")
        if labels is None:
            raise InvalidRequestError.of("label", "this session's arms have no labels")
        if (arm := labels.get(event.label)) is None:
            raise _unknown_label(event.label)
        return arm
    if event.arm is None or event.arm >= n_arms:
        otherwise = "" if labels is None else ", or use label"
        raise InvalidRequestError.of("arm", f"must be the index of an arm, 0 to {n_arms - 1}{otherwise}")
    return event.arm


def _unknown_label(label: str) -> InvalidRequestError:
    text = "the session has no arm with this label (GET /v1/sessions/{session_id}/arms lists them)"
    return InvalidRequestError.of("label", f"{text}: {label[:MAX_NAMED]!a}", logged_message=text)


def _losses_feedback(event: Event, run: PointRun) -> PointFeedback:
    dim = run.learner.dim
    if not isinstance(event, LossesEvent):
        raise InvalidRequestError.of("losses", f"this session's learner takes {dim + 1} losses of one slot")
    return _values("losses", event.losses, dim + 1)


def _gradient_feedback(event: Event, run: PointRun) -> PointFeedback:
    dim = run.learner.dim
    if not isinstance(event, GradientEvent):
        raise InvalidRequestError.of("gradient", f"this session's learner takes a gradient of length {dim}")
    return _values("gradient", event.gradient, dim)


def _values(name: str, values: Sequence[float] | None, length: int) -> PointFeedback:
    if values is None:
        return PointFeedback(np.empty(0), is_void=True)
    if len(values) != length:
        raise InvalidRequestError.of(name, f"must have {length} numbers, has {len(values)}")
    return PointFeedback(np.asarray(values, dtype=np.float64))


PARSERS: dict[Information, Parser] = {
    Information.ARM: _arm_feedback,
    Information.SLOT: _slot_feedback,
    Information.LOSSES: _losses_feedback,
    Information.GRADIENT: _gradient_feedback,
}
"""By what the learner learns from."""


# -- Events judged and settled one by one.

MAX_DELAYS = 100
"""The delays of the first events of a request are measured, at most so many."""


@dataclass(slots=True)
class Judged:
    """What becomes of a batch's events."""

    applied: list[int] = field(default_factory=list)
    """Indexes, also of voids."""
    invalid: list[int] = field(default_factory=list)
    """Indexes of events that do not fit the session."""
    removed: list[int] = field(default_factory=list)
    """Indexes of events of removed arms."""
    surplus: list[int] = field(default_factory=list)
    """Indexes."""
    event_ids: dict[bytes, None] = field(default_factory=dict)
    """Digests of the ids that count from now on, in order."""
    duplicates: int = 0
    voided: int = 0


async def judge_each(draft: Draft, events: Sequence[Event], feedback: Sequence[Any]) -> Judged:
    """Find out what becomes of each event; its id counts unless the event is surplus or does not fit.

    Parameters
    ----------
    draft : knows which event ids count, and has the run, which is not changed
    events : of the request
    feedback : each of them as the run takes it; None for one that does not fit
    """
    run, judged = draft.run, Judged()
    settles_a_decision = run.surplus_checker()
    for index, (event, each) in enumerate(zip(events, feedback, strict=True)):
        await draft.fair_yield()
        if each is None:
            judged.invalid.append(index)
            continue
        event_id = event.digest
        if event_id is not None and (draft.is_duplicate(event_id) or event_id in judged.event_ids):
            judged.duplicates += 1
            continue
        if run.is_removed(each):
            judged.removed.append(index)
        elif settles_a_decision(each):
            judged.applied.append(index)
            judged.voided += each.is_void
        else:
            judged.surplus.append(index)
            continue
        if event_id is not None:
            judged.event_ids[event_id] = None
    return judged


async def settle_each(draft: Draft, feedback: Sequence[Any]) -> Sequence[float]:
    """Settle events that are not surplus.

    Parameters
    ----------
    draft : whose run learns from them
    feedback : events as the run takes them, voids included

    Returns
    -------
    The seconds from act to event of the first of them, ``MAX_DELAYS`` at most, where known.
    """
    run = draft.run
    delays: list[float] = []
    for each in feedback:
        if each.is_void:
            run.void(each)
        else:
            if len(delays) < MAX_DELAYS and (delay := run.delay(each)) is not None:
                delays.append(delay)
            run.settle(each)
        await draft.fair_yield()
    return delays


def ended(events: Sequence[Event], judged: Judged, feedback: Sequence[Any]) -> Iterator[Ended]:
    """Yield what is noted of events of arms, in their order.

    Parameters
    ----------
    events : of the request
    judged : what becomes of them
    feedback : each of them as the run takes it
    """
    removed = set(judged.removed)
    for index in sorted([*judged.applied, *judged.removed]):
        event = events[index]
        if isinstance(event, OneArmEvent):
            outcome = "removed" if index in removed else "voided" if feedback[index].is_void else "applied"
            noted = (feedback[index].arm, outcome, event.value, event.event_id, event.slot)
            yield Ended(*noted, segment=event.segment)


def surplus_text(run: Run, judged: Judged) -> str:
    """Say how many events are surplus, of how many, and what can be done.

    Parameters
    ----------
    run : the session's
    judged : what becomes of the events, some of which are surplus
    """
    surplus, count = len(judged.surplus), len(judged.applied) + len(judged.surplus)
    if isinstance(run, SlotRun):
        names = "names" if surplus == 1 else "name"
        return f"{surplus} of {_number(count, 'event')} {names} a slot that is not outstanding; {_TO_SETTLE}"
    which = " for their arms" if isinstance(run, ArmRun) else ""
    decisions = _number(run.ledger.outstanding, "outstanding decision")
    return f"{_number(count, 'event')} for {decisions}: {surplus} too many{which}; {_TO_SETTLE}"


_TO_SETTLE = "act first, or leave such events out with ?on_surplus=skip"


def _number(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


# -- Plain events of arms, judged and settled as columns: an object for each would cost as much as learning.

JUDGED_AT_ONCE, SETTLED_AT_ONCE = 500, 50
"""Events judged, and settled, between two pauses."""
_PLAIN_RUNS = (ArmRun, ProvisionalRun)
"""Runs to which an event tells nothing but its arm and its loss."""


class PlainLosses(NamedTuple):
    """Plain events of arms that a session has, none of which was removed."""

    events: PlainEvents
    losses: Sequence[float]
    """Of each event, on the learner's scale."""
    run: ArmRun
    """Of the draft for which the losses were read."""

    async def judge(self, draft: Draft) -> Judged:
        """Find out what becomes of each event, as ``judge_each`` does."""
        event_ids = await self._digests(draft)
        if self._none_is_surplus() and not (event_ids and draft.any_duplicate(event_ids)):
            return Judged(applied=list(range(len(self.losses))), event_ids=dict.fromkeys(event_ids))
        return await self._judge_each(draft, event_ids)

    async def _digests(self, draft: Draft) -> Sequence[bytes]:
        """Return the digests of the event ids of those events that have one."""
        found, given = list[bytes](), [event_id for event_id in self.events.event_ids if event_id is not None]
        for start in range(0, len(given), JUDGED_AT_ONCE):
            found += digests(given[start : start + JUDGED_AT_ONCE])
            if len(given) > JUDGED_AT_ONCE:
                await draft.fair_yield()
        return found

    def _none_is_surplus(self) -> bool:
        """Return whether a decision is outstanding for each event."""
        arms, outstanding = self.events.arms, self.run.ledger.by_arm
        if len(arms) == 1:
            return bool(outstanding[arms[0]] > 0)
        return all(outstanding[arm] >= count for arm, count in Counter(arms).items())

    async def _judge_each(self, draft: Draft, event_ids: Sequence[bytes]) -> Judged:
        judged, ids, outstanding = Judged(), iter(event_ids), self.run.ledger.by_arm
        left = {arm: int(outstanding[arm]) for arm in set(self.events.arms)}
        for index, (arm, text) in enumerate(zip(self.events.arms, self.events.event_ids, strict=True)):
            if not index % JUDGED_AT_ONCE:
                await draft.fair_yield()
            event_id = None if text is None else next(ids)
            if event_id is not None and (draft.is_duplicate(event_id) or event_id in judged.event_ids):
                judged.duplicates += 1
                continue
            left[arm] -= 1
            if left[arm] < 0:
                judged.surplus.append(index)
                continue
            judged.applied.append(index)
            if event_id is not None:
                judged.event_ids[event_id] = None
        return judged

    async def settle(self, draft: Draft, applied: Sequence[int]) -> Sequence[float]:
        """Settle events in their order, and note them.

        Parameters
        ----------
        draft : for which the losses were read
        applied : indexes of the events, none of which is surplus

        Returns
        -------
        The seconds from act to event of the first of them, ``MAX_DELAYS`` at most, where known.
        """
        events, losses = Settled(self.events.arms, self.events.values, self.events.event_ids), self.losses
        if len(applied) < len(losses):
            events = Settled(*(_chosen(column, applied) for column in events))
            losses = _chosen(losses, applied)
        delays = () if self.run.act_times is None else self.run.delays(events.arms[:MAX_DELAYS])
        for start in range(0, len(losses), SETTLED_AT_ONCE):
            if start:
                await draft.fair_yield()
            piece = slice(start, start + SETTLED_AT_ONCE)
            self.run.settle_all(events.arms[piece], losses[piece])
        if losses:
            draft.journal.append(events)
        return delays


def _chosen(column: Sequence[Any], indexes: Sequence[int]) -> Sequence[Any]:
    return [column[index] for index in indexes]


def plain_losses(events: PlainEvents, run: Run) -> PlainLosses | None:
    """Read events of arms as losses, all at once; None where events have to be read one by one.

    Parameters
    ----------
    events : one or more, with arms by index
    run : the session's, which says how losses are posted
    """
    if not isinstance(run, ArmRun) or type(run) not in _PLAIN_RUNS or len(run.arms.live) != len(run.arms.positions):
        return None
    taken = run.params.losses
    if events.word != taken.word or max(events.arms) >= len(run.arms.live):
        return None
    losses = taken.all_learned(events.values)
    return None if losses is None else PlainLosses(events, losses, run)


# -- Feedback: a batch of events is judged, and settled as a whole or not at all.


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


__all__ = ["SettleFeedback"]
