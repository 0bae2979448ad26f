"""Replicas behind a real nginx: one after the other restarted under load, and one frozen."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

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
    pytest.mark.servers("nginx", "redis-server", "python3", "sh", "sleep"),
    pytest.mark.skipif(sys.platform != "linux", reason="a rolling upgrade of Linux processes"),
    pytest.mark.timeout(400),
]
SHORT_BOUND = ("--store-timeout-seconds", "0.5", "--store-budget-seconds", "0.5")
"""As docker-compose.yml sets them."""


@contextlib.contextmanager
def replicas(count, folder, store, *flags):
    """So many services on one store, and a client of nginx in front of them."""
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
        with before("", folder, facing(each.url for each in made)) as client:
            yield made, client
    finally:
        for each in made:
            each.end()


def facing(urls):
    """The configuration of an nginx in front of them."""
    (line,) = [line for line in CONFIG.splitlines() if "server service:8000" in line]
    servers = (line.replace("service:8000", url.removeprefix("http://")) for url in urls)
    return CONFIG.replace(line, "\n".join(servers))


ASK = """#!/bin/sh
echo "$@" >"$0.given" && mv "$0.given" "$0.asked"
until [ -e "$0.told" ]; do sleep 0.05; done
cat "$0.told" && rm "$0.told"
"""
"""Asks this test to carry a command out, and prints what it tells."""


def checked_upgrade(client, folder, upgrade, carry_out, name, **variables):
    """Run a script under load, and check that no request failed but by a 503; return what the load test says.

    Parameters
    ----------
    carry_out : gets the words of each command that the script gives to the program ``name``, returns what it prints
    """
    (program := folder / name).write_text(ASK)
    program.chmod(0o755)
    chaos = ["-m", "loadtest", "chaos", "--url", str(client.base_url), "--out", str(folder / "out")]
    environment = os.environ | variables | {"PATH": f"{folder}:{os.environ['PATH']}"}
    asked, told = Path(f"{program}.asked"), Path(f"{program}.told")
    with ThreadPoolExecutor(1) as pool:
        run = partial(subprocess.run, env=environment, capture_output=True, text=True, check=False)
        ended = pool.submit(run, [sys.executable, *chaos, "--during", upgrade])
        while not ended.done():
            if asked.exists():
                words = asked.read_text().split()
                asked.unlink()
                told.with_suffix(".new").write_text(carry_out(*words))
                told.with_suffix(".new").rename(told)
            time.sleep(0.05)
    assert ended.result().returncode == 0, ended.result().stdout + ended.result().stderr
    summary: dict[str, Any] = json.loads((folder / "out/summary.json").read_text())
    assert summary["ok"]
    assert all(reason.startswith("status 503") for reason in summary["retries"])
    return summary


def test_an_upgrade_of_containers_and_the_way_back_under_load_cut_no_connection(tmp_path, redis_server):
    """By the script for compose, which makes nginx reload; the second build writes another schema."""
    first, second = (build(tmp_path / str(len(patches)), patches) for patches in (QUICK, SECOND))
    builds, running = iter((first, second, first)), dict[str, RunningService]()

    def up(count):
        folder, here = next(builds), [*running]
        for name in (f"replica-{uuid.uuid4()}" for _ in range(count - len(here))):
            (tmp_path / name).mkdir()
            flags = ("--store-url", redis_server.url, *SHORT_BOUND, "--workers", "1", "--drain-seconds", "2")
            running[name] = stack.enter_context(RunningService(tmp_path / name, *flags, cwd=folder))
        for each in running.values():
            each.wait_ready()

    def docker(*words):
        match words:
            case [*_, "ps", "-q", "service"]:
                return "\n".join(running)
            case [*_, "up", "-d", "--no-deps", "--no-recreate", "--scale", scale, "--wait", "service"]:
                up(int(scale.removeprefix("service=")))
            case [*_, "nginx", "nginx", "-s", "reload"]:
                reload(tmp_path, facing(each.url for each in running.values()))
            case ["compose", _, _, "exec", "-T", "nginx", *command]:
                return subprocess.getoutput(" ".join(command).replace("/tmp", f"{tmp_path}/nginx"))
            case ["stop", "-t", "60", name]:
                assert running.pop(name).stop() == 0
        return ""

    with contextlib.ExitStack() as stack:
        up(2)
        client = stack.enter_context(before("", tmp_path, facing(each.url for each in running.values())))
        upgrade = f"sh {ROOT / 'deploy/compose/rolling-upgrade.sh'}"
        checked_upgrade(client, tmp_path, f"sh -c '{upgrade} && {upgrade}'", docker, "docker")
    logs = "".join(path.read_text() for path in tmp_path.glob("replica-*/service.log"))

    assert '"status": 500' not in logs
    assert "sessions are written in schema 2 from now on" in logs


def test_a_frozen_replica_is_left_out_within_two_seconds(tmp_path, redis_server):
    with replicas(3, tmp_path, redis_server.url) as (made, client):
        session = create(client)
        frozen = [made[0].pid, *made[0].workers()]
        for pid in frozen:
            os.kill(pid, signal.SIGSTOP)
        since = time.monotonic()

        def acts(_):
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
