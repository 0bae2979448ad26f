"""What can be asked of sessions: to create, change and delete them, besides what ``queries`` reads."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from ..commit.batch import Answer, Operation
from ..commit.cache import CachedSession, SessionCache
from ..commit.committer import Committer, SessionQueues
from ..cooperative import Body
from ..engine.run import Run
from ..errors import InvalidRequestError, StateCorruptError, SurplusFeedbackError, UnknownSessionError
from ..models.events import Idempotency
from ..models.specification import Specification
from ..models.stored import Stored
from ..settings import Settings
from ..store.base import Store
from ..telemetry.metrics import Metrics
from .create import Created, Creator
from .history.sampler import Sampler
from .limits import ALL, Limits, Rights
from .operations import ChangeArms, ChangeSession, ReplaceArms, SettleFeedback
from .queries import SessionQueries, check_id, is_id
from .read import Reader
from .views import viewer

ArmsRequest = Callable[..., ChangeArms | ReplaceArms]


class Sessions(SessionQueries):
    """The sessions of a store, as requests reach them.

    Parameters
    ----------
    store : has the sessions; others may change them at the same time
    settings : limits of sessions and queues, the size of the cache, and the schema of states
    metrics : count what is done
    """

    def __init__(self, store: Store, settings: Settings, metrics: Metrics) -> None:
        cache = SessionCache(settings.cache_sessions)
        super().__init__(store, Reader(store, cache), settings.max_import_bytes)
        self._metrics = metrics
        self._limits = Limits(settings)
        self.sampler = Sampler(store, cache, self._reader)
        self._committer = Committer(store, cache, self._metrics, settings.write_schema)
        self._queues = SessionQueues(
            self._committer, max_queue=settings.max_queue, max_waiting=settings.max_waiting
        )
        self._creator = Creator(
            store, cache, self._reader, self._queues, self._limits, self._metrics, settings.write_schema
        )

    async def create(
        self,
        session_id: str | None,
        spec: Specification,
        key: Idempotency | None,
        rights: Rights = ALL,
    ) -> Created:
        """Create a session, or find the one that was created with the same fields.

        Parameters
        ----------
        session_id : None to have one made
        spec : what was posted, checked
        key : the request's Idempotency-Key, under which the answer is stored; None without one
        rights : what the caller may create

        Raises
        ------
        InvalidRequestError
            where the session would be too large.
        ForbiddenError
            where ``rights`` do not allow this id, or another session.
        SessionExistsError
            where the session with this id has other fields.
        IdempotencyConflictError
            where the key came with another body before.
        OlderSchemaError
            where the session needs a schema that may not be written yet.
        StateCorruptError
            where the session with this id can't be read.
        OverloadedError
            where the session is being deleted again and again, or too many requests wait for it.
        StoreUnavailableError
            where the store can't be reached; the session may have been created.
        """
        return await self._creator.create(session_id, spec, key, rights)

    async def restore(
        self, document: Mapping[str, Any], rights: Rights = ALL, key: Idempotency | None = None
    ) -> Answer:
        """Create a session from the JSON that ``export`` gave, here or elsewhere, and answer with its view.

        Parameters
        ----------
        document : that JSON, parsed
        rights : which ids, and how many sessions and arms, the caller may have
        key : the request's Idempotency-Key, under which the answer is stored; None without one

        Raises
        ------
        InvalidRequestError
            where the document is changed, incomplete, or written by a newer version.
        SessionExistsError
            where the id exists, and was not created under this key.
        ServiceError
            what ``create`` raises.
        """
        return await self._creator.restore(document, rights, key)

    async def delete(self, session_id: str) -> None:
        """Delete a session and all its data.

        Raises
        ------
        UnknownSessionError
            where there is no such session.
        StoreUnavailableError
            where the store can't be reached; the session may have been deleted.
        """
        check_id(session_id)
        snapshot = await self._store.load(session_id)
        deleted = await self._store.delete(session_id)
        await self._committer.forget(session_id)
        if not deleted:
            raise UnknownSessionError
        self._metrics.sessions_deleted()
        if snapshot is not None:
            with suppress(StateCorruptError):
                self._metrics.decisions_abandoned(CachedSession.of(snapshot).run.ledger.outstanding)

    async def submit(self, session_id: str, operation: Operation) -> Answer:
        """Apply a request to a session; the answer comes once the store has committed it.

        Events of a request that is refused are counted.

        Parameters
        ----------
        session_id : of the session; one that no session can have is unknown
        operation : the request, which waits in the session's queue

        Raises
        ------
        ServiceError
            whichever the operation refuses the session or the request with; besides ``UnknownSessionError``,
            ``IdempotencyConflictError``, ``StateCorruptError``, ``OverloadedError``,
            ``StoreUnavailableError`` and ``InternalError``. Nothing of the request is applied, except that after a
            ``StoreUnavailableError`` it may be.
        """
        if not is_id(session_id):
            raise UnknownSessionError
        try:
            return await self._queues.submit(session_id, operation)
        except (InvalidRequestError, SurplusFeedbackError):
            if isinstance(operation, SettleFeedback):
                self._metrics.events["refused"](operation.weight)
            raise

    async def change_arms(
        self, session_id: str, change: ArmsRequest, key: Idempotency | None, rights: Rights = ALL
    ) -> Answer:
        """Change a session's arms by their labels, and answer with its view as of that commit.

        Parameters
        ----------
        session_id : of the session, whose arms have labels
        change : makes the operation, of the limits of the session and of what makes its view
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
        operation = change(limits, viewer(session_id, snapshot, cached), idempotency=key)
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
