"""Connections to the service, blocking and awaited, which send one attempt of a call and keep its deadline."""

import asyncio
import os
import ssl
import threading
import time
import weakref
import zlib
from collections.abc import AsyncGenerator
from concurrent.futures import Future
from contextlib import aclosing, closing
from typing import Any, cast

import httpcore
import httpx

from .attempts import POOL, Attempts, Seconds, Target, no_answer
from .calls import BadAnswerError, ClosedError, Json

# -- What is read of an answer.

MOST_BYTES = 16_000_000
"""Of an answer, unpacked."""


class Body:
    """The bytes of an answer, unpacked as they come: a small answer may unpack to more than there is memory."""

    def __init__(self, response: httpx.Response) -> None:
        self._url = response.url
        encoding = response.headers.get("Content-Encoding", "").strip().lower()
        if encoding not in {"", "identity", "gzip"}:
            raise BadAnswerError(f"the answer of {self._url} has an encoding that nobody asked for")
        self._packed = zlib.decompressobj(wbits=31) if encoding == "gzip" else None
        self.content = bytearray()

    def add(self, part: bytes) -> None:
        """Add what came.

        Raises
        ------
        BadAnswerError
            where it can't be unpacked, or is more than ``MOST_BYTES``.
        """
        try:
            room = MOST_BYTES + 1 - len(self.content)
            self.content += part if self._packed is None else self._packed.decompress(part, room)
        except zlib.error as error:
            raise BadAnswerError(f"the answer of {self._url} is not packed as it says: {error}") from None
        if len(self.content) > MOST_BYTES:
            raise BadAnswerError(f"the answer of {self._url} has more than {MOST_BYTES} bytes")


# -- Blocking connections.
#
# httpx bounds each step, and a step may be many: a server that sends its head a byte at a time would hold a call
# for as long as it likes, and nothing bounds how long the system looks up a host's address.

PIECE = 65_536
"""Bytes written in one step."""


def _left(timeout: float | None, ended: type[httpx.TimeoutException]) -> float | None:
    """Return the seconds that are left of ``timeout`` by now.

    Raises
    ------
    httpx.TimeoutException
        of the kind ``ended``, where none are.
    """
    if not isinstance(timeout, Seconds):
        return timeout
    left = timeout.deadline - time.monotonic()
    if left <= 0:
        raise ended("the time for this call is over")
    return left


class _Stream(httpcore.NetworkStream):
    """A connection that looks at the clock before each step."""

    def __init__(self, stream: httpcore.NetworkStream) -> None:
        self._stream = stream

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._stream.read(max_bytes, _left(timeout, httpx.ReadTimeout))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        for start in range(0, len(buffer), PIECE):
            self._stream.write(buffer[start : start + PIECE], _left(timeout, httpx.WriteTimeout))

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.NetworkStream:
        left = _left(timeout, httpx.ConnectTimeout)
        return _Stream(self._stream.start_tls(ssl_context, server_hostname, left))

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)

    def close(self) -> None:
        self._stream.close()


class _Backend(httpcore.SyncBackend):
    """Connects in a thread of its own, because looking up an address can't be bounded."""

    def connect_tcp(
        self, host: str, port: int, timeout: float | None = None, *args: Any, **options: Any
    ) -> httpcore.NetworkStream:
        connected: Future[httpcore.NetworkStream] = Future()

        def connect() -> None:
            try:
                connected.set_result(httpcore.SyncBackend.connect_tcp(self, host, port, timeout, *args, **options))
            except Exception as error:
                connected.set_exception(error)

        try:
            threading.Thread(target=connect, name="delayed-bandits-connect", daemon=True).start()
        except RuntimeError:  # There is no room for another, or the program ends: late is better than never.
            connect()
        try:
            return _Stream(connected.result(_left(timeout, httpx.ConnectTimeout)))
        except TimeoutError:  # A connection that comes later is closed.
            connected.add_done_callback(lambda late: None if late.exception() else late.result().close())
            raise httpx.ConnectTimeout("no connection in time") from None


