"""What routes ask of sessions: the parts that read, create, change and delete them, and whether the store can."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from typing import Any

from ..commit.batch import Answer as Answer
from ..commit.cache import CachedSession, SessionCache
from ..commit.committer import Committer, SessionQueues
from ..commit.schemas import Schemas as Schemas
from ..cooperative import Body
from ..engine.run import Run
from ..errors import StateCorruptError, StoreUnavailableError, UnknownSessionError
from ..models.events import Idempotency
from ..models.specification import is_id
from ..models.stored import Stored
from ..settings import Settings
from ..store.base import NO_CONNECTION, Store
from ..telemetry.metrics import Metrics
from . import transfer as document
from .changes import ChangeArms, ChangeSession
from .create import Creator
from .history import Sampler
from .pages import ArmSort, arms_page, decisions_page, history_page, sessions_page
from .segments import SegmentSort, segment_view, segments_page
from .views import ALL, Limits, Reader, Rights, viewer

# -- What can be read of sessions: views, lists and exports, as JSON.


class SessionQueries:
    """Reads sessions for requests; nothing is changed.

    Parameters
    ----------
    store : has the sessions
    reader : of the same store, with the worker's cache
    max_import_bytes : how long an exported session may be, so that it can be imported again
    """

    def __init__(self, store: Store, reader: Reader, max_import_bytes: int) -> None:
        self._store = store
        self._reader = reader
        self._max_import_bytes = max_import_bytes
        self.now = store.now
        self.list = partial(sessions_page, reader)

    async def view(self, session_id: str, segment: str | None = None) -> Body:
        """Return the JSON of a session as it is now, with due decisions settled; nothing is committed.

        Parameters
        ----------
        session_id : of the session; one that no session can have is unknown
        segment : shows what is of this segment alone in place of the same of the session; None for the session

        Raises
        ------
        UnknownSegmentError, InvalidRequestError
            where the session does not keep this segment, or has none.
        UnknownSessionError
            where there is no such session.
        StateCorruptError
            where its stored bytes can't be read.
        StoreUnavailableError
            where the store can't be reached.
        """
        check_id(session_id)
        if segment is not None:
            return await segment_view(self._reader, session_id, segment)
        return await self._reader.view(session_id)

    async def segments(self, session_id: str, cursor: str | None, limit: int, sort: SegmentSort) -> Body:
        """Return the JSON of a page of the segments that a session keeps.

        Parameters
        ----------
        session_id : of the session, which has segments
        cursor : ``next_cursor`` of the page before in the same order; None for the first
        limit : segments on the page, at most
        sort : the order; with a hyphen, descending

        Raises
        ------
        InvalidRequestError
            for a session without segments, an order for which they are too many, or a cursor of another list.
        ServiceError
            what ``view`` raises.
        """
        check_id(session_id)
        return await segments_page(self._reader, session_id, cursor, limit, sort)

    async def arms(
        self, session_id: str, cursor: str | None, limit: int, sort: ArmSort, segment: str | None = None
    ) -> Body:
        """Return the JSON of a page of a session's live arms, with what is counted of each.

        Due decisions are settled first, as in a view.

        Parameters
        ----------
        session_id : of the session, which is over arms
        cursor : ``next_cursor`` of the page before in the same order; None for the first
        limit : arms on the page, at most
        sort : the order; with a hyphen, descending
        segment : shows the probabilities of this segment alone; None for the session's, and its counts

        Raises
        ------
        InvalidRequestError
            for a session over points, or a cursor of another list.
        ServiceError
            what ``view`` raises.
        """
        check_id(session_id)
        return await arms_page(self._reader, session_id, cursor, limit, sort, segment)

    async def decisions(self, session_id: str, cursor: str | None, limit: int) -> Body:
        """Return the JSON of a page of a session's decision log, oldest first.

        Parameters
        ----------
        session_id : of the session, which keeps a log
        cursor : ``next_cursor`` of the page before; None for the first
        limit : entries on the page, at most

        Raises
        ------
        NoDecisionLogError
            where the session keeps none.
        InvalidRequestError
            for a cursor of another list.
        ServiceError
            what ``view`` raises.
        """
        check_id(session_id)
        return await decisions_page(self._store, session_id, cursor, limit)

    async def history(self, session_id: str) -> Body:
        """Return the JSON of a session's history: samples of its counts and of its learner, oldest first.

        Raises
        ------
        ServiceError
            what ``view`` raises.
        """
        check_id(session_id)
        return await history_page(self._reader, session_id)

    async def export(self, session_id: str) -> Body:
        """Return the JSON of a whole session, seed included: see ``transfer.document``.

        Raises
        ------
        PayloadTooLargeError
            where it would be longer than an import may be.
        ServiceError
            what ``view`` raises.
        """
        check_id(session_id)
        return await document.export(self._store, session_id, self._max_import_bytes)


def check_id(session_id: str) -> None:
    """Refuse what no session can have as its id.

    Raises
    ------
    UnknownSessionError
    """
    if not is_id(session_id):
        raise UnknownSessionError


class Sessions(SessionQueries):
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
        super().__init__(store, Reader(store, cache), settings.max_import_bytes)
        self._metrics = metrics
        self._limits = Limits(settings)
        self.sampler = Sampler(store, cache, self._reader)
        self.schemas = schemas or Schemas(store)
        self._committer = Committer(store, cache, self._metrics, self.schemas)
        self._queues = SessionQueues(
            self._committer, max_queue=settings.max_queue, max_waiting=settings.max_waiting
        )
        self.submit = self._queues.submit
        creator = Creator(store, cache, self._reader, self._queues, self._limits, self._metrics, self.schemas)
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
                abandoned = CachedSession.of(snapshot).run.ledger.outstanding
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
        check_id(session_id)
        snapshot, cached = await self._reader.load(session_id)
        limits = self._limits.arms_of(cached.run.params.learner, rights)
        operation = ChangeArms(limits, viewer(session_id, snapshot, cached), **labels, idempotency=key)
        return await self._queues.submit(session_id, operation)

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
        check_id(session_id)
        snapshot, cached = await self._reader.load(session_id)

        def view(stored: Stored, run: Run, extends_deadline: bool) -> Body:
            return viewer(session_id, snapshot, cached._replace(stored=stored))(run, extends_deadline)

        return await self._queues.submit(session_id, ChangeSession(fields, view, idempotency=key))

    @property
    def waiting(self) -> int:
        """Requests that wait for a commit, or are in one."""
        return self._queues.waiting

    async def drained(self) -> None:
        """Wait until everything accepted so far has been answered."""
        await self._queues.drained()


# -- Whether the store can commit now, answered within a second.

PING_SECONDS = 0.9
"""A health check answers within a second, also while the store hangs."""
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
    happens.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._call_failed = asyncio.Event()
        self._silent_until: dict[str, float] = {}
        """Monotonic seconds by reason."""
        self._pinging: asyncio.Task[str | None] | None = None
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
            self._pinging = asyncio.create_task(self._checked())
        pinging = self._pinging
        await asyncio.wait([pinging])
        return pinging.result()

    async def _checked(self) -> str | None:
        reason = await self._ping()
        if reason is not None and reason != self._last:
            log.warning("not ready: %s%s", reason, _ADVICE if reason.startswith(NO_CONNECTION) else "")
        elif reason is None and self._last is not None:
            log.info("ready again")
        self._last = reason
        return reason

    async def _ping(self) -> str | None:
        try:
            async with asyncio.timeout(PING_SECONDS):
                await self._store.ping()
        except TimeoutError:
            return "The store did not answer in time"
        except StoreUnavailableError as error:
            return str(error)
        return None
