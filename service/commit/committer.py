"""Group commit: a batch of requests for one session is committed in one round trip.

The cached version is copied to a draft, every request is applied to the draft in order, and the result is committed
on the version it was computed from. On a conflict, or where the store remembers some of the event ids or keys, the
same requests are applied again to a draft of what came back. Nothing is answered before the store has confirmed the
version it was judged on, refusals included: a cached version may be old.

A session has at most one commit of this worker in flight: see ``SessionQueues``.
"""

import asyncio
import logging
import random
import secrets
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextvars import Context, copy_context
from itertools import count

from ..cooperative import LABEL_BYTES, LARGE_INPUT_BYTES, compress_if_large, run_in_thread_if_large, wait_in_queue
from ..engine.arm_run import ArmRun
from ..engine.ledger import ActTimes, Ledger
from ..engine.run import SlotRun
from ..engine.segment_run import SegmentRun
from ..errors import InternalError, OverloadedError, ServiceError, UnknownSessionError
from ..serialization import records as codec
from ..serialization import summary
from ..serialization.state import encode, rows_of
from ..store.base import Commit, Committed, Conflict, Known, Store, Written
from ..telemetry.logs import BATCH_CONTEXTS
from ..telemetry.metrics import Metrics
from ..tokens import TokenKeys
from .batch import Answer, Draft, Operation, apply_batch
from .cache import EFFECTIVE_SECONDS, CachedSession, Effective, SessionCache, SessionLoader
from .schemas import Schemas


def versions() -> Iterator[str]:
    """Make the versions of one writer, a worker's incarnation; no version is ever made twice, by any writer.

    A version is the writer, a hyphen, and the number of the commit, both in hexadecimal.
    """
    writer = secrets.token_hex(8)
    return (f"{writer}-{number:x}" for number in count(1))


# -- The commit that stores a draft: what it looks up, and what it writes.


async def commit_of(
    draft: Draft, session_id: str, base: CachedSession, version: str, mostly_surplus: bool, schema: int
) -> Commit:
    """Make the commit that moves a session from ``base`` to a draft of it, in a schema.

    If nothing changed it writes nothing, and only confirms that ``base`` is still the session's version; but a
    state of a newer schema than may be written now is written again. The answers of the draft get the new version.
    """
    written, known, new, asks = None, draft.known, draft.event_ids, draft.run.params.remember_seconds
    values: dict[bytes, bytes] = {}
    is_noted = draft.journal and base.stored.specification.decision_log is not None
    if draft.changed or draft.answers or base.schema > schema or is_noted:
        written = await _written(draft, base, version, mostly_surplus, schema)
    if any(new.values()):
        values = {digest: value for digest, value in new.items() if value or digest in known.duplicates}
        new = {digest: value for digest, value in new.items() if digest not in known.duplicates}
    if draft.shows_version:
        draft.show_version(base.version if written is None else version)
        await draft.fair_yield()
    asked, keys, kept = draft.asked_events, draft.asked_keys, draft.answers
    lookups = list(asked - known.duplicates.keys() - new.keys()) if len(asked) > len(new) else ()
    of_keys = list(keys - known.replays.keys()) if keys else ()
    answers = {key: body + await compress_if_large(text) for key, (body, text) in kept.items()} if kept else {}
    remembered = (list(new), lookups, of_keys, answers, values, asks, asks > base.run.params.remember_seconds)
    return Commit(session_id, version.partition("-")[0], base.version, written, base.checksum, *remembered)


