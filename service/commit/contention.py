"""Fair back-off between workers that write the same session.

A commit that met another's is tried again at once: the conflict brought the state to try it on, and waiting
would only let others overtake again. The worker that won waits instead, long enough for one attempt of every
worker it has conflicted with lately. So one worker after the other gets through, and batches grow meanwhile.

A batch that takes as long as many of the others' attempts, or has lost many times, would lose again. It
requests grace: it commits the unchanged state under a version that names a time, and every worker that meets
this version waits so long, once.
"""

from __future__ import annotations

import asyncio
import random
import time
from dataclasses import dataclass, field
from typing import NamedTuple

CONTENDED_SECONDS = 1.0
"""How long after a conflict its winner counts as a worker that writes this session too."""
LONGEST_ATTEMPT = 0.02
"""Seconds up to which an attempt counts as ordinary: longer ones request grace."""
LOST_BEFORE_GRACE = 8
"""Attempts of a batch that fail before it requests grace also where each is short."""
LONGEST_WAIT = 0.1
"""Seconds that a worker waits after a commit, at most."""
LONGEST_GRACE = 5.0
"""Seconds that a batch may request: enough for several attempts of the largest batches."""
MAX_SESSIONS = 10_000
"""Sessions whose contention a worker remembers."""


class Version(NamedTuple):
    """What the text of a session's version says: who wrote it, and the grace it requests."""

    writer: str
    """Worker incarnation, lower-case hexadecimal."""
    grace_ms: int = 0
    """Milliseconds that other writers are to wait."""

    @classmethod
    def parse(cls, text: str) -> Version:
        """Read a stored version; any other text is read as a version without grace."""
        writer, _, rest = text.partition("-")
        grace = rest.partition("-")[2]
        return cls(writer, int(grace[:9]) if grace.isdecimal() else 0)


def request_grace(version: str, seconds: float, lost: int) -> str | None:
    """Let a version request twice the time an attempt took.

    Parameters
    ----------
    version : as ``Versions`` makes it
    seconds : how long the attempt took
    lost : how many attempts of the batch failed

    Returns
    -------
    None where the attempt was short and not one of many: it will get through without grace.
    """
    if seconds <= LONGEST_ATTEMPT and lost < LOST_BEFORE_GRACE:
        return None
    return f"{version}-{max(1, round(2000 * min(seconds, LONGEST_GRACE / 2)))}"


async def honour_grace(version: Version) -> None:
    """Wait as long as a version requests."""
    if version.grace_ms:
        await asyncio.sleep(min(version.grace_ms / 1000, LONGEST_GRACE))


@dataclass(slots=True)
class _Contended:
    attempt: float
    """Seconds that an attempt takes: a moving average."""
    others: dict[str, float] = field(default_factory=dict)
    """Writers of conflicting commits, and until when (monotonic seconds) they count."""
    waits_until: float = 0.0
    """Monotonic seconds."""


class Contention:
    """What one worker knows of the sessions that other workers write too; of all others nothing is to be done.

    Attributes
    ----------
    sessions : those that others write, by id
    """

    def __init__(self) -> None:
        self.sessions: dict[str, _Contended] = {}

    def on_conflict(self, session_id: str, winner: str, seconds: float) -> None:
        """Note that an attempt conflicted with a commit of another worker.

        Parameters
        ----------
        session_id : of the session that both wrote
        winner : writer of that commit, as its version says
        seconds : how long this worker's attempt took
        """
        seconds = min(seconds, LONGEST_ATTEMPT)
        known = self.sessions.get(session_id)
        if known is None:
            if len(self.sessions) >= MAX_SESSIONS:
                self.sessions.clear()
            known = self.sessions[session_id] = _Contended(seconds)
        known.attempt += (seconds - known.attempt) / 4
        known.others[winner] = time.monotonic() + CONTENDED_SECONDS

    def on_commit(self, session_id: str) -> None:
        """Note a commit of this worker: it has to wait now until others have committed too."""
        known = self.sessions.get(session_id)
        if known is None:
            return
        now = time.monotonic()
        known.others = {writer: until for writer, until in known.others.items() if until > now}
        if not known.others:
            del self.sessions[session_id]
            return
        pause = known.attempt * len(known.others) * random.uniform(1, 1.3)  # noqa: S311 - jitter is no secret
        known.waits_until = now + min(pause, LONGEST_WAIT)

    async def wait(self, session_id: str) -> None:
        """Wait until this worker may commit again."""
        known = self.sessions.get(session_id)
        if known is not None and (left := known.waits_until - time.monotonic()) > 0:
            await asyncio.sleep(left)
