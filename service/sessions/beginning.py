"""A session before its first slot."""

from __future__ import annotations

from typing import NamedTuple

from ..commit.cache.cached_session import CachedSession
from ..cooperative.answer_body import Body
from ..models.idempotency import Idempotency
from ..models.stored import Stored
from ..serialization import state as codec
from ..serialization import summary
from ..store.base import NewSession, Snapshot
from .views import session_view


class Beginning(NamedTuple):
    """A session before its first slot: as the store keeps it, and decoded."""

    new: NewSession
    cached: CachedSession

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
        run, spec = stored.start(), stored.specification
        state = CachedSession.encode(run, schema)
        written = state[codec.SCHEMA_BYTE]
        effective = summary.effective_arms_of(run)
        new = NewSession(
            session_id=session_id,
            version=version,
            spec=stored.encode(),
            state=state,
            idle_ttl_ms=spec.idle_ttl_ms,
            answer=None if key is None else (key.key, key.body + version.encode()),
            about=summary.encode_about(spec.chosen(), run, written),
            summary=summary.encode_summary(run, version, written, effective=effective),
        )
        return cls(new, CachedSession.begun(version, stored, run, new.state))

    def view(self, created: Snapshot) -> Body:
        """Return the view of the session as it was created, whatever has happened to it since.

        Parameters
        ----------
        created : the session as the store keeps it now; gives the time of creation
        """
        expires_at = self.cached.stored.specification.expires_at(created.created_at)
        snapshot = created._replace(version=self.new.version, expires_at=expires_at)
        return session_view(self.new.session_id, snapshot, self.cached)
