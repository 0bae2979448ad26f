"""Reading sessions without changing them."""

from __future__ import annotations

from ..commit.batch import Journal, expire_due
from ..commit.cache import CachedSession, SessionCache
from ..commit.loading import decoded, with_records
from ..cooperative import Body
from ..engine.run import SlotRun
from ..errors import UnknownSessionError
from ..store.base import Snapshot, Store
from .views import session_view


class Reader:
    """Reads sessions from the store, and decodes those that the cache does not hold at the stored version.

    Parameters
    ----------
    store : has the sessions
    cache : of this worker; nothing is added to it

    Attributes
    ----------
    store : has the sessions
    """

    def __init__(self, store: Store, cache: SessionCache) -> None:
        self.store = store
        self._cache = cache

    async def view(self, session_id: str) -> Body:
        """Return the JSON of a session as it is now, with its due decisions settled: see ``Sessions.view``."""
        snapshot, cached = await self.settled(session_id, Journal())
        return session_view(session_id, snapshot, cached)

    async def settled(self, session_id: str, journal: Journal) -> tuple[Snapshot, CachedSession]:
        """Read a session as it is now, with its due decisions settled, without committing that.

        Parameters
        ----------
        session_id : of the session to read
        journal : notes what is settled

        Returns
        -------
        The session as the store keeps it, and the same decoded and settled.

        Raises
        ------
        UnknownSessionError, StateCorruptError, StoreUnavailableError
        """
        snapshot, cached = await self._load_with_records(session_id, expires=True)
        return snapshot, await self.as_of_now(cached, journal)

    async def as_of_now(self, cached: CachedSession, journal: Journal) -> CachedSession:
        """Settle the due decisions of a copy of a session; without expiry it is returned as it is.

        Parameters
        ----------
        cached : the session as it was committed, with its records
        journal : notes what is settled
        """
        if cached.run.params.expiry is None:
            return cached
        run = cached.run.copy()
        run.advance(self.store.now())
        if run.due and isinstance(run, SlotRun):
            # Settling pauses, and a commit may be written meanwhile.
            run.open_slots = run.open_slots.separate()
        await expire_due(run, journal)
        return cached._replace(run=run)

    async def load(self, session_id: str) -> tuple[Snapshot, CachedSession]:
        """Read a session as it was last committed, without records that its learner's state does not need.

        Returns
        -------
        The session as the store keeps it, and the same decoded.

        Raises
        ------
        UnknownSessionError, StateCorruptError, StoreUnavailableError
        """
        return await self._load_with_records(session_id, expires=False)

    async def _load_with_records(self, session_id: str, *, expires: bool) -> tuple[Snapshot, CachedSession]:
        """Read a session, with records where it is unread, or ``expires`` and it needs them; all of one version."""
        while (snapshot := await self.store.load(session_id)) is not None:
            cached = await self.cached(session_id, snapshot)
            is_needed = cached.is_unread or (expires and cached.run.params.expiry is not None)
            if not cached.needs_records or not is_needed:
                return snapshot, cached
            records = await self.store.read_records(session_id)
            again = await self.store.load(session_id)
            if again is not None and again.version == snapshot.version:
                return snapshot, await with_records(cached, records)
        raise UnknownSessionError

    async def cached(self, session_id: str, snapshot: Snapshot) -> CachedSession:
        """Decode a snapshot, unless the cache holds it.

        Parameters
        ----------
        session_id : of the session, by which the cache knows it
        snapshot : the session as the store keeps it

        Raises
        ------
        StateCorruptError
            where the stored bytes can't be read.
        """
        cached = self._cache.get(session_id)
        if cached is not None and cached.version == snapshot.version and snapshot.state.endswith(cached.checksum):
            found = cached
        else:
            found = await decoded(snapshot, cached)
        return found._replace(mostly_surplus=session_id in self._cache.watch.mostly_surplus)
