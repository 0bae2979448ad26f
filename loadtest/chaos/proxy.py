"""A TCP proxy in front of a local port that cuts connections at the worst moments."""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress
from typing import Literal

from loadtest.errors import LoadTestError

Where = Literal["request", "half_request", "reply", "half_reply"]
"""What is lost: all of the next chunk, or its second half; the connection with it."""
START_SECONDS = 10.0


class CuttingProxy:
    """Forwards connections in a background thread; when armed, it cuts the next request or reply.

    Parameters
    ----------
    upstream : the local port to forward to; it may be closed for a while
    """

    def __init__(self, upstream: int) -> None:
        self._upstream = upstream
        self._armed: tuple[Where, ...] = ()
        self._loop = asyncio.new_event_loop()
        self._ending = asyncio.Event()
        self._listening = threading.Event()
        self._writers: set[asyncio.StreamWriter] = set()
        self._thread = threading.Thread(target=self._loop.run_until_complete, args=(self._serve(),), daemon=True)
        self.cut = 0
        """Connections cut so far."""
        self.port = 0

    def __enter__(self) -> CuttingProxy:
        self._thread.start()
        if not self._listening.wait(START_SECONDS):
            raise LoadTestError(f"the proxy does not listen after {START_SECONDS:g} s")
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._ending.set)
        self._thread.join()
        self._loop.close()

    def arm(self, *cuts: Where) -> None:
        """Cut once for each of these, in this order; they replace what was armed before."""
        self._armed = cuts

    async def _serve(self) -> None:
        server = await asyncio.start_server(self._link, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        self._listening.set()
        await self._ending.wait()
        server.close()
        for writer in self._writers:
            writer.transport.abort()
        await asyncio.gather(*asyncio.all_tasks() - {asyncio.current_task()})

    async def _link(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            there, back = await asyncio.open_connection("127.0.0.1", self._upstream)
        except OSError:
            writer.transport.abort()
            return
        ways = (self._pass_on("request", reader, back), self._pass_on("reply", there, writer))
        self._writers |= {writer, back}
        tasks = [asyncio.create_task(way) for way in ways]
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for end in (writer, back):
            end.transport.abort()
        await asyncio.wait(tasks)
        self._writers -= {writer, back}

    async def _pass_on(self, what: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            while data := await reader.read(1 << 16):
                if self._armed and self._armed[0].endswith(what):
                    cut, *later = self._armed
                    self._armed = tuple(later)
                    self.cut += 1
                    if cut.startswith("half"):
                        writer.write(data[: len(data) // 2])
                        await writer.drain()
                    return
                writer.write(data)
                await writer.drain()
