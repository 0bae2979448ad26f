"""Sessions read from the store and decoded."""

from __future__ import annotations

from collections.abc import Mapping

from ..cooperative.offload import run_in_thread_if_large
from ..errors import StateCorruptError, UnknownSessionError
from ..store.base import Snapshot, Store
from .session_cache import CachedSession, SessionCache


async def decoded(snapshot: Snapshot, previous: CachedSession | None = None) -> CachedSession:
    """Decode a snapshot: see ``CachedSession.of``."""
    return await run_in_thread_if_large(len(snapshot.spec), CachedSession.of, snapshot, previous)


async def with_records(cached: CachedSession, records: Mapping[bytes, bytes]) -> CachedSession:
    """Add the records beside the state: see ``CachedSession.with_records``."""
    return await run_in_thread_if_large(sum(map(len, records.values())), cached.with_records, records)


class SessionLoader:
    """Reads sessions whole, with their records, into a cache."""

    def __init__(self, store: Store, cache: SessionCache) -> None:
        self._store = store
        self._cache = cache

    async def load(self, session_id: str) -> CachedSession:
        """Read a session from the store.

        Raises
        ------
        UnknownSessionError, StateCorruptError, StoreUnavailableError
        """
        snapshot = await self._store.load(session_id)
        if snapshot is None:
            raise UnknownSessionError
        return await self.decode(session_id, snapshot)

    async def decode(
        self, session_id: str, snapshot: Snapshot, previous: CachedSession | None = None
    ) -> CachedSession:
        """Decode a snapshot and read its records.

        The records may already be those of a later version; a commit on this one then meets a conflict.

        Parameters
        ----------
        previous : an earlier version, of which learner and draws are used again

        Raises
        ------
        UnknownSessionError, StateCorruptError, StoreUnavailableError
        """
        cached = await decoded(snapshot, previous)
        if cached.needs_records:
            records = await self._store.read_records(session_id)
            try:
                cached = await with_records(cached, records)
            except StateCorruptError:
                # Records of a later version need not fit this state: only those of the same version are damage.
                now = await self._store.load(session_id)
                if now is not None and now.version == cached.version:
                    raise
                return await self.load(session_id)
        self._cache.put(session_id, cached)
        return cached
