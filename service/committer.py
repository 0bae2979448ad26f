"""Group commit: the requests waiting for one session are folded together and committed in one round trip.

For each session of this worker there is at most one commit in flight. Requests that arrive meanwhile wait
and are folded together next: the cached state is copied, every request is applied to the copy in order, and
the result is committed on the version it was computed from. On a conflict, or where the store knows some of
the event ids or keys, the same requests are folded again on what came back. Nothing is answered before the
store has confirmed the version it was judged on, refusals included: a cached state may be old.
"""

from __future__ import annotations

import asyncio
import logging
import math
import secrets
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextvars import Context, copy_context
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from service.askers import ASKERS
from service.cache import Cached, SessionCache
from service.errors import (
    IdempotencyConflictError,
    InternalError,
    OverloadedError,
    ServiceError,
    StateCorruptError,
    StoreDownError,
    UnknownSessionError,
)
from service.learners.expiring import expire_oldest
from service.learners.run import Run
from service.metrics import Labels, Metrics
from service.pieces import LABEL, Body, Pause, Rest, aside, packed, unpacked
from service.specification import Idempotency
from service.store import records
from service.store.base import Commit, Committed, Conflict, Known, Snapshot, Store, StoreUnavailableError
from service.turns import Turns, asking, grant

MAX_FOLD_WEIGHT = 2_000
"""Acts and events folded into one commit, beyond the first request."""
MAX_ASKED = 8
"""Tries to ask for time, each lost to another's commit."""
MAX_ATTEMPTS = 64
"""Folds of one batch before its requests are turned away as overload."""
PIECE_SECONDS = 0.05
"""Expiry in one commit, with its rests; what is due beyond it is settled by further ones before requests are."""
MAX_REMEMBERED = 10_000
"""Sessions whose reminder this worker remembers."""
DIGEST = 16
VERSION = "\0"
"""Stands in an answer for the version its commit makes; no label or other text of an answer has this character."""
_VERSION_JSON = b"\\u0000"

log = logging.getLogger(__name__)


class Answer(NamedTuple):
    """The body of a success; ``replayed`` where it was stored with an idempotency key before."""

    body: Body
    replayed: bool = False


class Applied(NamedTuple):
    """What one operation did to a run."""

    body: Body
    recorded: Sequence[bytes] = ()
    """Digests of the event ids that now count."""
    changed: bool = True
    shows_version: bool = False
    """Whether the body has ``VERSION`` in it."""
    counts: Mapping[str, int] = {}
    """Events by outcome, as metrics name it."""
    delays: Sequence[float] = ()
    """Seconds from act to event, where known."""


class Operation(Protocol):
    """One request, applied to a run as often as its batch is folded."""

    @property
    def weight(self) -> int:
        """Acts or events in it."""

    @property
    def idempotency(self) -> Idempotency | None:
        """The request's idempotency key."""

    @property
    def digests(self) -> Sequence[bytes]:
        """Digests of its event ids; known once it was checked."""

    async def check(self, run: Run, pause: Pause) -> None:
        """Raise ``InvalidRequestError`` where the request does not fit the session."""

    @property
    def is_use(self) -> bool:
        """Whether it puts off the session's idle deadline."""

    async def apply(self, run: Run, counted: Callable[[bytes], bool], pause: Pause) -> Applied:
        """Apply all of it, or raise a ``ServiceError`` having applied nothing.

        ``counted`` tells whether an event id, by its digest, counts already.
        """


@dataclass(slots=True, eq=False)
class _Waiting:
    operation: Operation
    answer: asyncio.Future[Answer]
    context: Context = field(default_factory=copy_context)


