"""Replays over HTTP against the service as a user starts it: bit for bit what runs in process, through anything."""

from __future__ import annotations

import errno
import json
import random
import signal
import socket
import subprocess
import sys
import uuid
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import httpx
import numpy as np
import pytest
from typer.testing import CliRunner

from loadtest.client import Client
from loadtest.commands import app
from loadtest.replay import delays
from loadtest.replay.arm_worlds import ArmWorld, mab_synthetic
from loadtest.replay.driver import Driver
from loadtest.replay.http_driver import HttpDriver
from loadtest.replay.in_process_driver import InProcessDriver
from loadtest.replay.plan import RateChoice, World, plan_session, plays_points
from loadtest.replay.quadratic_worlds import bco_synthetic
from loadtest.replay.replay import Record, Replay
from loadtest.replay.report import build_report
from service.engine.loss_range import LossRange
from service.learners import REGISTRY
from tests.support.examples import some_quick
from tests.support.http import http_client
from tests.support.running import RunningService
from tests.support.waiting import wait_until

SLOTS = 150


@pytest.fixture(scope="module")
def url(service: RunningService) -> str:
    return service.url


def rated_world(slots: int, n_arms: int = 30) -> ArmWorld:
    """Ratings in -10..10 with two decimals."""
    ratings = np.round(np.random.default_rng(2).uniform(-10, 10, (slots, n_arms)), 2)
    return ArmWorld("rated", ratings, LossRange(10.0, -10.0))


def play(world: World, driver: Driver, **how: object) -> Record:
    return Replay(world, delays.strict(world.slots), driver).run(**how)


def both(world: World, kind: str, http: Client, **how: object) -> tuple[Record, Record]:
    plan = plan_session(world, kind, RateChoice.AUTO, 11, {})
    return play(world, HttpDriver(http, plan, uuid.uuid4().hex), **how), play(world, InProcessDriver(plan))


def assert_equal(over_http: Record, in_process: Record) -> None:
    assert over_http.problems() == in_process.problems() == []
    assert over_http.expected.tolist() == in_process.expected.tolist()
    assert over_http.losses.tolist() == in_process.losses.tolist()
    assert over_http.digest == in_process.digest
    assert over_http.counts == in_process.counts


@pytest.mark.parametrize("kind", some_quick(sorted(REGISTRY), {"centred_tsallis", "dbgd", "dexp3", "exp3"}))
def test_both_ways_give_the_same_numbers_to_the_last_bit(url: str, kind: str) -> None:
    world = (bco_synthetic if plays_points(kind) else mab_synthetic)(SLOTS)
    with http_client(url) as http:
        assert_equal(*both(world, kind, Client(http)))


@pytest.mark.slow
def test_ratings_give_the_same_numbers_to_the_last_bit(url: str) -> None:
    with http_client(url) as http:
        assert_equal(*both(rated_world(400), "dexp3", Client(http)))


@pytest.mark.parametrize("at_once", [1, 32])
@pytest.mark.slow
def test_replays_side_by_side_are_as_each_alone(url: str, at_once: int) -> None:
    """Sessions with one seed, each with a client of its own: the same actions, losses and hash, twice over."""
    world = mab_synthetic(20)
    plan = plan_session(world, "dexp3", RateChoice.AUTO, 11, {})

    def one(_: int) -> Record:
        with http_client(url) as http:
            return play(world, HttpDriver(Client(http), plan, uuid.uuid4().hex))

    alone = play(world, InProcessDriver(plan))
    with ThreadPoolExecutor(at_once) as pool:
        for record in pool.map(one, range(2 * at_once)):
            assert_equal(record, alone)


class OutOfPorts(httpx.HTTPTransport):
    """Reaches the service until the client's machine has no port left."""

    def __init__(self, calls: int) -> None:
        super().__init__()
        self.calls = calls

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        self.calls -= 1
        if self.calls < 0:
            error = httpx.ConnectError("failed", request=request)
            raise error from OSError(errno.EADDRNOTAVAIL, "no port left")
        return super().handle_request(request)


def test_a_client_that_runs_out_of_ports_fails_the_run_and_not_the_service(url: str) -> None:
    world = mab_synthetic(SLOTS)
    plan = plan_session(world, "dexp3", RateChoice.AUTO, 11, {})
    with httpx.Client(base_url=url, transport=OutOfPorts(100)) as http:
        client = Client(http, retry_seconds=0)
        driver = HttpDriver(client, plan, uuid.uuid4().hex)
        replaying = Replay(world, delays.strict(SLOTS), driver)
        record = replaying.run()
        summary = build_report(world, plan, record, driver.log, replaying.pace, {}).summary

    assert not summary["ok"]
    assert summary["client_errors"] >= 1
    assert summary["retries"] == 0
    assert "the load client failed, not the service" in record.problems()[0]
    assert summary["sent"] == summary["acknowledged"] + len(record.unanswered)


class LosesAnswers(httpx.HTTPTransport):
    """One request in five reaches the service, and its answer is lost on the way back."""

    def __init__(self) -> None:
        super().__init__()
        self.fate = random.Random(4)
        self.lost: Counter[str] = Counter()

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        response = super().handle_request(request)
        if self.fate.random() > 0.2:
            return response
        response.read()
        response.close()
        self.lost[request.url.path.rpartition("/")[2]] += 1
        raise httpx.ReadError("the answer is lost", request=request)


