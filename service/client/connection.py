"""Sending calls, blocking and on an event loop. All else that calls need has no I/O."""

from __future__ import annotations

import asyncio
import os
import time
import weakref
from collections.abc import AsyncIterator, Iterator
from contextlib import closing
from typing import Any

import httpx

from .answers import Reader
from .attempts import Attempts, Target
from .calls import Call, Json, Steps, T
from .deadline import transports
from .errors import BanditsError, ClosedError, NoAnswerError
from .steps.sessions import page


class Connection:
    """Blocking calls, from any thread.

    Parameters
    ----------
    transport : in place of the network
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
        """Make the calls of these steps, and return what they come to."""
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
        """Go through the items of all pages."""
        cursor = None
        while True:
            found, cursor = self.run(page(path, items, reader, {**query, "cursor": cursor}))
            yield from found
            if cursor is None:
                return

    def send(self, call: Call) -> Json:
        """Make one call, with all its attempts."""
        attempts = Attempts(call, self._target)
        while True:
            try:
                return self._attempt(attempts)
            except BanditsError as error:
                pause = attempts.pause(error)
            time.sleep(pause)

    def _attempt(self, attempts: Attempts) -> Json:
        _check_open(self._http)
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
            raise _no_answer(request, error) from None
        return attempts.answer(response, content)

    def close(self) -> None:
        """Close the connections."""
        self._http.close()


class AsyncConnection:
    """Calls on one event loop; see ``Connection``."""

    def __init__(self, target: Target, transport: httpx.AsyncBaseTransport | None = None) -> None:
        self._target = target
        self._http = httpx.AsyncClient(transport=transport, **target.options())

    async def run(self, steps: Steps[T]) -> T:
        """Make the calls of these steps, and return what they come to."""
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
        """Go through the items of all pages."""
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
        _check_open(self._http)
        request, left = attempts.request(self._http)
        try:
            async with asyncio.timeout(left.get("all")):
                response = await self._http.send(request)
        except (httpx.HTTPError, TimeoutError) as error:
            raise _no_answer(request, error) from None
        return attempts.answer(response, response.content)

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()


def _check_open(http: httpx.Client | httpx.AsyncClient) -> None:
    if http.is_closed:
        raise ClosedError("this client has been closed")


def _no_answer(request: httpx.Request, error: Exception) -> BanditsError:
    """The error to raise, without its cause: the text names that, and httpx's traceback would hide it."""
    text = f"{request.method} {request.url}: {type(error).__name__}: {error}".rstrip(": ")
    return BanditsError(text) if isinstance(error, _OWN_FAULTS) else NoAnswerError(text)


_OWN_FAULTS = (httpx.LocalProtocolError, httpx.UnsupportedProtocol)
"""Requests that no attempt can send."""
_open: weakref.WeakSet[Connection] = weakref.WeakSet()


def _after_fork() -> None:
    for connection in list(_open):
        connection.reset()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
