"""Metrics: right with many workers and after a death, and never more series than at the start."""

import asyncio
import inspect
import os
import shutil
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from service.api.middleware import labels
from service.store.base import Store
from service.telemetry.metrics import CALLS, Metrics
from service.telemetry.multiprocess import FOLDER, SharedMetrics
from tests.support.http import http_client
from tests.support.pages import row, rows
from tests.support.running import RunningService, create
from tests.support.waiting import wait_until

FEED = "/v1/sessions/{session_id}/feedback"


def scrape(client):
    """Every series' value, by name and labels; over a connection of its own, so that any worker may answer."""
    with http_client(client.base_url) as own:
        answer = own.get("/metrics")
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    return {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
    }


def value(series, name, **labels):
    return series[(name, *sorted(labels.items()))]


def play(client, session, count):
    """So many acts and a feedback for each, every request on a connection of its own."""

    def one(_):
        with http_client(client.base_url) as own:
            arm = own.post(f"/v1/sessions/{session}/act").json()["arm"]
            answer = own.post(f"/v1/sessions/{session}/feedback", json={"arm": arm, "loss": 0.5})
            assert answer.status_code == 200, answer.text

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(one, range(count)))


@pytest.mark.processes
def test_every_scrape_of_four_workers_tells_the_same_number(tmp_path):
    with RunningService(tmp_path, "--workers", "4") as service, service.client() as client:
        service.workers(4)
        session = create(client)
        play(client, session, 200)
        path = f"/v1/sessions/{session}"
        actions = client.post(f"{path}/acts", json={"count": 800}).json()["actions"]
        events = [{"arm": action["arm"], "loss": 0.5} for action in actions]
        for number in range(0, 800, 40):
            with http_client(client.base_url) as own:
                answer = own.post(f"{path}/feedbacks", json={"events": events[number : number + 40]})
                assert answer.json()["applied"] == 40

        for _ in range(50):
            series = scrape(client)
            assert value(series, "bandit_events_total", outcome="applied") == 1000
            assert value(series, "bandit_http_requests_total", method="POST", route=FEED, status="2xx") == 200
            assert value(series, "bandit_http_request_duration_seconds_count", method="POST", route=FEED) == 200
            assert value(series, "bandit_decisions_opened_total") == 1000
            assert value(series, "bandit_decisions_settled_total") == 1000
            assert value(series, "bandit_sessions_created_total", learner="dexp3") == 1
            assert value(series, "bandit_decisions_abandoned_total") == 0
            assert value(series, "bandit_sessions_deleted_total") == 0


@pytest.mark.processes
def test_a_dead_worker_leaves_its_counts_and_takes_its_gauges(tmp_path):
    folder = tmp_path / "tmp"
    folder.mkdir()
    with RunningService(tmp_path, "--workers", "2", environment={"TMPDIR": str(folder)}) as service:
        with service.client() as client:
            wait_until(lambda: value(scrape(client), "bandit_workers") == 2)
            session = create(client)
            play(client, session, 20)
            before = scrape(client)
            killed = service.workers(2)
            for worker in killed:
                os.kill(worker, signal.SIGKILL)
            wait_until(lambda: not set(killed) & set(service.children("service.server.worker")))
            wait_until(lambda: answered(client, "bandit_workers") == 2)
            after = scrape(client)
            play(client, session, 5)

            assert after.keys() == before.keys()
            assert value(after, "bandit_events_total", outcome="applied") == 20
            assert value(scrape(client), "bandit_events_total", outcome="applied") == 25
        assert len(list(folder.iterdir())) == 1
        assert service.stop() == 0
    assert not list(folder.iterdir())

    with RunningService(tmp_path, environment={"TMPDIR": str(folder)}) as again, again.client() as client:
        assert value(scrape(client), "bandit_events_total", outcome="applied") == 0


def answered(client, name):
    """The value of a series; None while nobody answers."""
    try:
        return value(scrape(client), name)
    except httpx.TransportError:
        return None


