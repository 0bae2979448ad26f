"""Fair turns between workers that write one session.

A commit that met another's is tried again at once: the conflict has brought the state to try it on, and waiting
would only let others overtake again. It is the winner that rests, long enough for each of the others it has lately
lost to to have a turn. So turns go round, losing streaks are short, and batches grow meanwhile.

A batch that takes many of the others' turns would lose to each of them. It asks for time: the version of a commit
that changes nothing says how long, and whoever meets that version waits so long, once.
"""

from __future__ import annotations

import asyncio
import random
import time
from dataclasses import dataclass, field

CONTENDED_SECONDS = 1.0
"""How long after a conflict its winner counts as one who writes this session too."""
LONGEST_TURN, LONGEST_REST = 0.02, 0.1
LONGEST_GRANT = 5.0
"""Seconds that a batch may ask for; those of one of the largest, several times over."""
MAX_SESSIONS = 10_000
"""Sessions remembered at most."""


def asking(version: str, seconds: float) -> str | None:
    """A version that asks for twice the time an attempt took; None where others' turns are as long."""
    if seconds <= LONGEST_TURN:
        return None
    return f"{version}-{round(2000 * min(seconds, LONGEST_GRANT / 2))}"


async def grant(version: str) -> None:
    """Wait where a version asks for time."""
    _, _, asked = version.partition("-")[2].partition("-")
    if asked.isdecimal():
        await asyncio.sleep(min(int(asked[:9]) / 1000, LONGEST_GRANT))


@dataclass(slots=True)
class _Contention:
    turn: float
    """Seconds that attempts at a commit take, lately."""
    others: dict[str, float] = field(default_factory=dict)
    """Writers met, and until when they count."""
    rests_until: float = 0.0


class Turns:
    """What one worker knows of the sessions that others write too."""

    def __init__(self) -> None:
        self._contended: dict[str, _Contention] = {}

    def lost(self, session_id: str, winner: str, seconds: float) -> None:
        """Note that an attempt that took so long met a commit of ``winner``."""
        seconds = min(seconds, LONGEST_TURN)
        known = self._contended.get(session_id)
        if known is None:
            if len(self._contended) >= MAX_SESSIONS:
                self._contended.clear()
            known = self._contended[session_id] = _Contention(seconds)
        known.turn += (seconds - known.turn) / 4
        known.others[winner] = time.monotonic() + CONTENDED_SECONDS

    def won(self, session_id: str) -> None:
        """Note a commit of our own: the next ones are the others'."""
        known = self._contended.get(session_id)
        if known is None:
            return
        now = time.monotonic()
        known.others = {writer: until for writer, until in known.others.items() if until > now}
        if not known.others:
            del self._contended[session_id]
            return
        rest = known.turn * len(known.others) * random.uniform(1, 1.3)  # noqa: S311 - jitter is no secret
        known.rests_until = now + min(rest, LONGEST_REST)

    async def rest(self, session_id: str) -> None:
        """Wait until it is our turn again."""
        known = self._contended.get(session_id)
        if known is not None and (left := known.rests_until - time.monotonic()) > 0:
            await asyncio.sleep(left)
