"""What can be done with sessions: create, view, list, delete, act, feed."""

from __future__ import annotations

import asyncio
import re
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple

from service import owned, specification
from service.cache import Cached, SessionCache
from service.committer import VERSION, Committer, Operation, decoded, settle_due, unpack_answer
from service.committer import Answer as Answer
from service.errors import (
    ForbiddenError,
    IdempotencyConflictError,
    InvalidRequestError,
    OverloadedError,
    SessionExistsError,
    StateCorruptError,
    StoreDownError,
    UnknownSessionError,
)
from service.learners import REGISTRY
from service.learners.run import Run
from service.metrics import Labels, Metrics
from service.operations import ChangeArms, Show
from service.pieces import LABEL, Body, Pause, aside, body, is_packed, texts, unpacked
from service.settings import Settings
from service.specification import Idempotency, Specification, Stored
from service.store import codec
from service.store.base import NewSession, Snapshot, Store, StoreUnavailableError
from service.views import session_view, summary

SESSION_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}", re.ASCII)
MAX_PAGE = 1000
MOST_RACES = 10
"""Times that a session may be found and be gone before it is shown."""


class Created(NamedTuple):
    """A session's view; ``new`` unless it was there already."""

    answer: Answer
    new: bool


class Rights(NamedTuple):
    """What the holder of an API key may create."""

    prefix: str = ""
    """What the ids of its sessions begin with."""
    max_sessions: int | None = None
    max_arms: int | None = None


ALL = Rights()


