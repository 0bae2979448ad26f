"""Replicas behind a real nginx: one after the other restarted under load, and one frozen."""

import contextlib
import json
import os
import shlex
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from loadtest.processes import ServiceProcess
from tests.support.compose import ROOT
from tests.support.http import http_client
from tests.support.nginx import CONFIG, before, reload
from tests.support.running import RunningService, create
from tests.support.two_builds import QUICK, SECOND, build
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


DOCKER = """echo "$@" >"$0.given"
mv "$0.given" "$0.asked"
until [ -e "$0.told" ]; do sleep 0.05; done
cat "$0.told"
rm "$0.told"
"""
"""Asks this test to carry a command of Docker out."""


class Containers:
    """Carries out what the script asks of Docker, with services of a build and a real nginx.

    Parameters
    ----------
    builds : of the containers that each ``up`` starts
    """

    def __init__(self, folder: Path, store: str, builds: list[Path]) -> None:
        self._folder, self._store, self._builds = folder, store, iter(builds)
        self.running: dict[str, RunningService] = {}

    def up(self, count: int) -> None:
        """Start what is missing, and wait until it is ready."""
        build, made = next(self._builds), []
        for _ in range(count - len(self.running)):
            (folder := self._folder / uuid.uuid4().hex).mkdir()
            flags = ("--store-url", self._store, *SHORT_BOUND, "--workers", "1", "--drain-seconds", "2")
            self.running[folder.name] = RunningService(folder, *flags, cwd=build)
            made.append(self.running[folder.name])
        for each in made:
            each.wait_ready()

    def config(self) -> str:
        """What nginx finds when it looks up the containers."""
        (line,) = [line for line in CONFIG.splitlines() if "server service:8000" in line]
        urls = [each.url.removeprefix("http://") for each in self.running.values()]
        return CONFIG.replace(line, "\n".join(line.replace("service:8000", url) for url in urls))

    def carry_out(self, words: list[str]) -> str:
        """Carry a command out and return what it prints."""
        match words:
            case [*_, "ps", "-q", "service"]:
                return "\n".join(self.running)
            case [*_, "up", "-d", "--no-deps", "--no-recreate", "--scale", scale, "--wait", "service"]:
                self.up(int(scale.removeprefix("service=")))
            case [_, _, _, "exec", "-T", "nginx", "nginx", "-s", "reload"]:
                reload(self._folder, self.config())
            case [_, _, _, "exec", "-T", "nginx", *command]:
                there = [word.replace("/tmp/nginx", f"{self._folder}/nginx/nginx") for word in command]
                subprocess.run(there, check=True)
            case ["stop", "-t", "60", name]:
                assert self.running.pop(name).stop() == 0
            case _:
                assert words[0] == "rm" or {"build", "ps"} & {*words}, words
        return ""


def test_an_upgrade_of_containers_and_the_way_back_under_load_cut_no_connection(tmp_path, redis_server):
    """By the script for compose, which makes nginx reload; the second build writes another schema."""
    (docker := tmp_path / "docker").write_text(f"#!/bin/sh\n{DOCKER}")
    docker.chmod(0o755)
    builds = {name: build(tmp_path / name, patches) for name, patches in (("first", QUICK), ("second", SECOND))}
    order = [builds[name] for name in ("first", "second", "first")]
    containers, upgrade = Containers(tmp_path, redis_server.url, order), ROOT / "deploy/compose/rolling-upgrade.sh"
    with contextlib.ExitStack() as stack:
        containers.up(2)
        stack.callback(lambda: [each.__exit__() for each in containers.running.values()])
        client = stack.enter_context(before("unused", tmp_path, containers.config()))
        command = ["-m", "loadtest", "chaos", "--url", str(client.base_url), "--out", str(tmp_path / "out")]
        ended = stack.enter_context(ThreadPoolExecutor(1)).submit(
            subprocess.run,
            [sys.executable, *command, "--during", f"sh -c 'sh {upgrade} && sh {upgrade}'"],
            env=os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}"},
            capture_output=True,
            text=True,
            check=False,
        )
        asked, told = Path(f"{docker}.asked"), Path(f"{docker}.told")
        while not ended.done():
            if asked.exists():
                words = asked.read_text().split()
                asked.unlink()
                told.with_suffix(".new").write_text(containers.carry_out(words))
                told.with_suffix(".new").rename(told)
            time.sleep(0.05)
        logs = "".join(path.read_text() for path in tmp_path.glob("*/service.log"))
        result, summary = ended.result(), json.loads((tmp_path / "out/summary.json").read_text())

    assert result.returncode == 0, result.stdout + result.stderr
    assert (summary["ok"], set(summary["retries"]) <= {"status 503"}) == (True, True), summary
    assert '"status": 500' not in logs
    assert "sessions are written in schema 2 from now on" in logs


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
