"""Creating a session, once for each id and key."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import Any, NamedTuple

from .. import errors
from ..commit.batch import Answer, Journal, packed_answer
from ..commit.cache import CachedSession, Effective, SessionCache, decoded
from ..commit.committer import SessionQueues, versions
from ..commit.schemas import Schemas
from ..cooperative import Body, FairYield, compress_if_large, is_answer, joined, run_in_thread_if_large, unpack
from ..engine.arm_run import ArmRun
from ..engine.run import Run
from ..learners.specs import ArmsSpec
from ..models.events import Idempotency
from ..models.specification import Specification, check_default_is_given, is_id
from ..models.stored import Stored, decode, without_seed
from ..serialization import state as codec
from ..serialization import summary
from ..store.base import ArmCounts, NewSession, Snapshot, Store
from ..telemetry.metrics import Metrics
from .act import check_control, check_defined
from .transfer import read as read_document
from .transfer import restorable, restored
from .views import ALL, SHORT_ARMS, Limits, Reader, Rights, ShortView, Show, label_bytes, session_view, viewer

# -- A session before its first slot.


class Start(NamedTuple):
    """What sessions with the same specification begin with, whatever their ids, seeds and times."""

    stored: Stored
    run: Run
    """May not be changed: many sessions may share it."""
    state: bytes
    about: bytes
    view: ShortView | None
    kept: CachedSession | None
    """As a worker keeps it, without version and times; None if it does not keep what is new."""

    @classmethod
    def of(cls, stored: Stored, schema: int) -> Start:
        """Start a session.

        Parameters
        ----------
        stored : its specification, with any seed
        schema : of states, in which its state is written
        """
        run = stored.start()
        effective = summary.effective_arms_of(run)
        state = codec.encode(run, schema, effective=effective)
        about = summary.encode_about(stored.specification.chosen(), run)
        view = ShortView.of(CachedSession("", stored, run, b"", 0))
        return cls(
            stored, run, state, about, view, CachedSession.new("", stored, run, state, Effective(effective, 0))
        )


@lru_cache(maxsize=64)
def _short_start(spec: bytes, schema: int) -> Start:
    """Start a session of few arms: many are created alike, one for each user, say."""
    return Start.of(decode(spec), schema)


class Beginning(NamedTuple):
    """A session before its first slot: as the store keeps it, and as it is shown."""

    new: NewSession
    stored: Stored
    start: Start

    @classmethod
    def of(cls, session_id: str, version: str, key: Idempotency | None, schema: int, stored: Stored) -> Beginning:
        """Make a session, without storing it.

        Parameters
        ----------
        session_id : its id
        version : its first one
        key : the request's Idempotency-Key, under which the version is stored; None without one
        schema : of states, in which its state is written
        stored : its specification, with a seed
        """
        spec, learner = stored.encode(), stored.specification.learner
        is_short = isinstance(learner, ArmsSpec) and learner.arms is None and learner.arm_count <= SHORT_ARMS
        start = _short_start(without_seed(spec), schema) if is_short else Start.of(stored, schema)
        answer = None if key is None else (key.key, key.body + version.encode())
        idle = stored.specification.idle_ttl_ms
        return cls(NewSession(session_id, version, spec, start.state, idle, answer, start.about), stored, start)

    def cached(self, created_at: float) -> CachedSession | None:
        """Return the session for a worker's cache, sharing what others have alike: see ``CachedSession.new``."""
        if (kept := self.start.kept) is None or kept.effective is None:
            return None
        stored, run = kept.stored._replace(seed=self.stored.seed), kept.run.with_seed(self.stored.seed)
        kept = kept._replace(effective=kept.effective._replace(at=created_at), created_at=created_at)
        return kept._replace(version=self.new.version, stored=stored, run=run)

    def view(self, created: Snapshot) -> Body:
        """Return the view of the session as it was created, whatever has happened to it since.

        Parameters
        ----------
        created : the session as the store keeps it now; gives the time of creation
        """
        expires_at = self.stored.specification.expires_at(created.created_at)
        snapshot = created._replace(version=self.new.version, expires_at=expires_at)
        if self.start.view is not None:
            return self.start.view.view(self.new.session_id, snapshot)
        return session_view(self.new.session_id, snapshot, CachedSession("", self.stored, self.start.run, b"", 0))


