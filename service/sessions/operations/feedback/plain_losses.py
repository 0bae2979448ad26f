"""Plain events of arms, judged and settled as columns: an object for each would cost as much as learning."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

from ....commit.batch import Draft, Settled
from ....engine.arm_run import ArmRun
from ....engine.run import ProvisionalRun, Run
from ....models.events import PlainEvents, digests
from .judged_events import MAX_DELAYS, Judged

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
