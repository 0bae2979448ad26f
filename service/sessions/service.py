"""What can be done with sessions: create, view, list, delete, act, feed."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

from ..commit.committer import Committer
from ..commit.operation import Answer as Answer
from ..commit.operation import Operation
from ..commit.session_cache import CachedSession, SessionCache
from ..cooperative.answer_body import Body
from ..errors import StateCorruptError, StoreDownError, UnknownSessionError
from ..learners import REGISTRY
from ..models.idempotency import Idempotency
from ..models.specification import SESSION_ID_PATTERN, Specification
from ..settings import Settings
from ..store.base import Store, StoreUnavailableError
from ..telemetry.metrics import Labels, Metrics
from .create import Created, Creator
from .limits import ALL, Limits, Rights
from .operations import ChangeArms
from .read import Reader
from .views import viewer

_SESSION_ID = re.compile(SESSION_ID_PATTERN)


class Sessions:
    """The sessions of a store, as requests reach them."""

    def __init__(self, store: Store, settings: Settings, metrics: Metrics | None = None) -> None:
        self._store = store
        self._metrics = metrics or Metrics(Labels(learners=REGISTRY))
        self._limits = Limits(settings)
        cache = SessionCache(settings.cache_sessions)
        self._reader = Reader(store, cache)
        self._committer = Committer(
            store,
            cache,
            max_queue=settings.max_queue,
            max_waiting=settings.max_waiting,
            metrics=self._metrics,
        )
        self._creator = Creator(store, self._reader, self._committer, self._limits, self._metrics)

    async def create(
        self,
        session_id: str | None,
        spec: Specification,
        key: Idempotency | None,
        rights: Rights = ALL,
    ) -> Created:
        """Create a session, or find the one that was created with the same fields.

        Raises
        ------
        InvalidRequestError, ForbiddenError, SessionExistsError, IdempotencyConflictError, StoreDownError
        """
        with _store_errors():
            return await self._creator.create(session_id, spec, key, rights)

    async def view(self, session_id: str) -> Body:
        """A session as it is now.

        Raises
        ------
        UnknownSessionError, StateCorruptError, StoreDownError
        """
        _check_id(session_id)
        with _store_errors():
            return await self._reader.view(session_id)

    async def list(self, cursor: str | None, limit: int, prefix: str = "") -> Body:
        """Summaries of at most ``limit`` sessions, of those whose ids have the prefix.

        Raises
        ------
        InvalidRequestError, StoreDownError
        """
        with _store_errors():
            return await self._reader.page(cursor, limit, prefix)

    async def delete(self, session_id: str) -> None:
        """Delete a session and all its data.

        Raises
        ------
        UnknownSessionError, StoreDownError
        """
        _check_id(session_id)
        with _store_errors():
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
        """Apply a request to a session; see ``Committer.submit``."""
        _check_id(session_id)
        return await self._committer.submit(session_id, operation)

    async def change_arms(
        self,
        session_id: str,
        add: Sequence[str],
        remove: Sequence[str],
        key: Idempotency | None,
        rights: Rights = ALL,
    ) -> Answer:
        """Remove arms by label, then add some; the session's view as of that commit.

        Raises
        ------
        ServiceError
            as any submitted request; ``NoLabelsError`` where the session named no arms.
        """
        _check_id(session_id)
        with _store_errors():
            snapshot, cached = await self._reader.load(session_id)
        most = self._limits.arms_of(cached.run.params.learner, rights)
        view = viewer(session_id, snapshot, cached)
        change = ChangeArms(add, remove, most, self._limits.max_label_bytes, view, key)
        return await self._committer.submit(session_id, change)

    def now(self) -> float:
        """Unix seconds by the store's clock."""
        return self._store.now()

    async def drained(self) -> None:
        """Return when everything accepted so far has been answered."""
        await self._committer.drained()


@contextmanager
def _store_errors() -> Iterator[None]:
    """Turn the store's failure into the service's error."""
    try:
        yield
    except StoreUnavailableError as error:
        raise StoreDownError(str(error)) from error


def _check_id(session_id: str) -> None:
    if not _SESSION_ID.fullmatch(session_id):
        raise UnknownSessionError
