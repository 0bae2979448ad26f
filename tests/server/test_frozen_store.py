"""A store that is slow, or hangs for a while: alive, honestly ready or not, bounded answers, well by itself."""

import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from loadtest.chaos.faults import CuttingProxy
from service.sessions.service import PING_SECONDS
from tests.support.running import RunningService, create
from tests.support.waiting import wait_until

pytestmark = pytest.mark.processes

FROZEN = 4.0
"""Seconds; ``python -m loadtest chaos --long-freezes`` does it for thirty."""


@pytest.fixture
def service(tmp_path, own_redis_server):
    flags = ("--workers", "2", "--store-timeout-seconds", "1", "--store-budget-seconds", "1")
    with RunningService(tmp_path, "--store-url", own_redis_server.url, *flags) as service:
        yield service


def timed(client, method, path):
    started = time.monotonic()
    return client.request(method, path), time.monotonic() - started


@pytest.mark.alone
def test_a_frozen_store_is_told_within_bounds_and_over_when_it_is_over(service, own_redis_server):
    with service.client() as client, ThreadPoolExecutor(16) as pool:
        path = f"/v1/sessions/{create(client)}/act"
        workers = service.workers(2)
        own_redis_server.freeze()
        frozen = time.monotonic()
        calls = [pool.submit(client.post, path) for _ in range(16)]

        wait_until(lambda: client.get("/readyz").status_code == 503)
        health = []
        while time.monotonic() < frozen + FROZEN:
            health.append(timed(client, "GET", "/livez"))
            health.append(timed(client, "GET", "/readyz"))
        answers = [call.result() for call in calls]  # All of them while it is frozen still.
        wait_until(lambda: {client.get("/readyz").status_code for _ in range(20)} == {503})
        own_redis_server.thaw()
        wait_until(lambda: client.get("/readyz").status_code == 200)

        assert {answer.status_code for answer, _ in health[::2]} == {200}
        assert max(seconds for _, seconds in health[::2]) < PING_SECONDS < 1
        assert {answer.status_code for answer in answers} == {503}
        assert all(answer.headers["retry-after"] == "1" for answer in answers)
        wait_until(lambda: client.post(path).status_code == 200)
        assert service.workers(2) == workers


@pytest.mark.parametrize("seconds", [0.05, 0.5, 1.5, 4.0])
def test_a_slow_store_is_ready_and_what_waits_too_long_is_not_done(run, own_redis_server, seconds):
    statuses, flags = set[int](), ("--workers", "2", "--max-wait-seconds", str(seconds / 2))
    with CuttingProxy(own_redis_server.port) as proxy, ThreadPoolExecutor(16) as pool:
        service = run("--store-url", f"redis://127.0.0.1:{proxy.port}/0", *flags)
        with service.client() as client:
            path = f"/v1/sessions/{create(client)}"
            actions = client.post(f"{path}/acts", json={"count": 4}).json()["actions"]
            events = [{"arm": each["arm"], "loss": 0.5} for each in actions]
            calls = [("act", {}), ("acts", {"count": 2})] * 4
            calls += [("feedback", events[0]), ("feedback", events[1]), ("feedbacks", {"events": events[2:]})]
            proxy.late = {"reply": seconds}
            asked = [pool.submit(client.post, f"{path}/{what}", json=body) for what, body in calls]
            while not all(each.done() for each in asked):
                statuses.add(client.get("/readyz").status_code)
            proxy.late = {}
            view = client.get(path).json()

    answers = [each.result() for each in asked]
    done, late = ([each for each in answers if each.status_code == status] for status in (200, 503))
    assert statuses == {200}
    assert len(done) + len(late) == len(calls)
    assert done
    assert late or seconds < 1  # On a busy machine they don't come together.
    assert {(each.json()["code"], each.headers["retry-after"]) for each in late} <= {("overloaded", "1")}
    assert view["slot"] == 4 + sum(each.text.count('"probability"') for each in done)
    assert view["feedbacks"] == sum(each.json().get("applied", 0) for each in done)


def test_a_store_that_answers_nothing_is_told_within_20_seconds_whatever_its_timeout(run, own_redis_server):
    service = run("--store-url", own_redis_server.url, "--store-timeout-seconds", "60")
    with service.client() as client:
        own_redis_server.freeze()
        wait_until(lambda: client.get("/readyz").status_code == 503, 20)
        own_redis_server.thaw()
        wait_until(lambda: client.get("/readyz").status_code == 200)
