"""What an operation is, and a batch of them applied to a draft of a session, with a journal of what happened.

They are applied request by request, in order; one that is refused fails alone.
"""

from __future__ import annotations

import json
import logging
import math
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, ClassVar, NamedTuple

from .. import errors
from ..cooperative import BackgroundYield, Body, FairYield, pack, unpack
from ..engine.arm_run import ArmRun, Names
from ..engine.control import Group
from ..engine.ledger import ArmActions, LossRange
from ..engine.run import Run, expire_oldest
from ..learners.base import FloatArray
from ..models.events import Idempotency
from ..models.specification import Specification
from ..models.stored import Stored
from ..serialization.summary import time_text
from ..store import base as stored_as
from ..store.base import DIGEST_BYTES, DOUBLE, GROUP, INCREMENT, INCREMENTS, VECTOR, Known
from ..tokens import SessionTokens
from .cache import CachedSession, Effective

# -- What a batch does to a session over arms, in order: from it follow the counts of arms and the decision log.

_COUNTED = {"applied": stored_as.FEEDBACKS, "voided": stored_as.VOIDED, "expired": stored_as.EXPIRED}
_JSON = json.JSONEncoder(separators=(",", ":"))
TOLD_EVERY = 10_000
"""Entries after which a log says again how events are read; or half of those that it keeps, if these are fewer."""


class Acted(NamedTuple):
    """Slots were opened."""

    actions: ArmActions
    names: Names = None
    segment: str | None = None
    group: Group | None = None
    """Of its slots; None in sessions that never had groups."""


class Ended(NamedTuple):
    """A decision ended, or an event changed nothing since its arm had been removed."""

    arm: int
    outcome: str
    """``applied``, ``updated``, ``voided``, ``removed`` or ``expired``."""
    loss: float | None = None
    """As it was posted; None where there is none, and for expired decisions."""
    event_id: str | None = None
    slot: int | None = None
    decisions: int = 1
    """Decisions that expired together."""
    defaulted: bool = False
    """Whether it was learned at the default loss."""
    segment: str | None = None
    before: float | None = None
    """Of an update: the loss in whose place the other one was learned, as it would be posted."""
    group: Group | None = None
    """None in sessions that never had groups."""
    until: float | None = None
    """Of decisions that expired at the end of their window: until when, in Unix seconds, their acts were."""
    columns: FloatArray | None = None
    """Of the visitor, as the event said them, if the log shows columns."""


class Settled(NamedTuple):
    """Plain events were applied: one entry for each, in their order."""

    arms: Sequence[int]
    losses: Sequence[float]
    """As they were posted."""
    event_ids: Sequence[str | None]
    group: Group | None = None


class ArmsChanged(NamedTuple):
    """Labels that came and went, were paused and resumed."""

    added: Sequence[str] = ()
    removed: Sequence[str] = ()
    paused: Sequence[str] = ()
    resumed: Sequence[str] = ()
    given_up: Mapping[int, int] = {}
    """Index of a removed arm to the decisions of it that were outstanding."""
    default: float | None = None
    """The loss, as it would be posted, at which these count; None: at none."""


class SessionChanged(NamedTuple):
    """Names of the fields of the session that were changed."""

    changed: Sequence[str]
    told: Mapping[str, Any]
    """What the log says of the session from now on."""


Happening = Acted | Ended | Settled | ArmsChanged | SessionChanged


