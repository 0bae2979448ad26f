"""Feedback: events are read as the run of a session takes them, judged, and settled."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import Any, ClassVar, Literal, cast

import numpy as np
from pydantic_core import to_json

from .. import errors
from ..commit.batch import Applied, Draft, Ended, Operation, Settled
from ..cooperative import COMPACT
from ..engine.arm_run import ArmRun
from ..engine.control import Group
from ..engine.ledger import ArmFeedback, PointFeedback
from ..engine.run import FeatureRun, PointRun, ProvisionalRun, Run, SlotRun
from ..engine.segment_run import SegmentRun
from ..learners.base import Information, Visit
from ..learners.specs import MAX_NAMED, named
from ..models.events import Event, GoalEvent, GradientEvent, LossesEvent, OneArmEvent, PlainEvents, WrongEvent
from ..serialization.records import Learned
from ..store.base import DIGEST_BYTES
from .act import of_kind
from .clicks import by_token

# -- Events read as the run of a session takes them.

MAX_GOALS_NAMED = 10
"""Goals that a message names."""
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
        text = f"this session's learner takes one {losses.word} of one arm"
        raise errors.InvalidRequestError.of(losses.word, text)
    if event.word not in (losses.word, "goal", "void"):
        raise errors.InvalidRequestError.of(event.word, _OTHER_WORD[event.word])
    if event.segment is not None:
        of_kind(run, SegmentRun)
    _check_group(event, run)
    visit = None if event.features is None else Visit(of_kind(run, FeatureRun).encoder.encode(event.features).x)
    arm, goals = _arm(event, run), run.params.goals
    options: Any = {"segment": event.segment or "", "is_control": event.group == "control", "visit": visit}
    found = ArmFeedback(arm, 0.0, event.slot, **options)
    if isinstance(event, GoalEvent) and (goals or event.goal):
        if event.goal not in goals:
            text = "the session has no such goal" if goals else "this session has no goals: create one with `goals`"
            known = f"; its goals are {', '.join(list(goals)[:MAX_GOALS_NAMED])}" if goals else ""
            raise errors.InvalidRequestError.of("goal", f"{text}: {named(event.goal)}{known}", logged_message=text)
        loss = losses.learned(goals[event.goal])
        return found._replace(loss=loss, goal=list(goals).index(event.goal))
    if (value := losses.best if isinstance(event, GoalEvent) else event.value) is None:
        return found._replace(is_void=True)
    try:
        return found._replace(loss=losses.learned(value))
    except ValueError as error:
        raise errors.InvalidRequestError.of(event.word, str(error)) from error


def _check_group(event: OneArmEvent, run: Run) -> None:
    if event.group is not None and run.control is None:
        raise errors.InvalidRequestError.of("group", "this session has no groups: create one with `control`")


def _slot_feedback(event: Event, run: SlotRun) -> ArmFeedback:
    feedback = _arm_feedback(event, run)
    if feedback.is_control:
        return feedback
    if isinstance(event, OneArmEvent) and event.slot is None:
        raise errors.InvalidRequestError.of("slot", "this learner needs the slot that was acted; dexp3 does not")
    try:
        run.check_slot(feedback)
    except ValueError as error:
        raise errors.InvalidRequestError.of("slot", str(error)) from error
    return feedback


def _arm(event: OneArmEvent, run: ArmRun) -> int:
    labels, n_arms = run.arms.labels, run.arms.size
    if event.label is not None:
        if event.arm is not None:
            raise errors.InvalidRequestError.of("label", "give either arm or label")
        if labels is None:
            raise errors.InvalidRequestError.of("label", "this session's arms have no labels")
        if (arm := labels.get(event.label)) is None:
            removed = (run.arms.removed or {}).get(event.label)
            if removed is not None and removed.until > run.ledger.time:
                return removed.arm
            text = "the session has no arm with this label (GET /v1/sessions/{session_id}/arms lists them)"
            named = f"{text}: {event.label[:MAX_NAMED]!a}"
            raise errors.InvalidRequestError.of("label", named, logged_message=text)
        return arm
    if event.arm is None or event.arm >= n_arms:
        otherwise = "" if labels is None else ", or use label"
        raise errors.InvalidRequestError.of("arm", f"must be the index of an arm, 0 to {n_arms - 1}{otherwise}")
    return event.arm


def _point_feedback(event: Event, run: PointRun) -> PointFeedback:
    """Take losses, or a gradient, as the learner wants them."""
    dim, takes_losses = run.learner.dim, run.learner.information is Information.LOSSES
    name, length = ("losses", dim + 1) if takes_losses else ("gradient", dim)
    if isinstance(event, OneArmEvent) and (event.word, event.arm, event.label) == ("void", None, None):
        _check_group(event, run)
        return PointFeedback(np.empty(0), is_void=True)
    if not isinstance(event, LossesEvent if takes_losses else GradientEvent):
        what = f"{length} losses of one slot" if takes_losses else f"a gradient of length {length}"
        raise errors.InvalidRequestError.of(name, f"this session's learner takes {what}")
    if (values := getattr(event, name)) is None:
        return PointFeedback(np.empty(0), is_void=True)
    if len(values) != length:
        raise errors.InvalidRequestError.of(name, f"must have {length} numbers, has {len(values)}")
    return PointFeedback(np.asarray(values, dtype=np.float64))


PARSERS: dict[Information, Parser] = {
    Information.ARM: _arm_feedback,
    Information.SLOT: _slot_feedback,
    Information.LOSSES: _point_feedback,
    Information.GRADIENT: _point_feedback,
}
"""By what the learner learns from."""


# -- Feedback: a batch of events is judged, and settled as a whole or not at all.
#
# Plain events of arms are judged and settled as columns: an object for each would cost as much as learning.

MAX_DELAYS = 10
"""The delays of the first events of a request are measured, at most so many."""
JUDGED_AT_ONCE, SETTLED_AT_ONCE = 500, 50
"""Plain events judged, and settled, between two pauses."""


class Losses(list[float]):
    """The losses of plain events, on the learner's scale: all that a run takes of them beside their arms."""


