"""Connections whose requests never end: what they hold and how long they last."""

import contextlib
import json
import socket
import time
from pathlib import Path

import pytest

from tests.support.running import RunningService
from tests.support.waiting import wait_until

HEAD = b"POST /v1/sessions/none/act HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
ESTABLISHED = "01"
ENOUGH = 30_000_000
"""Bytes that no request sends."""


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    limits = {"BANDIT_BODY_TIMEOUT_SECONDS": "1", "BANDIT_KEEP_ALIVE_SECONDS": "2"}
    folder = tmp_path_factory.mktemp("service")
    with RunningService(folder, "--store-url", "memory://", environment=limits) as service:
        service.wait_ready()
        yield service


@pytest.fixture
def connection(service):
    host, port = service.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=20) as connection:
        yield connection


def answer(connection):
    """All that comes until the connection is closed."""
    received = b""
    with contextlib.suppress(ConnectionResetError):
        while data := connection.recv(65_536):
            received += data
    return received


@pytest.mark.parametrize(
    ("start", "more"),
    [
        pytest.param(HEAD, b"X-Header: value\r\n" * 1_000, id="headers"),
        pytest.param(HEAD + b"X-Header: ", b"x" * 65_536, id="one header"),
        pytest.param(HEAD + b"Transfer-Encoding: chunked\r\n\r\n0\r\nX-Header: ", b"x" * 65_536, id="one trailer"),
        pytest.param(b"GET /", b"x" * 65_536, id="path"),
    ],
)
def test_a_head_without_end_is_refused(connection, start, more):
    connection.sendall(start)
    with contextlib.suppress(OSError):
        connection.sendall(more * (ENOUGH // len(more)))

    assert answer(connection).startswith(b"HTTP/1.1 431 ")


def test_an_answered_request_whose_body_never_ends_is_cut(connection):
    started = time.monotonic()
    connection.sendall(b"POST /nowhere HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n{")

    assert answer(connection).startswith(b"HTTP/1.1 404 ")
    assert time.monotonic() - started < 10


@pytest.mark.slow
@pytest.mark.parametrize("sent", [b"", b"P", HEAD, HEAD + b"X-Header: val"])
def test_a_connection_without_a_whole_head_is_closed(connection, sent):
    started = time.monotonic()
    connection.sendall(sent)

    assert answer(connection) == b""
    assert time.monotonic() - started < 10


@pytest.mark.slow
def test_a_request_in_small_pieces_and_the_next_behind_it_are_answered(connection):
    body = b"{" + b" " * 60_000 + b"}"
    request = HEAD + f"Content-Length: {len(body)}\r\n\r\n".encode() + body
    connection.sendall(HEAD[:20])
    connection.sendall(request[20:] + request * 3)

    answers = answer(connection)

    assert answers.count(b"HTTP/1.1 404 ") == 4
    assert json.loads(answers[answers.rindex(b"{") :])["code"] == "unknown_session"


@pytest.mark.slow
def test_a_client_that_takes_nothing_of_its_answers_is_cut(service):
    host, port = service.url.removeprefix("http://").split(":")
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.connect((host, int(port)))
        connection.settimeout(20)
        connection.sendall(b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n" * 200)
        port = connection.getsockname()[1]
        with service.client() as client:
            wait_until(lambda: cut(service, port) and client.get("/livez").status_code == 200)

    assert service.workers()


def cut(service, port):
    """Whether the service has no connection to this port of a client any more."""
    own = int(service.url.rpartition(":")[2])
    lines = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    ends = [[int(end.rpartition(":")[2], 16) for end in line[1:3]] for line in lines if line[3] == ESTABLISHED]
    return [own, port] not in ends
