"""Connections of clients: how many, what they hold, and heads that never end."""

import contextlib
import json
import resource
import socket
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from service.server.connection_limits import HEALTH_CONNECTIONS, IDLE_SECONDS, ConnectionLimit, allowed_connections
from tests.support.connections import answers, connected, exchanged, request
from tests.support.programs import program
from tests.support.running import CHECKOUT, RunningService
from tests.support.waiting import wait_until

# -- Connections of one worker are bounded, and health checks get through.

OTHER = request("/v1/sessions/none/act")
HALF = b"POST /v1/sessions HTTP/1.1\r\nHost: service\r\nX-Half: "


class Connection:
    """Notes how it was ended."""

    def __init__(self):
        self.ended = []
        self.transport = SimpleNamespace(
            close=lambda: self.ended.append("closed"), abort=lambda: self.ended.append("aborted")
        )


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


def test_beyond_the_limit_a_connection_may_only_ask_for_health():
    limit = ConnectionLimit(2, Clock())
    first, second, third = Connection(), Connection(), Connection()

    assert [limit.opened(each) for each in (first, second, third)] == [False, False, True]
    limit.closed(first)
    assert not limit.opened(Connection())
    assert limit.count == 3
    assert not first.ended + second.ended + third.ended


def test_the_connection_that_is_idle_for_longest_makes_room():
    clock = Clock()
    limit = ConnectionLimit(3, clock)
    busy, older, newer = Connection(), Connection(), Connection()
    for each in (busy, older, newer):
        limit.opened(each)
    del limit.idle[busy], limit.idle[older]
    clock.now = 1.0
    limit.idle[older] = clock()
    clock.now = 1.0 + IDLE_SECONDS

    assert not limit.opened(Connection())
    assert (busy.ended, older.ended, newer.ended) == ([], [], ["closed"])
    limit.closed(newer)
    assert limit.opened(late := Connection()) is False
    assert older.ended == ["closed"]
    assert late.ended == []


def test_the_oldest_of_those_for_health_makes_room_for_the_next():
    limit = ConnectionLimit(1, Clock())
    limit.opened(Connection())
    waiting = [Connection() for _ in range(HEALTH_CONNECTIONS + 1)]
    for each in waiting:
        assert limit.opened(each)

    assert [each.ended for each in waiting] == [["aborted"], *[[]] * HEALTH_CONNECTIONS]


@pytest.mark.parametrize(("files", "allowed"), [(1024, 700), (200, 88), (50, 1), (resource.RLIM_INFINITY, 700)])
def test_the_limit_leaves_files_for_the_store(monkeypatch, files, allowed):
    monkeypatch.setattr(resource, "getrlimit", lambda _: (files, files))

    assert allowed_connections(700, to_store=32) == allowed


@pytest.mark.processes
def test_half_open_heads_hold_up_no_health_check(tmp_path):
    """300 of them, at 200 open files."""
    limited = (program("sh"), "-c", 'ulimit -n 200; exec "$@"', "sh", *CHECKOUT)
    flags = ("--store-url", "memory://", "--body-timeout-seconds", "60")
    with RunningService(tmp_path, *flags, command=limited) as service, contextlib.ExitStack() as stack:
        service.wait_ready()
        for _ in range(300):
            stack.enter_context(connected(service)).sendall(HALF)
        for path in ("/livez", "/readyz"):
            for _ in range(20):
                started = time.monotonic()
                assert exchanged(service, request(path, method="GET"), 1)[0].status == 200
                assert time.monotonic() - started < 1

        assert any("connections are open, the most of a worker" in message for message in service.messages())
        assert service.workers()


@pytest.mark.processes
def test_a_full_worker_says_so_and_idle_connections_make_room(tmp_path):
    flags = ("--store-url", "memory://", "--max-connections", "3", "--keep-alive-seconds", "3600")
    with RunningService(tmp_path, *flags) as service, contextlib.ExitStack() as stack:
        service.wait_ready()
        held = [stack.enter_context(connected(service)) for _ in range(3)]
        for each in held:
            each.sendall(HALF)

        def told():
            with connected(service) as late:
                late.sendall(OTHER)
                return answers(late, 1)[0]

        refused = wait_until(lambda: (answer := told()).status == 503 and answer)
        assert (refused.json["code"], refused.headers["retry-after"]) == ("overloaded", "1")
        assert refused.headers["connection"] == "close"
        assert wait_until(lambda: told().status == 404)
        with connected(service) as late:
            late.sendall(request("/metrics", method="GET"))
            shown = answers(late, 1)[0].body.decode()
        assert "bandit_connections " in shown


@pytest.mark.processes
@pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc")
def test_the_limit_of_open_files_is_raised_at_the_start(tmp_path):
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limited = (program("sh"), "-c", 'ulimit -Sn 256; exec "$@"', "sh", *CHECKOUT)
    with RunningService(tmp_path, "--store-url", "memory://", command=limited) as service:
        service.wait_ready()
        limits = Path(f"/proc/{service.workers()[0]}/limits").read_text()

    (line,) = [line for line in limits.splitlines() if line.startswith("Max open files")]
    assert int(line.split()[3]) == hard


# -- Connections whose requests never end: what they hold and how long they last.

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