@dataclass(slots=True)
class Judged:
    """What becomes of a batch's events, by their indexes; voids are applied too."""

    applied: Sequence[int]
    invalid: Sequence[int]
    """Those that do not fit the session."""
    removed: Sequence[int]
    """Those of removed arms."""
    surplus: Sequence[int]
    event_ids: dict[bytes, bytes]
    """Digests of the ids that count from now on, in order, and their values."""
    duplicates: int = 0
    updated: dict[int, Learned] = field(default_factory=dict)
    """Those that improve an event which counts already, with what was learned for it."""


async def judge(
    draft: Draft, event_ids: Iterable[bytes | None], feedback: Iterable[Any], at_once: int = 1
) -> Judged:
    """Find out what becomes of each event; its id counts unless the event is surplus or does not fit.

    Parameters
    ----------
    event_ids : digest of each event's id; None for one without
    feedback : each event as the run takes it; a list of what is wrong with one that does not fit
    at_once : events between two pauses
    """
    run, updates = cast("Any", draft.run), draft.run.params.updates
    is_removed, settles_a_decision = run.is_removed, run.surplus_checker()
    applied, invalid, removed, surplus = list[int](), list[int](), list[int](), list[int]()
    judged, has_tokens = Judged(applied, invalid, removed, surplus, {}), draft.tokens is not None
    restart = None if run.control is None else run.control.restart
    comes_from_before = None if restart is None else restart.judge(run)
    for index, (event_id, each) in enumerate(zip(event_ids, feedback, strict=True)):
        if not index % at_once:
            await draft.fair_yield()
        if isinstance(each, list):
            invalid.append(index)
            continue
        value = None if event_id is None else judged.event_ids.get(event_id, draft.value_of(event_id))
        if event_id is not None and value is not None:
            known = _improved(run, event_id, value, each) if updates and value else None
            if known is None:
                judged.duplicates += 1
                continue
            if is_removed(each):
                removed.append(index)
            else:
                judged.updated[index] = known
            judged.event_ids[event_id] = known._replace(loss=each.loss).encode(event_id)
            continue
        is_applied = is_from_before = False
        if is_removed(each):
            removed.append(index)
        elif is_applied := not (has_tokens and each.is_late) and settles_a_decision(each):
            applied.append(index)
            is_from_before = comes_from_before is not None and comes_from_before(each)
        else:
            surplus.append(index)
            continue
        if event_id is not None:
            keeps = updates and is_applied and not each.is_void
            since = 0 if restart is None or is_from_before else restart.slot
            judged.event_ids[event_id] = Learned.of(each, run.ledger.time, since).encode(event_id) if keeps else b""
    return judged


