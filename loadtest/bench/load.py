"""Load on a target: by wrk, which takes less of a core, or by clients in Python that can say anything."""

from __future__ import annotations

import asyncio
import itertools
import os
import random
import re
import shutil
import subprocess
import uuid
from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, cast

import numpy as np
import uvloop

from loadtest.errors import LoadTestError, ServiceError

Conversation = Generator[bytes, bytes, None]
"""The requests of one client: a generator that yields requests and receives the bodies of their answers."""

REPORTED = '{"arm": %d, "loss": 0.5}'
"""The event after an act."""
SECONDS_TO_ANSWER = 30
TALK = Path(__file__).parent / "lua" / "talk.lua"
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_ARM = re.compile(rb'"arm": *(\d+)')
_REQUESTS = re.compile(r"(\d+) requests in ([0-9.]+)(ms|s|m)")
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0}
_FAILURES = ("Non-2xx", "Socket errors")


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


def sent(requests: Iterator[bytes]) -> Conversation:
    """Send one request after the other; clients may share them, and end with the last."""
    for asked in requests:  # noqa: UP028 - an iterator takes no answers
        yield asked


_SEEDS = itertools.count(1)
"""One for each conversation: clients that drew the same sessions would meet at each of them."""


def act_and_feedback(act: str, feedback: str, sessions: int = 1, event: str = REPORTED) -> Conversation:
    """Repeat an act and the feedback for its arm; ``%d`` in the paths is one of the sessions, drawn anew.

    Parameters
    ----------
    event : JSON in which ``%d`` stands for the arm, and ``%s`` for an id that no other event has
    """
    chance = random.Random(next(_SEEDS))  # noqa: S311 - spreads load
    while True:
        session = chance.randrange(sessions)
        drawn = _ARM.search((yield request("POST", act.replace("%d", str(session)))))
        if drawn is None:
            raise ServiceError(f"{act} gave no arm")
        body = event.replace("%d", drawn[1].decode()).replace("%s", uuid.uuid4().hex)
        yield request("POST", feedback.replace("%d", str(session)), body.encode())


def find_wrk() -> str | None:
    """Return the program, None where it is not installed."""
    return shutil.which("wrk")


def run_wrk(program: str, port: int, clients: int, seconds: float, says: Mapping[str, str]) -> Rate:
    """Run ``clients`` connections; those whose request is under way at the end leave without the answer.

    Parameters
    ----------
    says : variables of ``talk.lua``

    Raises
    ------
    LoadTestError
        where an answer was no success, or a connection failed.
    """
    many = ("-t1", f"-c{clients}", f"-d{max(1, round(seconds))}s", "--timeout", f"{SECONDS_TO_ANSWER}s")
    command = [program, *many, "-s", str(TALK), f"http://127.0.0.1:{port}"]
    run = subprocess.run(command, env=os.environ | says, capture_output=True, text=True, check=False)  # noqa: S603 - wrk
    found = _REQUESTS.search(run.stdout)
    if found is None or any(failure in run.stdout for failure in _FAILURES):
        raise LoadTestError(f"wrk: {(run.stdout + run.stderr)[-500:]}")
    return Rate(int(found[1]), float(found[2]) * _UNITS[found[3]])


def run_clients(port: int, converse: Callable[[], Conversation], clients: int, seconds: float) -> Rate:
    """Run clients that wait for each answer, for so many seconds; then wait for the last answers.

    Raises
    ------
    ServiceError
        for an answer that is no success, or a lost connection.
    """
    return uvloop.run(_run_clients(port, converse, clients, seconds))


async def _run_clients(port: int, converse: Callable[[], Conversation], clients: int, seconds: float) -> Rate:
    loop = asyncio.get_running_loop()
    started = loop.time()

    def ready(client: _Client) -> None:
        if loop.time() < started + seconds:
            client.ask()
        else:
            client.end()

    opened = await _opened(port, converse, clients, ready)
    async with asyncio.timeout(seconds + SECONDS_TO_ANSWER):
        await asyncio.wait([client.closed for client in opened], return_when=asyncio.FIRST_EXCEPTION)
    return await _closed(opened, started)


