"""How the service stops: requests that are not whole, and a delay in which it drains."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from threading import Thread

import httpx
import pytest

from service.server import connection as end
from service.server.connection import _BODY
from tests.support.connections import JSON, answers, connected, ends, request
from tests.support.http import http_client
from tests.support.protocol import spoken_to
from tests.support.running import RunningService, create
from tests.support.waiting import wait_until

# -- A stop waits for whole requests, and not for what is none: minutes are only what a hang would take.

LONG = ("GRACE", "BODY_TIMEOUT", "KEEP_ALIVE", "STORE_TIMEOUT", "STORE_BUDGET")
HOURS = {f"BANDIT_{what}_SECONDS": "7200" for what in LONG}
HEAD = b"POST /v1/sessions HTTP/1.1\r\nHost: localhost\r\n" + JSON
WHOLE = request("/livez", method="GET")
HALVES = {
    "nothing": (b"", []),
    "part of a method": (b"POS", []),
    "part of a head": (HEAD, []),
    "part of a head behind a request": (WHOLE + HEAD, [200]),
    "no body": (HEAD + b"Content-Length: 9\r\n\r\n", [503]),
    "part of a body": (HEAD + b"Content-Length: 9\r\n\r\n{", [503]),
    "part of a body behind a request": (WHOLE + HEAD + b"Content-Length: 9\r\n\r\n{", [200, 503]),
    "a body that waits": (HEAD + b"Content-Length: 9\r\nExpect: 100-continue\r\n\r\n", [503]),
    "part of the chunks": (HEAD + b"Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n", [503]),
    "an answered body without end": (request("/nowhere", b"{}").replace(b"h: 2", b"h: 9"), [404]),
}
"""What was sent before a stop, and the statuses of its answers."""


@pytest.fixture
def service(tmp_path, redis_server):
    with RunningService(tmp_path, "--store-url", redis_server.url, environment=HOURS) as service:
        service.wait_ready()
        yield service


def stopping(service):
    service.process.send_signal(signal.SIGTERM)
    wait_until(lambda: "received SIGTERM, stopping" in service.messages())


@pytest.mark.processes
def test_half_a_request_does_not_hold_a_stop(service):
    """All of them on one service: each one of them would hold its stop."""
    with contextlib.ExitStack() as stack:
        halves = {what: stack.enter_context(connected(service)) for what in HALVES}
        for what, half in halves.items():
            half.sendall(HALVES[what][0])
        other = stack.enter_context(connected(service))
        other.sendall(WHOLE)
        assert answers(other, 1)[0].status == 200

        assert service.stop() == 0
        told = {what: answers(half, 9) for what, half in halves.items()}
    for what, (_, statuses) in HALVES.items():
        assert [answer.status for answer in told[what]] == statuses, what
        assert all(answer.json["code"] == "overloaded" for answer in told[what] if answer.status == 503)


@pytest.mark.processes
def test_a_client_that_never_leaves_does_not_hold_a_stop(service):
    """It goes on sending, byte by byte, what it was told is not wanted any more."""
    with connected(service) as half:
        half.sendall(HEAD + b"Content-Length: 900000\r\n\r\n")
        stopping(service)
        with contextlib.suppress(ConnectionError):
            while service.process.poll() is None:
                half.send(b" ")
        assert service.process.wait(30) == 0


@pytest.mark.processes
def test_whole_requests_are_answered_and_the_half_one_behind_them_is_told(service, redis_server):
    with service.client() as client, connected(service) as connection:
        path = f"/v1/sessions/{create(client)}/act"
        redis_server.freeze()
        try:
            connection.sendall(request(path) + request(path) + HEAD + b"Content-Length: 9\r\n\r\n")
            for _ in range(3):  # Turns of the event loop, in which it reads what came before.
                client.get("/livez")
            stopping(service)
        finally:
            redis_server.thaw()
        told = answers(connection, 3)

        assert ends(connection)
        assert service.process.wait(30) == 0
    assert [answer.status for answer in told] == [200, 200, 503]
    assert [answer.json["slot"] for answer in told[:2]] == [1, 2]
    assert (told[2].headers["connection"], told[2].headers["retry-after"]) == ("close", "1")


@pytest.mark.processes
def test_who_waits_for_a_decision_is_answered_by_a_stop_and_by_the_commit_of_any_worker(tmp_path, redis_server):
    flags = ("--store-url", redis_server.url, "--workers", "2")
    with RunningService(tmp_path, *flags, environment=HOURS) as service, service.client() as client:
        service.workers(2)
        path = f"/v1/sessions/{create(client, decision_log={'max_entries': 10})}"
        waits = request(f"{path}/decisions?wait_seconds=30", method="GET")
        with contextlib.ExitStack() as stack:
            readers = [stack.enter_context(connected(service)) for _ in range(8)]
            for reader in readers:
                reader.sendall(waits)
            assert client.post(f"{path}/act").status_code == 200
            pages = [answers(reader, 1)[0].json for reader in readers]
            assert [[each["position"] for each in page["decisions"]] for page in pages] == [[1, 2]] * 8

            def looks():
                name = 'bandit_store_call_seconds_count{call="read_counts"} '
                return float(client.get("/metrics").text.partition(name)[2].split()[0])

            began, before = time.monotonic(), looks()
            for reader in readers:
                reader.sendall(waits.replace(b"?wait", b"?cursor=" + pages[0]["cursor"].encode() + b"&wait"))
            wait_until(lambda: looks() >= before + 2 * len(readers))
            stopping(service)
            ended = [answers(reader, 1)[0] for reader in readers]
            assert service.process.wait(30) == 0
        assert time.monotonic() - began < 15
        assert {(each.status, each.json["cursor"]) for each in ended} == {(200, pages[0]["cursor"])}


@pytest.mark.parametrize("cut", [1, 30, len(HEAD), -2, -1])
async def test_a_request_whose_rest_comes_soon_is_served_as_the_last(monkeypatch, cut):
    monkeypatch.setattr(end, "STOP_SECONDS", 7200)
    whole = HEAD + b"Content-Length: 9\r\n\r\n" + b"123456789"
    async with spoken_to() as (reader, writer, served):
        writer.write(whole[:cut])
        await served.came.wait()
        served.shutdown()
        writer.write(whole[cut:] + WHOLE)

        assert (await reader.read()).count(b"HTTP/1.1 200 ") == 1


async def test_a_body_that_comes_to_its_end_after_its_answer_ends_the_connection(monkeypatch):
    monkeypatch.setattr(end, "STOP_SECONDS", 7200)
    async with spoken_to() as (reader, writer, served):
        writer.write(WHOLE)
        await reader.readuntil(b"\r\n\r\n")
        served._part = _BODY
        served.shutdown()
        served.on_message_complete()

        assert await reader.read() == b""


async def test_a_client_may_send_its_next_request_before_it_knows_that_there_is_none(monkeypatch):
    """Unread bytes would reset the connection, and with it what the client has not read of the last answer."""
    monkeypatch.setattr(end, "STOP_SECONDS", 7200)
    async with spoken_to() as (reader, writer, served):
        writer.write(HEAD + b"Content-Length: 9\r\n\r\n12345678")
        await served.came.wait()
        served.shutdown()
        writer.write(b"9")
        assert (await reader.read()).count(b"HTTP/1.1 200 ") == 1
        served.came.clear()
        writer.write(WHOLE)
        await served.came.wait()

        assert not served.transport.is_closing()


STOPPED_WHILE_COLLECTING = """
import json, os, signal, sys
from service.server import worker_child

