"""Workers share connections, are replaced where they die, and die with their parent: real processes."""

import contextlib
import os
import signal
import socket
import sys
from pathlib import Path

import pytest

from service.server.supervisor import BackOff
from tests.support.running import act, alive, create
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc"), pytest.mark.processes]


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
    assert back_off.after(60.0) == 0.1
    assert back_off.after(0.5) == 0.2
