"""Calls to a Redis cluster: each goes to the master that serves the slot of its first key."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

from redis import crc, exceptions
from redis.exceptions import AskError, ClusterDownError, MovedError, RedisError

from ...options import StoreOptions
from .client import RedisClient
from .pipeline import RedisArgument
from .server import Attempt, ServerConnections
from .url import read_url

MAX_REDIRECTIONS = 5

Address = tuple[str, int]


class SlotRange(NamedTuple):
    """A range of slots, both ends included, and the master that serves it."""

    first: int
    last: int
    master: Address


class ClusterClient(RedisClient):
    """Sends each call to the master that serves the slot of its first key.

    A redirection (MOVED, ASK) means that nothing was done, so the client follows it at once. After a connection
    error, a timeout or CLUSTERDOWN it reads the map of slots again before the next attempt.

    Parameters
    ----------
    url : redis+cluster:// or rediss+cluster://, with one or more of the cluster's nodes
    options : as for every client; connections are counted for each master
    """

    def __init__(self, url: str, options: StoreOptions) -> None:
        super().__init__(options, self._send_by_slot)
        settings, self._seeds, _ = read_url(url, options)
        self._settings = settings
        self._servers: dict[Address, ServerConnections] = {}
        self._ranges: Sequence[SlotRange] = ()
        self._reading = asyncio.Lock()

    async def masters(self) -> Sequence[SlotRange]:
        """Return the widest range of each master, ordered by lowest slot, which a failover does not change."""
        ranges: Sequence[SlotRange] = await self._send_with_retries(self._map)
        places = dict.fromkeys(each.master for each in ranges)
        return [max((one for one in ranges if one.master == master), key=_width) for master in places]

    async def ask_each(self, *command: RedisArgument) -> Sequence[Any]:
        masters = [one.master for one in await self.masters()]
        return [await self._send_with_retries(partial(self._on, master, (command,))) for master in masters]

    async def close(self) -> None:
        for server in self._servers.values():
            await server.close()

    async def _send_by_slot(self, commands: Sequence[Sequence[RedisArgument]], attempt: Attempt) -> Any:
        slot = slot_of(str(commands[0][3]))
        ranges = await self._map(attempt)
        address = next((one.master for one in ranges if one.first <= slot <= one.last), None)
        for _ in range(MAX_REDIRECTIONS if address else 0):
            assert address is not None  # noqa: S101 - without an address the loop does not run
            try:
                return await self._on(address, commands, attempt)
            except AskError as error:
                attempt.asking = not isinstance(error, MovedError)
                address = (error.host or address[0], error.port)
                self._ranges = self._ranges if attempt.asking else ()
            except (exceptions.ConnectionError, exceptions.TimeoutError, ClusterDownError):
                self._ranges = ()
                raise
        raise ClusterDownError("no node serves the slot")

    async def _on(self, address: Address, commands: Sequence[Sequence[RedisArgument]], attempt: Attempt) -> Any:
        if address not in self._servers:
            settings = {**self._settings, "host": address[0], "port": address[1]}
            self._servers[address] = ServerConnections(settings, self._options)
        return await self._servers[address].call(commands, attempt)

    async def _map(self, _attempt: Attempt) -> Sequence[SlotRange]:
        async with self._reading:
            if not self._ranges:
                self._ranges = await self._read_map()
            return self._ranges

    async def _read_map(self) -> Sequence[SlotRange]:
        known = list(self._servers)
        random.shuffle(known)
        last_error: RedisError = ClusterDownError("no node knows the slots")
        for address in dict.fromkeys([*known, *self._seeds]):
            try:
                reply = await self._on(address, (("CLUSTER", "SLOTS"),), Attempt())
            except RedisError as error:
                last_error = error
                continue
            if reply:
                return sorted(_range(row, address[0]) for row in reply)
        raise last_error


def slot_of(key: str) -> int:
    """Return the slot of a key: a hash of the part in its first braces."""
    slot: int = crc.key_slot(key.encode())
    return slot


def _range(row: Sequence[Any], answering_host: str) -> SlotRange:
    first, last, (host, port, *_) = row[0], row[1], row[2]
    return SlotRange(first, last, (host.decode() if host else answering_host, port))


def _width(one: SlotRange) -> int:
    return one.last - one.first