class Journal(list[Happening]):
    """What a batch has done so far."""

    async def counts(
        self, losses: LossRange, default_loss: float | None, fair_yield: Callable[[], Awaitable[None]]
    ) -> dict[int, bytes]:
        """Return what is to be added to the counts of arms: of an act nothing before what became of it is known.

        Its form is that of ``Written``.

        Parameters
        ----------
        losses : range of the session's losses as it was before the batch
        default_loss : at which expired decisions were learned, as clients would post it; None where they were not
        fair_yield : is awaited between entries
        """
        settled, totals = dict[int, tuple[int, float]](), dict[int, float]()
        """By arm, and of what else happened by place, as if all vectors were one."""
        for number, each in enumerate(self):
            if number:
                await fair_yield()
            if isinstance(each, Settled):
                for at, share in zip(each.arms, losses.shares(each.losses), strict=True):
                    count, total = settled.get(at, (0, 0.0))
                    settled[at] = count + 1, total + share
            else:
                for at, kind, amount in _counted(each, losses, default_loss):
                    place = at + at // GROUP * (VECTOR - GROUP) + kind * GROUP
                    totals[place] = totals.get(place, 0.0) + amount
        found = dict[int, bytes]()
        for at, (count, total) in settled.items():
            group, place = divmod(at, GROUP)
            both = INCREMENTS.pack(place + 1, DOUBLE, count, place + 1 + GROUP, DOUBLE, total)
            found[group] = found[group] + both if group in found else both
        for place, total in totals.items():
            group = place // VECTOR
            found[group] = found.get(group, b"") + INCREMENT.pack(place % VECTOR + 1, DOUBLE, total)
        return found

    async def entries(
        self, session: Specification, logged: int, fair_yield: Callable[[], Awaitable[None]]
    ) -> list[bytes]:
        """Return the entries of the decision log, as JSON without their times.

        The first entry of a log, and one of every few from there on, says how the session's events are read.

        Parameters
        ----------
        session : as it was before the batch, with a decision log
        logged : entries of the log so far; 0 if none of them came along in an import
        fair_yield : is awaited between entries
        """
        entries, log, told = list[bytes](), session.decision_log, dict[str, Any]()
        every = TOLD_EVERY if log is None else max(2, min(TOLD_EVERY, log.max_entries // 2))
        for each in self:
            told = dict(each.told) if isinstance(each, SessionChanged) else told
            for entry in _entries(each, session.default_loss, session.word):
                if (logged + len(entries)) % every == 0 and entry["kind"] != "session":
                    entries.append(_JSON.encode({"kind": "session", **(told or session.told)}).encode())
                entries.append(_JSON.encode(entry).encode())
                await fair_yield()
        return entries


def _counted(each: Happening, losses: LossRange, default: float | None) -> Iterator[tuple[int, int, float]]:
    """Yield what is added to the counts of arms: arm, kind of count and amount."""
    if isinstance(each, ArmsChanged):
        for arm, count in each.given_up.items():
            yield arm, stored_as.REMOVED, count
            if each.default is not None:  # They count as it at once, and no click of theirs will change that.
                yield arm, stored_as.DEFAULTED, count
                yield arm, stored_as.LOSSES, count * losses.share(each.default)
    elif isinstance(each, Ended) and (kind := _COUNTED.get(each.outcome)) is not None:
        yield each.arm, kind, each.decisions
        if each.defaulted:
            yield each.arm, stored_as.DEFAULTED, each.decisions
        loss = default if each.defaulted else each.loss
        if loss is not None:
            yield each.arm, stored_as.LOSSES, each.decisions * losses.share(loss)
    elif isinstance(each, Ended) and each.before is not None and each.loss is not None:
        yield each.arm, stored_as.LOSSES, losses.share(each.loss) - losses.share(each.before)


def _entries(each: Happening, default: float | None, word: str) -> Iterator[dict[str, Any]]:
    if isinstance(each, SessionChanged):
        yield {"kind": "session", "changed": list(each.changed), **each.told}
    elif isinstance(each, ArmsChanged):
        names = ("added", "removed", "paused", "resumed")
        yield {"kind": "arms", **{name: list(getattr(each, name)) for name in names}}
    elif isinstance(each, Acted):
        actions, labels = each.actions, each.names
        for slot, (arm, p) in enumerate(zip(actions.arms, actions.probabilities, strict=True), actions.slot):
            entry = {"kind": "act", "slot": slot, "arm": arm, "probability": p, "eligible": actions.eligible}
            encoded = None if actions.visit is None or actions.visit.x is None else actions.visit.x.tolist()
            label = None if labels is None else labels[arm]
            known = {"label": label, "segment": each.segment, "group": each.group, "encoded": encoded}
            yield entry | _given(known)
    elif isinstance(each, Settled):
        for arm, loss, event_id in zip(each.arms, each.losses, each.event_ids, strict=True):
            entry = {"kind": "event", "arm": arm, word: loss, "outcome": "applied"}
            yield entry | _given({"event_id": event_id, "group": each.group})
    else:
        posted = default if each.defaulted else each.loss
        entry = {"kind": "event", "arm": each.arm, word: posted, "outcome": each.outcome}
        if each.outcome == "expired":
            entry |= {"count": each.decisions} | ({} if each.until is None else {"until": time_text(each.until)})
        known = {"event_id": each.event_id, "slot": each.slot, "segment": each.segment, "group": each.group}
        yield entry | _given(known | {"encoded": None if each.columns is None else each.columns.tolist()})


def _given(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


# -- A session's next version while a batch is applied to it.

VERSION = "\0"
"""Stands in an answer for the version its commit makes; no label or other text of an answer has this character."""
_VERSION_JSON = b"\\u0000"


class Answer(NamedTuple):
    """The body of a success; ``replayed`` where it was stored with an idempotency key before."""

    body: Body
    replayed: bool = False


@dataclass
class Draft:
    """The next version of a session: a copy of a version's run, and what a batch has done to it so far."""

    run: Run
    known: Known
    """What the store has been found to remember of the batch."""
    stored: Stored
    """The session's specification."""
    tokens: SessionTokens | None = None
    """Makes and knows its tokens; None in a session without."""
    began: float = field(default_factory=time.perf_counter)
    results: list[Answer | Exception] = field(default_factory=list)
    """For each request of the batch its answer, or the error that refused it."""
    event_ids: dict[bytes, bytes] = field(default_factory=dict)
    """Digests of event ids that count from this version on, or have another value: b"" for an id without."""
    answers: dict[bytes, tuple[bytes, bytes]] = field(default_factory=dict)
    """Digest of an idempotency key to the digest of the request's body and the answer, as ``pack`` makes it."""
    asked_events: set[bytes] = field(default_factory=set)
    asked_keys: set[bytes] = field(default_factory=set)
    """Digests that a request was judged by: the store must confirm what it knows of them."""
    journal: Journal = field(default_factory=Journal)
    """What the batch has done so far."""
    changed: bool = False
    extends_deadline: bool = False
    """Whether a request succeeded that extends the idle deadline."""
    due_expired: bool = True
    """Whether all due decisions have expired; if not, no request has been applied yet."""
    shows_version: bool = False
    """Whether an answer still has ``VERSION`` in it."""
    outcomes: dict[str, int] = field(default_factory=dict)
    """Number of events by what became of them."""
    delays: list[float] = field(default_factory=list)
    """Seconds from act to event, where known."""
    records: Mapping[bytes, bytes | None] = field(default_factory=dict)
    """Records by key that are written besides those of the run, or dropped (None) unless the run writes them."""
    effective: Effective | None = None
    """What lists show of the distribution."""

    @cached_property
    def fair_yield(self) -> FairYield:
        """Awaited within long work, so that other requests run in between; most batches need none."""
        return FairYield(self.began)

    def value_of(self, event_id: bytes) -> bytes | None:
        """Return the value of an event id, by its digest, that counts already; None if it does not."""
        self.asked_events.add(event_id)
        return self.event_ids.get(event_id, self.known.duplicates.get(event_id))

    def any_duplicate(self, event_ids: Sequence[bytes]) -> bool:
        """Return whether one of these event ids, by their digests, counts already, or is there twice."""
        self.asked_events.update(event_ids)
        new = self.known.duplicates.keys().isdisjoint(event_ids) and self.event_ids.keys().isdisjoint(event_ids)
        return not new or len(set(event_ids)) < len(event_ids)

    def stored_answer(self, key: Idempotency) -> Answer | None:
        """Return the answer that an idempotency key got before, in this batch or an earlier one; None if none.

        Raises
        ------
        IdempotencyConflictError
            where the key came with another body then.
        """
        self.asked_keys.add(key.key)
        stored = self.known.replays.get(key.key) or b"".join(self.answers.get(key.key, ()))
        return Answer(unpack(packed_answer(stored, key)), replayed=True) if stored else None

    def show_version(self, version: str) -> None:
        """Put the version in force after the commit into the answers."""
        text = version.encode()
        for place, result in enumerate(self.results):
            if isinstance(result, Answer) and isinstance(result.body, bytes):
                self.results[place] = result._replace(body=result.body.replace(_VERSION_JSON, text))
        for key, (body, packed) in self.answers.items():
            if isinstance(unpack(packed), bytes):
                self.answers[key] = (body, packed.replace(_VERSION_JSON, text))


def packed_answer(stored: bytes, key: Idempotency) -> bytes:
    """Return the answer that is stored under a key behind the digest of the body that it came with.

    Raises
    ------
    IdempotencyConflictError
        where that is another one.
    """
    if stored[:DIGEST_BYTES] != key.body:
        raise errors.IdempotencyConflictError
    return stored[DIGEST_BYTES:]


# -- What an operation is: one request, applied to a session's draft as part of a batch.


class Applied(NamedTuple):
    """What one operation did to a draft."""

    body: Body
    """Of the answer."""
    event_ids: Mapping[bytes, bytes] = {}
    """Digests of the event ids that count, or have another value, from now on, in order, and their values."""
    changed: bool = True
    """Whether the run changed, or an event id counts from now on."""
    shows_version: bool = False
    """Whether the body has ``VERSION`` in it."""
    outcomes: Mapping[str, int] = {}
    """Number of events by what became of them, as metrics name it."""
    delays: Sequence[float] = ()
    """Seconds from act to event, where known."""


@dataclass(slots=True, kw_only=True)
class Operation(ABC):
    """One request. It is applied again, to another draft, whenever the commit of its batch fails.

    So an operation never changes itself: what ``check`` finds out is handed to ``apply``.
    """

    extends_deadline: ClassVar[bool] = True
    """Whether it extends the session's idle deadline."""
    reports_events: ClassVar[bool] = False
    """Whether it reports events, which are counted also if it is refused."""
    plays: ClassVar[bool] = False
    """Whether it plays its segments, which it begins if the session does not keep them."""

    idempotency: Idempotency | None = None
    """The request's idempotency key."""
    is_gone: Callable[[], bool] | None = None
    """Whether the client has left: the operation is not applied then. None: it is applied in any case."""
    waited: float = 0.0
    """Seconds for which it has waited already when it is submitted."""

    @property
    def weight(self) -> int:
        """Acts or events in the request: what it adds to the size of its batch."""
        return 1

    @property
    def segments(self) -> Iterable[str]:
        """Names of the segments that it touches, if the session has segments."""
        return ()

    async def check(self, draft: Draft) -> Any:  # noqa: ARG002 - most requests fit every session
        """Find out whether the request fits the session; a stored answer is looked up only after that.

        Returns
        -------
        What ``apply`` needs of it.

        Raises
        ------
        ServiceError
            where the request does not fit.
        """
        return None

    @abstractmethod
    async def apply(self, draft: Draft, checked: Any) -> Applied:
        """Apply the whole request to the draft's run.

        Parameters
        ----------
        draft : a copy of the session, with what earlier requests of the batch have changed
        checked : what ``check`` returned for this draft

        Raises
        ------
        ServiceError
            where the request is refused; the run is as it was before.
        """


_OF_EVENTS = (errors.InvalidRequestError, errors.SurplusFeedbackError)
"""What refuses events for what they are."""
EXPIRY_SECONDS = 0.05
"""Seconds of expiry in one commit, pauses included; what is due beyond it expires in further commits first."""

log = logging.getLogger(__name__)


async def expire_due(run: Run, journal: Journal, seconds: float = math.inf) -> bool:
    """Expire due decisions, a bucket at a time.

    Parameters
    ----------
    run : the session's, after ``advance`` to the present; it is changed
    journal : notes what expires
    seconds : about how long; at least one bucket is expired

    Returns
    -------
    False where some are left.
    """
    stops_at, background_yield, expiry = time.perf_counter() + seconds, BackgroundYield(), run.params.expiry
    while run.due:
        expired = Counter[tuple[int, Group]]()
        due_at = 0.0 if run.act_times is None else run.act_times.due_at() or 0.0
        for arm, count, group in expire_oldest(run):
            expired[arm, group] += count
            await background_yield()
        if isinstance(run, ArmRun) and run.act_times is not None and expiry is not None:
            run.act_times.expire(run.ledger.time, [arm for arm, _ in expired])
            each = partial(Ended, outcome="expired", defaulted=expiry.loss is not None)
            until = due_at - expiry.after_seconds
            for (arm, group), count in expired.items():
                named = None if run.control is None else group
                journal.append(each(arm, decisions=count, until=until, group=named))
        if time.perf_counter() >= stops_at:
            return not run.due
    return True


async def apply_batch(
    base: CachedSession, batch: Sequence[Operation], known: Known, now: float, *, undoes: bool = False
) -> Draft:
    """Apply a batch to a copy of a run, or only expire some of the due decisions where they are many.

    Parameters
    ----------
    base : the session at hand, which stays as it is
    batch : requests, in the order in which they are applied
    known : what the store has been found to remember of this batch
    now : Unix seconds
    undoes : whether the run is copied before every request, so that what a faulty one did can be undone; without
        such copies the batch is applied again, with them, where one is faulty
    """
    draft = Draft(base.run.copy(), known, base.stored, base.tokens)
    draft.run.advance(now)
    if draft.run.act_times is not None and draft.run.due:
        draft.changed = True
        draft.due_expired = await expire_due(draft.run, draft.journal, EXPIRY_SECONDS)
        if not draft.due_expired:
            return draft
    for operation in batch:
        before, noted = draft.run.copy() if undoes else None, len(draft.journal)
        stored, records = draft.stored, draft.records
        try:
            if operation.is_gone is not None and operation.is_gone():
                raise errors.ClientGoneError
            checked = await operation.check(draft)
            key = operation.idempotency
            if key is not None and (earlier := draft.stored_answer(key)) is not None:
                draft.results.append(earlier)
                continue
            applied = await operation.apply(draft, checked)
            body = applied.body
            if key is not None:
                packed = await pack(body, draft.fair_yield)
                draft.answers[key.key] = (key.body, packed)
                body = unpack(packed)
            draft.event_ids.update(applied.event_ids)
            draft.changed |= applied.changed
            draft.extends_deadline |= operation.extends_deadline
            draft.shows_version |= applied.shows_version
            for outcome, count in applied.outcomes.items():
                draft.outcomes[outcome] = draft.outcomes.get(outcome, 0) + count
            draft.delays += applied.delays
            draft.results.append(Answer(body))
        except errors.ServiceError as error:
            del draft.journal[noted:]
            draft.results.append(error)
            if operation.reports_events and isinstance(error, _OF_EVENTS):
                draft.outcomes["refused"] = draft.outcomes.get("refused", 0) + operation.weight
        except Exception:
            if before is None:
                return await apply_batch(base, batch, known, now, undoes=True)
            log.exception("request failed")
            draft.run, draft.stored, draft.records = before, stored, records
            del draft.journal[noted:]
            draft.results.append(errors.InternalError())
        if len(batch) > 1:
            await draft.fair_yield()
    guard, run = draft.stored.specification.guard, draft.run
    if guard is not None and guard.tolerance is not None and draft.changed and isinstance(run, ArmRun):
        control = run.control
        if control is not None and not control.ledger.halted_at and control.is_worth_halting(run, guard.tolerance):
            control.ledger.halted_at = run.ledger.time
    return draft
