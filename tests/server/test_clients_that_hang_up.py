"""Clients that hang up and calls that fail: what is done, and what is logged of it."""

import contextlib
import json
import os
import signal
import socket
import struct
import subprocess
import sys
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from tests.support.connections import answers, connected, ends, exchanged, request
from tests.support.programs import program
from tests.support.running import CHECKOUT, RunningService, create, slot
from tests.support.waiting import wait_until

# -- An act of a client that was reset before its batch is folded is not done; one that half-closed is answered.

pytestmark = [pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc"), pytest.mark.processes]
RESET = struct.pack("ii", 1, 0)


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    with RunningService(tmp_path_factory.mktemp("service"), "--store-url", "memory://") as service:
        service.wait_ready()
        yield service


@contextlib.contextmanager
def stopped(service):
    """The worker's event loop stands still meanwhile: what clients send waits in the kernel."""
    (worker,) = service.workers()
    os.kill(worker, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(worker, signal.SIGCONT)


def reset(connection):
    """End a connection so that its other end learns that nobody reads."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
    connection.close()


def new_session(service):
    with service.client() as client:
        return create(client)


@pytest.mark.quick
def test_acts_of_clients_that_were_reset_are_not_done(service):
    session = new_session(service)
    act = request(f"/v1/sessions/{session}/act")
    with contextlib.ExitStack() as stack:
        known = [stack.enter_context(connected(service)) for _ in range(5)]
        staying = stack.enter_context(connected(service))
        for each in (*known, staying):
            each.sendall(request("/livez", method="GET"))
            answers(each, 1)
        with stopped(service):
            for each in known:
                each.sendall(act)
                reset(each)
            for _ in range(5):
                with connected(service) as fresh:
                    fresh.sendall(act)
                    reset(fresh)
            staying.sendall(act)
        (answer,) = answers(staying, 1)

    assert answer.json["slot"] == 1
    assert slot(service, session) == 1


def test_acts_that_wait_for_the_store_are_not_done_for_clients_that_were_reset(tmp_path, own_redis_server):
    """They were read long before, and their batch is folded when the store answers again."""
    with RunningService(tmp_path, "--store-url", own_redis_server.url) as service:
        session = new_session(service)
        act = request(f"/v1/sessions/{session}/act")
        with contextlib.ExitStack() as stack:
            first = stack.enter_context(connected(service))
            gone = [stack.enter_context(connected(service)) for _ in range(8)]
            own_redis_server.freeze()
            try:
                first.sendall(act)
                wait_until(own_redis_server.has_unread)
                for each in gone:
                    each.sendall(act)
                with service_connections(service, 9):
                    for each in gone:
                        reset(each)
            finally:
                own_redis_server.thaw()
            (answer,) = answers(first, 1)

        assert answer.json["slot"] == 1
        assert slot(service, session) == 1


@contextlib.contextmanager
def service_connections(service, count):
    """Go on once the worker has so many connections and has read all that came on them."""
    port = int(service.url.rpartition(":")[2])

    def is_read():
        lines = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
        own = [line for line in lines if int(line[1].rpartition(":")[2], 16) == port and line[3] == "01"]
        return len(own) == count and all(line[4].endswith(":00000000") for line in own)

    wait_until(is_read)
    yield


@pytest.mark.quick
def test_a_client_that_half_closes_is_answered_and_its_act_counts(service):
    session = new_session(service)
    act = request(f"/v1/sessions/{session}/act")
    with connected(service) as connection:
        connection.sendall(act + act)
        connection.shutdown(socket.SHUT_WR)
        told = answers(connection, 3)
        assert ends(connection)

    assert [answer.json["slot"] for answer in told] == [1, 2]
    assert slot(service, session) == 2


@pytest.mark.parametrize("count", [1, 400])
def test_requests_that_wait_in_line_are_answered_after_a_half_close(service, count):
    """400 of them are more than is parsed at once."""
    session = new_session(service)
    with connected(service) as connection, stopped(service):
        connection.sendall(request(f"/v1/sessions/{session}/act") * count)
        connection.shutdown(socket.SHUT_WR)
        os.kill(service.workers()[0], signal.SIGCONT)
        told = answers(connection, count + 1)

    assert [answer.status for answer in told] == [200] * count
    assert slot(service, session) == count


def test_a_large_body_then_a_half_close_is_answered(service):
    body = json.dumps({"learner": {"kind": "dexp3", "arms": [f"arm-{number}" for number in range(5_000)]}}).encode()
    (answer,) = exchanged(service, request("/v1/sessions", body), 1, half_closes=True)

    assert answer.status == 201


@pytest.mark.parametrize(
    ("sent", "statuses"),
    [
        (b"", []),
        (b"POS", []),
        (request("/livez", method="GET") + b"POS", [200]),
        (request("/v1/sessions", b'{"a": 1}')[:-3], [400]),
        (request("/livez", method="GET") + request("/v1/sessions", b'{"a": 1}')[:-3], [200, 400]),
    ],
)
def test_half_a_request_then_a_half_close_ends_the_connection(service, sent, statuses):
    assert [answer.status for answer in exchanged(service, sent, 3, half_closes=True)] == statuses


def test_a_client_that_closed_has_its_act_done(service):
    """It can't be told from one that half-closed before an answer is written."""
    session = new_session(service)
    with connected(service) as connection:
        connection.sendall(request(f"/v1/sessions/{session}/act"))
    wait_until(lambda: slot(service, session) == 1)


def test_a_reader_that_waits_and_leaves_gives_its_place_back(service):
    """A fourth of the connections may wait; far more of them come and go within the time that each would wait."""
    with service.client() as client:
        session = create(client, decision_log={"max_entries": 10})
    asked = request(f"/v1/sessions/{session}/decisions?wait_seconds=30", method="GET")
    for _ in range(30):
        with contextlib.ExitStack() as stack:
            for _ in range(10):
                stack.enter_context(connected(service)).sendall(asked)
    (answer,) = exchanged(service, asked, 1, half_closes=True)

    assert (answer.status, answer.json["decisions"]) == (200, [])


# -- Workers whose store fails log why, and no exception that nobody has looked at ("never retrieved").

UNHEEDED = ("never retrieved", "shielded future", "was destroyed", "Traceback")
IMPATIENT = ("--workers", "2", "--store-timeout-seconds", "1", "--store-budget-seconds", "1")
EXPIRY = {"after_seconds": 1, "default_loss": 1}
SILENT = "127.0.0.77"
"""A name server that never answers."""
COLLECTS = "import atexit, gc\natexit.register(gc.collect)\n"
"""All garbage is collected before a process ends: what nobody has looked at is logged then."""


@pytest.fixture
def collecting(tmp_path):
    """Variables that start Python with ``COLLECTS``."""
    (tmp_path / "sitecustomize.py").write_text(COLLECTS)
    return {"PYTHONPATH": str(tmp_path)}


def unheeded(service: RunningService) -> list[str]:
    return [line for line in service.text().splitlines() if any(words in line for words in UNHEEDED)]


def begin_calls(service: RunningService, sessions: list[str], stack: ExitStack) -> list[socket.socket]:
    """Start an act and a view of each session, each on its own connection."""
    calls = [stack.enter_context(connected(service)) for _ in range(2 * len(sessions))]
    for session, act, view in zip(sessions, calls[::2], calls[1::2], strict=True):
        act.sendall(request(f"/v1/sessions/{session}/act"))
        view.sendall(request(f"/v1/sessions/{session}", method="GET"))
    return calls


@pytest.mark.parametrize("harm", ["kill", "freeze"])
def test_a_store_that_fails_under_load(tmp_path, own_redis_server, collecting, harm):
    """Some clients hang up, the sweeper and the history's sampler are at work; it is stopped while it fails."""
    url = own_redis_server.url
    with RunningService(tmp_path, "--store-url", url, *IMPATIENT, environment=collecting) as service:
        with service.client() as client, ExitStack() as stack:
            sessions = [create(client, expiry=EXPIRY) for _ in range(20)]
            for call in begin_calls(service, sessions, stack):
                assert [answer.status for answer in answers(call, 1)] == [200]
            own_redis_server.client.execute_command("CLIENT", "PAUSE", 60_000, "ALL")
            under_way = begin_calls(service, sessions, stack)
            for call in under_way[::3]:
                reset(call)
            getattr(own_redis_server, harm)()
            late = begin_calls(service, sessions, stack)
            for call in late[::3]:
                reset(call)
            for call in (*under_way[1::3], *under_way[2::3], *late[1::3], *late[2::3]):
                assert [answer.status for answer in answers(call, 1)] == [503]
            wait_until(lambda: client.get("/readyz").status_code == 503)
            begin_calls(service, sessions, stack)
        assert service.stop() == 0

    assert unheeded(service) == []


@pytest.fixture
def hanging(tmp_path):
    """Words before a program that looks names up at a server that never answers."""
    resolver = tmp_path / "resolv.conf"
    resolver.write_text(f"nameserver {SILENT}\noptions timeout:2 attempts:1\n")
    for name in ("unshare", "sh", "mount"):
        program(name)
    words = ["unshare", "--mount", "sh", "-c", f'mount --bind {resolver} /etc/resolv.conf && exec "$@"', "sh"]
    try:
        subprocess.run([*words, "true"], check=True, capture_output=True)
        with closing(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as server:
            server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)  # Tests beside this one do the same.
            server.bind((SILENT, 53))
            yield words
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("needs the right to mount, and port 53")


@pytest.mark.parametrize("url", ["redis://redis.test", "rediss://redis.test", "redis+sentinel://redis.test/main"])
def test_a_name_that_is_not_found_when_nobody_waits_for_it(tmp_path, hanging, collecting, url):
    """The resolver fails after two seconds; calls, and pings of the store, are given up after one."""
    command = [*hanging, *CHECKOUT]
    flags = ("--store-url", url, *IMPATIENT)
    with RunningService(tmp_path, *flags, command=command, environment=collecting) as service:
        service.wait_serving(2)
        wait_until(lambda: service.text().count("not ready") >= 2)
        for _ in range(4):
            (answer,) = exchanged(service, request("/v1/sessions/s", method="GET"), 1)
            assert answer.status == 503
        assert service.stop() == 0

    assert unheeded(service) == []
