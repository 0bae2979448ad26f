"""Connections to whichever server the sentinels say is the master."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from redis.asyncio import Connection
from redis.asyncio.sentinel import MasterNotFoundError, Sentinel, SentinelConnectionPool

LOOK_SECONDS = 1.0
"""How long a replaced master may be taken for the master; what it acknowledges meanwhile is lost."""
_SENTINEL_OPTIONS = {"sentinel_username": "username", "sentinel_password": "password"}


class MasterPool(SentinelConnectionPool):
    """A pool that leaves a master which has become a replica, and one that was replaced but doesn't know it yet."""

    def __init__(self, service: str, manager: Sentinel, **settings: Any) -> None:
        super().__init__(service, manager, **settings)  # type: ignore[no-untyped-call]
        self._look_again = 0.0

    async def get_connection(self) -> Connection:  # type: ignore[override]
        if time.monotonic() >= self._look_again:
            # Without sentinels the master known so far may well be fine.
            with suppress(MasterNotFoundError):
                await self.get_master_address()  # type: ignore[no-untyped-call]
            self._look_again = time.monotonic() + LOOK_SECONDS
        connection: Connection = await super().get_connection()  # type: ignore[no-untyped-call]
        try:
            if self.master_address not in (None, (connection.host, connection.port)):
                await connection.disconnect()
                await connection.connect()  # type: ignore[no-untyped-call]
        except BaseException:
            await self.release(connection)
            raise
        return connection

    async def aclose(self) -> None:
        await super().aclose()
        for sentinel in self.sentinel_manager.sentinels:
            await sentinel.aclose()


def master_pool(
    sentinels: Sequence[tuple[str, int]], service: str, settings: dict[str, Any], max_connections: int
) -> MasterPool:
    """A pool of connections to the master of a service.

    Parameters
    ----------
    settings : those of the connections; sentinels share times, retries and TLS, but have a password of their own
    """
    settings = {name: value for name, value in settings.items() if name not in {"host", "port", "connection_class"}}
    own = {inner: settings.pop(outer) for outer, inner in _SENTINEL_OPTIONS.items() if outer in settings}
    shared = {"socket_timeout", "socket_connect_timeout", "retry", "protocol"}
    own |= {name: value for name, value in settings.items() if name in shared or name.startswith("ssl")}
    manager = Sentinel(sentinels, sentinel_kwargs=own)  # type: ignore[no-untyped-call]
    return MasterPool(service, manager, max_connections=max_connections, **settings)
