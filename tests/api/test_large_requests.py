"""The largest requests let others have their turn, are never held, and are told of when the service stops.

What a turn comes to is counted in lines of Python run, which depends on no machine, and beside it how often a
request pauses: most of the work on large answers is done below Python, between pauses. ``python -m loadtest bench
--part turns`` measures turns in time.
"""

import asyncio
import gc
import json
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest

from loadtest.bench.turns import LARGE_REQUESTS, in_process_app, longest_turn, worker_settings
from service.cooperative import FairYield
from service.models.stored import Stored
from tests.support.connections import JSON, answers, connected, exchanged, request
from tests.support.examples import some_quick
from tests.support.running import RunningService, create
from tests.support.waiting import wait_until

MOST = 100_000
"""Lines in one turn, some 3 ms. In one go the batches run 500,000 to 900,000, most others fewer than this."""


PIECES = 200
"""Pauses at least; each of the requests has parts by the thousand."""


BELOW_PYTHON = dict.fromkeys(("many_labels_paused", "floor_at_many_labels", "many_probabilities"), MOST // 10)
"""Requests of which no step looks at each label in Python, but in a thread; some 50,000 to 80,000 lines else."""


TOGETHER = {"many_acts"}
"""Requests that are carried out in a few steps, each for many of their parts."""


class Lines:
    """Counts the lines that this thread runs."""

    def __init__(self):
        self.count = 0

    def __call__(self):
        return self.count

    def trace(self, _frame, event, _argument):
        """Count, as ``sys.settrace`` asks for it."""
        self.count += event == "line"
        return self.trace


class Pauses:
    """Counts pauses, and takes each of them."""

    def __init__(self):
        self.count = 0

    async def take(self, _pause):
        """Pause, however short the work was."""
        self.count += 1
        await asyncio.sleep(0)


@pytest.fixture
def pauses(monkeypatch):
    pauses = Pauses()
    monkeypatch.setattr(FairYield, "__call__", lambda pause: pauses.take(pause))
    return pauses


@pytest.fixture
def lines():
    lines, before = Lines(), sys.gettrace()
    sys.settrace(lines.trace)
    yield lines
    sys.settrace(before)


IN_SECONDS = {"many_acts"}
"""The others take longer, being counted line by line."""


@pytest.mark.parametrize("name", some_quick(LARGE_REQUESTS, IN_SECONDS))
async def test_others_have_their_turn(lines, pauses, name):
    assert await longest_turn(name, lines) < BELOW_PYTHON.get(name, MOST)
    assert pauses.count > (0 if name in TOGETHER else PIECES)


async def test_many_arms_that_changed_are_encoded_in_a_thread(monkeypatch):
    """Also where none was added: pauses are encoded with all arms."""
    encode, threads = Stored.encode, list[int]()

    def noted(stored):
        threads.append(threading.get_ident())
        return encode(stored)

    monkeypatch.setattr(Stored, "encode", noted)
    labels = [str(number) for number in range(2_000)]
    async with in_process_app() as service:
        path = await service.create({"kind": "fixed", "arms": labels})
        created = len(threads)
        await service.call("PATCH", f"{path}/arms", {"pause": labels[:1]})
        await service.call("POST", f"{path}/act")

    assert len(threads) == created + 1
    assert threads[-1] != threading.get_ident()


@pytest.mark.slow
async def test_the_document_is_not_made_by_the_event_loop(lines):
    async with in_process_app() as service:
        before = lines.count
        status, _ = await service.call("GET", "/openapi.json")

    assert status == 200
    assert lines.count - before < MOST / 10


def test_what_a_worker_starts_with_is_not_looked_through_for_garbage():
    with worker_settings():
        assert gc.get_freeze_count() > 10 * len(gc.get_objects())


def test_a_worker_looks_for_garbage_from_when_it_serves():
    gc.disable()  # As a worker that starts.
    try:
        with worker_settings():
            assert gc.isenabled()
    finally:
        gc.enable()


HEAD = b"POST /v1/sessions/s/feedbacks HTTP/1.1\r\nHost: localhost\r\n" + JSON


MIB = 2**20


LARGE = 200 * MIB


FLAT = 16 * MIB
"""Growth of a worker that holds nothing of 200 MiB; what it reads at a time, and noise."""


HELD = 150 * MIB
"""What ten such bodies take once they are read."""


def most_memory(service):
    """Bytes the worker ever had in memory."""
    (worker,) = service.workers()
    lines = Path(f"/proc/{worker}/status").read_text().splitlines()
    line = next(line for line in lines if line.startswith("VmHWM"))
    return int(line.split()[1]) * 1024


@pytest.mark.slow
def test_a_large_length_is_refused_before_its_body_comes(service):
    (answer,) = exchanged(service, HEAD + f"Content-Length: {LARGE}\r\n\r\n".encode(), 2)

    assert (answer.status, answer.json["code"]) == (413, "payload_too_large")


@pytest.mark.slow
@pytest.mark.parametrize("how", ["declared", "chunked"])
def test_a_client_that_sends_it_all_learns_why_and_no_memory_is_taken(service, how):
    before = most_memory(service)
    chunk = b" " * MIB
    headers = {"content-type": "application/json"} | ({"content-length": str(LARGE)} if how == "declared" else {})
    parts = (chunk for _ in range(LARGE // MIB))
    answer = httpx.post(f"{service.url}/v1/sessions/s/feedbacks", content=parts, headers=headers, timeout=60)

    assert (answer.status_code, answer.json()["code"]) == (413, "payload_too_large")
    assert most_memory(service) - before < FLAT


@pytest.mark.parametrize("call", ["feedback", "feedbacks", "acts"])
@pytest.mark.slow
def test_idle_connections_hold_nothing_of_what_they_sent(service, call):
    sent = request(f"/v1/sessions/s/{call}", b'{"gradient":[' + b"0.5," * 480_000 + b"0.5]}")
    with ExitStack() as stack:
        connections = [stack.enter_context(connected(service)) for _ in range(12)]
        for connection in connections[:2]:
            connection.sendall(sent)
            assert answers(connection, 1)[0].status == 422
        before = most_memory(service)
        for connection in connections[2:]:
            connection.sendall(sent)
            assert answers(connection, 1)[0].status == 422

    assert most_memory(service) - before < HELD / 2


@pytest.mark.slow
def test_a_flood_of_pipelined_requests_is_read_no_faster_than_answered(service):
    before = most_memory(service)
    with connected(service) as connection:
        connection.settimeout(3)
        with pytest.raises(TimeoutError):
            connection.sendall(b"POST /v1/sessions/s/act HTTP/1.1\r\nHost: localhost\r\n\r\n" * (LARGE // 50))

    assert most_memory(service) - before < FLAT


async def test_a_cancelled_request_is_told_to_come_again(make_client):
    """As uvicorn does it to those that are still served when the grace time ends."""
    transport = (await make_client())._transport
    started = asyncio.Event()
    app = transport.app
    messages = []

    async def receive():
        started.set()
        await asyncio.Event().wait()

    async def send(message):
        messages.append(message)

    scope = {"type": "http", "method": "POST", "path": "/v1/sessions/a/feedback", "query_string": b""}
    scope |= {"headers": [(b"content-type", b"application/json"), (b"content-length", b"9")]}
    task = asyncio.create_task(app(scope, receive, send))
    await started.wait()
    task.cancel()
    await task

    start, body = messages
    headers = dict(start["headers"])
    assert start["status"] == 503
    assert (headers[b"content-type"], headers[b"retry-after"]) == (b"application/problem+json", b"1")
    assert headers[b"connection"] == b"close"
    assert json.loads(body["body"])["code"] == "overloaded"


@pytest.mark.processes
def test_at_the_end_of_the_grace_time_requests_get_a_problem(tmp_path, own_redis_server):
    flags = ("--store-url", own_redis_server.url, "--grace-seconds", "1", "--store-timeout-seconds", "3")
    with RunningService(tmp_path, *flags) as service, service.client() as client, ThreadPoolExecutor(1) as pool:
        session = create(client)
        own_redis_server.freeze()
        try:
            waiting = pool.submit(client.post, f"/v1/sessions/{session}/act")
            wait_until(lambda: client.get("/readyz").status_code == 503)
            service.stop()
        finally:
            own_redis_server.thaw()
        answer = waiting.result()

    assert (answer.status_code, answer.headers["content-type"]) == (503, "application/problem+json")
    assert "retry-after" in answer.headers
    assert answer.json()["code"] in {"overloaded", "store_unavailable"}