class Collected:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGTERM)

def load(stream):
    Collected()
    sys.exit("went on")

json.load = load
worker_child.main()
"""


def test_a_worker_that_starts_is_stopped_also_where_exceptions_are_ignored():
    command = [sys.executable, "-c", STOPPED_WHILE_COLLECTING, "0", "0", str(os.getpid()), "0"]
    run = subprocess.run(command, capture_output=True, text=True, check=False)

    assert (run.returncode, run.stderr) == (0, "")


# -- A service that is told to stop first says that it is not ready, and still serves: real processes.

PROCESSES = pytest.mark.processes


@PROCESSES
def test_a_draining_service_is_not_ready_at_once_and_serves_until_it_stops(tmp_path):
    with RunningService(tmp_path, "--workers", "2", "--drain-seconds", "3") as service, service.client() as client:
        session = create(client)
        wait_until(lambda: sum(message.endswith(" serves") for message in service.messages()) == 2)
        started = time.monotonic()
        service.process.send_signal(signal.SIGTERM)
        wait_until(lambda: client.get("/readyz").status_code == 503)
        for _ in range(20):
            with http_client(service.url) as fresh:
                shown = fresh.get("/readyz")
                assert (shown.status_code, shown.json()["code"]) == (503, "overloaded")
                answer = fresh.post(f"/v1/sessions/{session}/act")
                assert (answer.status_code, answer.headers["connection"]) == (200, "close")
                assert fresh.get("/livez").status_code == 200

        assert service.process.wait(30) == 0
        assert time.monotonic() - started >= 3


@PROCESSES
@pytest.mark.parametrize("signals", [(signal.SIGTERM, signal.SIGTERM), (signal.SIGINT, signal.SIGTERM)])
def test_a_second_signal_ends_the_draining(tmp_path, signals):
    with RunningService(tmp_path, "--store-url", "memory://", "--drain-seconds", "3600") as service:
        service.wait_ready()
        service.process.send_signal(signals[0])
        wait_until(lambda: any("not ready from now on" in message for message in service.messages()))

        assert service.stop(signals[1]) == 0


@PROCESSES
def test_connections_that_come_while_it_stops_do_not_delay_it(tmp_path):
    """Those that it accepts last are told to end as the others are."""
    with RunningService(tmp_path, "--store-url", "memory://") as service:
        service.wait_ready()
        address, found = httpx.URL(service.url), list[socket.socket]()

        def connect():
            with contextlib.suppress(OSError):
                while len(found) < 800:
                    found.append(socket.create_connection((address.host, address.port)))

        clients = Thread(target=connect)
        clients.start()
        wait_until(lambda: len(found) > 20)
        started = time.monotonic()
        service.stop()
        assert time.monotonic() - started < 10
        clients.join()
        for each in found:
            each.close()
