"""The sessions a worker keeps at hand, each at the version it last saw."""

from __future__ import annotations

from collections import OrderedDict
from itertools import islice

from .cached_session import CachedSession
from .session_at_rest import SessionAtRest
from .surplus_watch import SurplusWatch

MAX_BYTES = 128 * 2**20
"""Memory that all sessions kept may take, about."""
MAX_DECODED = 1_024
"""Sessions used last. Others are kept as they are stored, in a quarter of the memory, until they are used again."""
MAX_CHANGED = 10_000
"""Changed sessions that are remembered."""


class SessionCache:
    """The least recently used sessions are dropped when there are too many, or too many bytes.

    Parameters
    ----------
    max_sessions : how many are kept, at most
    max_bytes : memory that all sessions kept may take, about; one session is kept however large it is
    """

    def __init__(self, max_sessions: int, max_bytes: int = MAX_BYTES) -> None:
        self.watch = SurplusWatch()
        self._max_sessions = max_sessions
        self._max_bytes = max_bytes
        self._bytes = 0
        self._decoded: OrderedDict[str, CachedSession] = OrderedDict()
        self._resting: OrderedDict[str, CachedSession | SessionAtRest] = OrderedDict()
        """Sessions used less recently; those that can't be kept as they are stored stay decoded here."""
        self._changed: dict[str, None] = {}
        """Sessions put in since ``take_changed``, in order."""

    def get(self, session_id: str) -> CachedSession | None:
        """Return the session as this worker last saw it; others may have committed since."""
        cached = self._decoded.get(session_id)
        if cached is not None:
            self._decoded.move_to_end(session_id)
        elif (resting := self._resting.get(session_id)) is not None:
            self.forget(session_id)
            cached = resting.decoded() if isinstance(resting, SessionAtRest) else resting
            self._keep(session_id, cached)
        return cached

    def put(self, session_id: str, cached: CachedSession) -> None:
        """Keep a session's newest version, and drop the sessions used least recently that there is no room for.

        Parameters
        ----------
        session_id : of the session
        cached : the version that this worker has committed or read
        """
        self._changed[session_id] = None
        if len(self._changed) > MAX_CHANGED:
            del self._changed[next(iter(self._changed))]
        self.forget(session_id)
        self._keep(session_id, cached)

    def put_new(self, session_id: str, at_rest: SessionAtRest) -> None:
        """Keep a session that was just created, where there is room: maybe it is used elsewhere.

        Parameters
        ----------
        session_id : of the session
        at_rest : its first version
        """
        self.forget(session_id)
        if self._count < self._max_sessions and self._bytes + at_rest.size <= self._max_bytes:
            self._resting[session_id] = at_rest
            self._bytes += at_rest.size

    @property
    def _count(self) -> int:
        return len(self._decoded) + len(self._resting)

    def _keep(self, session_id: str, cached: CachedSession) -> None:
        self._decoded[session_id] = cached
        self._bytes += cached.size
        if len(self._decoded) > MAX_DECODED:
            self._rest(*self._decoded.popitem(last=False))
        while self._count > self._max_sessions or (self._bytes > self._max_bytes and self._count > 1):
            self.forget(next(iter(self._resting or self._decoded)))

    def _rest(self, session_id: str, cached: CachedSession) -> None:
        self._resting[session_id] = resting = SessionAtRest.of(cached) or cached
        self._bytes += resting.size - cached.size

    def take_changed(self, most: int) -> list[str]:
        """Return ids of sessions put in since they were last returned: ``most`` at most, the first ones first."""
        taken = list(islice(self._changed, most))
        for session_id in taken:
            del self._changed[session_id]
        return taken

    def peek(self, session_id: str) -> CachedSession | None:
        """Return what ``get`` does, without counting that as a use."""
        kept = self._decoded.get(session_id) or self._resting.get(session_id)
        return kept.decoded() if isinstance(kept, SessionAtRest) else kept

    def forget(self, session_id: str) -> None:
        """Drop a session."""
        kept = self._decoded.pop(session_id, None) or self._resting.pop(session_id, None)
        if kept is not None:
            self._bytes -= kept.size
