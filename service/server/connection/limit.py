"""How many connections a worker holds, and which of them makes room for the next.

Beyond the limit a new connection takes the place of the one that has been idle for longest. Where none is idle, it
is one of a few that are held for health checks: any other request on it is told that the service is full.
"""

from __future__ import annotations

import asyncio
import logging
import resource
import sys
from collections.abc import Callable
from typing import Protocol

HEALTH_CONNECTIONS = 16
"""Connections beyond the limit, for health checks."""
HEALTH_PATHS = frozenset({b"/livez", b"/readyz"})
IDLE_SECONDS = 1.0
"""A connection that is idle for a shorter time makes no room: its request may be on the way."""
OTHER_FILES = 64
"""Files that a worker has open beside connections of clients and of the store."""
_LOG_SECONDS = 10.0
"""A worker that stays full says so once in so long."""

log = logging.getLogger(__name__)


class Closable(Protocol):
    """A connection."""

    @property
    def transport(self) -> asyncio.Transport:
        """Its transport."""


class ConnectionLimit:
    """The connections of one worker.

    Parameters
    ----------
    limit : connections for all requests
    clock : seconds

    Attributes
    ----------
    count : connections that are open
    """

    def __init__(self, limit: int, clock: Callable[[], float]) -> None:
        self._limit = limit
        self._clock = clock
        self.count = 0
        # In the order in which they became idle, with the time.
        self._idle: dict[Closable, float] = {}
        # Those beyond the limit, oldest first.
        self._for_health: dict[Closable, None] = {}
        self._logged: float | None = None

    def opened(self, connection: Closable) -> bool:
        """Count a new connection.

        Returns
        -------
        Whether it may only ask for health.
        """
        only_health = self.count - len(self._for_health) >= self._limit and not self._make_room()
        self.count += 1
        if only_health:
            self._make_room_for_health()
            self._for_health[connection] = None
        else:
            self._idle[connection] = self._clock()
        return only_health

    def busy(self, connection: Closable) -> None:
        """Note that a connection has a request."""
        self._idle.pop(connection, None)

    def idle(self, connection: Closable) -> None:
        """Note that all requests of a connection are answered."""
        if connection not in self._for_health:
            self._idle[connection] = self._clock()

    def closed(self, connection: Closable) -> None:
        """Forget a connection."""
        self.count -= 1
        self._idle.pop(connection, None)
        self._for_health.pop(connection, None)

    def _make_room(self) -> bool:
        self._log()
        oldest = next(iter(self._idle), None)
        if oldest is None or self._clock() - self._idle[oldest] < IDLE_SECONDS:
            return False
        # It is counted until it has closed; closing takes no more than this turn of the event loop.
        del self._idle[oldest]
        oldest.transport.close()
        return True

    def _make_room_for_health(self) -> None:
        if len(self._for_health) >= HEALTH_CONNECTIONS:
            oldest = next(iter(self._for_health))
            del self._for_health[oldest]
            oldest.transport.abort()

    def _log(self) -> None:
        now = self._clock()
        if self._logged is None or now - self._logged >= _LOG_SECONDS:
            self._logged = now
            log.warning(
                "%d connections are open, the most of a worker: BANDIT_MAX_CONNECTIONS, or its files", self._limit
            )


def allowed_connections(wanted: int, to_store: int) -> int:
    """Return how many connections of clients a worker may hold: what was set, or what its files allow.

    Parameters
    ----------
    wanted : as it was set
    to_store : connections to the store
    """
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if files == resource.RLIM_INFINITY:
        return wanted
    return max(1, min(wanted, files - to_store - OTHER_FILES - HEALTH_CONNECTIONS))


def raise_file_limit() -> None:
    """Let this process, and those it starts, open as many files as the system permits."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == hard or (sys.platform == "darwin" and hard == resource.RLIM_INFINITY):
        return
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