def _improved(run: Run, event_id: bytes, value: bytes, event: ArmFeedback) -> Learned | None:
    """Return what counts for an event id, if this event under it is better and comes in time; else None."""
    known, now = Learned.known(event_id, value), run.ledger.time
    is_better = not event.is_void and event.loss < known.loss and now - known.at <= run.params.updates
    same = Learned.of(event, known.at, known.since)._replace(loss=known.loss)
    return known if is_better and same == known else None


@dataclass(slots=True)
class SettleFeedback(Operation):
    """Settle a batch of events, all or none of them (surplus may be skipped)."""

    reports_events: ClassVar[bool] = True

    events: Sequence[Event | WrongEvent]
    on_surplus: Literal["refuse", "skip"] | None
    """None: skip in sessions with expiry, refuse in others."""
    single: bool = False
    """Errors name no index: the request is one event."""
    skips_invalid: bool = False
    """Whether events that are wrong, or do not fit the session, are skipped; else the request is refused."""
    by_browser: bool = False
    """Whether they are clicks that browsers report: a token that has expired is refused, and not surplus."""
    is_trial: bool = False
    """Whether they are only judged."""

    tells_errors: bool = False
    """Whether the answer tells what is wrong with the first that are skipped."""

    @property
    def weight(self) -> int:
        return len(self.events)

    @property
    def segments(self) -> Iterable[str]:
        if isinstance(self.events, PlainEvents):
            return ("",)
        return dict.fromkeys(getattr(event, "segment", None) or "" for event in self.events)

    async def check(self, draft: Draft) -> Sequence[Any]:
        """Read every event as the session's run takes it; of those skipped as they do not fit, the errors.

        Plain events that fit are read as their losses alone.

        Raises
        ------
        InvalidRequestError
            with the indexes of events that do not fit, unless they are skipped.
        """
        run, events = draft.run, self.events
        # An event tells these runs nothing but its arm and its loss, if none of their arms was removed.
        if isinstance(events, PlainEvents) and isinstance(run, ArmRun) and type(run) in (ArmRun, ProvisionalRun):
            live, taken = run.arms.live, run.params.losses
            fits = not run.params.updates and isinstance(live, range) and events.word == taken.word
            fits = fits and (run.control is None or run.control.restart is None)
            if fits and max(events.arms) < len(live) and (losses := taken.all_learned(events.values)) is not None:
                return Losses(losses)
        parse = PARSERS[run.learner.information]
        wrong: list[errors.FieldError] = []
        kind: type[errors.InvalidRequestError] | None = None
        feedback: list[Any] = []
        for index, event in enumerate(events):
            try:
                if isinstance(event, WrongEvent):
                    feedback.append([*event.errors(index)] if len(wrong) < errors.MAX_LISTED else [])
                    wrong += feedback[-1]
                elif isinstance(event, OneArmEvent) and event.token is not None:
                    feedback.append(by_token(event, draft, parse, by_browser=self.by_browser))
                else:
                    feedback.append(parse(event, run))
            except errors.ExpiredTokenError:
                feedback.append(None)
            except errors.InvalidRequestError as error:
                kind = kind or type(error)
                at = None if self.single else index
                feedback.append([replace(each, index=at, code=error.code) for each in error.errors])
                wrong += feedback[-1]
                if len(wrong) >= errors.MAX_INDEXES and not self.skips_invalid:
                    break
            await draft.fair_yield()
        if kind is not None and not self.skips_invalid:
            raise kind.of_all(wrong)
        if self.by_browser and None in feedback:
            raise errors.ExpiredTokenError(indexes=[index for index, each in enumerate(feedback) if each is None])
        return feedback

    async def apply(self, draft: Draft, feedback: Sequence[Any]) -> Applied:
        """Settle all but duplicates, events of removed arms, and surplus.

        Raises
        ------
        SurplusFeedbackError
            where events have no outstanding decision to settle, unless such events are skipped.
        """
        run = draft.run
        skips = self.on_surplus == "skip" or (self.on_surplus is None and run.params.expiry is not None)
        is_plain, voided = isinstance(feedback, Losses), 0
        if is_plain:
            judged = await self._judge_columns(draft, feedback)
        else:
            judged = await judge(draft, (event.digest for event in self.events), feedback)
            voided = sum(feedback[index].is_void for index in judged.applied)
        if judged.surplus and not skips:
            raise errors.SurplusFeedbackError.of(len(self.events), judged.surplus)
        if self.is_trial:
            return Applied(b"", changed=False)
        if is_plain:
            delays = await self._settle_columns(draft, feedback, judged.applied)
        else:
            delays = await self._settle_each(draft, feedback, judged)
        outcomes = {"applied": len(judged.applied) - voided, "duplicates": judged.duplicates}
        if judged.updated:
            outcomes["updated"] = len(judged.updated)
        if judged.removed:
            outcomes["removed"] = len(judged.removed)
        if voided:
            outcomes["voided"] = voided
        has_changed = bool(judged.applied or judged.event_ids)
        if run.act_times is not None and isinstance(run, ArmRun):
            columns = self.events.arms if isinstance(self.events, PlainEvents) else None
            arms = [feedback[at].arm if columns is None else columns[at] for at in judged.surplus]
            run.judge(len(judged.applied), arms)
            has_changed |= bool(arms)
        if skips:
            outcomes["surplus"] = len(judged.surplus)
        if self.skips_invalid:
            outcomes["invalid"] = len(judged.invalid)
        parts = [f'"{outcome}":{count}' for outcome, count in outcomes.items()]
        if self.skips_invalid:
            parts.append(f'"invalid_indexes":{to_json(judged.invalid[: errors.MAX_INDEXES]).decode()}')
        if judged.invalid and self.tells_errors:
            wrong = [each for index in judged.invalid[: errors.MAX_LISTED] for each in feedback[index]][
                : errors.MAX_LISTED
            ]
            cut = slice(errors.MAX_MESSAGE)
            named = [
                {"index": e.index, "code": e.code, "field": e.field[cut], "message": e.message[cut]} for e in wrong
            ]
            parts.append(f'"errors":{COMPACT.encode(named)}')
        outstanding = run.ledger.outstanding + (0 if run.control is None else run.control.ledger.outstanding)
        body = f'{{{",".join(parts)},"slot":{run.slot},"outstanding":{outstanding}}}'
        return Applied(body.encode(), judged.event_ids, has_changed, False, outcomes, delays)

    async def _judge_columns(self, draft: Draft, losses: Sequence[float]) -> Judged:
        events = self.events
        assert isinstance(events, PlainEvents) and isinstance(draft.run, ArmRun)  # noqa: S101, PT018 - see check
        arms, outstanding = events.arms, draft.run.ledger.by_arm
        if len(arms) == 1:  # As most requests are: in a fifth of the time.
            (event_id,), none_is_surplus = events.event_ids, outstanding.item(arms[0]) > 0
            found = [] if event_id is None else [blake2b(event_id.encode(), digest_size=DIGEST_BYTES).digest()]
        else:
            given, found = [each.encode() for each in events.event_ids if each is not None], []
            for start in range(0, len(given), JUDGED_AT_ONCE):
                piece = given[start : start + JUDGED_AT_ONCE]
                found += [blake2b(text, digest_size=DIGEST_BYTES).digest() for text in piece]
                await draft.fair_yield()
            none_is_surplus = all(outstanding.item(arm) >= count for arm, count in Counter(arms).items())
        if none_is_surplus and not (found and draft.any_duplicate(found)):
            return Judged(range(len(arms)), (), (), (), dict.fromkeys(found, b""))
        ids = iter(found)
        each_id = (None if text is None else next(ids) for text in events.event_ids)
        return await judge(draft, each_id, map(ArmFeedback, arms, losses), JUDGED_AT_ONCE)

    async def _settle_columns(
        self, draft: Draft, losses: Sequence[float], applied: Sequence[int]
    ) -> Sequence[float]:
        """Settle events in their order, and note them; return the first delays, in seconds, if they are known."""
        run, events = draft.run, self.events
        assert isinstance(events, PlainEvents) and isinstance(run, ArmRun)  # noqa: S101, PT018 - see check
        columns: Any = (events.arms, events.values, events.event_ids)
        if len(applied) < len(losses):
            *columns, losses = ([column[index] for index in applied] for column in (*columns, losses))
        settled = Settled(*columns)
        if run.control is not None:
            settled = settled._replace(group="learner")
        delays = () if run.act_times is None else run.delays(settled.arms[:MAX_DELAYS])
        for start in range(0, len(losses), SETTLED_AT_ONCE):
            piece = slice(start, start + SETTLED_AT_ONCE)
            run.settle_all(settled.arms[piece], losses[piece])
            if len(losses) > SETTLED_AT_ONCE:
                await draft.fair_yield()
        if losses:
            draft.journal.append(settled)
        return delays

    async def _settle_each(self, draft: Draft, feedback: Sequence[Any], judged: Judged) -> Sequence[float]:
        """Settle events in their order, and note those of arms; return the first delays, in seconds, if known."""
        run, delays, removed = draft.run, list[float](), set(judged.removed)
        feedback, order = [*feedback], sorted([*judged.applied, *judged.updated])
        for place, index in enumerate(order):
            if isinstance(run, FeatureRun) and len(order) > 1 and not place % run.at_once:
                run.find_ratios(feedback, order[place : place + run.at_once], judged.updated)
            each, known = feedback[index], judged.updated.get(index)
            if known is not None:
                run.apply(each, known.loss, known.since)
            else:
                if not each.is_void and len(delays) < MAX_DELAYS and (delay := run.delay(each)) is not None:
                    delays.append(delay)
                run.apply(each)
            await draft.fair_yield()
        goals, losses, counts = list(run.params.goals.values()), run.params.losses, list(run.ledger.goals)
        shows = (log := draft.stored.specification.decision_log) is not None and log.features
        for index in sorted([*judged.applied, *judged.updated, *judged.removed]):
            event, each, known = self.events[index], feedback[index], judged.updated.get(index)
            if isinstance(event, OneArmEvent) and isinstance(run, ArmRun):  # A void event names no arm of points.
                outcome = "removed" if index in removed else "voided" if each.is_void else "applied"
                value, slot, before = event.value if each.goal is None else goals[each.goal], event.slot, None
                if each.goal is None and isinstance(event, GoalEvent):
                    value = losses.best
                if known is not None:
                    outcome, before = "updated", losses.posted(known.loss)
                    slot = None if event.token is None else slot
                if each.goal is not None and index not in removed:
                    counts[each.goal] += 1
                x = each.visit.x if shows and event.features is not None else None
                noted = Ended(each.arm, outcome, value, event.event_id, slot, columns=x)
                group: Group | None = None if run.control is None else event.group or "learner"
                draft.journal.append(noted._replace(segment=event.segment, before=before, group=group))
            await draft.fair_yield()
        run.ledger.goals = tuple(counts)
        return delays
