"""Bodies far over the limit: refused at once, told of to whoever still sends, and never held."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest

from tests.support.connections import JSON, answers, connected, request

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
    line = next(
        line for line in Path(f"/proc/{worker}/status").read_text().splitlines() if line.startswith("VmHWM")
    )
    return int(line.split()[1]) * 1024


@pytest.mark.slow
def test_a_large_length_is_refused_before_its_body_comes(service):
    with connected(service) as connection:
        connection.sendall(HEAD + f"Content-Length: {LARGE}\r\n\r\n".encode())
        (answer,) = answers(connection, 2)

    assert (answer.status, answer.json["code"]) == (413, "payload_too_large")


@pytest.mark.slow
@pytest.mark.parametrize("how", ["declared", "chunked"])
def test_a_client_that_sends_it_all_learns_why_and_no_memory_is_taken(service, how):
    before = most_memory(service)
    chunk = b" " * MIB
    headers = {"content-type": "application/json"} | ({"content-length": str(LARGE)} if how == "declared" else {})
    answer = httpx.post(
        f"{service.url}/v1/sessions/s/feedbacks",
        content=(chunk for _ in range(LARGE // MIB)),
        headers=headers,
        timeout=60,
    )

    assert (answer.status_code, answer.json()["code"]) == (413, "payload_too_large")
    assert most_memory(service) - before < FLAT


@pytest.mark.parametrize("call", ["feedback", "feedbacks", "acts"])
@pytest.mark.slow
def test_idle_connections_hold_nothing_of_what_they_sent(service, call):
    body = b'{"gradient":[' + b"0.5," * 480_000 + b"0.5]}"
    sent = request(f"/v1/sessions/s/{call}", body)
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
