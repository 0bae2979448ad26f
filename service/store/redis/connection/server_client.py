"""Calls to one Redis server."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from ...options import StoreOptions
from .client import RedisClient
from .roundtrip import Attempt, RedisArgument, round_trip
from .url import connection_pool


class ServerClient(RedisClient):
    """Sends calls to the server of a URL, or to the master that its sentinels name."""

    def __init__(self, url: str, options: StoreOptions) -> None:
        super().__init__(options)
        self._pool = connection_pool(url, options)

    async def ask_each(self, *command: RedisArgument) -> Sequence[Any]:
        return [await self._send_with_retries(partial(self._send, (command,)))]

    async def close(self) -> None:
        await self._pool.aclose()

    async def _send(self, commands: Sequence[Sequence[RedisArgument]], attempt: Attempt) -> Any:
        return await round_trip(self._pool, commands, attempt)
