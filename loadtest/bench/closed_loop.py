"""Closed-loop load: each client waits for an answer before it sends the next request."""

from __future__ import annotations

import asyncio
import json
import random
import re
from collections.abc import Callable, Generator, Iterator
from typing import NamedTuple, cast

import uvloop

from loadtest.errors import ServiceError

Conversation = Generator[bytes, bytes, None]
"""The requests of one client: a generator that yields requests and receives the bodies of their answers."""

_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_ARM = re.compile(rb'"arm": *(\d+)')
SECONDS_TO_ANSWER = 30


class Rate(NamedTuple):
    """What a run came to."""

    requests: int
    seconds: float


def request(method: str, path: str, body: bytes = b"") -> bytes:
    """Write a request on a connection that stays open."""
    head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\n"
    if method == "POST":
        head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
    return head.encode() + b"\r\n" + body


def repeated(method: str, path: str, body: bytes = b"") -> Conversation:
    """Repeat one request."""
    asked = request(method, path, body)
    while True:
        yield asked


def posts(path: str, bodies: Iterator[bytes]) -> Conversation:
    """Post one body after the other; clients may share them, and end with the last."""
    for body in bodies:
        yield request("POST", path, body)


def act_and_feedback(act: str, feedback: str, sessions: int = 1, seed: int = 1) -> Conversation:
    """Repeat an act and the feedback for its arm; ``%d`` in the paths is one of the sessions, drawn anew."""
    chance = random.Random(seed)  # noqa: S311 - spreads load
    while True:
        session = chance.randrange(sessions)
        drawn = _ARM.search((yield request("POST", act.replace("%d", str(session)))))
        if drawn is None:
            raise ServiceError(f"{act} gave no arm")
        event = json.dumps({"arm": int(drawn[1]), "loss": 0.5}).encode()
        yield request("POST", feedback.replace("%d", str(session)), event)


class _Client(asyncio.Protocol):
    def __init__(self, talk: Conversation, until: float) -> None:
        self._loop = asyncio.get_running_loop()
        self._talk = talk
        self._until = until
        self._answer = b""
        self.answered = 0
        self.done: asyncio.Future[int] = self._loop.create_future()
        self.closed: asyncio.Future[int] = self._loop.create_future()
        """Done when the connection is gone, with what ``done`` came to."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._ask(next(self._talk, None))

    def data_received(self, data: bytes) -> None:
        self._answer += data
        head, _, body = self._answer.partition(b"\r\n\r\n")
        length = _LENGTH.search(head)
        if length is None or len(body) < int(length[1]):
            return
        self._answer = b""
        if not head.startswith(b"HTTP/1.1 20"):
            self._end(ServiceError(f"status {head[9:12].decode()}: {body[:200].decode(errors='replace')}"))
            return
        self.answered += 1
        try:
            self._ask(self._talk.send(body))
        except StopIteration:
            self._end()

    def _ask(self, asked: bytes | None) -> None:
        if asked is not None and self._loop.time() < self._until:
            self._transport.write(asked)
        else:
            self._end()

    def connection_lost(self, exc: Exception | None) -> None:
        self._end(ServiceError(f"a connection was lost: {exc}"))
        if (error := self.done.exception()) is not None:
            self.closed.set_exception(error)
        else:
            self.closed.set_result(self.done.result())

    def close(self) -> None:
        """End the connection, whatever is under way."""
        self._transport.close()

    def _end(self, error: Exception | None = None) -> None:
        if not self.done.done():
            if error is None:
                self.done.set_result(self.answered)
            else:
                self.done.set_exception(error)
        self._transport.close()


def run_clients(port: int, converse: Callable[[], Conversation], clients: int, seconds: float) -> Rate:
    """Run ``clients`` clients for ``seconds`` seconds, then wait for the last answers, and return the rate.

    Raises
    ------
    ServiceError
        for an answer that is no success, or a lost connection.
    """
    return uvloop.run(_run_clients(port, converse, clients, seconds))


async def _run_clients(port: int, converse: Callable[[], Conversation], clients: int, seconds: float) -> Rate:
    loop = asyncio.get_running_loop()
    started = loop.time()
    protocols = [
        (await loop.create_connection(lambda: _Client(converse(), started + seconds), "127.0.0.1", port))[1]
        for _ in range(clients)
    ]
    async with asyncio.timeout(seconds + SECONDS_TO_ANSWER):
        await asyncio.wait([protocol.done for protocol in protocols], return_when=asyncio.FIRST_EXCEPTION)
    for protocol in protocols:
        protocol.close()
    answered = await asyncio.gather(*(protocol.closed for protocol in protocols))
    return Rate(sum(answered), loop.time() - started)
