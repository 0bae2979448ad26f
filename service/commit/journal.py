"""What a batch does to a session over arms, in order: from it follow the counts of arms and the decision log."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ..engine.ledger import ArmActions, LossRange
from ..store.base import ACTS, DEFAULTED, EXPIRED, FEEDBACKS, LOSSES, REMOVED, VOIDED, ArmCounts

_COUNTED = {"applied": FEEDBACKS, "voided": VOIDED, "expired": EXPIRED}
_JSON = json.JSONEncoder(separators=(",", ":"))

COUNTED_AT_ONCE = 1_000
"""Plain events counted between two pauses."""

Counts = dict[int, list[float]]
"""What is to be added to the counts of each arm."""


class Acted(NamedTuple):
    """Slots were opened."""

    actions: ArmActions
    names: Sequence[str] | None = None
    """Labels of the session's arms, by index."""
    segment: str | None = None


class Ended(NamedTuple):
    """A decision ended, or an event changed nothing since its arm had been removed."""

    arm: int
    outcome: str
    """``applied``, ``voided``, ``removed`` or ``expired``."""
    loss: float | None = None
    """As it was posted; None where there is none, and for expired decisions."""
    event_id: str | None = None
    slot: int | None = None
    decisions: int = 1
    """Decisions that expired together."""
    defaulted: bool = False
    """Whether it was learned at the default loss."""
    segment: str | None = None


class Settled(NamedTuple):
    """Plain events were applied: one entry for each, in their order."""

    arms: Sequence[int]
    losses: Sequence[float]
    """As they were posted."""
    event_ids: Sequence[str | None]


class ArmsChanged(NamedTuple):
    """Labels that came and went, were paused and resumed."""

    added: Sequence[str] = ()
    removed: Sequence[str] = ()
    paused: Sequence[str] = ()
    resumed: Sequence[str] = ()
    given_up: Mapping[int, int] = {}
    """Index of a removed arm to the decisions of it that were outstanding."""


class SessionChanged(NamedTuple):
    """Names of the fields of the session that were changed."""

    changed: Sequence[str]


Happening = Acted | Ended | Settled | ArmsChanged | SessionChanged


class Journal(list[Happening]):
    """What a batch has done so far."""

    def rewind(self, length: int) -> None:
        """Forget what has been noted beyond the first ``length``."""
        del self[length:]

    async def counts(
        self,
        losses: LossRange,
        default_loss: float | None,
        fair_yield: Callable[[], Awaitable[None]],
        *,
        acts: bool = False,
    ) -> Counts:
        """Return what is to be added to the counts of arms.

        Parameters
        ----------
        losses : range of the session's losses as it was before the batch
        default_loss : at which expired decisions were learned, as clients would post it; None where they were not
        fair_yield : is awaited between entries
        acts : whether acts are counted too: packed counts go without, as what became of each is counted
        """
        counts: Counts = defaultdict(lambda: [0] * len(ArmCounts._fields))
        for each in self:
            await fair_yield()
            if isinstance(each, Acted):
                for arm, count in Counter(each.actions.arms).items() if acts else ():
                    counts[arm][ACTS] += count
            elif isinstance(each, Settled):
                shares = losses.shares(each.losses)
                for count, (arm, share) in enumerate(zip(each.arms, shares, strict=True), 1):
                    row = counts[arm]
                    row[FEEDBACKS] += 1
                    row[LOSSES] += share
                    if not count % COUNTED_AT_ONCE:
                        await fair_yield()
            elif isinstance(each, Ended):
                _count_ended(counts, each, losses, default_loss)
            elif isinstance(each, ArmsChanged):
                for arm, count in each.given_up.items():
                    counts[arm][REMOVED] += count
        return counts

    async def entries(
        self, default_loss: float | None, word: str, fair_yield: Callable[[], Awaitable[None]]
    ) -> list[bytes]:
        """Return the entries of the decision log, as JSON without their times.

        Parameters
        ----------
        default_loss : at which expired decisions were learned, as clients would post it; None where they were not
        word : what clients post, ``loss`` or ``reward``
        fair_yield : is awaited between entries
        """
        entries = []
        for each in self:
            for entry in _entries(each, default_loss, word):
                entries.append(_JSON.encode(entry).encode())
                await fair_yield()
        return entries


def _count_ended(counts: Counts, each: Ended, losses: LossRange, default: float | None) -> None:
    counted = _COUNTED.get(each.outcome)
    if counted is None:
        return
    row = counts[each.arm]
    row[counted] += each.decisions
    loss = default if each.defaulted else each.loss
    if each.defaulted:
        row[DEFAULTED] += each.decisions
    if loss is not None:
        row[LOSSES] += each.decisions * losses.share(loss)


def _entries(each: Happening, default: float | None, word: str) -> Iterator[dict[str, Any]]:
    if isinstance(each, Settled):
        for arm, loss, event_id in zip(each.arms, each.losses, each.event_ids, strict=True):
            yield _entry(Ended(arm, "applied", loss, event_id), default, word)
        return
    if not isinstance(each, Acted):
        yield _entry(each, default, word)
        return
    actions, names = each.actions, each.names
    for slot, (arm, p) in enumerate(zip(actions.arms, actions.probabilities, strict=True), actions.slot):
        entry = {"kind": "act", "slot": slot, "arm": arm, "probability": p, "eligible": actions.eligible}
        yield entry | _given({"label": None if names is None else names[arm], "segment": each.segment})


def _entry(each: Ended | ArmsChanged | SessionChanged, default: float | None, word: str) -> dict[str, Any]:
    if isinstance(each, SessionChanged):
        return {"kind": "session", "changed": list(each.changed)}
    if isinstance(each, ArmsChanged):
        names = ("added", "removed", "paused", "resumed")
        return {"kind": "arms", **{name: list(getattr(each, name)) for name in names}}
    entry: dict[str, Any] = {"kind": "event", "arm": each.arm, word: default if each.defaulted else each.loss}
    entry["outcome"] = each.outcome
    if each.outcome == "expired":
        entry["count"] = each.decisions
    return entry | _given({"event_id": each.event_id, "slot": each.slot, "segment": each.segment})


def _given(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}
