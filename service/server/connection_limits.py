"""What a worker takes of its clients: how many connections, and which requests on them.

Beyond the limit a new connection takes the place of the one that has been idle for longest. Where none is idle, it
is one of a few that are held for health checks: any other request on it is told that the service is full.
"""

from __future__ import annotations

import ipaddress
import logging
import re
import resource
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ..errors import BadRequestError

if TYPE_CHECKING:  # The supervisor has no use for it.
    from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

# -- How many connections, and which of them makes room for the next.

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


class ConnectionLimit:
    """The connections of one worker.

    Parameters
    ----------
    limit : connections for all requests

    Attributes
    ----------
    count : connections that are open
    idle : since when a connection has no request, by the clock, longest first; each notes it of itself
    """

    def __init__(self, limit: int, clock: Callable[[], float]) -> None:
        self._limit, self.clock, self.count = limit, clock, 0
        self.idle: dict[HttpToolsProtocol, float] = {}
        # Those beyond the limit, oldest first.
        self._for_health: dict[HttpToolsProtocol, None] = {}
        self._logged = float("-inf")

    def opened(self, connection: HttpToolsProtocol) -> bool:
        """Count a new connection, and return whether it may only ask for health."""
        only_health = self.count - len(self._for_health) >= self._limit and not self._make_room()
        self.count += 1
        if only_health:
            if len(self._for_health) >= HEALTH_CONNECTIONS:
                oldest = next(iter(self._for_health))
                del self._for_health[oldest]
                oldest.transport.abort()
            self._for_health[connection] = None
        else:
            self.idle[connection] = self.clock()
        return only_health

    def closed(self, connection: HttpToolsProtocol) -> None:
        """Forget a connection."""
        self.count -= 1
        self.idle.pop(connection, None)
        self._for_health.pop(connection, None)

    def _make_room(self) -> bool:
        now = self.clock()
        if now - self._logged >= _LOG_SECONDS:
            self._logged = now
            text = "%d connections are open, the most of a worker: BANDIT_MAX_CONNECTIONS, or its files"
            log.warning(text, self._limit)
        if (oldest := next(iter(self.idle), None)) is None or now - self.idle[oldest] < IDLE_SECONDS:
            return False
        # It is counted until it has closed; closing takes no more than this turn of the event loop.
        del self.idle[oldest]
        oldest.transport.close()
        return True


def allowed_connections(wanted: int, to_store: int) -> int:
    """Return how many connections of clients a worker may hold beside those to the store: as wanted, or fewer."""
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if files == resource.RLIM_INFINITY:
        return wanted
    return max(1, min(wanted, files - to_store - OTHER_FILES - HEALTH_CONNECTIONS))


# -- What a request's headers must be, beyond what the parser asks of them.

MAX_PORT = 65_535
_HOST = re.compile(
    rb"(?:(?:[\w.~!$&'()*+,;=-]|%[0-9A-Fa-f]{2})*"
    rb"|\[(?:(?P<ipv6>[0-9A-Fa-f:.]+)|[vV][0-9A-Fa-f]+\.[\w.~!$&'()*+,;=:-]+)\])"
    rb"(?::0*(?P<port>\d{0,5}))?",
    re.ASCII,
)


def check_headers(version: str, headers: Sequence[tuple[bytes, bytes]]) -> None:
    """Refuse headers that a proxy in front of this server could understand otherwise.

    Raises
    ------
    BadRequestError
    """
    hosts = [value for name, value in headers if name == b"host"]
    if len(hosts) > 1 or (not hosts and version == "1.1"):
        raise BadRequestError("A request has one Host")
    if not all(map(is_host, hosts)):
        raise BadRequestError("The Host is no host and port")
    # Two lengths, a length that is no number and a length beside chunks are refused by the parser.
    codings = [value.lower() for name, value in headers if name == b"transfer-encoding"]
    if codings and (codings != [b"chunked"] or version == "1.0"):
        raise BadRequestError("The only Transfer-Encoding is chunked")


def is_host(value: bytes) -> bool:
    """Return whether a value is a host, or a host and a port; both may be empty.

    RFC 9112, section 3.2, and RFC 3986 define them.
    """
    found = _HOST.fullmatch(value)
    if found is None or int(found["port"] or 0) > MAX_PORT:
        return False
    try:
        return found["ipv6"] is None or bool(ipaddress.IPv6Address(found["ipv6"].decode("ascii")))
    except ValueError:
        return False
