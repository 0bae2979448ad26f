"""Connections to the masters of a cluster, found by the slots of keys."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from redis import crc, exceptions
from redis.asyncio import ConnectionPool
from redis.exceptions import AskError, ClusterDownError, MovedError, RedisError

from ...options import StoreOptions
from .client import RedisClient
from .roundtrip import Attempt, RedisArgument, info_of, round_trip
from .url import read_url

MAX_REDIRECTIONS = 5

Address = tuple[str, int]


class SlotRange(NamedTuple):
    """Slots that one master serves."""

    first: int
    last: int
    master: Address


class ClusterClient(RedisClient):
    """Calls to whichever master serves the slot of their first key.

    A redirection (MOVED, ASK) means that nothing was done, so it is followed at once. After any other failure
    the client reads the map of slots again before the next attempt.
    """

    def __init__(self, url: str, options: StoreOptions) -> None:
        super().__init__(options)
        settings, self._seeds, _ = read_url(url, options)
        self._settings = {name: value for name, value in settings.items() if name not in {"host", "port"}}
        self._pools: dict[Address, ConnectionPool] = {}
        self._ranges: Sequence[SlotRange] = ()
        self._reading = asyncio.Lock()

    async def masters(self) -> Sequence[SlotRange]:
        """The widest range of each master, in the order of their lowest slots, which a failover keeps."""
        ranges: Sequence[SlotRange] = await self._send_with_retries(self._map)
        places = dict.fromkeys(each.master for each in ranges)
        return [max((one for one in ranges if one.master == master), key=_width) for master in places]

    async def servers(self) -> Sequence[Mapping[str, object]]:
        asked = (("INFO",),)
        masters = [one.master for one in await self.masters()]
        return [info_of(await self._send_with_retries(partial(self._on, master, asked))) for master in masters]

    async def close(self) -> None:
        for pool in self._pools.values():
            await pool.aclose()

    async def _send(self, commands: Sequence[Sequence[RedisArgument]], attempt: Attempt) -> Any:
        slot = slot_of(str(commands[0][3]))
        ranges = await self._map(attempt)
        address = next((one.master for one in ranges if one.first <= slot <= one.last), None)
        asking = False
        for _ in range(MAX_REDIRECTIONS if address else 0):
            assert address is not None  # noqa: S101 - without an address the loop does not run
            try:
                return await self._on(address, commands, attempt, asking=asking)
            except AskError as error:
                asking = not isinstance(error, MovedError)
                address = (error.host or address[0], error.port)
                self._ranges = self._ranges if asking else ()
            except (exceptions.ConnectionError, exceptions.TimeoutError, ClusterDownError):
                self._ranges = ()
                raise
        raise ClusterDownError("no node serves the slot")

    async def _on(
        self,
        address: Address,
        commands: Sequence[Sequence[RedisArgument]],
        attempt: Attempt,
        *,
        asking: bool = False,
    ) -> Any:
        if address not in self._pools:
            limit = self._options.max_connections
            self._pools[address] = ConnectionPool(
                host=address[0], port=address[1], max_connections=limit, **self._settings
            )
        return await round_trip(self._pools[address], commands, attempt, asking=asking)

    async def _map(self, _attempt: Attempt) -> Sequence[SlotRange]:
        async with self._reading:
            if not self._ranges:
                self._ranges = await self._read_map()
            return self._ranges

    async def _read_map(self) -> Sequence[SlotRange]:
        known = list(self._pools)
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
    """The slot of a key: a hash of what stands in its first braces."""
    slot: int = crc.key_slot(key.encode())
    return slot


def _range(row: Sequence[Any], asked: str) -> SlotRange:
    first, last, (host, port, *_) = row[0], row[1], row[2]
    return SlotRange(first, last, (host.decode() if host else asked, port))


def _width(one: SlotRange) -> int:
    return one.last - one.first