class DeadlineTransport(httpx.HTTPTransport):
    """httpx's own transport, on connections that keep ``Seconds``, also those through a proxy."""

    def __init__(self, verify: Any, proxy: httpx.Proxy | None = None) -> None:
        super().__init__(verify=verify, limits=httpx.Limits(**POOL), proxy=proxy)
        self._pool._network_backend = _Backend()  # noqa: SLF001 - a proxy has its pool made by httpx


class Connection:
    """Blocking connections, for any thread; ``transport`` stands in place of the network."""

    def __init__(self, target: Target, transport: httpx.BaseTransport | None = None) -> None:
        self._target = target
        self._transport = transport
        self.reset()
        OPEN.add(self)

    def reset(self) -> None:
        """Open other connections, as the child of a fork has to: those that are open are its parent's."""
        transport = self._transport or DeadlineTransport(self._target.verify, self._target.proxy)
        self._http = httpx.Client(**self._target.options(transport))

    def attempt(self, attempts: Attempts) -> Json:
        """Make the next attempt of a call, and return what is answered.

        Raises
        ------
        BanditsError
            where none is answered in time, the service refuses, or the connections are closed.
        """
        if self._http.is_closed:
            raise ClosedError("this client has been closed")
        request, left = attempts.request(self._http)
        try:
            response = self._http.send(request, stream=True)
            with closing(response):
                body = Body(response)
                for part in cast("httpx.SyncByteStream", response.stream):
                    body.add(part)
                    if left.is_over():
                        raise httpx.ReadTimeout("the answer did not end in time")
        except httpx.HTTPError as error:
            raise no_answer(request, error) from None
        return attempts.answer(response, bytes(body.content))

    def close(self) -> None:
        """Close the connections."""
        self._http.close()


OPEN: weakref.WeakSet[Any] = weakref.WeakSet()
"""Connections and reporters: the child of a fork resets them."""


def _after_fork() -> None:
    for each in list(OPEN):
        each.reset()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


# -- Awaited connections.


class AsyncConnection:
    """Awaited connections, for any event loop; ``transport`` stands in place of the network.

    Each event loop has connections of its own, because a connection lives and dies with the loop that opened it.
    """

    def __init__(self, target: Target, transport: httpx.AsyncBaseTransport | None = None) -> None:
        self._target = target
        self._transport = transport
        self._of_loops: dict[asyncio.AbstractEventLoop, tuple[httpx.AsyncClient, AsyncGenerator[None]]] = {}
        """The connections of an event loop, and what closes them."""
        self._is_closed = False

    async def _http(self) -> httpx.AsyncClient:
        """Return the connections of the event loop that runs."""
        if self._is_closed:
            raise ClosedError("this client has been closed")
        loop = asyncio.get_running_loop()
        if (found := self._of_loops.get(loop)) is None:
            http = httpx.AsyncClient(**self._target.options(self._transport))

            async def close_at_end() -> AsyncGenerator[None]:
                # An event loop ends its generators before it is closed.
                try:
                    yield
                finally:
                    await http.aclose()

            found = http, close_at_end()
            await anext(found[1])
            others = list(self._of_loops.items())
            self._of_loops = {loop: found} | {each: kept for each, kept in others if not each.is_closed()}
        return found[0]

    async def attempt(self, attempts: Attempts) -> Json:
        """Make the next attempt of a call, as that of ``Connection`` does."""
        http = await self._http()
        request, left = attempts.request(http)
        try:
            async with asyncio.timeout(left.get("all")):
                response = await http.send(request, stream=True)
                async with aclosing(response):
                    body = Body(response)
                    async for part in cast("httpx.AsyncByteStream", response.stream):
                        body.add(part)
        except (httpx.HTTPError, TimeoutError) as error:
            raise no_answer(request, error) from None
        return attempts.answer(response, bytes(body.content))

    async def close(self) -> None:
        """Close the connections of the event loop that runs; those of others end with their loops."""
        self._is_closed = True
        if (found := self._of_loops.pop(asyncio.get_running_loop(), None)) is not None:
            await found[1].aclose()