MAX_RACES = 10
"""Times that a session may be found, and be deleted before it is shown."""


class Created(NamedTuple):
    """A session's view; ``new`` unless it existed already."""

    session_id: str
    answer: Answer
    new: bool


@dataclass(slots=True)
class Creator:
    """Creates sessions, within their limits.

    Parameters
    ----------
    store : has the sessions
    cache : of this worker, which gets new sessions
    reader : of the same store, for sessions that exist already
    queues : of the same store, for requests that a session has to answer under a key
    limits : of this service
    metrics : count the created sessions
    schemas : of this worker: say in which new sessions are written
    """

    _store: Store
    _cache: SessionCache
    _reader: Reader
    _queues: SessionQueues
    _limits: Limits
    _metrics: Metrics
    _schemas: Schemas
    _versions: Iterator[str] = field(default_factory=versions)
    _counting: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held from counting an API key's sessions until the new one is created."""

    async def create(
        self, session_id: str | None, spec: Specification, key: Idempotency | None, rights: Rights = ALL
    ) -> Created:
        """Create a session, or find the one that was created with the same fields.

        Parameters
        ----------
        session_id : None to have one made: of the key's digest, where there is a key
        spec : what was posted, checked, with its defaults
        key : the request's Idempotency-Key, under which the answer is stored; None without one
        rights : what the caller's API key allows

        Raises
        ------
        InvalidRequestError
            if the session would be too large.
        ForbiddenError
            if ``rights`` do not allow this id, or another session.
        SessionExistsError
            if the session with this id has other fields.
        IdempotencyConflictError
            if the key came with another body before.
        StateCorruptError
            if the session with this id can't be read.
        OverloadedError
            if the session is being deleted again and again, or too many requests wait for it.
        StoreUnavailableError
            if the store can't be reached; the session may have been created.
        """
        await run_in_thread_if_large(label_bytes(spec), self._limits.check, spec, rights)
        check_default_is_given(spec, spec.expiry)
        if spec.floor:
            check_defined("floor", spec.learner.build())
        if spec.control is not None and isinstance(spec.learner, ArmsSpec):
            check_control(spec.control, spec.learner.build(), spec.learner.arm_count, spec.learner.arms)
        if session_id is None:
            session_id = rights.prefix + (str(uuid.UUID(bytes=key.key)) if key else str(uuid.uuid4()))
        if not session_id.startswith(rights.prefix):
            raise errors.ForbiddenError(f"Session ids of this API key must begin with {rights.prefix}")
        async with self._counted(session_id, rights):
            for _ in range(MAX_RACES):
                with suppress(errors.UnknownSessionError):
                    return await self._create(session_id, spec, key)
        raise errors.OverloadedError("The session was deleted at each attempt")

    async def restore(
        self, document: Mapping[str, Any], rights: Rights = ALL, key: Idempotency | None = None
    ) -> Answer:
        """Create a session from the JSON that ``export`` gave, here or elsewhere, and answer with its view.

        Parameters
        ----------
        document : the JSON object that ``transfer.document.export`` made, parsed
        rights : what the caller's API key allows
        key : the request's Idempotency-Key, under which the answer is stored; None without one

        Raises
        ------
        InvalidRequestError
            if the document is changed or incomplete.
        NewerSchemaError
            if a newer version wrote it.
        SessionExistsError
            if the id exists, and was not created under this key.
        ServiceError
            what ``create`` raises.
        """
        session_id, whole = await read_document(document)
        if not is_id(session_id) or not session_id.startswith(rights.prefix):
            raise errors.ForbiddenError(f"Session ids of this API key must begin with {rights.prefix}")
        cached = await restorable(whole, self._limits, rights)
        run, body = cached.run, None
        whole, new = restored(session_id, next(self._versions), whole, cached, self._schemas.written)
        if key is not None:  # Which stores the view before the session is there.
            expires_at = cached.stored.specification.expires_at(self._store.now())
            snapshot = whole.snapshot._replace(version=new.version, expires_at=expires_at)
            shown = await self._reader.as_of_now(cached, journal := Journal())
            arms = run.arms.live if isinstance(run, ArmRun) else ()
            rows = {arm: ArmCounts(*whole.counts.get(arm, ())) for arm in arms}
            leader = await self._reader.leader(session_id, cached, shown.run, journal, rows)
            body = await joined(session_view(session_id, snapshot, shown, leader=leader), FairYield())
            new = new._replace(answer=(key.key, key.body + await compress_if_large(body)))
        async with self._counted(session_id, rights):
            existing = await self._store.restore(session_id, whole, new)
        if existing is not None:
            if key is None or (stored_answer := await self._store.recall(session_id, key.key)) is None:
                raise errors.SessionExistsError
            return Answer(unpack(packed_answer(stored_answer, key)), replayed=True)
        if run.act_times is not None and (due_at := run.act_times.due_at()) is not None:
            await self._store.remind(session_id, due_at)
        self._metrics.sessions_created[run.params.learner.kind]()
        return Answer(await self._reader.view(session_id) if body is None else body)

    @asynccontextmanager
    async def _counted(self, session_id: str, rights: Rights) -> AsyncIterator[None]:
        """Refuse one session too many; several workers that create at the same time may exceed the limit."""
        if (most := rights.max_sessions) is None:
            yield
            return
        async with self._counting:
            present = await self._store.count(rights.prefix, most)
            if present >= most and await self._store.load(session_id) is None:
                raise errors.ForbiddenError(f"This API key may have {most} sessions")
            yield

    async def _create(self, session_id: str, spec: Specification, key: Idempotency | None) -> Created:
        begin = partial(Beginning.of, session_id, next(self._versions), key, self._schemas.written)
        begun = await run_in_thread_if_large(label_bytes(spec), begin, Stored.of(spec))
        if (existing := await self._store.create(begun.new)).version == begun.new.version:
            self._metrics.sessions_created[spec.learner.kind]()
            if (cached := begun.cached(existing.created_at)) is not None:
                self._cache.put_new(session_id, cached)
            return Created(session_id, Answer(begun.view(existing)), new=True)
        if key is not None and (stored_answer := await self._store.recall(session_id, key.key)) is not None:
            return await _created_before(session_id, existing, key, stored_answer)
        cached = await self._reader.cached(session_id, existing)
        if differing := cached.stored.differing(spec):
            wrong = [errors.FieldError(each.field, each.message) for each in differing]
            raise errors.SessionExistsError.of(wrong, [path for each in differing for path in each.paths])
        if key is None:
            return Created(session_id, Answer(await self._reader.view(session_id)), new=False)
        show = Show(viewer(self._reader, session_id, existing, cached), idempotency=key)
        return Created(session_id, await self._queues.submit(session_id, show), new=False)


async def _created_before(session_id: str, now: Snapshot, key: Idempotency, stored_answer: bytes) -> Created:
    """Return the answer that a key got: the view of an existing session, or that of a new one, made again.

    For a new session only its first version is stored: its view follows from the specification.
    """
    packed = packed_answer(stored_answer, key)
    if is_answer(packed):
        return Created(session_id, Answer(unpack(packed), replayed=True), new=False)
    stored = (await decoded(now)).stored._replace(arms=None)
    begin = partial(Beginning.of, session_id, packed.decode(), None, codec.NEWEST)
    begun = await run_in_thread_if_large(len(now.spec), begin, stored)
    return Created(session_id, Answer(begun.view(now), replayed=True), new=True)
