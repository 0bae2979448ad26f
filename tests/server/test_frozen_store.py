"""A store that is slow, or hangs for a while: alive, honestly ready or not, bounded answers, well by itself."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from service.sessions.service import PING_SECONDS
from tests.support.running import RunningService, create
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.processes, pytest.mark.alone]

FROZEN = 4.0
"""Seconds; ``python -m loadtest chaos --long-freezes`` does it for thirty."""


@pytest.fixture
def service(tmp_path, own_redis_server):
    flags = ("--workers", "2", "--store-timeout-seconds", "1", "--store-budget-seconds", "1")
    with RunningService(tmp_path, "--store-url", own_redis_server.url, *flags) as service:
        yield service


def timed(client: httpx.Client, method: str, path: str) -> tuple[httpx.Response, float]:
    started = time.monotonic()
    return client.request(method, path), time.monotonic() - started


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
        own_redis_server.thaw()
        wait_until(lambda: {client.get("/readyz").status_code for _ in range(20)} == {503})
        wait_until(lambda: client.get("/readyz").status_code == 200)

        assert {answer.status_code for answer, _ in health[::2]} == {200}
        assert max(seconds for _, seconds in health[::2]) < PING_SECONDS < 1
        assert {answer.status_code for answer in answers} == {503}
        assert all(answer.headers["retry-after"] == "1" for answer in answers)
        wait_until(lambda: client.post(path).status_code == 200)
        assert service.workers(2) == workers