def latencies(
    port: int, converse: Callable[[], Conversation], clients: int, seconds: float, rate: float
) -> dict[str, float]:
    """Send ``rate`` requests per second, however long answers take (open loop).

    Returns milliseconds from the time that a request was due to its answer. A request that is due while all
    connections wait for answers is sent late, and its time runs already.

    Raises
    ------
    ServiceError
        for an answer that is no success, or a lost connection.
    """
    found = uvloop.run(_send_when_due(port, converse, clients, seconds, rate))
    p50, p99 = map(float, np.percentile(found, [50, 99]))
    return {"requests": len(found), "rate": rate, "p50": p50, "p99": p99, "p99_over_p50": p99 / p50}


async def _send_when_due(
    port: int, converse: Callable[[], Conversation], clients: int, seconds: float, rate: float
) -> Sequence[float]:
    loop, found = asyncio.get_running_loop(), list[float]()
    asked, due, idle = dict[_Client, float](), deque[float](), deque[_Client]()

    def ready(client: _Client) -> None:
        if client in asked:
            found.append(1000 * (loop.time() - asked.pop(client)))
        if due:
            asked[client] = due.popleft()
            client.ask()
        else:
            idle.append(client)

    opened = await _opened(port, converse, clients, ready)
    started, sent = loop.time(), 0
    async with asyncio.timeout(seconds + SECONDS_TO_ANSWER):
        while (sent < seconds * rate or asked or due) and not any(client.closed.done() for client in opened):
            while sent < seconds * rate and started + sent / rate <= loop.time():
                due.append(started + sent / rate)
                sent += 1
                if idle:
                    ready(idle.popleft())
            await asyncio.sleep(0.5 / rate)
    await _closed(opened, started)
    return found


async def _opened(
    port: int, converse: Callable[[], Conversation], clients: int, ready: Callable[[_Client], None]
) -> Sequence[_Client]:
    create = asyncio.get_running_loop().create_connection
    return [(await create(lambda: _Client(converse(), ready), "127.0.0.1", port))[1] for _ in range(clients)]


async def _closed(opened: Sequence[_Client], started: float) -> Rate:
    """Close all connections; raise what one of them met."""
    for client in opened:
        client.end()
    answered = await asyncio.gather(*(client.closed for client in opened))
    return Rate(sum(answered), asyncio.get_running_loop().time() - started)


class _Client(asyncio.Protocol):
    """A connection; each time that it may send the next request it is ``ready``."""

    def __init__(self, talk: Conversation, ready: Callable[[_Client], None]) -> None:
        self._talk, self._ready, self._answer, self._answered = talk, ready, b"", 0
        self._asked = next(talk, None)
        self._error: Exception | None = None
        self._is_ended = False
        self.closed: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        """Done when the connection is gone, with the number of answers."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._ready(self)

    def ask(self) -> None:
        """Send the next request; end after the last one."""
        if self._asked is None:
            self.end()
        else:
            self._transport.write(self._asked)

    def data_received(self, data: bytes) -> None:
        self._answer += data
        head, _, body = self._answer.partition(b"\r\n\r\n")
        length = _LENGTH.search(head)
        if not (body.endswith(b"0\r\n\r\n") if length is None else len(body) >= int(length[1])):
            return
        self._answer = b""
        if not head.startswith(b"HTTP/1.1 20"):
            self.end(ServiceError(f"status {head[9:12].decode()}: {body[:200].decode(errors='replace')}"))
            return
        self._answered += 1
        try:
            self._asked = self._talk.send(body)
        except StopIteration:
            self._asked = None
        self._ready(self)

    def end(self, error: Exception | None = None) -> None:
        """End the connection, whatever is under way."""
        self._is_ended, self._error = True, self._error or error
        self._transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        error = self._error or (None if self._is_ended else ServiceError(f"a connection was lost: {exc}"))
        if error is not None:
            self.closed.set_exception(error)
        else:
            self.closed.set_result(self._answered)
