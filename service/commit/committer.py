"""Group commit: a batch of requests for one session is committed in one round trip.

The cached version is copied to a draft, every request is applied to the draft in order, and the result is committed
on the version it was computed from. On a conflict, or where the store remembers some of the event ids or keys, the
same requests are applied again to a draft of what came back. Nothing is answered before the store has confirmed the
version it was judged on, refusals included: a cached version may be old.

A session has at most one commit of this worker in flight: see ``SessionQueues``.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections import deque
from collections.abc import Sequence
from contextvars import Context, copy_context
from dataclasses import dataclass, field
from typing import NamedTuple

from ..cooperative import LABEL_BYTES, LARGE_INPUT_BYTES, compress_if_large, run_in_thread_if_large
from ..engine.arm_run import ArmRun
from ..engine.run import Run, SlotRun
from ..engine.segment_run import SegmentRun
from ..errors import (
    InternalError,
    InvalidRequestError,
    OverloadedError,
    ServiceError,
    SurplusFeedbackError,
    UnknownSessionError,
)
from ..models.specification import is_id
from ..serialization import records, summary
from ..serialization.state import NEWEST, rows_of
from ..store.base import Commit, Committed, Conflict, Known, Snapshot, Store, Written
from ..telemetry.logs import BATCH_CONTEXTS
from ..telemetry.metrics import Metrics
from .batch import Answer, Draft, KnownKeys, Operation, apply_batch
from .cache import EFFECTIVE_SECONDS, CachedSession, Effective, SessionCache
from .contention import Contention, Version, honour_grace, request_grace
from .loading import SessionLoader
from .schemas import Schemas


class Versions:
    """Makes the versions of one writer; no version is ever made twice, by any writer.

    A version is the writer, a hyphen, and the number of the commit in hexadecimal.

    Attributes
    ----------
    writer : worker incarnation, lower-case hexadecimal
    """

    def __init__(self) -> None:
        self.writer = secrets.token_hex(8)
        self._count = 0

    def new(self) -> str:
        """Make the next version."""
        self._count += 1
        return f"{self.writer}-{self._count:x}"


# -- The commit that stores a draft: what it looks up, and what it writes.

FEW_ARMS = 10
"""Up to which the counts of all arms are one value: that has as many bytes as one field of another key, about."""


async def commit_of(
    draft: Draft,
    session_id: str,
    base: CachedSession,
    writer: str,
    version: str,
    *,
    mostly_surplus: bool,
    schema: int = NEWEST,
) -> Commit:
    """Make the commit that moves a session from ``base`` to a draft of it, in a schema.

    If nothing changed it writes nothing, and only confirms that ``base`` is still the session's version; but a
    state of a newer schema than may be written now is written again. The answers of the draft get the new version.
    """
    run, spec, after = draft.run, base.stored.specification, draft.stored.specification
    writes = draft.changed or bool(draft.answers) or (spec.decision_log is not None and bool(draft.journal))
    writes = writes or base.schema > schema
    if draft.shows_version:
        draft.show_version(version if writes else base.version)
        await draft.fair_yield()
    answers = {}
    for key, (body, packed) in draft.answers.items():
        answers[key] = body + await compress_if_large(packed)
    written = None
    if writes:
        has_same_arms = getattr(run, "arms", None) is getattr(base.run, "arms", None)
        if has_same_arms:
            state = CachedSession.encode(run, schema)
        else:
            # Arms are encoded again, of which there may be many.
            size = LABEL_BYTES * run.arms.size if isinstance(run, ArmRun) else 0
            state = await run_in_thread_if_large(size, CachedSession.encode, run, schema)
        is_same = draft.stored is base.stored and has_same_arms
        # Computing it costs much with many arms: lists show that of some seconds ago.
        effective = base.effective if is_same else None
        if effective is None or run.ledger.time - effective.at >= EFFECTIVE_SECONDS:
            effective = Effective(summary.effective_arms_of(run), run.ledger.time)
        draft.effective = effective
        shown = summary.encode_summary(
            run, version, schema, effective=effective.value, mostly_surplus=mostly_surplus
        )
        if len(state) >= LARGE_INPUT_BYTES:
            await draft.fair_yield()
        losses = base.run.params.losses
        default = None if spec.expiry is None else spec.expiry.default(losses.word)
        entries = []
        if spec.decision_log is not None:
            entries = await draft.journal.entries(default, losses.word, draft.fair_yield)
        extends = draft.extends_deadline and after.idle_ttl_seconds is not None
        changed = dict[bytes, bytes | None](draft.dropped)
        if isinstance(run, SlotRun) or run.act_times is not None or run.stored_rows or rows_of(run):
            changed |= records.encode(run)
        written = Written(
            version,
            state,
            idle_ttl_ms=after.idle_ttl_ms if extends else None,
            permanent=after.idle_ttl_seconds is None and spec.idle_ttl_seconds is not None,
            spec=None if draft.stored is base.stored else await _specification(draft),
            records=changed,
            segments=await _segments_of(draft, run) if isinstance(run, SegmentRun) else {},
            counts=await draft.journal.counts(losses, default, lambda: draft.fair_yield()),
            joins_counts=isinstance(run, ArmRun) and run.ledger.by_arm.size <= FEW_ARMS,
            summary=shown,
            about=None if is_same else await _about(draft),
            entries=entries,
            max_entries=0 if spec.decision_log is None else spec.decision_log.max_entries,
        )
    return Commit(
        session_id=session_id,
        writer=writer,
        expected=base.version,
        written=written,
        checksum=base.checksum,
        event_ids=list(draft.event_ids),
        event_lookups=list(draft.asked_events - draft.known.duplicates - draft.event_ids.keys()),
        lookups=list(draft.asked_keys - draft.known.answers.keys()),
        answers=answers,
    )


async def _segments_of(draft: Draft, run: SegmentRun) -> dict[bytes, tuple[int, bytes] | None]:
    """Return the segments that a draft changes, as the store keeps them."""
    found = {}
    for name in run.segments.changes:
        found[records.name_of(name)] = records.encode_segment(run, name)
        await draft.fair_yield()
    return found


async def _specification(draft: Draft) -> bytes:
    """Encode a specification that replaces another."""
    return await run_in_thread_if_large(_label_bytes(draft.run), draft.stored.encode)


async def _about(draft: Draft) -> bytes:
    """Encode what lists show and seldom changes."""
    chosen, size = draft.stored.specification.chosen(), _label_bytes(draft.run)
    return await run_in_thread_if_large(size, summary.encode_about, chosen, draft.run)


def _label_bytes(run: Run) -> int:
    return LABEL_BYTES * len(run.arms.names or ()) if isinstance(run, ArmRun) else 0


MAX_GRACE_REQUESTS = 8
"""Tries to request grace, each lost to another's commit."""
MAX_ATTEMPTS = 64
"""Attempts at one batch before its requests are refused as overload."""
MAX_REMINDED = 10_000
"""Sessions whose reminder this worker remembers."""

