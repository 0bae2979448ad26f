"""SIGTERM, SIGINT and a hang-up: a clean stop, whatever is under way, and an end at once for who asks twice."""

import contextlib
import os
import signal
import sys
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from tests.support.http import http_client
from tests.support.running import CHECKOUT, act, alive, create
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc"), pytest.mark.processes]


@pytest.mark.parametrize("workers", ["1", pytest.param("2", marks=pytest.mark.quick)])
def test_it_serves_and_ends_cleanly_on_a_signal(run, workers):
    service = run("--workers", workers)
    with service.client() as client:
        act(client, create(client))
        server = service.children("unixsocket")
        pids = service.workers(int(workers))
        ended = service.stop(signal.SIGTERM)

    assert ended == 0
    assert not any(map(alive, pids + server))
    assert "stopped" in service.messages()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP])
def test_interrupting_it_is_a_clean_stop(run, number):
    service = run("--store-url", "memory://")
    service.wait_ready()

    assert service.stop(number) == 0
    assert f"received {number.name}, stopping" in service.messages()


def test_a_hang_up_does_not_end_it_under_nohup(run):
    service = run("--store-url", "memory://", command=("nohup", *CHECKOUT))
    service.wait_ready()
    service.process.send_signal(signal.SIGHUP)

    with service.client() as client:
        create(client)
    assert service.stop() == 0
    assert not [line for line in service.messages() if "SIGHUP" in line]


def test_a_stop_in_the_middle_of_its_imports_is_taken(run, tmp_path):
    slow = tmp_path / "slow"
    slow.mkdir()
    (slow / "pydantic.py").write_text(f"import signal\nopen({str(tmp_path / 'here')!r}, 'w')\nsignal.pause()\n")
    service = run("--store-url", "memory://", environment={"PYTHONPATH": str(slow), "COVERAGE_PROCESS_START": ""})
    wait_until((tmp_path / "here").exists)

    assert service.stop(signal.SIGTERM) == 0


def test_a_store_that_hangs_does_not_hold_a_stop(run, own_redis_server):
    service = run("--store-url", own_redis_server.url, "--grace-seconds", "1", "--store-timeout-seconds", "2")
    with service.client() as client, ThreadPoolExecutor(1) as pool:
        session = create(client)
        own_redis_server.freeze()
        waiting = pool.submit(client.post, f"/v1/sessions/{session}/act")
        wait_until(lambda: client.get("/readyz").status_code == 503)
        ended = service.stop()
        own_redis_server.thaw()

        assert ended == 0
        assert waiting.result().status_code >= 500


def test_accepted_requests_are_finished_at_a_stop(run):
    """What clients were told is in the store; what they were not told may or may not be."""
    service = run("--workers", "2")
    with service.client() as client, ThreadPoolExecutor(4) as pool:
        session = create(client)

        def hammer(_: int) -> int:
            slots = 0
            with http_client(service.url) as own, contextlib.suppress(httpx.TransportError):
                while (answer := own.post(f"/v1/sessions/{session}/act")).status_code == 200:
                    slots = max(slots, answer.json()["slot"])
            return slots

        told = pool.map(hammer, range(4))
        wait_until(lambda: client.get(f"/v1/sessions/{session}").json()["slot"] > 50)
        assert service.stop() == 0
        most = max(told)
    with run().client() as client:
        assert most <= client.get(f"/v1/sessions/{session}").json()["slot"] <= most + 4


def test_a_stop_does_not_wait_for_idle_connections(run):
    service = run("--store-url", "memory://", "--grace-seconds", "20")
    with contextlib.ExitStack() as stack:
        for _ in range(50):
            client = stack.enter_context(http_client(service.url))
            assert client.get("/livez").status_code == 200
        service.process.terminate()

        assert service.process.wait(5) == 0


def test_a_second_signal_kills_at_once(run):
    service = run("--store-url", "memory://", "--grace-seconds", "60")
    service.wait_ready()
    (worker,) = service.workers()
    os.kill(worker, signal.SIGSTOP)
    service.process.terminate()
    wait_until(lambda: "received SIGTERM, stopping" in service.messages())

    assert service.stop() == 1
    assert not alive(worker)
