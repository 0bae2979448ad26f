"""One version of a session as it is stored, in a quarter of the memory."""

from __future__ import annotations

from typing import NamedTuple

from ...store.base import Snapshot
from .cached_session import CachedSession, StoredBytes
from .effective import Effective

AT_REST_BYTES = 500
"""Memory that a session takes besides its specification and its state: its id and its version, say."""


class SessionAtRest(NamedTuple):
    """One version of a session in less memory."""

    version: str
    stored_bytes: StoredBytes
    created_at: float
    effective: Effective | None

    @classmethod
    def of(cls, cached: CachedSession) -> SessionAtRest | None:
        """Return the same version in less memory; None where it can't be kept so."""
        if cached.stored_bytes is None:
            return None
        return cls(cached.version, cached.stored_bytes, cached.created_at, cached.effective)

    @property
    def size(self) -> int:
        """Bytes of memory, about."""
        return AT_REST_BYTES + sum(map(len, self.stored_bytes))

    def decoded(self) -> CachedSession:
        """Decode it again."""
        snapshot = Snapshot(self.version, *self.stored_bytes, self.created_at, None)
        return CachedSession.of(snapshot)._replace(effective=self.effective)