async def _written(draft: Draft, base: CachedSession, version: str, mostly_surplus: bool, schema: int) -> Written:
    """Return what a commit of a draft writes."""
    run, stored, journal, before = draft.run, draft.stored, draft.journal, base.stored.specification
    is_same = stored is base.stored
    # Labels, of which there may be many, are encoded again if they may be others. Runs over points have none.
    size = 0 if is_same or not isinstance(run, ArmRun) else LABEL_BYTES * len(run.arms.names or ())
    # Computing it costs much with many arms: lists show that of some seconds ago.
    effective = base.effective if is_same else None
    if effective is None or run.ledger.time - effective.at >= EFFECTIVE_SECONDS:
        effective = Effective(summary.effective_arms_of(run), run.ledger.time)
    draft.effective = effective
    losses, is_logged = base.run.params.losses, before.decision_log is not None
    default = None if before.expiry is None else before.default_loss
    logged = 0 if run.ledger.untold else run.ledger.logged
    entries = await journal.entries(before, logged, draft.fair_yield) if is_logged else ()
    run.ledger.logged, run.ledger.untold = run.ledger.logged + len(entries), run.ledger.untold and not entries
    state = encode(run, schema, effective.value, mostly_surplus)
    if len(state) >= LARGE_INPUT_BYTES:
        await draft.fair_yield()
    records, segments = {**draft.records}, {}
    has_records = run.act_times is not None or run.stored_rows or run.control is not None
    if has_records or isinstance(run, SlotRun) or rows_of(run):
        records |= codec.encode(run)
    if isinstance(run, SegmentRun):
        for name in run.segments.changes:
            segments[codec.name_of(name)] = codec.encode_segment(run, name)
            await draft.fair_yield()
    specification = about = None
    if not is_same:
        specification = await run_in_thread_if_large(size, stored.encode)
        about = await run_in_thread_if_large(size, summary.encode_about, stored.specification.chosen(), run)
    least, spec = 0, stored.specification
    if (idle := spec.idle_ttl_seconds) is not None:
        # The store's clock may be slow for a while: the session was used at the latest time that it has seen.
        least = int(1000 * (spec.expires_at(max(run.ledger.time, base.created_at)) or 0))
    idle_ms = spec.idle_ttl_ms if draft.extends_deadline and idle is not None else None
    counts = await journal.counts(losses, default, lambda: draft.fair_yield()) if journal else {}
    session = (version, state, idle_ms, least, idle is None and before.idle_ttl_seconds is not None, specification)
    most = 0 if before.decision_log is None else before.decision_log.max_entries
    log = (entries, run.ledger.logged - len(entries) + 1, most)
    return Written(*session, records, segments, counts, about, *log)


NOTHING_KNOWN = Known({}, {})
"""What the store has been found to remember of a batch before it was asked."""
MAX_ATTEMPTS = 64
"""Attempts at one batch before its requests are refused as overload."""
TRIES_AT_ONCE = 4
"""A conflict brings the state to try on; after every so many the batch pauses, and reads the state anew."""
LONGEST_PAUSE = 0.02
"""Seconds; drawn, so that services on several machines do not meet again."""
MAX_REMINDED = 10_000
"""Sessions whose reminder this worker remembers."""

HALTED = "its learner is worse than the control group by more than its guard tolerates"

log = logging.getLogger(__name__)


