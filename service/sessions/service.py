"""What routes ask of sessions: the parts that read, create, change and delete them, and whether the store can."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from typing import Any

from ..commit.batch import Answer as Answer
from ..commit.cache import CachedSession, SessionCache
from ..commit.committer import Committer, SessionQueues
from ..commit.schemas import Schemas as Schemas
from ..errors import StateCorruptError, StoreUnavailableError, UnknownSessionError
from ..models.events import Idempotency
from ..settings import Settings
from ..store.base import NO_ANSWER, NO_CONNECTION, NoAnswerError, Store
from ..telemetry.metrics import Metrics
from ..tokens import TokenKeys
from . import transfer as document
from .changes import ChangeArms, ChangeSession
from .create import Creator
from .history import Sampler
from .pages import DecisionLogs, arms_page, features_page, history_page, sessions_page, visitor_page
from .segments import segment_view, segments_page
from .views import ALL, Limits, Reader, Rights, check_id, viewer


class Sessions:
    """The sessions of a store, as requests reach them.

    Parameters
    ----------
    store : has the sessions; others may change them at the same time
    settings : limits of sessions and queues, and the size of the cache
    metrics : count what is done
    schemas : of this worker; None makes them on the same store
    """

    def __init__(self, store: Store, settings: Settings, metrics: Metrics, schemas: Schemas | None = None) -> None:
        cache = SessionCache(settings.cache_sessions)
        self._store = store
        self.reader = reader = Reader(store, cache)
        self.now = store.now
        # What only reads; each refuses what no session can have as its id.
        self.list, self.view, self.arms = partial(sessions_page, reader), reader.view, partial(arms_page, reader)
        self.compare = reader.compare
        self.segments, self.segment = partial(segments_page, reader), partial(segment_view, reader)
        self.features, self.visitor = partial(features_page, reader), partial(visitor_page, reader)
        self.logs, self.history = DecisionLogs(store, settings.max_connections), partial(history_page, reader)
        cache.on_logged = self.logs.on_logged
        self.export = partial(document.export, store, most_bytes=settings.max_import_bytes)
        self._metrics = metrics
        self._limits = Limits(settings)
        self.sampler = Sampler(store, cache, reader)
        self.schemas = schemas or Schemas(store)
        self.tokens = TokenKeys(settings.token_keys_file, store.token_key)
        self._committer = Committer(store, cache, self._metrics, self.schemas, self.tokens)
        limits = (settings.max_queue, settings.max_waiting, settings.max_wait_seconds)
        self.queues = SessionQueues(self._committer, *limits)
        self.submit, self.drained = self.queues.submit, self.queues.drained
        creator = Creator(store, cache, reader, self.queues, self._limits, self._metrics, self.schemas)
        self.create, self.restore = creator.create, creator.restore

    async def delete(self, session_id: str) -> None:
        """Delete a session and all its data.

        Raises
        ------
        UnknownSessionError
            where there is no such session.
        NewerSchemaError
            where a newer version wrote the session, which knows all that belongs to it.
        StoreUnavailableError
            where the store can't be reached; the session may have been deleted.
        """
        check_id(session_id)
        snapshot, abandoned = await self._store.load(session_id), 0
        if snapshot is not None:
            with suppress(StateCorruptError):
                abandoned = CachedSession.of(snapshot).run.counts.outstanding
        deleted = await self._store.delete(session_id)
        await self._committer.forget(session_id)
        if not deleted:
            raise UnknownSessionError
        self._metrics.sessions_deleted()
        self._metrics.decisions_abandoned(abandoned)

    async def change_arms(
        self, session_id: str, labels: Mapping[str, Any], key: Idempotency | None, rights: Rights = ALL
    ) -> Answer:
        """Change a session's arms by their labels, and answer with its view as of that commit.

        Parameters
        ----------
        session_id : of the session, whose arms have labels
        labels : by the fields of ``ChangeArms``
        key : the request's Idempotency-Key, under which the answer is stored; None without one
        rights : how many arms the caller's sessions may have

        Raises
        ------
        NoLabelsError
            where the session named no arms.
        InvalidRequestError
            where a label is too long, no arm would be left to draw, or there would be too many.
        ServiceError
            what ``submit`` raises.
        """
        snapshot, cached = await self.reader.load(session_id)
        limits = self._limits.arms_of(cached.run.params.learner, rights)
        made = (limits, self._limits.check_features, viewer(self.reader, session_id, snapshot, cached))
        operation = ChangeArms(*made, **labels, idempotency=key)
        return await self.queues.submit(session_id, operation)

    async def change(self, session_id: str, fields: Mapping[str, Any], key: Idempotency | None) -> Answer:
        """Change a session's window, idle time or floor, and answer with its view as of that commit.

        Parameters
        ----------
        session_id : of the session
        fields : ``expiry``, ``idle_ttl_seconds`` and ``floor``, those to change
        key : the request's Idempotency-Key, under which the answer is stored; None without one

        Raises
        ------
        InvalidRequestError
            where the session can't have these fields.
        ServiceError
            what ``submit`` raises.
        """
        snapshot, cached = await self.reader.load(session_id)
        view = viewer(self.reader, session_id, snapshot, cached)
        return await self.queues.submit(session_id, ChangeSession(fields, view, idempotency=key))


# -- Whether the store can commit now, answered within a second.

PING_SECONDS = 0.9
"""A health check answers within a second, also while the store hangs."""
SLOW_SECONDS = 18.0
"""A store from which nothing came for so long counts as down, whatever its timeout is: a health check says so
within 20 seconds."""
FAILING_SECONDS = 3.0
"""The same if a commit has failed since the last one that succeeded."""
WATCH_SECONDS = 1.0
"""Time between two pings while the store fails."""
SILENT_SECONDS = 30.0
"""Time for which a reason is not logged again."""
MAX_REASONS = 100
"""Reasons whose time is remembered."""

_ADVICE = "; start the store, or correct BANDIT_STORE_URL"

log = logging.getLogger(__name__)


class Readiness:
    """Pings the store, once for all who ask at the same time, and logs when that begins or ceases to fail.

    ``watch`` pings when a call has failed, and until one succeeds, so that the log tells of a failure when it
    happens. A slow store is not down: while a ping is under way, or had no answer in time, commits tell, and the
    ping before.
    """

    def __init__(self, store: Store, metrics: Metrics) -> None:
        self._store = store
        self._metrics = metrics
        self._found: StoreUnavailableError | None = NoAnswerError(NO_ANSWER)
        """What the last ping failed with."""
        self._pinged_at = self._commit_failed_at = -math.inf
        """Monotonic seconds of the last ping that succeeded, and of the last commit that failed."""
        self._call_failed = asyncio.Event()
        self._silent_until: dict[str, float] = {}
        """Monotonic seconds by reason."""
        self._pinging: asyncio.Task[StoreUnavailableError | None] | None = None
        self._last: str | None = None

    def on_failure(self, call: str, reason: str) -> None:
        """Note that a call to the store has failed; a reason is logged once in ``SILENT_SECONDS``.

        Parameters
        ----------
        call : of the store, or the task that failed, for the log
        reason : in words that name no secret
        """
        self._call_failed.set()
        now = time.monotonic()
        if call == "commit":
            self._commit_failed_at = now
        if now >= self._silent_until.get(reason, now):
            if len(self._silent_until) >= MAX_REASONS:
                self._silent_until.clear()
            self._silent_until[reason] = now + SILENT_SECONDS
            log.warning("%s failed in the store: %s", call, reason)

    async def watch(self) -> None:
        """Ping at the start, after failed calls, and every ``WATCH_SECONDS`` while that fails; runs for ever."""
        while True:
            self._call_failed.clear()
            if await self.failure() is None:
                await self._call_failed.wait()
            else:
                await asyncio.sleep(WATCH_SECONDS)

    async def failure(self) -> str | None:
        """Return why the store can't commit now, in words that name no secret; None where it can."""
        if self._pinging is None or self._pinging.done():
            self._pinging = asyncio.create_task(self._ping())
        pinging = self._pinging
        await asyncio.wait([pinging], timeout=PING_SECONDS)
        error = pinging.result() if pinging.done() else self._found or NoAnswerError(NO_ANSWER)
        if not pinging.done() or isinstance(error, NoAnswerError):
            now, committed_at = time.monotonic(), self._metrics.committed_at
            patience = FAILING_SECONDS if self._commit_failed_at > committed_at else SLOW_SECONDS
            was_there = self._found is None and now - self._pinged_at < SLOW_SECONDS
            error = None if was_there or now - committed_at < patience else error
        reason = None if error is None else str(error)
        if reason is not None and reason != self._last:
            log.warning("not ready: %s%s", reason, _ADVICE if reason.startswith(NO_CONNECTION) else "")
        elif reason is None and self._last is not None:
            log.info("ready again")
        self._last = reason
        return reason

    async def _ping(self) -> StoreUnavailableError | None:
        try:
            await self._store.ping()
        except StoreUnavailableError as error:
            self._found = error
        else:
            self._found, self._pinged_at = None, time.monotonic()
        return self._found