log = logging.getLogger(__name__)


class Lost(NamedTuple):
    """An attempt that met another worker's commit."""

    winner: Snapshot
    seconds: float
    """How long the attempt took."""
    times: int
    """How many attempts of the batch failed up to this one."""


class Committer:
    """Commits the batches of one worker.

    Parameters
    ----------
    store : has the sessions
    cache : of this worker
    metrics : count decisions and events
    schemas : of this worker: say in which states are written
    """

    def __init__(self, store: Store, cache: SessionCache, metrics: Metrics, schemas: Schemas) -> None:
        self.contention = Contention()
        self._versions = Versions()
        self._store = store
        self._cache = cache
        self._watch = cache.watch
        self._loader = SessionLoader(store, cache)
        self._metrics = metrics
        self._schemas = schemas
        self._reminded: dict[str, tuple[int, int]] = {}
        """Session to the newest bucket of acts it was noted for, and its slot then."""

    async def commit(self, session_id: str, batch: Sequence[Operation]) -> Sequence[Answer | Exception]:
        """Apply a batch to a session and commit it; nothing of it is applied where the commit fails.

        Parameters
        ----------
        session_id : of the session
        batch : requests, in the order in which they are applied

        Returns
        -------
        For each request its answer, or the error that refused it.
        """
        self._metrics.commit_requests(len(batch))
        try:
            results = await self._commit(session_id, batch)
        except ServiceError as error:
            failure = error
        except Exception:
            log.exception("commit failed, session %s", session_id)
            failure = InternalError()
        else:
            for operation, result in zip(batch, results, strict=True):
                if operation.reports_events and isinstance(result, (InvalidRequestError, SurplusFeedbackError)):
                    self._metrics.events["refused"](operation.weight)
            return results
        self._cache.forget(session_id)
        return [failure] * len(batch)

    async def forget(self, session_id: str) -> None:
        """Keep nothing of a session that no longer exists."""
        self._watch.forget(session_id)
        self._cache.forget(session_id)
        self._reminded.pop(session_id, None)
        await self._store.reminders.forget(session_id)

    async def _commit(self, session_id: str, batch: Sequence[Operation]) -> Sequence[Answer | Exception]:
        base = self._cache.get(session_id) or await self._loader.load(session_id)
        known, failed, started = KnownKeys(), 0, time.perf_counter()
        while failed < MAX_ATTEMPTS:
            if isinstance(base.run, SegmentRun):
                base = await self._loader.with_segments(session_id, base, batch)
            draft = await apply_batch(base, batch, known, self._store.now())
            if draft.run.act_times is not None:
                await self._remind(session_id, draft.run)
            writer, version = self._versions.writer, self._versions.new()
            surplus, schema = session_id in self._watch.mostly_surplus, self._schemas.written
            commit = await commit_of(
                draft, session_id, base, writer, version, mostly_surplus=surplus, schema=schema
            )
            outcome = await self._store.commit(commit)
            if isinstance(outcome, Committed):
                self._on_committed(base, commit, draft, outcome)
                if draft.due_expired:
                    return draft.results
                started = time.perf_counter()
                base = self._cache.get(session_id) or await self._loader.load(session_id)
                continue
            failed += 1
            if isinstance(outcome, Conflict):
                lost = Lost(outcome.snapshot, time.perf_counter() - started, failed)
                base, started = await self._on_conflict(session_id, base, lost)
            elif isinstance(outcome, Known):
                known.duplicates |= outcome.duplicates
                known.answers.update(outcome.replays)
                await draft.fair_yield()
                started = time.perf_counter()
            else:
                await self.forget(session_id)
                raise UnknownSessionError
        raise OverloadedError("Too many workers write this session at once")

    def _on_committed(self, base: CachedSession, commit: Commit, draft: Draft, outcome: Committed) -> None:
        self._watch.count(commit.session_id, draft.outcomes, draft.results)
        self._metrics.count(draft.outcomes, base.run.ledger, draft.run.ledger, draft.delays)
        if outcome.snapshot is not None:
            # An earlier sending did it, and others have committed since.
            self._cache.forget(commit.session_id)
        elif (written := commit.written) is not None:
            kept = base.committed_as(written, draft.run, draft.effective, draft.stored)
            self._cache.put(commit.session_id, kept)

    async def _on_conflict(self, session_id: str, base: CachedSession, lost: Lost) -> tuple[CachedSession, float]:
        """Return the version to try on next, once others will let an attempt through, and when that began.

        The time in which the version is read counts as part of the attempt: the winner does not read one.
        """
        winning = Version.parse(lost.winner.version)
        self.contention.on_conflict(session_id, winning.writer, lost.seconds)
        self._cache.forget(session_id)
        await honour_grace(winning)
        started = time.perf_counter()
        base = await self._loader.decode(session_id, lost.winner, base)
        writer, surplus = self._versions.writer, session_id in self._watch.mostly_surplus
        for _ in range(MAX_GRACE_REQUESTS):
            version = request_grace(self._versions.new(), lost.seconds, lost.times)
            if version is None:
                break
            draft = Draft(base.run.copy(), KnownKeys(), base.stored, changed=True)
            schema = self._schemas.written
            unchanged = await commit_of(
                draft, session_id, base, writer, version, mostly_surplus=surplus, schema=schema
            )
            outcome = await self._store.commit(unchanged)
            if isinstance(outcome, Committed):
                self._on_committed(base, unchanged, draft, outcome)
                base = self._cache.get(session_id) or await self._loader.load(session_id)
            started = time.perf_counter()
            if not isinstance(outcome, Conflict):
                break
            base = await self._loader.decode(session_id, outcome.snapshot, base)
        return base, started

    async def _remind(self, session_id: str, run: Run) -> None:
        """Note when the session has decisions due, before acts of a new bucket of time are committed."""
        newest = None if run.act_times is None else run.act_times.newest()
        noted, slot = self._reminded.get(session_id, (None, 0))
        # A lower slot is that of another session, made under this id after the noted one was deleted.
        if run.act_times is None or newest is None or (noted == newest and slot <= run.ledger.slot):
            return
        due_at = run.act_times.due_at()
        assert due_at is not None  # noqa: S101 - there is a newest bucket
        await self._store.reminders.remind(session_id, due_at)
        if len(self._reminded) >= MAX_REMINDED:
            self._reminded.clear()
        self._reminded[session_id] = (newest, run.ledger.slot)


