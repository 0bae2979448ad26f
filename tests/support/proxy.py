"""A TCP proxy that cuts connections at the worst moments."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Literal

Where = Literal["request", "reply"]


class CuttingProxy:
    """Forwards to a local port; armed, it cuts the next connections before the request or before the reply."""

    def __init__(self, upstream: int) -> None:
        self._upstream = upstream
        self._cuts: list[Where] = []
        self._links: set[asyncio.Task[None]] = set()
        self.cut = 0
        self.port = 0

    def arm(self, *cuts: Where) -> None:
        """Cut once for each of these, in order."""
        self._cuts += cuts

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection("127.0.0.1", self._upstream)
        ways = [self._pass_on("request", reader, back), self._pass_on("reply", there, writer)]
        tasks = [asyncio.ensure_future(way) for way in ways]
        self._links |= set(tasks)
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for end in (writer, back):
            end.close()
        await asyncio.wait(tasks)
        self._links -= set(tasks)

    async def _pass_on(self, what: Where, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            while data := await reader.read(1 << 16):
                if self._cuts and self._cuts[0] == what:
                    self._cuts.pop(0)
                    self.cut += 1
                    return
                writer.write(data)
                await writer.drain()


@asynccontextmanager
async def cutting_proxy(upstream: int) -> AsyncIterator[CuttingProxy]:
    proxy = CuttingProxy(upstream)
    server = await asyncio.start_server(proxy.serve, "127.0.0.1", 0)
    proxy.port = server.sockets[0].getsockname()[1]
    async with server:
        yield proxy
