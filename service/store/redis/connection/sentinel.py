"""The master that Redis sentinels name."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from typing import Any

from redis.asyncio import SSLConnection
from redis.asyncio.sentinel import Sentinel

from .failures import lost_connections_told

MASTER_CHECK_SECONDS = 1.0
"""Time between two questions to the sentinels; commits to a replaced master are lost until the next one."""
_SENTINEL_OPTIONS = {"sentinel_username": "username", "sentinel_password": "password"}

Address = tuple[str, int]


class Master:
    """Asks the sentinels for the master.

    They are asked every ``MASTER_CHECK_SECONDS``, since a replaced master that is cut off from them goes on
    accepting commits.

    Parameters
    ----------
    sentinels : host and port of each
    service : the sentinels' name for the master
    settings : redis-py's settings of connections to the master; connections to sentinels have the same timeouts,
        retries and TLS, but the user and password in ``sentinel_username`` and ``sentinel_password``
    """

    def __init__(self, sentinels: Sequence[Address], service: str, settings: Mapping[str, Any]) -> None:
        own = {inner: settings[outer] for outer, inner in _SENTINEL_OPTIONS.items() if outer in settings}
        shared = {"socket_timeout", "socket_connect_timeout", "retry", "protocol"}
        own |= {name: value for name, value in settings.items() if name in shared or name.startswith("ssl")}
        own["ssl"] = settings.get("connection_class") is SSLConnection
        self._sentinel = Sentinel(sentinels, sentinel_kwargs=own)  # type: ignore[no-untyped-call]
        self._service = service
        self._address: Address | None = None
        self._next_check = 0.0

    def is_current(self, address: Address) -> bool:
        """Return whether this was the master lately; False also when it is time to ask again."""
        return address == self._address and time.monotonic() < self._next_check

    def forget(self) -> None:
        """Ask again before the next call."""
        self._next_check = 0.0

    async def where(self) -> dict[str, Any]:
        """Ask for the master, and return redis-py's settings that lead there.

        Raises
        ------
        MasterNotFoundError
            if no sentinel knows one.
        ConnectionError
            if the connection to a sentinel was just lost.
        """
        try:
            with lost_connections_told():
                self._address = await self._sentinel.discover_master(self._service)
        finally:
            self._next_check = time.monotonic() + MASTER_CHECK_SECONDS
        return dict(zip(("host", "port"), self._address, strict=True))

    async def is_named(self, address: Address) -> bool:
        """Return whether more than half of the sentinels in the URL answer that this is the master."""
        sentinels = self._sentinel.sentinels
        asked = (each.sentinel_get_master_addr_by_name(self._service) for each in sentinels)
        answers = await asyncio.gather(*asked, return_exceptions=True)
        return 2 * sum(map(address.__eq__, answers)) > len(sentinels)

    async def close(self) -> None:
        """Close the connections to the sentinels."""
        for sentinel in self._sentinel.sentinels:
            await sentinel.aclose()
