"""Sending calls that block. All else that calls need has no I/O."""

from __future__ import annotations

import asyncio
import os
import time
import weakref
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import closing
from typing import Any, NamedTuple

import httpx

from .attempts import Attempts, Target, no_answer, transports
from .calls import BanditsError, Call, ClosedError, Json, NoAnswerError, Reader, Steps, T
from .steps import page


class Connection:
    """Blocking calls, from any thread.

    Parameters
    ----------
    target : where calls go, and how long they may take
    transport : in place of the network; None for the network
    """

    def __init__(self, target: Target, transport: httpx.BaseTransport | None = None) -> None:
        self._target = target
        self._transport = transport
        self.reset()
        _open.add(self)

    def reset(self) -> None:
        """Open other connections, as the child of a fork has to: those that are open are its parent's."""
        options = self._target.options()
        mounts = transports(options["verify"], options["limits"]) if self._transport is None else {}
        self._http = httpx.Client(transport=self._transport, mounts=mounts, **options)

    def run(self, steps: Steps[T]) -> T:
        """Make the calls of these steps, and return what they come to.

        Raises
        ------
        ApiError
            where the service refused, and the steps do not handle it.
        NoAnswerError
            where no answer came in time.
        BadAnswerError
            where an answer does not come from this service.
        ClosedError
            where the connections are closed.
        """
        try:
            call = next(steps)
            while True:
                try:
                    answer = self.send(call)
                except Exception as error:
                    call = steps.throw(error)
                else:
                    call = steps.send(answer)
        except StopIteration as end:
            found: T = end.value
            return found

    def pages(self, path: str, items: str, reader: Reader[T], **query: Any) -> Iterator[T]:
        """Yield the items of all pages.

        Parameters
        ----------
        path : below the service's address
        items : the field of a page that lists them
        reader : makes an item of its JSON
        query : parameters of every page; those that are None are not sent

        Raises
        ------
        BanditsError
            as ``run`` does, at the page that is asked for next.
        """
        cursor = None
        while True:
            found, cursor = self.run(page(path, items, reader, {**query, "cursor": cursor}))
            yield from found
            if cursor is None:
                return

    def send(self, call: Call) -> Json:
        """Make one call, with all its attempts.

        Raises
        ------
        BanditsError
            the error of the last attempt.
        """
        attempts = Attempts(call, self._target)
        while True:
            try:
                return self._attempt(attempts)
            except BanditsError as error:
                pause = attempts.pause(error)
            time.sleep(pause)

    def _attempt(self, attempts: Attempts) -> Json:
        if self._http.is_closed:
            raise ClosedError("this client has been closed")
        request, left = attempts.request(self._http)
        content = b""
        try:
            response = self._http.send(request, stream=True)
            with closing(response):
                for part in response.iter_bytes():
                    content += part
                    if left.is_over():
                        raise NoAnswerError(f"{request.url}: the answer did not end in time")
        except httpx.HTTPError as error:
            raise no_answer(request, error) from None
        return attempts.answer(response, content)

    def close(self) -> None:
        """Close the connections."""
        self._http.close()


_open: weakref.WeakSet[Connection] = weakref.WeakSet()


def _after_fork() -> None:
    for connection in list(_open):
        connection.reset()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


# -- Sending calls on an event loop. All else that calls need has no I/O.


class _OfLoop(NamedTuple):
    """The connections of an event loop, and what closes them."""

    http: httpx.AsyncClient
    closing: AsyncGenerator[None]


async def _closing(http: httpx.AsyncClient) -> AsyncGenerator[None]:
    """Close connections when this ends: an event loop ends its generators before it is closed."""
    try:
        yield
    finally:
        await http.aclose()


class AsyncConnection:
    """Awaited calls, from any event loop; see ``Connection``.

    Each event loop has connections of its own, because a connection lives and dies with the loop that opened it.

    Parameters
    ----------
    target : where calls go, and how long they may take
    transport : in place of the network; None for the network
    """

    def __init__(self, target: Target, transport: httpx.AsyncBaseTransport | None = None) -> None:
        self._target = target
        self._transport = transport
        self._of_loops: dict[asyncio.AbstractEventLoop, _OfLoop] = {}
        self._is_closed = False

    async def _http(self) -> httpx.AsyncClient:
        """Return the connections of the event loop that runs."""
        if self._is_closed:
            raise ClosedError("this client has been closed")
        loop = asyncio.get_running_loop()
        if (found := self._of_loops.get(loop)) is None:
            http = httpx.AsyncClient(transport=self._transport, **self._target.options())
            found = _OfLoop(http, _closing(http))
            await anext(found.closing)
            others = list(self._of_loops.items())
            self._of_loops = {loop: found} | {each: kept for each, kept in others if not each.is_closed()}
        return found.http

    async def run(self, steps: Steps[T]) -> T:
        """Make the calls of these steps, and return what they come to.

        Raises
        ------
        BanditsError
            as that of ``Connection`` does.
        """
        try:
            call = next(steps)
            while True:
                try:
                    answer = await self._send(call)
                except Exception as error:
                    call = steps.throw(error)
                else:
                    call = steps.send(answer)
        except StopIteration as end:
            found: T = end.value
            return found

    async def pages(self, path: str, items: str, reader: Reader[T], **query: Any) -> AsyncIterator[T]:
        """Yield the items of all pages.

        Parameters
        ----------
        path : below the service's address
        items : the field of a page that lists them
        reader : makes an item of its JSON
        query : parameters of every page; those that are None are not sent

        Raises
        ------
        BanditsError
            as ``run`` does, at the page that is asked for next.
        """
        cursor = None
        while True:
            found, cursor = await self.run(page(path, items, reader, {**query, "cursor": cursor}))
            for each in found:
                yield each
            if cursor is None:
                return

    async def _send(self, call: Call) -> Json:
        attempts = Attempts(call, self._target)
        while True:
            try:
                return await self._attempt(attempts)
            except BanditsError as error:
                pause = attempts.pause(error)
            await asyncio.sleep(pause)

    async def _attempt(self, attempts: Attempts) -> Json:
        http = await self._http()
        request, left = attempts.request(http)
        try:
            async with asyncio.timeout(left.get("all")):
                response = await http.send(request)
        except (httpx.HTTPError, TimeoutError) as error:
            raise no_answer(request, error) from None
        return attempts.answer(response, response.content)

    async def close(self) -> None:
        """Close the connections of the event loop that runs; those of others end with their loops."""
        self._is_closed = True
        if (found := self._of_loops.pop(asyncio.get_running_loop(), None)) is not None:
            await found.closing.aclose()
