"""What the memory store keeps beside the commits of its sessions: samples of them, and when they fall due."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from .session import MemorySession


class MemoryHistory:
    """Samples in the memory of one process: ``History`` says what each call does.

    Parameters
    ----------
    find : returns the session with an id, None where there is none
    """

    def __init__(self, find: Callable[[str], MemorySession | None]) -> None:
        self._find = find

    async def record(self, session_id: str, created_at: float, place: int, sample: bytes) -> int | None:
        session = self._find(session_id)
        if session is None or session.created_at != created_at:
            return None
        session.samples[place] = sample
        return len(session.samples)

    async def read(self, session_id: str) -> Mapping[int, bytes] | None:
        session = self._find(session_id)
        return None if session is None else session.samples.copy()

    async def thin(self, session_id: str, dropped: Iterable[int], left: int) -> None:  # noqa: ARG002 - it counts itself
        if (session := self._find(session_id)) is not None:
            for place in dropped:
                session.samples.pop(place, None)


class MemoryReminders:
    """Reminders in the memory of one process; its only worker always has the lease.

    ``Reminders`` says what each call does.

    Parameters
    ----------
    now : returns Unix seconds by the store's clock
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._notes: dict[str, float] = {}

    async def remind(self, session_id: str, at: float) -> None:
        self._notes[session_id] = min(at, self._notes.get(session_id, at))

    async def due(self, limit: int) -> Sequence[str]:
        return [session_id for session_id, at in self._notes.items() if at <= self._now()][:limit]

    async def reschedule(self, session_id: str, again_at: float | None) -> None:
        if self._notes.get(session_id, float("inf")) <= self._now():
            del self._notes[session_id]
            if again_at is not None:
                await self.remind(session_id, again_at)

    async def forget(self, session_id: str) -> None:
        self._notes.pop(session_id, None)

    async def acquire_lease(self, worker: str, seconds: float) -> bool:  # noqa: ARG002 - nobody else is there
        return True
