"""Group commit: the requests waiting for one session are folded together and committed in one round trip.

For each session of this worker there is at most one commit in flight. Requests that arrive meanwhile wait
and are folded together next: the cached state is copied, every request is applied to the copy in order, and
the result is committed on the version it was computed from. On a conflict, or where the store knows some of
the event ids or keys, the same requests are folded again on what came back. Nothing is answered before the
store has confirmed the version it was judged on, refusals included: a cached state may be old.
"""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Mapping, Sequence

from ..cooperative.answer_body import compress_if_large
from ..cooperative.fair_yield import FairYield
from ..cooperative.offload import LABEL_BYTES, run_in_thread_if_large
from ..engine.arm_run import ArmRun
from ..engine.run import Run
from ..errors import (
    InternalError,
    OverloadedError,
    ServiceError,
    StateCorruptError,
    StoreDownError,
    UnknownSessionError,
)
from ..serialization import records
from ..store.base import Commit, Committed, Conflict, Known, Snapshot, Store, StoreUnavailableError
from ..telemetry.metrics import Labels, Metrics
from .batch import BatchResult, KnownKeys, apply_batch
from .contention import Contention, Version, honour_grace, request_grace
from .operation import Answer, Operation
from .queues import SessionQueues
from .session_cache import CachedSession, SessionCache

MAX_GRACE_REQUESTS = 8
"""Tries to ask for time, each lost to another's commit."""
MAX_ATTEMPTS = 64
"""Folds of one batch before its requests are turned away as overload."""
MAX_REMEMBERED = 10_000
"""Sessions whose reminder this worker remembers."""

