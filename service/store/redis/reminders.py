"""Reminders of due decisions, in one process and in a Redis server."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from zlib import crc32

from service.store.redis import scripts
from service.store.redis.connection.client import RedisLink
from service.store.redis.keys import Keys

SHARDS = 16
"""Keys the reminders are spread over."""
KEPT_MS = 24 * 3600 * 1000
"""Reminders that nobody took for so long after their time are dropped."""


class MemoryReminders:
    """Reminders of one process, which is always its own leader."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._notes: dict[str, float] = {}

    async def remind(self, session_id: str, at: float) -> None:
        self._notes[session_id] = min(at, self._notes.get(session_id, at))

    async def due(self, limit: int) -> Sequence[str]:
        return [session_id for session_id, at in self._notes.items() if at <= self._now()][:limit]

    async def done(self, session_id: str, again_at: float | None) -> None:
        if self._notes.get(session_id, float("inf")) <= self._now():
            del self._notes[session_id]
            if again_at is not None:
                await self.remind(session_id, again_at)

    async def forget(self, session_id: str) -> None:
        self._notes.pop(session_id, None)

    async def lead(self, worker: str, seconds: float) -> bool:  # noqa: ARG002 - nobody else is there
        return True


class RedisReminders:
    """Reminders in sorted sets, scored by time in milliseconds by the server's clock."""

    def __init__(self, link: RedisLink, keys: Keys) -> None:
        self._link = link
        self._keys = keys

    async def remind(self, session_id: str, at: float) -> None:
        await self._link.script(scripts.REMIND, (self._shard(session_id),), (session_id, round(at * 1000), KEPT_MS))

    async def due(self, limit: int) -> Sequence[str]:
        found: list[str] = []
        for shard in range(SHARDS):
            reply = await self._link.script(scripts.DUE, (self._keys.due(shard),), (limit,))
            found += [name.decode() for name in reply[3]]
        return found

    async def done(self, session_id: str, again_at: float | None) -> None:
        again = "" if again_at is None else round(again_at * 1000)
        await self._link.script(scripts.DONE, (self._shard(session_id),), (session_id, again, KEPT_MS))

    async def forget(self, session_id: str) -> None:
        await self._link.script(scripts.FORGET, (self._shard(session_id),), (session_id,))

    async def lead(self, worker: str, seconds: float) -> bool:
        reply = await self._link.script(scripts.LEAD, (self._keys.sweeper,), (worker, round(seconds * 1000)))
        return bool(reply[2] == b"OK")

    def _shard(self, session_id: str) -> str:
        return self._keys.due(crc32(session_id.encode()) % SHARDS)
