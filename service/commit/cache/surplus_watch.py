"""How many of a session's latest events were surplus, as one worker sees them: in memory, best effort."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ...errors import SurplusFeedbackError

WINDOW = 1000
"""Events that are judged together."""
MAX_SESSIONS = 10_000
"""Sessions that are watched."""


@dataclass(slots=True)
class _Watched:
    events: int = 0
    surplus: int = 0


class SurplusWatch:
    """Counts events by session, refused ones included, a window after the other.

    Attributes
    ----------
    mostly_surplus : ids of the sessions where more than half of the last full window of events was surplus
    """

    def __init__(self) -> None:
        self.mostly_surplus: set[str] = set()
        self._sessions: dict[str, _Watched] = {}

    def count(self, session_id: str, settled: Mapping[str, int], results: Sequence[object]) -> None:
        """Count the events of a batch.

        Parameters
        ----------
        session_id : of the session
        settled : number of events by outcome
        results : of the batch's requests; those refused for surplus events are counted
        """
        refused = [error for error in results if isinstance(error, SurplusFeedbackError)]
        events = sum(settled.values()) + sum(error.events for error in refused)
        if not events:
            return
        if session_id not in self._sessions and len(self._sessions) >= MAX_SESSIONS:
            self._sessions.clear()
            self.mostly_surplus.clear()
        watched = self._sessions.setdefault(session_id, _Watched())
        watched.events += events
        watched.surplus += settled.get("surplus", 0) + sum(error.surplus for error in refused)
        if watched.events >= WINDOW:
            if 2 * watched.surplus > watched.events:
                self.mostly_surplus.add(session_id)
            else:
                self.mostly_surplus.discard(session_id)
            self._sessions[session_id] = _Watched()

    def forget(self, session_id: str) -> None:
        """Drop a session that no longer exists."""
        self._sessions.pop(session_id, None)
        self.mostly_surplus.discard(session_id)
