"""Connections to whichever server the sentinels say is the master."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from redis.asyncio import Connection
from redis.asyncio.sentinel import MasterNotFoundError, Sentinel, SentinelConnectionPool

SCHEME = "redis+sentinel"
SENTINEL_PORT = 26379
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


def plain_url(url: str) -> tuple[str, list[tuple[str, int]], str]:
    """The parts of ``redis+sentinel://[user:password@]host[:port][,host[:port]...]/service[/db][?options]``.

    Returns
    -------
    a redis:// URL with user, password, database and options; the sentinels; the name of the service

    Raises
    ------
    ValueError
        where a part is missing or makes no sense.
    """
    parts = urlsplit(url)
    user, at, hosts = parts.netloc.rpartition("@")
    service, _, database = parts.path.strip("/").partition("/")
    if not hosts or not service:
        raise ValueError("a redis+sentinel:// store URL is redis+sentinel://host:port,host:port/service/database")
    plain = urlunsplit(
        ("redis", f"{user}{at}sentinel", f"/{database}" if database else "", parts.query, parts.fragment)
    )
    return plain, [_address(host) for host in hosts.split(",")], service


def master_pool(
    sentinels: list[tuple[str, int]], service: str, settings: dict[str, Any], max_connections: int
) -> MasterPool:
    """A pool of connections to the master of a service.

    Parameters
    ----------
    settings : those of the connections; sentinels share times and retries, but have a password of their own
    """
    settings = {name: value for name, value in settings.items() if name not in {"host", "port"}}
    own = {inner: settings.pop(outer) for outer, inner in _SENTINEL_OPTIONS.items() if outer in settings}
    shared = ("socket_timeout", "socket_connect_timeout", "retry", "protocol")
    own |= {name: settings[name] for name in shared}
    manager = Sentinel(sentinels, sentinel_kwargs=own)  # type: ignore[no-untyped-call]
    return MasterPool(service, manager, max_connections=max_connections, **settings)


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":") if not text.endswith("]") and ":" in text else (text, "", "")
    return host.strip("[]"), int(port) if port else SENTINEL_PORT
