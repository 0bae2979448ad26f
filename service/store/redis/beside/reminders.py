"""Reminders of due decisions in a Redis server."""

from __future__ import annotations

from collections.abc import Sequence
from zlib import crc32

from .. import scripts
from ..keys import Keys
from ..script_runner import ScriptRunner

SHARDS = 16
"""Number of keys over which the reminders are spread."""
KEPT_MS = 24 * 3600 * 1000
"""Milliseconds after its due time at which a reminder that no worker has handled is deleted."""


class RedisReminders:
    """Reminders in sorted sets; the score is the due time in milliseconds by the server's clock.

    ``Reminders`` says what each call does.

    Parameters
    ----------
    runner : of the store
    keys : names of the keys of reminders
    """

    def __init__(self, runner: ScriptRunner, keys: Keys) -> None:
        self._run = runner.run
        self._keys = keys

    async def remind(self, session_id: str, at: float) -> None:
        await self._run(scripts.REMIND, (self._shard(session_id),), (session_id, round(at * 1000), KEPT_MS))

    async def due(self, limit: int) -> Sequence[str]:
        found: list[str] = []
        for shard in range(SHARDS):
            reply = await self._run(scripts.DUE, (self._keys.due(shard),), (limit,))
            found += [name.decode() for name in reply[1]]
        return found

    async def reschedule(self, session_id: str, again_at: float | None) -> None:
        again = "" if again_at is None else round(again_at * 1000)
        await self._run(scripts.RESCHEDULE, (self._shard(session_id),), (session_id, again, KEPT_MS))

    async def forget(self, session_id: str) -> None:
        await self._run(scripts.FORGET, (self._shard(session_id),), (session_id,))

    async def acquire_lease(self, worker: str, seconds: float) -> bool:
        reply = await self._run(scripts.ACQUIRE_LEASE, (self._keys.sweeper,), (worker, round(seconds * 1000)))
        return bool(reply[0] == b"OK")

    def _shard(self, session_id: str) -> str:
        return self._keys.due(crc32(session_id.encode()) % SHARDS)
