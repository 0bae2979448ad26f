"""Connections to the master that Redis sentinels name."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from redis.asyncio import Connection
from redis.asyncio.sentinel import MasterNotFoundError, Sentinel, SentinelConnectionPool

MASTER_CHECK_SECONDS = 1.0
"""Time between two questions to the sentinels; commits to a replaced master are lost until the next one."""
_SENTINEL_OPTIONS = {"sentinel_username": "username", "sentinel_password": "password"}


class MasterPool(SentinelConnectionPool):
    """A pool of connections to the master; after a failover it connects to the new one.

    It asks the sentinels every ``MASTER_CHECK_SECONDS``, since a replaced master that is cut off from them goes on
    accepting commits.
    """

    def __init__(self, service: str, manager: Sentinel, **settings: Any) -> None:
        super().__init__(service, manager, **settings)  # type: ignore[no-untyped-call]
        self._next_check = 0.0

    async def get_connection(self) -> Connection:  # type: ignore[override]
        if time.monotonic() >= self._next_check:
            # If no sentinel answers, the last known master may still work.
            with suppress(MasterNotFoundError):
                await self.get_master_address()  # type: ignore[no-untyped-call]
            self._next_check = time.monotonic() + MASTER_CHECK_SECONDS
        connection: Connection = await super().get_connection()  # type: ignore[no-untyped-call]
        try:
            if self.master_address not in (None, (connection.host, connection.port)):
                await connection.disconnect()
                await connection.connect()  # type: ignore[no-untyped-call]
        except BaseException:
            await self.release(connection)
            raise
        return connection

    async def names(self, address: tuple[str, int]) -> bool:
        """Return whether more than half of the sentinels in the URL answer that this is the master."""
        sentinels = self.sentinel_manager.sentinels
        asked = (each.sentinel_get_master_addr_by_name(self.service_name) for each in sentinels)
        answers = await asyncio.gather(*asked, return_exceptions=True)
        return 2 * sum(map(address.__eq__, answers)) > len(sentinels)

    async def aclose(self) -> None:
        await super().aclose()
        for sentinel in self.sentinel_manager.sentinels:
            await sentinel.aclose()


def master_pool(
    sentinels: Sequence[tuple[str, int]], service: str, settings: dict[str, Any], max_connections: int
) -> MasterPool:
    """Make a pool of connections to a master.

    Parameters
    ----------
    sentinels : host and port of each
    service : the sentinels' name for the master
    settings : redis-py's settings of connections to the master; connections to sentinels have the same timeouts,
        retries and TLS, but the user and password in ``sentinel_username`` and ``sentinel_password``
    """
    settings = {name: value for name, value in settings.items() if name not in {"host", "port", "connection_class"}}
    own = {inner: settings.pop(outer) for outer, inner in _SENTINEL_OPTIONS.items() if outer in settings}
    shared = {"socket_timeout", "socket_connect_timeout", "retry", "protocol"}
    own |= {name: value for name, value in settings.items() if name in shared or name.startswith("ssl")}
    manager = Sentinel(sentinels, sentinel_kwargs=own)  # type: ignore[no-untyped-call]
    return MasterPool(service, manager, max_connections=max_connections, **settings)