class Sessions:
    """The one place that knows store, committer and limits."""

    def __init__(self, store: Store, settings: Settings, metrics: Metrics | None = None) -> None:
        self._store = store
        self._settings = settings
        self._cache = SessionCache(settings.cache_sessions)
        self._metrics = metrics or Metrics(Labels(learners=REGISTRY))
        self._counting = asyncio.Lock()
        """Held from counting a key's sessions until the one that was asked for is there."""
        self._committer = Committer(
            store,
            self._cache,
            max_queue=settings.max_queue,
            max_waiting=settings.max_waiting,
            metrics=self._metrics,
        )

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
        InvalidRequestError, SessionExistsError, IdempotencyConflictError, StoreDownError
        """
        arms = getattr(spec.learner, "arms", None) or ()
        await aside(LABEL * len(arms), self._check_limits, spec, rights)
        if session_id is None:
            session_id = rights.prefix + (str(uuid.UUID(bytes=key.key)) if key else str(uuid.uuid4()))
        if not session_id.startswith(rights.prefix):
            raise ForbiddenError(f"With this API key session ids begin with {rights.prefix}")
        with _store_errors():
            if rights.max_sessions is None:
                return await self._created(session_id, spec, key)
            async with self._counting:
                await self._check_count(session_id, rights.prefix, rights.max_sessions)
                return await self._created(session_id, spec, key)

    async def _created(self, session_id: str, spec: Specification, key: Idempotency | None) -> Created:
        """Create, again where the session that was found is deleted before it is shown."""
        for _ in range(MOST_RACES):
            with suppress(UnknownSessionError):
                return await self._create(session_id, spec, key)
        raise OverloadedError("The session is being deleted again and again")

    async def _create(self, session_id: str, spec: Specification, key: Idempotency | None) -> Created:
        stored = Stored.of(spec)
        arms = getattr(spec.learner, "arms", None) or ()
        encoded, state = await aside(LABEL * len(arms), _encoded, stored)
        version = self._committer.new_version()
        existing = await self._store.create(
            NewSession(
                session_id=session_id,
                version=version,
                spec=encoded,
                state=state,
                idle_ttl_ms=spec.idle_ttl_ms,
                answer=None if key is None else (key.key, key.body + version.encode()),
            )
        )
        if existing is None:
            self._metrics.sessions_created[spec.learner.kind]()
            return Created(Answer(await self._first_view(session_id, version, encoded, state)), new=True)
        if key is not None and (recalled := await self._store.recall(session_id, key.key)) is not None:
            return await _created_before(session_id, existing, key, recalled)
        cached = await self._cached(session_id, existing)
        if not cached.stored.matches(spec):
            raise SessionExistsError
        if key is None:
            return Created(Answer(await self.view(session_id)), new=False)
        shown = Show(self._viewer(session_id, existing, cached), key)
        return Created(await self._committer.submit(session_id, shown), new=False)

    async def _first_view(self, session_id: str, version: str, spec: bytes, state: bytes) -> Body:
        """A session that was just created, also where it has been deleted since."""
        try:
            return await self.view(session_id)
        except UnknownSessionError:
            now = self.now()
            ttl_ms = specification.decode(spec).specification.idle_ttl_ms
            born = Snapshot(version, spec, state, now, None if ttl_ms is None else now + ttl_ms / 1000)
            return session_view(session_id, born, await decoded(born))

    async def view(self, session_id: str) -> Body:
        """A session as it is now.

        Raises
        ------
        UnknownSessionError, StateCorruptError, StoreDownError
        """
        _check_id(session_id)
        with _store_errors():
            snapshot, cached = await self._read(session_id)
        return session_view(session_id, snapshot, await self._settled(cached))

    async def _read(self, session_id: str) -> tuple[Snapshot, Cached]:
        """A session, with its records where it expires decisions; all of one version."""
        while (snapshot := await self._store.load(session_id)) is not None:
            cached = await self._cached(session_id, snapshot)
            if cached.run.params.expiry is None or not cached.needs_records:
                return snapshot, cached
            records = await self._store.read_records(session_id)
            again = await self._store.load(session_id)
            if again is not None and again.version == snapshot.version:
                return snapshot, cached.with_records(records)
        raise UnknownSessionError

    async def _settled(self, cached: Cached) -> Cached:
        """The session with its due decisions settled, without committing that."""
        if cached.run.params.expiry is None:
            return cached
        run = cached.run.copy()
        run.advance(self._store.now())
        await settle_due(run)
        return cached._replace(run=run)

    async def _cached(self, session_id: str, snapshot: Snapshot) -> Cached:
        cached = self._cache.get(session_id)
        if cached is not None and cached.version == snapshot.version and snapshot.state.endswith(cached.digest):
            return cached
        return await decoded(snapshot, cached)

    async def list(self, cursor: str | None, limit: int, prefix: str = "") -> Body:
        """Summaries of at most ``limit`` sessions, of those whose ids have the prefix.

        Raises
        ------
        InvalidRequestError, StoreDownError
        """
        with _store_errors():
            try:
                limit = min(limit, MAX_PAGE)
                if prefix:
                    page = await owned.page(self._store, prefix, cursor, limit)
                else:
                    page = await self._store.list(cursor, limit)
            except ValueError as error:
                raise InvalidRequestError.of("cursor", "is not one this service gave") from error
            summaries, pause = [], Pause()
            for one in page.session_ids:
                if (snapshot := await self._store.load(one)) is not None:
                    summaries.append(await self._summary(one, snapshot))
                await pause()
        return body(texts({"sessions": summaries, "next_cursor": page.next_cursor}))

    async def _summary(self, session_id: str, snapshot: Snapshot) -> dict[str, Any]:
        try:
            return summary(session_id, snapshot, await self._cached(session_id, snapshot))
        except StateCorruptError as error:
            return {"session_id": session_id, "code": error.code}

    async def delete(self, session_id: str) -> None:
        """Delete a session with all that belongs to it.

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
                self._metrics.decisions_abandoned(Cached.of(snapshot).run.ledger.outstanding)

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
            snapshot = await self._store.load(session_id)
        if snapshot is None:
            raise UnknownSessionError
        cached = await self._cached(session_id, snapshot)
        most = self._max_arms(cached.run.params.learner.kind, rights)
        change = ChangeArms(
            add, remove, most, self._settings.max_label_bytes, self._viewer(session_id, snapshot, cached), key
        )
        return await self._committer.submit(session_id, change)

    def _viewer(self, session_id: str, snapshot: Snapshot, cached: Cached) -> Callable[[Run, bool], Body]:
        """Makes the view that a commit answers with, of its run and whether it puts off the idle deadline."""
        ttl_ms = cached.stored.specification.idle_ttl_ms

        def view(run: Run, used: bool) -> Body:
            put_off = None if ttl_ms is None else run.ledger.time + ttl_ms / 1000
            then = snapshot._replace(version=VERSION, expires_at=put_off if used else snapshot.expires_at)
            return session_view(session_id, then, cached._replace(run=run))

        return view

    def now(self) -> float:
        """Unix seconds by the store's clock."""
        return self._store.now()

    async def drained(self) -> None:
        """Return when everything accepted so far has been answered."""
        await self._committer.drained()

    async def _check_count(self, session_id: str, prefix: str, most: int) -> None:
        """Refuse one session too many; calls to other workers at the same time may find the same place free."""
        present = await owned.ids(self._store, prefix)
        if len(present) >= most and session_id not in present:
            raise ForbiddenError(f"This API key may have {most} sessions")

    def _check_limits(self, spec: Specification, rights: Rights) -> None:
        limits = self._settings
        learner = spec.learner
        size: Mapping[str, Any] = learner.model_dump(include={"n_arms", "arms", "dim"})
        labels = size.get("arms") or []
        n_arms = size.get("n_arms") or len(labels)
        most = self._max_arms(learner.kind, rights)
        if n_arms > most:
            raise InvalidRequestError.of("learner.n_arms", f"must not exceed {most}")
        if size.get("dim", 0) > limits.max_dim:
            raise InvalidRequestError.of("learner.dim", f"must not exceed {limits.max_dim}")
        if any(len(label.encode()) > limits.max_label_bytes for label in labels):
            raise InvalidRequestError.of("learner.arms", f"a label has at most {limits.max_label_bytes} bytes")

    def _max_arms(self, kind: str, rights: Rights) -> int:
        limits = self._settings
        most = limits.max_arms_centred if kind == "centred_tsallis" else limits.max_arms
        return most if rights.max_arms is None else min(most, rights.max_arms)


@contextmanager
def _store_errors() -> Iterator[None]:
    """Turn the store's failure into the service's error."""
    try:
        yield
    except StoreUnavailableError as error:
        raise StoreDownError(str(error)) from error


def _encoded(stored: Stored) -> tuple[bytes, bytes]:
    """A new session's specification and state, as the store keeps them."""
    run = stored.start()
    return stored.encode(), codec.encode(run.ledger, run.state)


async def _created_before(session_id: str, now: Snapshot, key: Idempotency, recalled: bytes) -> Created:
    """The answer that a key got: the view it found, or the one it created, rebuilt from its first version."""
    posted, version = unpack_answer(recalled)
    if posted != key.body:
        raise IdempotencyConflictError
    if is_packed(version):
        return Created(Answer(unpacked(version), replayed=True), new=False)
    stored = (await decoded(now)).stored
    _, state = await aside(len(now.spec), _encoded, stored)
    ttl_ms = stored.specification.idle_ttl_ms
    first = now._replace(
        version=version.decode(),
        state=state,
        expires_at=None if ttl_ms is None else now.created_at + ttl_ms / 1000,
    )
    return Created(Answer(session_view(session_id, first, await decoded(first)), replayed=True), new=True)


def _check_id(session_id: str) -> None:
    if not SESSION_ID.fullmatch(session_id):
        raise UnknownSessionError