@dataclass(slots=True)
class _Fold:
    """A batch applied to a copy of one version's run."""

    run: Run
    outcomes: list[Answer | Exception] = field(default_factory=list)
    recorded: dict[bytes, None] = field(default_factory=dict)
    answers: dict[bytes, tuple[bytes, bytes]] = field(default_factory=dict)
    """Idempotency key to the body's digest and the answer."""
    changed: bool = False
    used: bool = False
    """Whether a request that puts off the idle deadline succeeded."""
    complete: bool = True
    """Whether all due decisions are settled; if not, no request has been applied yet."""
    shows_version: bool = False
    """Whether an answer still has ``VERSION`` in it."""
    counts: dict[str, int] = field(default_factory=dict)
    """Events by outcome."""
    delays: list[float] = field(default_factory=list)
    """Seconds from act to event, where known."""

    def show(self, version: str) -> None:
        """Put the version in force after the commit into the answers."""
        if not self.shows_version:
            return
        for place, outcome in enumerate(self.outcomes):
            if isinstance(outcome, Answer) and isinstance(outcome.body, bytes):
                shown = outcome.body.replace(_VERSION_JSON, version.encode())
                self.outcomes[place] = outcome._replace(body=shown)
        for key, (body, answer) in self.answers.items():
            if isinstance(unpacked(answer), bytes):
                self.answers[key] = (body, answer.replace(_VERSION_JSON, version.encode()))


@dataclass(slots=True)
class _Memory:
    """What the store is known to remember, learned while a batch is tried."""

    duplicates: set[bytes] = field(default_factory=set)
    replays: dict[bytes, bytes] = field(default_factory=dict)


@dataclass(slots=True)
class _Lane:
    waiting: deque[_Waiting] = field(default_factory=deque)
    task: asyncio.Task[None] | None = None


