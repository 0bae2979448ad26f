"""Load on a target: by wrk, which takes less of a core, or by clients in Python that can say anything."""

from __future__ import annotations

import asyncio
import json
import os
import random
import re
import shutil
import subprocess
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, cast

import numpy as np
import uvloop

from loadtest.errors import LoadTestError, ServiceError

Conversation = Generator[bytes, bytes, None]
"""The requests of one client: a generator that yields requests and receives the bodies of their answers."""

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


class _Client(asyncio.Protocol):
    def __init__(self, talk: Conversation, until: float) -> None:
        self._loop = asyncio.get_running_loop()
        self._talk, self._until, self._answer, self.answered = talk, until, b"", 0
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


def latencies(
    port: int, converse: Callable[[], Conversation], clients: int, seconds: float, rate: float
) -> dict[str, float]:
    """Send ``rate`` requests per second, however long answers take (open loop).

    Returns milliseconds from the time that a request was due to its answer. A request that is due while all
    connections wait for answers is sent late, and its time runs already.

    Raises
    ------
    ServiceError
        for an answer that is no 200, or a lost connection.
    """
    found = uvloop.run(_send_when_due(port, converse, clients, seconds, rate))
    p50, p99 = map(float, np.percentile(found, [50, 99]))
    return {"requests": len(found), "rate": rate, "p50": p50, "p99": p99, "p99_over_p50": p99 / p50}


async def _send_when_due(
    port: int, converse: Callable[[], Conversation], clients: int, seconds: float, rate: float
) -> Sequence[float]:
    loop, due = asyncio.get_running_loop(), asyncio.Queue[float | None]()
    found: list[float] = []
    talks = [asyncio.create_task(_talk(port, converse(), due, found)) for _ in range(clients)]
    started, sent = loop.time(), 0
    while sent < seconds * rate:
        while started + sent / rate <= loop.time():
            due.put_nowait(started + sent / rate)
            sent += 1
        await asyncio.sleep(0.5 / rate)
    for _ in talks:
        due.put_nowait(None)
    await asyncio.gather(*talks)
    return found


async def _talk(port: int, talk: Conversation, due: asyncio.Queue[float | None], found: list[float]) -> None:
    loop = asyncio.get_running_loop()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    asked = next(talk)
    try:
        while (intended := await due.get()) is not None:
            writer.write(asked)
            head = await reader.readuntil(b"\r\n\r\n")
            length = _LENGTH.search(head)
            body = await reader.readexactly(int(length[1]) if length else 0)
            if not head.startswith(b"HTTP/1.1 200"):
                raise ServiceError(f"status {head[9:12].decode()}: {body[:200].decode(errors='replace')}")
            found.append(1000 * (loop.time() - intended))
            asked = talk.send(body)
    except (asyncio.IncompleteReadError, OSError) as error:
        raise ServiceError(f"a connection was lost: {error}") from error
    finally:
        writer.close()
