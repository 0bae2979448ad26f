"""How many replicas have to acknowledge a commit, so that whichever is made the master has it.

A replica that is promoted while its master lives (an ordered failover, a promotion by hand, a partition) leaves the
master, which goes on accepting writes until it hears of it. Another replica may acknowledge these, and they are
lost. So all replicas that are attached have to acknowledge, and one that has left is missed for ``MISSED_SECONDS``,
and for as long as sentinels do not name this master: by then the workers have gone to the new one.
"""

from __future__ import annotations

import re
import time
from collections.abc import Awaitable, Callable

from .pipeline import Pipeline, packed

LOOK_SECONDS = 1.0
"""Time between two looks at the replicas of a server."""
MISSED_SECONDS = 20.0
"""Longer than sentinels, or a cluster with its default node timeout, take to name another master."""
MAX_LAG = 3
"""A replica that was silent for more seconds has left."""
_INFO = packed(("INFO", "replication"))
_ATTACHED = re.compile(rb"^slave[0-9]+:.*state=online.*lag=([0-9]+)", re.MULTILINE)


class ReplicaWatch:
    """The replicas of one server.

    Parameters
    ----------
    is_confirmed : tells whether this server is still the master, for all that those know who appoint masters
    clock : monotonic seconds
    """

    def __init__(
        self, is_confirmed: Callable[[], Awaitable[bool]], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._is_confirmed = is_confirmed
        self._clock = clock
        self._next_look = 0.0
        self._missed_since: float | None = None
        self._needed = 0

    async def needed(self, pipeline: Pipeline) -> int:
        """Return how many replicas have to acknowledge what this connection has written.

        Parameters
        ----------
        pipeline : to the server, which is asked for its replicas every ``LOOK_SECONDS``

        Raises
        ------
        RedisError
            where it can't be asked.
        """
        if self._clock() >= self._next_look:
            attached = attached_in(await pipeline.send(_INFO))
            self._next_look = self._clock() + LOOK_SECONDS
            await self._saw(attached)
        return self._needed

    async def _saw(self, attached: int) -> None:
        if attached >= self._needed:
            self._needed, self._missed_since = attached, None
            return
        if self._missed_since is None:
            self._missed_since = self._clock()
        if self._clock() - self._missed_since >= MISSED_SECONDS and await self._is_confirmed():
            self._needed, self._missed_since = attached, None


def attached_in(reply: bytes) -> int:
    """Count the replicas in an INFO reply that receive writes and have spoken lately."""
    return sum(int(lag) <= MAX_LAG for lag in _ATTACHED.findall(reply))
