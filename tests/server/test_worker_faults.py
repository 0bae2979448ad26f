"""A worker that dies, stops or hangs costs the others' clients nothing: real processes."""

import os
import signal
import socket
import sys
import time
from contextlib import suppress

import httpx
import pytest

from tests.support.http import http_client
from tests.support.running import RunningService, alive, create
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc"), pytest.mark.processes]

FRESH = 40
"""Connections: with a share for a dead one of two workers, all would be lucky once in 2**40."""


@pytest.fixture
def service(tmp_path):
    with RunningService(tmp_path, "--workers", "2", "--worker-timeout-seconds", "2") as service:
        service.wait_ready()
        wait_serving(service, 2)
        yield service


def wait_serving(service, count):
    """Return once so many workers have begun to serve since the start."""
    wait_until(lambda: sum(message.endswith(" serves") for message in service.messages()) >= count)


def slowest_answer(service):
    """Seconds that the slowest of many fresh connections took to an answer."""
    slowest = 0.0
    for _ in range(FRESH):
        started = time.monotonic()
        with http_client(service.url, timeout=5) as client:
            assert client.get("/livez").status_code == 200
        slowest = max(slowest, time.monotonic() - started)
    return slowest


@pytest.mark.parametrize("place", [0, 1])
def test_a_stopped_worker_keeps_no_connection_waiting_and_is_replaced(service, place):
    stopped = service.workers(2)[place]
    os.kill(stopped, signal.SIGSTOP)

    assert slowest_answer(service) < 1
    wait_until(lambda: not alive(stopped))
    assert f"worker {stopped} does not answer: killed" in service.messages()
    wait_serving(service, 3)
    assert slowest_answer(service) < 1


@pytest.mark.parametrize("place", [0, 1])
def test_a_worker_that_dies_again_and_again_keeps_no_connection_waiting(service, place):
    other = service.workers(2)[1 - place]
    for _ in range(4):
        (worker,) = wait_until(lambda: (left := set(service.children(".server.worker")) - {other}) and left)
        os.kill(worker, signal.SIGKILL)

        assert slowest_answer(service) < 1


@pytest.mark.slow
def test_a_worker_whose_event_loop_hangs_is_replaced(tmp_path):
    (tmp_path / "sitecustomize.py").write_text(
        "import sys, signal, time\n"
        "if 'service.server.worker' in ' '.join(sys.orig_argv):\n"
        "    signal.signal(signal.SIGUSR1, lambda *_: time.sleep(3600))\n"
    )
    environment = {"PYTHONPATH": str(tmp_path), "BANDIT_WORKER_TIMEOUT_SECONDS": "2"}
    with RunningService(tmp_path, "--workers", "2", environment=environment) as service:
        service.wait_ready()
        wait_serving(service, 2)
        hung = service.workers(2)[0]
        os.kill(hung, signal.SIGUSR1)

        assert slowest_answer(service) < 1
        wait_until(lambda: not alive(hung))
        wait_serving(service, 3)


@pytest.mark.slow
def test_a_supervisor_that_slept_kills_nobody(service):
    workers = service.workers(2)
    os.kill(service.process.pid, signal.SIGSTOP)
    for worker in workers:
        os.kill(worker, signal.SIGSTOP)
    until = time.monotonic() + 4  # Longer than the timeout, and nobody sees it pass.
    wait_until(lambda: time.monotonic() > until)
    for process in (service.process.pid, *workers):
        os.kill(process, signal.SIGCONT)

    with service.client() as client:
        create(client)
    assert service.workers(2) == workers
    assert not any("does not answer" in message for message in service.messages())


def refused(service):
    """Whether a connection is refused at once."""
    host, port = service.url.removeprefix("http://").split(":")
    try:
        with socket.create_connection((host, int(port)), timeout=1):
            return False
    except ConnectionRefusedError:
        return True


def test_connections_are_refused_while_no_worker_can_answer(tmp_path):
    (tmp_path / "sitecustomize.py").write_text(
        "import os, sys\n"
        f"if os.path.exists({str(tmp_path / 'broken')!r}) and 'service.server.worker' in ' '.join(sys.orig_argv):\n"
        "    os._exit(1)\n"
    )
    with RunningService(tmp_path, environment={"PYTHONPATH": str(tmp_path)}) as service:
        service.wait_ready()
        (worker,) = service.workers()
        (tmp_path / "broken").touch()
        os.kill(worker, signal.SIGKILL)
        wait_until(lambda: refused(service))
        with pytest.raises(httpx.ConnectError):
            httpx.get(f"{service.url}/livez", timeout=1)
        (tmp_path / "broken").unlink()

        with suppress(httpx.ConnectError):
            httpx.get(f"{service.url}/livez", timeout=1)
        wait_until(lambda: not refused(service))
        service.wait_ready()


def test_a_service_whose_workers_do_not_listen_yet_keeps_its_address(tmp_path):
    (tmp_path / "sitecustomize.py").write_text(
        "import os, sys, time\n"
        "if 'service.server.worker' in ' '.join(sys.orig_argv):\n"
        f"    open({str(tmp_path / 'starting')!r}, 'w')\n"
        f"    while not os.path.exists({str(tmp_path / 'go')!r}): time.sleep(0.01)\n"
    )
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    first_folder, second_folder = tmp_path / "first", tmp_path / "second"
    first_folder.mkdir()
    second_folder.mkdir()
    slow = {"PYTHONPATH": str(tmp_path)}
    with RunningService(first_folder, "--port", port, environment=slow) as first:
        wait_until((tmp_path / "starting").exists)
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", int(port)))
        with RunningService(second_folder, "--port", port) as second:
            assert second.process.wait(30) == 1
            assert "Address already in use" in second.text()
        (tmp_path / "go").touch()
        first.wait_ready()
        (worker,) = first.workers()
        os.kill(worker, signal.SIGKILL)
        # With connections of the dead worker on its port the address is taken again.
        wait_until(lambda: first.workers() != [worker])
        wait_until(lambda: not refused(first))
        first.wait_ready()
