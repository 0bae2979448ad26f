"""A session before its first slot."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from ..commit.cache import CachedSession, Effective, SessionAtRest, StoredBytes
from ..cooperative import Body
from ..engine.run import Run
from ..learners.specs import ArmsSpec
from ..models.events import Idempotency
from ..models.stored import Stored, decode, without_seed
from ..serialization import state as codec
from ..serialization import summary
from ..store.base import NewSession, Snapshot
from .views import SHORT_ARMS, ShortView, session_view


class Start(NamedTuple):
    """What sessions with the same specification begin with, whatever their ids, seeds and times."""

    run: Run
    """May not be changed: many sessions may share it."""
    state: bytes
    about: bytes
    effective: float | None
    view: ShortView | None

    @classmethod
    def of(cls, stored: Stored, schema: int) -> Start:
        """Start a session.

        Parameters
        ----------
        stored : its specification, with any seed
        schema : of states, in which its state is written
        """
        run = stored.start()
        state = CachedSession.encode(run, schema)
        about = summary.encode_about(stored.specification.chosen(), run, state[codec.SCHEMA_BYTE])
        view = ShortView.of(CachedSession.begun("", stored, run, state))
        return cls(run, state, about, summary.effective_arms_of(run), view)


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
        written = start.state[codec.SCHEMA_BYTE]
        new = NewSession(
            session_id=session_id,
            version=version,
            spec=spec,
            state=start.state,
            idle_ttl_ms=stored.specification.idle_ttl_ms,
            answer=None if key is None else (key.key, key.body + version.encode()),
            about=start.about,
            summary=summary.encode_summary(start.run, version, written, effective=start.effective),
        )
        return cls(new, stored, start)

    def at_rest(self, created: Snapshot) -> SessionAtRest | None:
        """Return the session for a worker's cache; None where what is stored of it does not suffice.

        Parameters
        ----------
        created : the session as the store has just created it; gives the time of creation
        """
        stored_bytes = StoredBytes(self.new.spec, self.new.state)
        if self.new.state[codec.SCHEMA_BYTE] < codec.PACKED_COUNTS or not stored_bytes.are_enough_for(
            self.start.run
        ):
            return None
        effective = Effective(self.start.effective, created.created_at)
        return SessionAtRest(self.new.version, stored_bytes, created.created_at, effective)

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
        cached = CachedSession.begun(self.new.version, self.stored, self.start.run, self.new.state)
        return session_view(self.new.session_id, snapshot, cached)