# -- Requests that wait for their session: a queue for each, committed in batches in the order of arrival.
#
# While a batch is being committed the requests for its session gather; together they are the next batch.

MAX_BATCH_WEIGHT = 2_000
"""Acts and events committed together, beyond the first request."""


@dataclass(slots=True, eq=False)
class _Waiting:
    operation: Operation
    future: asyncio.Future[Answer]
    context: Context = field(default_factory=copy_context)


@dataclass(slots=True)
class _SessionQueue:
    waiting: deque[_Waiting] = field(default_factory=deque)
    task: asyncio.Task[None] | None = None


class SessionQueues:
    """The queues of one worker, bounded each and together.

    Parameters
    ----------
    committer : of this worker, which commits the batches
    max_queue, max_waiting : requests that may wait for one session, and for all together
    """

    def __init__(self, committer: Committer, *, max_queue: int, max_waiting: int) -> None:
        self._committer = committer
        self._max_queue = max_queue
        self._max_waiting = max_waiting
        self._accepted = 0
        """Requests of all sessions that were accepted and not answered yet."""
        self._queues: dict[str, _SessionQueue] = {}

    async def submit(self, session_id: str, operation: Operation) -> Answer:
        """Apply a request to a session; the answer comes once the store has committed it.

        Parameters
        ----------
        session_id : of the session, in whose queue the request waits; one that no session can have is unknown
        operation : the request

        Raises
        ------
        ServiceError
            as the operation, or the store, refuses it: nothing of it is applied then, except that after a
            ``StoreUnavailableError`` it may be. ``OverloadedError`` if too many requests wait.
        """
        if not is_id(session_id):
            raise UnknownSessionError
        if self._accepted >= self._max_waiting:
            raise OverloadedError("Too many requests are waiting")
        if (queue := self._queues.get(session_id)) is None:
            queue = self._queues[session_id] = _SessionQueue()
        if len(queue.waiting) >= self._max_queue:
            raise OverloadedError("Too many requests are waiting for this session")
        waiting = _Waiting(operation, asyncio.get_running_loop().create_future())
        queue.waiting.append(waiting)
        if queue.task is None:
            queue.task = asyncio.create_task(self._commit_batches(session_id, queue))
        self._accepted += 1
        try:
            return await waiting.future
        finally:
            self._accepted -= 1

    @property
    def waiting(self) -> int:
        """Requests that were accepted and not answered yet."""
        return self._accepted

    async def drained(self) -> None:
        """Wait until every request accepted so far has been answered."""
        while tasks := [queue.task for queue in self._queues.values() if queue.task is not None]:
            await asyncio.wait(tasks)

    async def _commit_batches(self, session_id: str, queue: _SessionQueue) -> None:
        contention = self._committer.contention
        while queue.waiting:
            if session_id in contention.sessions:
                await contention.wait(session_id)
            batch: list[_Waiting] = []
            weight = 0
            while queue.waiting and (not batch or weight + queue.waiting[0].operation.weight <= MAX_BATCH_WEIGHT):
                each = queue.waiting.popleft()
                if not each.future.cancelled():
                    batch.append(each)
                    if queue.waiting:  # Mostly one request waits, and what it weighs is of no use.
                        weight += each.operation.weight
            if not batch:
                continue
            BATCH_CONTEXTS.set([each.context for each in batch])
            results = await self._committer.commit(session_id, [each.operation for each in batch])
            for each, result in zip(batch, results, strict=True):
                if each.future.done():
                    continue
                if isinstance(result, Exception):
                    each.future.set_exception(result)
                else:
                    each.future.set_result(result)
            if session_id in contention.sessions:
                contention.on_commit(session_id)
        del self._queues[session_id]
