"""Quiet sessions beside a hot one, each with clients that ask again as soon as they have their answers."""

from __future__ import annotations

import asyncio
import random
import statistics
from functools import partial
from typing import Any

import pytest

from tests.support.connections import request
from tests.support.real_redis import RedisServer
from tests.support.running import RunningService, create

HOT, QUIET, WAITS = 256, 10, 20


class Clients:
    """``HOT`` clients of the session ``hot``, and one of each quiet session, which asks ``WAITS`` times.

    Parameters
    ----------
    method, call : what they ask of their sessions

    Attributes
    ----------
    answered : requests of the hot session
    waited : requests of the hot session that were answered while one of a quiet one waited
    """

    def __init__(self, method: str, call: str) -> None:
        self.method, self.call = method, call
        self.answered, self.waited, self.open = 0, list[int](), set[Any]()

    async def ask(self, url: str) -> None:
        host, _, port = url.removeprefix("http://").partition(":")
        self.loop = asyncio.get_running_loop()
        self.closed = asyncio.Event()
        self.finished = self.loop.create_future()
        for session in ["hot"] * HOT + [f"quiet-{n}" for n in range(QUIET)]:
            await self.loop.create_connection(partial(Client, self, session), host, int(port))
        await self.finished
        for transport in list(self.open):
            transport.abort()
        await self.closed.wait()


class Client(asyncio.Protocol):
    """Asks as soon as it has its answer, one of a quiet session some milliseconds later."""

    def __init__(self, clients: Clients, session: str) -> None:
        self._clients, self._is_hot, self._before = clients, session == "hot", 0
        self._sent = request(f"/v1/sessions/{session}{clients.call}", method=clients.method)

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        self._clients.open.add(transport)
        self._ask()

    def connection_lost(self, _: Exception | None) -> None:
        self._clients.open.discard(self._transport)
        if not self._clients.open:
            self._clients.closed.set()

    def _ask(self) -> None:
        self._before = self._clients.answered
        self._transport.write(self._sent)

    def data_received(self, data: bytes) -> None:
        clients = self._clients
        if clients.finished.done():
            return
        assert data.startswith(b"HTTP/1.1 200 "), data  # One answer, in one piece.
        if self._is_hot:
            clients.answered += 1
            self._ask()
            return
        clients.waited.append(clients.answered - self._before)
        if len(clients.waited) == QUIET * WAITS:
            clients.finished.set_result(None)
        clients.loop.call_later(random.uniform(0, 0.02), self._ask)


@pytest.mark.processes
@pytest.mark.parametrize(
    ("workers", "method", "call"),
    [("1", "POST", "/act"), ("2", "POST", "/act"), ("1", "GET", "")],
    ids=["acts", "acts of two workers", "views"],
)
def test_quiet_sessions_wait_less_than_a_hot_one(
    tmp_path, redis_server: RedisServer, workers: str, method: str, call: str
) -> None:
    flags = ("--store-url", redis_server.url, "--workers", workers)
    with RunningService(tmp_path, *flags) as service, service.client() as client:
        service.wait_serving(int(workers))
        for name in ("hot", *(f"quiet-{n}" for n in range(QUIET))):
            create(client, session_id=name)
        clients = Clients(method, call)
        asyncio.run(clients.ask(service.url))

    # Counted in requests, as times depend on what else the machine does: while a hot client waits, each of the
    # others has one answered. An eighth of them, and as many again in this process, whose clients wait too.
    assert statistics.median(clients.waited) <= HOT / 4
