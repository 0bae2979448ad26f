"""Group commit: a batch of requests for one session is committed in one round trip.

The cached version is copied to a draft, every request is applied to the draft in order, and the result is committed
on the version it was computed from. On a conflict, or where the store remembers some of the event ids or keys, the
same requests are applied again to a draft of what came back. Nothing is answered before the store has confirmed the
version it was judged on, refusals included: a cached version may be old.

A session has at most one commit of this worker in flight: see ``queues``.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from typing import NamedTuple

from ..engine.run import Run
from ..engine.segment_run import SegmentRun
from ..errors import InternalError, OverloadedError, ServiceError, UnknownSessionError
from ..store.base import Commit, Committed, Conflict, Known, Snapshot, Store
from ..telemetry.metrics import Metrics
from .batch import apply_batch
from .cache.cached_session import CachedSession
from .cache.session_cache import SessionCache
from .contention import Contention, Version, Versions, honour_grace, request_grace
from .draft import Answer, Draft, KnownKeys
from .loading import SessionLoader
from .operation import Operation
from .written import commit_of

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
    write_schema : the newest schema in which states may be written
    """

    def __init__(self, store: Store, cache: SessionCache, metrics: Metrics, write_schema: int) -> None:
        self.contention = Contention()
        self._versions = Versions()
        self._store = store
        self._cache = cache
        self._watch = cache.watch
        self._loader = SessionLoader(store, cache)
        self._metrics = metrics
        self._write_schema = write_schema
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
            draft = await apply_batch(base, batch, known, self._store.now(), base.schema(self._write_schema))
            if draft.run.act_times is not None:
                await self._remind(session_id, draft.run)
            surplus = session_id in self._watch.mostly_surplus
            commit = await commit_of(
                draft, session_id, base, self._versions.writer, self._versions.new(), mostly_surplus=surplus
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
            draft = Draft(base.run.copy(), KnownKeys(), base.stored, base.schema(self._write_schema), changed=True)
            unchanged = await commit_of(draft, session_id, base, writer, version, mostly_surplus=surplus)
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