@pytest.mark.slow
def test_lost_answers_change_nothing(url: str) -> None:
    transport = LosesAnswers()
    with httpx.Client(base_url=url, transport=transport) as http:
        client = Client(http, sleep=lambda _: None)
        over_http, in_process = both(rated_world(SLOTS), "dexp3", client)

    assert_equal(over_http, in_process)
    assert client.log.retries["ReadError"] == transport.lost.total()
    assert transport.lost["act"] > 0
    assert over_http.duplicates >= transport.lost["feedbacks"] // 2 > 0


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


@pytest.mark.processes
def test_a_killed_and_restarted_service_changes_nothing(tmp_path: Path) -> None:
    """The embedded store keeps everything acknowledged; the client goes on with the same ids."""
    flags = ("--port", str(free_port()))
    with ExitStack() as stack:
        services = [stack.enter_context(RunningService(tmp_path, *flags))]
        services[0].wait_ready()

        def kill_and_restart(slot: int) -> None:
            if slot in (40, 90):
                services[-1].stop(signal.SIGKILL)
                services.append(stack.enter_context(RunningService(tmp_path, *flags)))

        with http_client(f"http://127.0.0.1:{flags[1]}") as http:
            client = Client(http)
            over_http, in_process = both(rated_world(SLOTS), "dexp3", client, advance=kill_and_restart)

    assert_equal(over_http, in_process)
    assert client.log.retries.total() >= 2


@pytest.mark.processes
def test_a_service_that_stays_away_ends_the_run_with_what_is_known(tmp_path: Path) -> None:
    with RunningService(tmp_path, "--store-url", "memory://") as service, service.client() as http:
        client = Client(http, retry_seconds=0.1)
        world = rated_world(SLOTS)
        driver = HttpDriver(client, plan_session(world, "dexp3", RateChoice.AUTO, 1, {}), "away")
        record = play(world, driver, advance=lambda slot: slot == 50 and service.stop(signal.SIGKILL))

    assert record.played == 50
    assert "given up after 0.1 s" in record.problems()[0]
    assert record.problems()[1] == "the session's counts are unknown"
    assert record.sent == record.acknowledged + len(record.unanswered)


def test_somebody_else_in_the_session_ends_the_run(url: str) -> None:
    with http_client(url) as http:
        world = mab_synthetic(SLOTS)
        driver = HttpDriver(Client(http), plan_session(world, "dexp3", RateChoice.AUTO, 1, {}), "shared")
        record = play(world, driver, advance=lambda slot: slot == 20 and http.post("/v1/sessions/shared/act"))

    assert "someone else" in record.problems()[0]


@pytest.mark.slow
def test_the_command_reports_the_same_figures_both_ways(url: str, tmp_path: Path) -> None:
    found = []
    for name, way in (("http", ["--url", url]), ("in_process", ["--in-process"])):
        folder = tmp_path / name
        result = CliRunner().invoke(app, ["replay", "synthetic", "--slots", "200", *way, "--out", str(folder)])
        assert result.exit_code == 0, result.output
        found.append(json.loads((folder / "summary.json").read_text()))

    over_http, in_process = found
    differing = {name for name in over_http if over_http[name] != in_process[name]}
    assert differing <= {
        "latency_ms",
        "requests",
        "requests_per_second",
        "seconds",
        "driver",
        "session_id",
        "url",
        "parameters",
    }
    assert (tmp_path / "http" / "curve.csv").read_bytes() == (tmp_path / "in_process" / "curve.csv").read_bytes()
    assert over_http["acknowledged"] == over_http["settled"] == 200


def test_draining_over_http(url: str, tmp_path: Path) -> None:
    arguments = ["replay", "synthetic", "--slots", "7", "--no-drain", "--url", url, "--out", str(tmp_path)]
    result = CliRunner().invoke(app, arguments)

    assert result.exit_code == 0, result.output
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert (summary["acknowledged"], summary["settled"], summary["pending"]) == (5, 5, 2)
    view = httpx.get(f"{url}/v1/sessions/{summary['session_id']}").json()
    assert (view["feedbacks"], view["outstanding"]) == (5, 2)


@pytest.mark.processes
def test_an_interrupted_replay_reports_what_it_did(url: str, tmp_path: Path) -> None:
    """SIGINT ends it after the slot it is in; what is due later is sent, and the exit code tells."""
    command = [sys.executable, "-m", "loadtest", "replay", "synthetic", "--url", url, "--out", str(tmp_path)]
    before = {session["session_id"] for session in sessions(url)}
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        wait_until(lambda: any(s["slot"] > 20 for s in sessions(url) if s["session_id"] not in before))
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 130

    summary = json.loads((tmp_path / "summary.json").read_text())
    assert summary["interrupted"]
    assert not summary["ok"]
    assert 20 < summary["slots"] < 2000
    assert summary["slots"] == summary["acknowledged"] == summary["settled"]


def sessions(url: str) -> list[dict[str, object]]:
    with http_client(url) as http:
        return http.get("/v1/sessions").json()["sessions"]