log = logging.getLogger(__name__)


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
        self._metrics = metrics or Metrics(Labels())
        self._contention = Contention()
        self._queues = SessionQueues(self._outcomes, self._contention, max_queue=max_queue, max_waiting=max_waiting)
        self._reminded: dict[str, tuple[int, int]] = {}
        """Session to the newest bucket of acts it was noted for, and its slot then."""
        self._count = 0

    def new_version(self) -> Version:
        """Make a version never used before, by any writer."""
        self._count += 1
        return Version(self.writer, f"{self._count:x}")

    async def submit(self, session_id: str, operation: Operation) -> Answer:
        """Apply ``operation`` to a session; the answer comes once the store has committed it.

        Raises
        ------
        ServiceError
            as the operation, or the store, refuses it; nothing of it is applied then.
        """
        return await self._queues.submit(session_id, operation)

    async def drained(self) -> None:
        """Return when every request taken so far has been answered."""
        await self._queues.drained()

    async def forget(self, session_id: str) -> None:
        """Keep nothing of a session that is gone."""
        self._cache.forget(session_id)
        self._reminded.pop(session_id, None)
        await self._store.reminders.forget(session_id)

    async def _outcomes(self, session_id: str, batch: Sequence[Operation]) -> Sequence[Answer | Exception]:
        """What became of each request; where the batch failed, that is forgotten which it was tried on."""
        self._metrics.commit_requests(len(batch))
        try:
            return await self._commit(session_id, batch)
        except StoreUnavailableError as error:
            failure: ServiceError = StoreDownError(str(error))
        except ServiceError as error:
            failure = error
        except Exception:
            log.exception("commit failed, session %s", session_id)
            failure = InternalError()
        self._cache.forget(session_id)
        return [failure] * len(batch)

    async def _commit(self, session_id: str, batch: Sequence[Operation]) -> Sequence[Answer | Exception]:
        base = self._cache.get(session_id) or await self._load(session_id)
        memory = KnownKeys()
        attempt = 0
        while attempt < MAX_ATTEMPTS:
            started = time.perf_counter()
            pause = FairYield()
            fold = await apply_batch(base.run, batch, memory, self._store.now(), pause)
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
        raise OverloadedError("Too many workers write this session at once")

    async def _lost(self, session_id: str, base: CachedSession, winner: Snapshot, seconds: float) -> CachedSession:
        """The version to try on after a conflict, once others will let an attempt of such length through."""
        winning = Version.parse(winner.version)
        self._contention.on_conflict(session_id, winning.writer, seconds)
        self._cache.forget(session_id)
        await honour_grace(winning)
        base = await self._known(session_id, await decoded(winner, base))
        for _ in range(MAX_GRACE_REQUESTS):
            requesting = request_grace(self.new_version(), seconds)
            if requesting is None:
                break
            version, state = str(requesting), base.encode(base.run)
            same = Commit(session_id, self.writer, base.version, version, state, base.digest)
            outcome = await self._store.commit(same)
            if not isinstance(outcome, Conflict):
                return self._cache.put(session_id, base.committed_as(version, state, base.run.copy()))
            base = await self._known(session_id, await decoded(outcome.snapshot, base))
        return base

    async def _load(self, session_id: str) -> CachedSession:
        snapshot = await self._store.load(session_id)
        if snapshot is None:
            raise UnknownSessionError
        return await self._known(session_id, await decoded(snapshot))

    async def _known(self, session_id: str, cached: CachedSession) -> CachedSession:
        """Keep a version; where its records are those of a later one, the commit on it will conflict."""
        if cached.needs_records:
            records = await self._store.read_records(session_id)
            try:
                cached = await with_records(cached, records)
            except StateCorruptError:
                now = await self._store.load(session_id)
                if now is not None and now.version == cached.version:
                    raise
                return await self._load(session_id)
        return self._cache.put(session_id, cached)

    async def _remind(self, session_id: str, run: Run) -> None:
        """Before acts of a new bucket of time are committed, note when the session has decisions due."""
        newest = None if run.act_times is None else run.act_times.newest()
        noted, slot = self._reminded.get(session_id, (None, 0))
        # A lower slot is that of another session, made under this id after the one that was noted had gone.
        if run.act_times is None or newest is None or (noted == newest and slot <= run.ledger.slot):
            return
        due_at = run.act_times.due_at()
        assert due_at is not None  # noqa: S101 - there is a newest bucket
        await self._store.reminders.remind(session_id, due_at)
        if len(self._reminded) >= MAX_REMEMBERED:
            self._reminded.clear()
        self._reminded[session_id] = (newest, run.ledger.slot)

    async def _prepare(
        self,
        session_id: str,
        base: CachedSession,
        batch: Sequence[Operation],
        fold: BatchResult,
        memory: KnownKeys,
        pause: FairYield,
    ) -> Commit:
        digests = {digest for operation in batch for digest in operation.digests}
        keys = {operation.idempotency.key for operation in batch if operation.idempotency}
        writes = fold.changed or bool(fold.answers)
        version = str(self.new_version()) if writes else None
        fold.show(version or base.version)
        await pause()
        state = (
            await run_in_thread_if_large(_new_labels(base.run, fold.run), base.encode, fold.run) if writes else b""
        )
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
            answers={key: body + await compress_if_large(answer) for key, (body, answer) in fold.answers.items()},
            records=records.encode(fold.run) if writes else {},
        )

    def _keep(
        self, session_id: str, base: CachedSession, commit: Commit, fold: BatchResult, outcome: Committed
    ) -> None:
        if outcome.snapshot is not None:
            self._cache.forget(session_id)
        elif commit.version is not None:
            self._cache.put(session_id, base.committed_as(commit.version, commit.state, fold.run))


def _new_labels(before: Run, after: Run) -> int:
    """Bytes that the labels count for which are written where arms have changed."""
    if not isinstance(before, ArmRun) or not isinstance(after, ArmRun) or after.arms is before.arms:
        return 0
    return LABEL_BYTES * len(after.arms.added or ())


async def with_records(cached: CachedSession, records: Mapping[bytes, bytes]) -> CachedSession:
    """See ``Cached.with_records``."""
    return await run_in_thread_if_large(sum(map(len, records.values())), cached.with_records, records)


async def decoded(snapshot: Snapshot, known: CachedSession | None = None) -> CachedSession:
    """See ``Cached.of``."""
    return await run_in_thread_if_large(len(snapshot.spec), CachedSession.of, snapshot, known)