class Committer:
    """The one writer of this worker."""

    def __init__(
        self,
        store: Store,
        cache: SessionCache,
        *,
        max_queue: int,
        max_waiting: int = 10_000,
        metrics: Metrics | None = None,
    ) -> None:
        self.writer = secrets.token_hex(8)
        self._store = store
        self._cache = cache
        self._max_queue = max_queue
        self._max_waiting = max_waiting
        self._accepted = 0
        """Requests of all sessions that were taken and not answered yet."""
        self._metrics = metrics or Metrics(Labels())
        self._lanes: dict[str, _Lane] = {}
        self._turns = Turns()
        self._reminded: dict[str, tuple[int, int]] = {}
        """Session to the newest bucket of acts it was noted for, and its slot then."""
        self._count = 0

    def new_version(self) -> str:
        """A version never used before, by any writer."""
        self._count += 1
        return f"{self.writer}-{self._count:x}"

    async def submit(self, session_id: str, operation: Operation) -> Answer:
        """Apply ``operation`` to a session; the answer comes once the store has committed it.

        Raises
        ------
        ServiceError
            as the operation, or the store, refuses it; nothing of it is applied then.
        """
        if self._accepted >= self._max_waiting:
            raise OverloadedError("Too many requests are waiting")
        lane = self._lanes.setdefault(session_id, _Lane())
        if len(lane.waiting) >= self._max_queue:
            raise OverloadedError("Too many requests are waiting for this session")
        waiting = _Waiting(operation, asyncio.get_running_loop().create_future())
        lane.waiting.append(waiting)
        if lane.task is None:
            lane.task = asyncio.create_task(self._drain(session_id, lane))
        self._accepted += 1
        try:
            return await waiting.answer
        finally:
            self._accepted -= 1

    async def drained(self) -> None:
        """Return when every request taken so far has been answered."""
        while tasks := [lane.task for lane in self._lanes.values() if lane.task is not None]:
            await asyncio.wait(tasks)

    async def forget(self, session_id: str) -> None:
        """Keep nothing of a session that is gone."""
        self._cache.forget(session_id)
        self._reminded.pop(session_id, None)
        await self._store.reminders.forget(session_id)

    async def _drain(self, session_id: str, lane: _Lane) -> None:
        await self._turns.rest(session_id)
        while batch := _take(lane.waiting):
            self._metrics.commit_requests(len(batch))
            ASKERS.set([each.context for each in batch])
            try:
                outcomes = await self._commit(session_id, [each.operation for each in batch])
            except StoreUnavailableError as error:
                self._cache.forget(session_id)
                outcomes = [StoreDownError(str(error))] * len(batch)
            except ServiceError as error:
                self._cache.forget(session_id)
                outcomes = [error] * len(batch)
            except Exception:
                self._cache.forget(session_id)
                log.exception("commit failed, session %s", session_id)
                outcomes = [InternalError()] * len(batch)
            _answer(batch, outcomes)
            self._turns.won(session_id)
            await self._turns.rest(session_id)
        del self._lanes[session_id]

    async def _commit(self, session_id: str, batch: Sequence[Operation]) -> Sequence[Answer | Exception]:
        base = self._cache.get(session_id) or await self._load(session_id)
        memory = _Memory()
        attempt = 0
        while attempt < MAX_ATTEMPTS:
            started = time.perf_counter()
            pause = Pause()
            fold = await _fold(base.run, batch, memory, self._store.now(), pause)
            await self._remind(session_id, fold.run)
            commit = await self._prepare(session_id, base, batch if fold.complete else (), fold, memory, pause)
            await pause()
            outcome = await self._store.commit(commit)
            if isinstance(outcome, Committed):
                self._keep(session_id, base, commit, fold, outcome)
                self._metrics.count(fold.counts, base.run.ledger, fold.run.ledger, fold.delays)
                if fold.complete:
                    return fold.outcomes
                base = self._cache.get(session_id) or await self._load(session_id)
                continue
            attempt += 1
            if isinstance(outcome, Conflict):
                base = await self._lost(session_id, base, outcome.snapshot, time.perf_counter() - started)
            elif isinstance(outcome, Known):
                memory.duplicates |= outcome.duplicates
                memory.replays.update(outcome.replays)
            else:
                await self.forget(session_id)
                raise UnknownSessionError
        raise OverloadedError("Too many others write this session at once")

    async def _lost(self, session_id: str, base: Cached, winner: Snapshot, seconds: float) -> Cached:
        """The version to try on after a conflict, once others will let an attempt of such length through."""
        self._turns.lost(session_id, winner.version.partition("-")[0], seconds)
        self._cache.forget(session_id)
        await grant(winner.version)
        base = await self._known(session_id, await decoded(winner, base))
        for _ in range(MAX_ASKED):
            version = asking(self.new_version(), seconds)
            if version is None:
                break
            state = base.encode(base.run)
            same = Commit(session_id, self.writer, base.version, version, state, base.digest)
            outcome = await self._store.commit(same)
            if not isinstance(outcome, Conflict):
                return self._cache.put(session_id, base.after(version, state, base.run.copy()))
            base = await self._known(session_id, await decoded(outcome.snapshot, base))
        return base

    async def _load(self, session_id: str) -> Cached:
        snapshot = await self._store.load(session_id)
        if snapshot is None:
            raise UnknownSessionError
        return await self._known(session_id, await decoded(snapshot))

    async def _known(self, session_id: str, cached: Cached) -> Cached:
        """Keep a version; where its records are those of a later one, the commit on it will conflict."""
        if cached.needs_records:
            records = await self._store.read_records(session_id)
            try:
                cached = cached.with_records(records)
            except StateCorruptError:
                now = await self._store.load(session_id)
                if now is not None and now.version == cached.version:
                    raise
                return await self._load(session_id)
        return self._cache.put(session_id, cached)

    async def _remind(self, session_id: str, run: Run) -> None:
        """Before acts of a new bucket of time are committed, note when the session has decisions due."""
        newest = None if run.buckets is None else run.buckets.newest()
        noted, slot = self._reminded.get(session_id, (None, 0))
        # A lower slot is that of another session, made under this id after the one that was noted had gone.
        if run.buckets is None or newest is None or (noted == newest and slot <= run.ledger.slot):
            return
        due_at = run.buckets.due_at()
        assert due_at is not None  # noqa: S101 - there is a newest bucket
        await self._store.reminders.remind(session_id, due_at)
        if len(self._reminded) >= MAX_REMEMBERED:
            self._reminded.clear()
        self._reminded[session_id] = (newest, run.ledger.slot)

    async def _prepare(
        self, session_id: str, base: Cached, batch: Sequence[Operation], fold: _Fold, memory: _Memory, pause: Pause
    ) -> Commit:
        digests = {digest for operation in batch for digest in operation.digests}
        keys = {operation.idempotency.key for operation in batch if operation.idempotency}
        writes = fold.changed or bool(fold.answers)
        version = self.new_version() if writes else None
        fold.show(version or base.version)
        await pause()
        state = await aside(_new_labels(base.run, fold.run), base.encode, fold.run) if writes else b""
        await pause()
        return Commit(
            session_id=session_id,
            writer=self.writer,
            expected=base.version,
            version=version,
            state=state,
            digest=base.digest,
            idle_ttl_ms=base.stored.specification.idle_ttl_ms if fold.used else None,
            events=list(fold.recorded),
            event_lookups=list(digests - memory.duplicates - fold.recorded.keys()),
            lookups=list(keys - memory.replays.keys()),
            answers={key: body + answer for key, (body, answer) in fold.answers.items()},
            records=records.encode(fold.run) if writes else {},
        )

    def _keep(self, session_id: str, base: Cached, commit: Commit, fold: _Fold, outcome: Committed) -> None:
        if outcome.snapshot is not None:
            self._cache.forget(session_id)
        elif commit.version is not None:
            self._cache.put(session_id, base.after(commit.version, commit.state, fold.run))