class Committer:
    """Commits the batches of one worker.

    Parameters
    ----------
    store : has the sessions
    cache : of this worker
    metrics : count decisions and events
    schemas : of this worker: say in which states are written
    tokens : sign tokens
    """

    def __init__(
        self, store: Store, cache: SessionCache, metrics: Metrics, schemas: Schemas, tokens: TokenKeys
    ) -> None:
        self._versions = versions()
        self._store = store
        self._cache = cache
        self._loader = SessionLoader(store, cache)
        self._metrics = metrics
        self._schemas, self._tokens = schemas, tokens
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
            return await self._commit(session_id, batch)
        except ServiceError as error:
            failure = error
        except Exception:
            log.exception("commit failed, session %s", session_id)
            failure = InternalError()
        self._cache.forget(session_id)
        return [failure] * len(batch)

    async def forget(self, session_id: str) -> None:
        """Keep nothing of a session that no longer exists."""
        self._cache.watch.forget(session_id)
        self._cache.forget(session_id)
        self._reminded.pop(session_id, None)
        self._cache.on_logged(session_id)
        await self._store.forget_reminder(session_id)

    async def _commit(self, session_id: str, batch: Sequence[Operation]) -> Sequence[Answer | Exception]:
        base = self._cache.get(session_id) or await self._loader.load(session_id)
        known, known_at, failed = NOTHING_KNOWN, "", 0
        while failed < MAX_ATTEMPTS:
            if known.duplicates and base.version != known_at:  # Values of ids may be others then.
                without = [each for each, value in known.duplicates.items() if not value]
                known = known._replace(duplicates=dict.fromkeys(without, b""))
            if isinstance(base.run, SegmentRun):
                base = await self._loader.with_segments(session_id, base, batch)
            if base.stored.specification.tokens and base.tokens is None:
                base = base._replace(tokens=await self._tokens.of(session_id, base.created_at))
            draft = await apply_batch(base, batch, known, self._store.now())
            if (times := draft.run.act_times) is not None:
                await self._remind(session_id, times, draft.run.slot)
            made = (next(self._versions), session_id in self._cache.watch.mostly_surplus, self._schemas.written)
            commit = await commit_of(draft, session_id, base, *made)
            outcome = await self._store.commit(commit)
            if isinstance(outcome, Committed):
                kept = self._on_committed(base, commit, draft, outcome)
                if draft.due_expired:
                    return draft.results
                base = kept or await self._loader.load(session_id)
                continue
            failed += 1
            if isinstance(outcome, Conflict):
                self._cache.forget(session_id)
                if failed % TRIES_AT_ONCE:
                    base = await self._loader.decode(session_id, outcome.snapshot, base)
                else:
                    await asyncio.sleep(random.uniform(0, LONGEST_PAUSE))  # noqa: S311 - jitter is no secret
                    base = await self._loader.load(session_id)
            elif isinstance(outcome, Known):
                duplicates = {**known.duplicates, **outcome.duplicates}
                known, known_at = Known(duplicates, {**known.replays, **outcome.replays}), base.version
                await draft.fair_yield()
            else:
                await self.forget(session_id)
                raise UnknownSessionError
        raise OverloadedError("Too many workers write this session at once")

    def _on_committed(
        self, base: CachedSession, commit: Commit, draft: Draft, outcome: Committed
    ) -> CachedSession | None:
        """Count what was committed, and keep the session; None if others have committed since."""
        self._cache.watch.count(commit.session_id, draft.outcomes, draft.results)
        before, after = base.run.ledger, draft.run.ledger
        self._metrics.count(draft.outcomes, before, after, draft.delays)
        if before.silent != after.silent:
            level, what = (logging.WARNING, "begins") if after.silent else (logging.INFO, "ends")
            last = summary.time_text(before.last_event_at)
            log.log(level, "session %s: silence %s, the last event came at %s", commit.session_id, what, last)
        if (control := draft.run.control) is not None:
            before = Ledger() if base.run.control is None else base.run.control.ledger
            self._metrics.count({}, before, control.ledger)
            if control.ledger.halted_at > before.halted_at:
                self._metrics.sessions_halted()
                log.warning("session %s is halted: %s", commit.session_id, HALTED)
        if commit.written is not None and commit.written.entries:
            self._cache.on_logged(commit.session_id)
        if outcome.snapshot is not None:
            self._cache.forget(commit.session_id)
            return None
        if (written := commit.written) is not None:
            base = base.committed_as(written, draft.run, draft.effective, draft.stored)
            self._cache.put(commit.session_id, base)
        return base

    async def _remind(self, session_id: str, times: ActTimes, now: int) -> None:
        """Note when the session has decisions due, before acts of a new bucket of time are committed."""
        newest, due_at = times.newest(), times.due_at()
        noted, slot = self._reminded.get(session_id, (None, 0))
        # A lower slot than noted is that of another session, made under this id after the noted one was deleted.
        if newest is None or due_at is None or (noted == newest and slot <= now):
            return
        await self._store.remind(session_id, due_at)
        if len(self._reminded) >= MAX_REMINDED:
            self._reminded.clear()
        self._reminded[session_id] = (newest, now)


