"""Events judged and settled one by one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from ....commit.batch import Draft, Ended
from ....engine.arm_run import ArmRun
from ....engine.run import Run, SlotRun
from ....models.events import Event, OneArmEvent

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
