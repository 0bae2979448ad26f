"""The sessions a worker keeps decoded, each at the version it last saw."""

from __future__ import annotations

from collections import OrderedDict
from itertools import islice

from .cached_session import CachedSession
from .surplus_watch import SurplusWatch

MAX_BYTES = 128 * 2**20
"""Memory that all sessions kept may take, about."""
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
        self._sessions: OrderedDict[str, CachedSession] = OrderedDict()
        self._changed: dict[str, None] = {}
        """Sessions put in since ``take_changed``, in order."""

    def get(self, session_id: str) -> CachedSession | None:
        """Return the session as this worker last saw it; others may have committed since."""
        cached = self._sessions.get(session_id)
        if cached is not None:
            self._sessions.move_to_end(session_id)
        return cached

    def put(self, session_id: str, cached: CachedSession) -> None:
        """Keep a session's newest version, and drop the sessions used least recently that there is no room for.

        Parameters
        ----------
        session_id : of the session
        cached : the version that this worker has committed or read
        """
        before = self._sessions.pop(session_id, None)
        self._sessions[session_id] = cached
        self._changed[session_id] = None
        if len(self._changed) > MAX_CHANGED:
            del self._changed[next(iter(self._changed))]
        self._bytes += cached.size - (before.size if before is not None else 0)
        while len(self._sessions) > self._max_sessions or (
            self._bytes > self._max_bytes and len(self._sessions) > 1
        ):
            self.forget(next(iter(self._sessions)))

    def take_changed(self, most: int) -> list[str]:
        """Return ids of sessions put in since they were last returned: ``most`` at most, the first ones first."""
        taken = list(islice(self._changed, most))
        for session_id in taken:
            del self._changed[session_id]
        return taken

    def peek(self, session_id: str) -> CachedSession | None:
        """Return what ``get`` does, without counting that as a use."""
        return self._sessions.get(session_id)

    def forget(self, session_id: str) -> None:
        """Drop a session."""
        cached = self._sessions.pop(session_id, None)
        if cached is not None:
            self._bytes -= cached.size