# -- Requests that wait for their session: a queue for each, committed in batches in the order of arrival.
#
# The first request for a session is committed at once. Meanwhile others gather; together they are the next batch.

MAX_BATCH_WEIGHT = 2_000
"""Acts and events committed together, beyond the first request."""
ANSWERED_AT_ONCE = 8
"""Requests of one session that are answered in one pass of the event loop, which costs 0.5 % of their time."""
LATE = "This request has waited too long for its session, and was not done"
_Waiting = tuple[Operation, asyncio.Future[Answer], Context, float]
"""What waits, its answer, where it was asked, and the moment from which on it has waited too long."""


class SessionQueues:
    """The queues of one worker, bounded each and together.

    Parameters
    ----------
    committer : of this worker, which commits the batches
    max_queue, max_waiting : requests that may wait for one session, and for all together
    max_wait : seconds; a request that has waited for so long when its batch would begin is refused
    """

    def __init__(self, committer: Committer, max_queue: int, max_waiting: int, max_wait: float) -> None:
        self._committer = committer
        self._max_wait = max_wait
        self._max_queue = max_queue
        self._max_waiting = max_waiting
        self.waiting = 0
        """Requests of all sessions that were accepted and not answered yet."""
        self._queues: dict[str, deque[_Waiting]] = {}
        """Of the sessions with a commit under way."""
        self._tasks = set[asyncio.Task[None]]()
        self._idle = asyncio.Event()

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
            ``StoreUnavailableError`` it may be. ``OverloadedError`` if too many requests wait, or this one has
            waited too long.
        """
        if self.waiting >= self._max_waiting:
            raise OverloadedError("Too many requests are waiting")
        if (queue := self._queues.get(session_id)) is not None and len(queue) >= self._max_queue:
            raise OverloadedError("Too many requests are waiting for this session")
        if operation.waited >= self._max_wait:
            raise OverloadedError(LATE)
        self.waiting += 1
        try:
            if queue is not None:
                future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
                late = time.monotonic() + self._max_wait - operation.waited
                queue.append((operation, future, copy_context(), late))
                return await future
            queue = self._queues[session_id] = deque()
            try:
                (result,) = await self._committer.commit(session_id, (operation,))
            finally:
                if queue:  # Others have come meanwhile.
                    task = asyncio.create_task(self._commit_batches(session_id, queue))
                    self._tasks.add(task)
                    task.add_done_callback(self._tasks.discard)
                else:
                    self._end(session_id)
            if isinstance(result, Exception):
                raise result
            return result
        finally:
            self.waiting -= 1

    def _end(self, session_id: str) -> None:
        del self._queues[session_id]
        if not self._queues:
            self._idle.set()

    async def drained(self) -> None:
        """Wait until no commit is under way."""
        while self._queues:
            self._idle.clear()
            await self._idle.wait()

    async def _commit_batches(self, session_id: str, queue: deque[_Waiting]) -> None:
        while queue:
            batch, weight, now = list[_Waiting](), 0, time.monotonic()
            while queue and (not batch or weight + queue[0][0].weight <= MAX_BATCH_WEIGHT):
                each = queue.popleft()
                if each[1].cancelled():
                    continue
                if now >= each[3]:
                    each[1].set_exception(OverloadedError(LATE))
                else:
                    batch.append(each)
                    if queue:  # If it is the last, what it weighs is of no use.
                        weight += each[0].weight
            if not batch:
                continue
            operations, futures, contexts, _ = zip(*batch, strict=True)
            BATCH_CONTEXTS.set(contexts)
            results = await self._committer.commit(session_id, operations)
            for number, (future, result) in enumerate(zip(futures, results, strict=True)):
                # All at once would be one long pass of the event loop, and their clients' next requests another.
                if number and number % ANSWERED_AT_ONCE == 0:
                    await wait_in_queue()
                    if len(self._queues) > 1:
                        await wait_in_queue()  # Sessions that have a commit under way go on first.
                if future.done():
                    continue
                if isinstance(result, Exception):
                    future.set_exception(result)
                else:
                    future.set_result(result)
        self._end(session_id)
