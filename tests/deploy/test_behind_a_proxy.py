"""Replicas behind a real nginx: one after the other restarted under load, and one frozen."""

import contextlib
import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from loadtest.processes import ServiceProcess
from tests.support.compose import ROOT
from tests.support.http import http_client
from tests.support.nginx import CONFIG, before
from tests.support.running import create
from tests.support.waiting import wait_until

pytestmark = [
    pytest.mark.recipes,
    pytest.mark.servers("nginx", "redis-server", "python3", "sh", "sleep", "touch"),
    pytest.mark.skipif(sys.platform != "linux", reason="a rolling upgrade of Linux processes"),
    pytest.mark.timeout(400),
]
SHORT_BOUND = ("--store-timeout-seconds", "0.5", "--store-budget-seconds", "0.5")
"""As docker-compose.yml sets them."""


@contextlib.contextmanager
def replicas(count: int, folder: Path, store: str, *flags: str) -> Iterator[list[ServiceProcess]]:
    """So many services on one store."""
    made = []
    for number in range(count):
        logs = folder / f"replica-{number}"
        logs.mkdir()
        made.append(ServiceProcess(logs, "--store-url", store, *SHORT_BOUND, *flags))
    try:
        for each in made:
            each.start()
        for each in made:
            wait_until(each.ready, 60)
        yield made
    finally:
        for each in made:
            each.end()


@contextlib.contextmanager
def balanced(made: list[ServiceProcess], folder: Path) -> Iterator[httpx.Client]:
    """A client of nginx in front of them."""
    (line,) = [line for line in CONFIG.splitlines() if "server service:8000" in line]
    servers = "\n".join(line.replace("service:8000", f"127.0.0.1:{each.port}") for each in made)
    with before("unused", folder, CONFIG.replace(line, servers)) as client:
        yield client


RESTART = """touch "$0.$1"
while [ -e "$0.$1" ]; do sleep 0.1; done
"""
"""Asks this test to restart the replica of a port, and waits until that is done."""


def test_a_rolling_upgrade_under_load_costs_nobody_more_than_a_retry(tmp_path, redis_server):
    restart = tmp_path / "restart.sh"
    restart.write_text(RESTART)
    flags = ("--drain-seconds", "2", "--workers", "1")
    with replicas(3, tmp_path, redis_server.url, *flags) as made, balanced(made, tmp_path) as client:
        ports = [str(each.port) for each in made]
        upgrade = ["sh", str(ROOT / "deploy/systemd/rolling-upgrade.sh"), *ports]
        during = ["-m", "loadtest", "chaos", "--url", str(client.base_url), "--out", str(tmp_path / "out")]
        pids = [each.pid for each in made]
        with ThreadPoolExecutor(1) as pool:
            ended = pool.submit(
                subprocess.run,
                [sys.executable, *during, "--during", shlex.join(upgrade)],
                env=os.environ | {"RESTART": f"sh {restart} "},
                capture_output=True,
                text=True,
                check=False,
            )
            while not ended.done():
                for each in made:
                    asked = Path(f"{restart}.{each.port}")
                    if asked.exists():
                        each.end(signal.SIGTERM)
                        each.start()
                        asked.unlink()
                time.sleep(0.05)
        result = ended.result()
        summary = json.loads((tmp_path / "out/summary.json").read_text())

    assert result.returncode == 0, result.stdout + result.stderr
    assert summary["ok"]
    assert set(summary["retries"]) <= {"status 503"}
    assert sum(summary["retries"].values()) <= summary["calls"] / 100
    assert not set(pids) & {each.pid for each in made}


def test_a_frozen_replica_is_left_out_within_two_seconds(tmp_path, redis_server):
    with replicas(3, tmp_path, redis_server.url) as made, balanced(made, tmp_path) as client:
        session = create(client)
        frozen = [made[0].pid, *made[0].workers()]
        for pid in frozen:
            os.kill(pid, signal.SIGSTOP)
        since = time.monotonic()

        def acts(_: int) -> list[tuple[float, float, int]]:
            """When each act began and ended, and its status."""
            told = []
            with http_client(client.base_url) as own:
                while (began := time.monotonic() - since) < 6:
                    status = own.post(f"/v1/sessions/{session}/act").status_code
                    told.append((began, time.monotonic() - since, status))
            return told

        with ThreadPoolExecutor(8) as pool:
            told = [each for client_told in pool.map(acts, range(8)) for each in client_told]
        for pid in frozen:
            os.kill(pid, signal.SIGCONT)

    assert {status for _, _, status in told} <= {200, 503}
    late = [(ended - began, status) for began, ended, status in told if began > 2.5]
    assert len(late) > 50
    assert {status for _, status in late} == {200}
    assert max(seconds for seconds, _ in late) < 1.5
    assert max(ended - began for began, ended, _ in told) < 4
