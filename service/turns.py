"""Fair turns between workers that write one session.

A commit that met another's is tried again at once: the conflict has brought the state to try it on, and waiting
would only let others overtake again. It is the winner that waits, for about as long as a losing attempt takes,
before its next batch; so whoever has lost is likely to be next, and batches grow meanwhile.
"""

from __future__ import annotations

import asyncio
import random
import time
from dataclasses import dataclass

CONTENDED_SECONDS = 1.0
"""How long after a conflict a session counts as written by several."""
LONGEST_TURN = 0.02
MAX_SESSIONS = 10_000
"""Sessions remembered at most."""


@dataclass(slots=True)
class _Contention:
    turn: float
    """Seconds that attempts at a commit take, lately."""
    until: float


class Turns:
    """What one worker knows of the sessions that others write too."""

    def __init__(self) -> None:
        self._contended: dict[str, _Contention] = {}

    def lost(self, session_id: str, seconds: float) -> None:
        """Note that an attempt that took so long met another's commit."""
        seconds = min(seconds, LONGEST_TURN)
        until = time.monotonic() + CONTENDED_SECONDS
        known = self._contended.get(session_id)
        if known is not None:
            known.turn += (seconds - known.turn) / 4
            known.until = until
            return
        if len(self._contended) >= MAX_SESSIONS:
            self._contended.clear()
        self._contended[session_id] = _Contention(seconds, until)

    async def give_way(self, session_id: str) -> None:
        """After a commit, let others have their turn if there are any."""
        known = self._contended.get(session_id)
        if known is None:
            return
        if time.monotonic() > known.until:
            del self._contended[session_id]
            return
        await asyncio.sleep(known.turn * random.uniform(1, 2))  # noqa: S311 - jitter is no secret