@pytest.mark.slow
def test_events_are_counted_by_outcome(tmp_path):
    with RunningService(tmp_path, "--store-url", "memory://") as service, service.client() as client:
        session = create(client)
        path = f"/v1/sessions/{session}/feedbacks"
        actions = client.post(f"/v1/sessions/{session}/acts", json={"count": 3}).json()["actions"]
        arms = [action["arm"] for action in actions]
        events = [{"arm": arm, "loss": 1, "event_id": f"e{number}"} for number, arm in enumerate(arms)]
        client.post(path, json={"events": events[:2]})
        client.post(path, json={"events": events[:2]})
        client.post(path, json={"events": [events[2], {"arm": 7, "loss": 1}]})
        client.post(path, json={"events": [events[2], {"arm": arms[0], "loss": 1}] * 2})
        client.post(path + "?on_surplus=skip", json={"events": [{"arm": arms[0], "loss": 1}] * 3})
        series = scrape(client)

    names = ("applied", "duplicate", "refused", "surplus")
    outcomes = {name: value(series, "bandit_events_total", outcome=name) for name in names}
    assert outcomes["applied"] + outcomes["surplus"] == 5
    assert (outcomes["duplicate"], outcomes["refused"]) == (2, 6)
    assert value(series, "bandit_delay_slots_total") == 0 + 1 + 2
    assert value(series, "bandit_commits_total", outcome="committed") >= 3


BESIDE = {"close", "remind", "due", "reschedule", "forget_reminder", "acquire_lease"}
"""What the sweeper and the sampler ask, and a commit once in a window: they tell of their failures themselves."""
BESIDE |= {"record_sample", "read_samples", "thin_samples", "figures"}


def test_every_call_to_the_store_is_counted():
    calls = {name for name, method in vars(Store).items() if inspect.iscoroutinefunction(method)} - BESIDE

    assert calls == set(CALLS), "CALLS in service/telemetry/metrics.py names the methods of the store"


def test_the_catalogue_is_that_of_the_code():
    there = rows("docs/metrics.md", "metric", "type", "labels", "")
    expected = []
    for family in Metrics(labels()).registry.collect():
        name = family.name + ("_total" if family.type == "counter" else "")
        names = ", ".join(f"`{name}`" for name in family.samples[0].labels if name != "le")
        expected.append(row(f"`{name}`", family.type, names, family.documentation))
    missing = [each for each in expected if each not in there]

    assert not missing, "docs/metrics.md lacks these rows:\n" + "\n".join(missing)
    assert sorted(there) == sorted(expected), "docs/metrics.md has rows of metrics that are gone"


@pytest.mark.servers("promtool")
def test_promtool_finds_no_fault():
    text = asyncio.run(Metrics(labels()).text())
    check = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, check=False)

    assert (check.returncode, check.stdout + check.stderr) == (0, b"")


def test_without_a_folder_workers_count_for_themselves(monkeypatch, tmp_path):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "missing"))
    shared = SharedMetrics(1)

    assert shared.environment({FOLDER: "/theirs", "A": "b"}) == {"A": "b"}
    shared.forget_worker(0)
    shared.remove()


@pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc")
@pytest.mark.processes
def test_a_folder_that_can_not_be_made_again_ends_nothing(tmp_path):
    folder, file = tmp_path / "temporary", tmp_path / "file"
    folder.symlink_to(tmp_path)
    file.write_text("")
    with RunningService(tmp_path, environment={"TMPDIR": str(folder)}) as service, service.client() as client:
        file.replace(folder)
        assert any(name == "bandit_build_info" for name, *_ in scrape(client))
        os.kill(service.workers()[0], signal.SIGKILL)
        service.wait_serving(2)
        with http_client(service.url) as another:
            assert any(name == "bandit_build_info" for name, *_ in scrape(another))


@pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc")
@pytest.mark.processes
@pytest.mark.parametrize("removed", ["*", "*.db", "*_0.db", "folder"])
def test_a_cleaner_of_temporary_files_costs_no_count_and_ends_nothing(tmp_path, removed):
    def posts(client):
        labels = {"method": "POST", "route": "/v1/sessions", "status": "2xx"}
        return value(scrape(client), "bandit_http_requests_total", **labels)

    variables = {"TMPDIR": str(tmp_path)}
    with RunningService(tmp_path, "--workers", "2", environment=variables) as service, service.client() as client:
        service.wait_serving(2)
        for killed in range(2):
            create(client)
            (folder,) = tmp_path.glob("bandit-metrics-*")
            if removed == "folder":
                shutil.rmtree(folder)
            else:
                for each in folder.glob(removed):
                    each.unlink()
            assert posts(client) == killed + 1
            os.kill(service.workers(2)[0], signal.SIGKILL)
            service.wait_serving(3 + killed)
        with http_client(service.url) as another:
            assert posts(another) == 2
            assert value(scrape(another), "bandit_worker_restarts_total") == 2
            assert value(scrape(another), "bandit_workers") == 2
        assert service.stop() == 0
        assert not list(tmp_path.glob("bandit-metrics-*"))
