"""One connection of the service in this process, with an application that answers anything."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import uvicorn
from uvicorn.server import ServerState

from service.server.connection import HttpConnection
from service.server.connection_limits import ConnectionLimit


async def _answer(_scope: Any, receive: Any, send: Any) -> None:
    message = await receive()
    while message.get("more_body"):
        message = await receive()
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]})
    await send({"type": "http.response.body", "body": b""})


class Watched(HttpConnection):
    """Says when something has come."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.came = asyncio.Event()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self.came.set()


@contextlib.asynccontextmanager
async def spoken_to() -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter, Watched]]:
    """A client's end of a connection, and the service's."""
    made = asyncio.get_running_loop().create_future()

    def make() -> Watched:
        config = uvicorn.Config(_answer, lifespan="off", log_config=None)
        config.load()
        refuse = SimpleNamespace(status_code=503, body=b"", raw_headers=[])
        own = {"check_origin": lambda _url, _headers: None, "head_seconds": 7200, "refuse": lambda *_: refuse}
        own["limit"] = ConnectionLimit(10, time.monotonic)
        made.set_result(Watched(config, ServerState(), {}, **own))
        return made.result()

    server = await asyncio.get_running_loop().create_server(make, "127.0.0.1", 0)
    async with server:
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        yield reader, writer, await made
        writer.close()
