"""Workers whose store fails log why, and no exception that nobody has looked at ("never retrieved")."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from tests.server.test_clients_that_hang_up import reset
from tests.support.connections import answers, connected, request
from tests.support.real_redis import RedisServer
from tests.support.running import CHECKOUT, RunningService, create
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.skipif(sys.platform != "linux", reason="needs mounts"), pytest.mark.processes]
UNHEEDED = ("never retrieved", "shielded future", "was destroyed", "Traceback")
IMPATIENT = ("--workers", "2", "--store-timeout-seconds", "1", "--store-budget-seconds", "1")
EXPIRY = {"after_seconds": 1, "default_loss": 1}
SILENT = "127.0.0.77"
"""A name server that never answers."""
COLLECTS = "import atexit, gc\natexit.register(gc.collect)\n"
"""All garbage is collected before a process ends: what nobody has looked at is logged then."""


@pytest.fixture
def collecting(tmp_path: Path) -> dict[str, str]:
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
def test_a_store_that_fails_under_load(
    tmp_path: Path, own_redis_server: RedisServer, collecting: dict[str, str], harm: str
) -> None:
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
def hanging(tmp_path: Path) -> Iterator[list[str]]:
    """Words before a program that looks names up at a server that never answers."""
    resolver = tmp_path / "resolv.conf"
    resolver.write_text(f"nameserver {SILENT}\noptions timeout:2 attempts:1\n")
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
def test_a_name_that_is_not_found_when_nobody_waits_for_it(
    tmp_path: Path, hanging: list[str], collecting: dict[str, str], url: str
) -> None:
    """The resolver fails after two seconds; calls, and pings of the store, are given up after one."""
    command = [*hanging, *CHECKOUT]
    flags = ("--store-url", url, *IMPATIENT)
    with RunningService(tmp_path, *flags, command=command, environment=collecting) as service:
        service.wait_serving(2)
        wait_until(lambda: service.text().count("not ready") >= 2)
        for _ in range(4):
            with connected(service) as call:
                call.sendall(request("/v1/sessions/s", method="GET"))
                assert [answer.status for answer in answers(call, 1)] == [503]
        assert service.stop() == 0

    assert unheeded(service) == []
