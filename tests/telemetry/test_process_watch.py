"""What a worker measures of itself."""

import asyncio
import os
import platform
import signal
import time

import pytest

from service import __version__
from service.errors import StoreUnavailableError
from service.sessions import expiry_sweeper
from service.sessions.expiry_sweeper import Sweeper
from service.telemetry import metrics as process_watch
from service.telemetry.metrics import Labels, Metrics, resident_bytes, revision, watch_process
from tests.support.running import RunningService
from tests.support.waiting import wait_until
from tests.telemetry.test_metrics import answered, scrape, value


@pytest.fixture
def metrics(monkeypatch):
    monkeypatch.setattr(process_watch, "LAG_SECONDS", 0.01)
    monkeypatch.setattr(process_watch, "READY_SECONDS", 0.01)
    return Metrics(Labels())


def now(metrics, name):
    return metrics.registry.get_sample_value(name)


async def measure(metrics, ready, until, **figures_of_the_store):
    """Run a watch until a condition holds."""

    async def is_ready():
        return ready()

    async def figures():
        if not figures_of_the_store:
            raise StoreUnavailableError("NOPERM")
        return figures_of_the_store

    task = asyncio.create_task(watch_process(metrics, lambda: 7, is_ready, figures))
    async with asyncio.timeout(20):
        while not until():  # noqa: ASYNC110 - until other tasks have run
            await asyncio.sleep(0)
    task.cancel()


async def test_a_watch_measures_queue_memory_and_readiness(metrics):
    ready = [True]
    await measure(metrics, lambda: ready[0], lambda: now(metrics, "bandit_ready") == 1)

    assert now(metrics, "bandit_queued_requests") == 7
    assert 10e6 < now(metrics, "bandit_memory_bytes") < 10e9

    ready[0] = False
    await measure(metrics, lambda: ready[0], lambda: now(metrics, "bandit_ready") == 0)


async def test_a_watch_tells_how_full_the_store_is_and_how_far_its_replicas_are(metrics):
    told = {"memory_bytes": 100.0, "memory_limit_bytes": 200.0, "replicas": 2.0, "replica_lag_seconds": 3.0}

    def seen():
        return {name: now(metrics, f"bandit_store_{name}") for name in told}

    await measure(metrics, lambda: True, lambda: seen() == told, **told)
    await measure(metrics, lambda: False, lambda: now(metrics, "bandit_ready") == 0, replicas=7)

    assert seen() == told


async def test_a_busy_event_loop_lags(metrics):
    blocked = False

    def enough():
        nonlocal blocked
        if not blocked and now(metrics, "bandit_event_loop_lag_seconds_count") >= 1:
            blocked = True
            ends = time.monotonic() + 0.06
            while time.monotonic() < ends:
                pass
        return now(metrics, "bandit_event_loop_lag_seconds_count") > 3

    await measure(metrics, lambda: True, enough)

    assert now(metrics, "bandit_event_loop_lag_seconds_sum") > 0.04


def test_a_system_that_does_not_say_has_no_memory(monkeypatch, tmp_path):
    monkeypatch.setattr(process_watch, "_STATM", tmp_path / "missing")

    assert resident_bytes() == 0


def test_the_build_is_known(metrics):
    labels = {"version": __version__, "python": platform.python_version(), "revision": revision()}

    assert metrics.registry.get_sample_value("bandit_build_info", labels) == 1


def test_a_build_is_named_by_its_commit_or_its_files(tmp_path):
    (tmp_path / "a.py").write_text("1")
    named = revision.__wrapped__  # Which remembers nothing.
    first = named(tmp_path)
    (tmp_path / "__pycache__").mkdir()
    (tmp_path / "__pycache__" / "a.pyc").touch()
    assert named(tmp_path) == first
    (tmp_path / "a.py").write_text("2")
    assert named(tmp_path) != first
    (tmp_path / "REVISION").write_text("317ae6c\n")
    assert named(tmp_path) == "317ae6c"


class Due:
    """Ten sessions are due; the lease is lost when asked for the third time."""

    def __init__(self):
        self.asked = 0

    async def acquire_lease(self, worker, seconds):
        self.asked += 1
        return self.asked < 3

    async def due(self, limit):
        return [str(number) for number in range(10)]


async def test_the_sweeper_tells_its_backlog(monkeypatch):
    told = []
    sweeper = Sweeper(Due(), None, told.append)
    monkeypatch.setattr(sweeper, "_settle", lambda _: asyncio.sleep(0))
    await sweeper.sweep()
    await sweeper.sweep()

    assert expiry_sweeper.SESSIONS_AT_ONCE == 4
    assert told == [10, 6, 2, 0]


@pytest.mark.processes
def test_restarts_are_counted_and_the_dead_leave_no_gauge(tmp_path):
    with RunningService(tmp_path, "--workers", "2") as service, service.client() as client:
        wait_until(lambda: value(scrape(client), "bandit_workers") == 2)
        before = scrape(client)
        assert value(before, "bandit_worker_restarts_total") == value(before, "bandit_store_restarts_total") == 0
        wait_until(lambda: value(scrape(client), "bandit_ready") == 1)

        for killed in service.workers(2):
            os.kill(killed, signal.SIGKILL)
        wait_until(lambda: answered(client, "bandit_worker_restarts_total") == 2)
        wait_until(lambda: answered(client, "bandit_workers") == 2)
        (server,) = service.children("valkey") or service.children("redis")
        os.kill(server, signal.SIGKILL)
        wait_until(lambda: answered(client, "bandit_store_restarts_total") == 1)
        wait_until(lambda: answered(client, "bandit_ready") == 1)
        after = scrape(client)

        assert value(after, "bandit_worker_restarts_total") == 2
        assert 10e6 < value(after, "bandit_memory_bytes") < 10e9
        assert value(after, "bandit_event_loop_lag_seconds_count") > 0
        assert after.keys() == before.keys()
        assert service.stop() == 0