def _new_labels(before: Run, after: Run) -> int:
    """Bytes that the labels count for which are written where arms have changed."""
    roster = after.roster
    return 0 if roster is None or roster is before.roster else LABEL * len(roster.added or ())


async def decoded(snapshot: Snapshot, known: Cached | None = None) -> Cached:
    """See ``Cached.of``."""
    return await aside(len(snapshot.spec), Cached.of, snapshot, known)


async def settle_due(run: Run, seconds: float = math.inf) -> bool:
    """Expire due decisions, bucket by bucket, one or more for about so long; False where some are left."""
    until, rest = time.perf_counter() + seconds, Rest()
    while run.due:
        for _ in expire_oldest(run):
            await rest()
        if time.perf_counter() >= until:
            return not run.due
    return True


async def _fold(base: Run, batch: Sequence[Operation], memory: _Memory, now: float, pause: Pause) -> _Fold:
    fold = _Fold(base.copy())
    fold.run.advance(now)
    fold.changed = fold.run.due
    fold.complete = await settle_due(fold.run, PIECE_SECONDS)
    if not fold.complete:
        return fold
    for operation in batch:
        before = fold.run.copy()
        try:
            fold.outcomes.append(await _apply(operation, fold, memory, pause))
        except ServiceError as error:
            fold.outcomes.append(error)
        except Exception:
            log.exception("request failed")
            fold.run = before
            fold.outcomes.append(InternalError())
        await pause()
    return fold


async def _apply(operation: Operation, fold: _Fold, memory: _Memory, pause: Pause) -> Answer:
    await operation.check(fold.run, pause)
    key = operation.idempotency
    if key is not None and (earlier := _earlier(key, fold, memory.replays)) is not None:
        return earlier
    applied = await operation.apply(
        fold.run, lambda digest: digest in memory.duplicates or digest in fold.recorded, pause
    )
    body = applied.body
    if key is not None:
        kept = await packed(body, pause)
        fold.answers[key.key] = (key.body, kept)
        body = unpacked(kept)
    fold.recorded.update(dict.fromkeys(applied.recorded))
    fold.changed |= applied.changed
    fold.used |= operation.is_use
    fold.shows_version |= applied.shows_version
    for outcome, count in applied.counts.items():
        fold.counts[outcome] = fold.counts.get(outcome, 0) + count
    fold.delays += applied.delays
    return Answer(body)


def _earlier(key: Idempotency, fold: _Fold, replays: Mapping[bytes, bytes]) -> Answer | None:
    """The answer this key got before, in this batch or ever; its body must be the same."""
    stored = replays.get(key.key)
    body, answer = fold.answers.get(key.key, (None, b"")) if stored is None else unpack_answer(stored)
    if body is None:
        return None
    if body != key.body:
        raise IdempotencyConflictError
    return Answer(unpacked(answer), replayed=True)


def unpack_answer(stored: bytes) -> tuple[bytes, bytes]:
    """The digest of the body an idempotency key came with, and the answer it got."""
    return stored[:DIGEST], stored[DIGEST:]


def _take(waiting: deque[_Waiting]) -> list[_Waiting]:
    """The next batch; requests whose client has gone before they were taken are dropped."""
    batch: list[_Waiting] = []
    weight = 0
    while waiting and (not batch or weight + waiting[0].operation.weight <= MAX_FOLD_WEIGHT):
        each = waiting.popleft()
        if not each.answer.cancelled():
            batch.append(each)
            weight += each.operation.weight
    return batch


def _answer(batch: Sequence[_Waiting], outcomes: Sequence[Answer | Exception]) -> None:
    for each, outcome in zip(batch, outcomes, strict=True):
        if each.answer.done():
            continue
        if isinstance(outcome, Exception):
            each.answer.set_exception(outcome)
        else:
            each.answer.set_result(outcome)
