"""A service that is told to stop first says that it is not ready, and still serves: real processes."""

import signal
import time

import pytest

from tests.support.http import http_client
from tests.support.running import RunningService, create
from tests.support.waiting import wait_until

pytestmark = pytest.mark.processes


def test_a_draining_service_is_not_ready_at_once_and_serves_until_it_stops(tmp_path):
    with RunningService(tmp_path, "--workers", "2", "--drain-seconds", "3") as service, service.client() as client:
        session = create(client)
        wait_until(lambda: sum(message.endswith(" serves") for message in service.messages()) == 2)
        started = time.monotonic()
        service.process.send_signal(signal.SIGTERM)
        wait_until(lambda: client.get("/readyz").status_code == 503)
        for _ in range(20):
            with http_client(service.url) as fresh:
                shown = fresh.get("/readyz")
                assert (shown.status_code, shown.json()["code"]) == (503, "overloaded")
                answer = fresh.post(f"/v1/sessions/{session}/act")
                assert (answer.status_code, answer.headers["connection"]) == (200, "close")
                assert fresh.get("/livez").status_code == 200

        assert service.process.wait(30) == 0
        assert time.monotonic() - started >= 3


@pytest.mark.parametrize("signals", [(signal.SIGTERM, signal.SIGTERM), (signal.SIGINT, signal.SIGTERM)])
def test_a_second_signal_ends_the_draining(tmp_path, signals):
    with RunningService(tmp_path, "--store-url", "memory://", "--drain-seconds", "3600") as service:
        service.wait_ready()
        service.process.send_signal(signals[0])
        wait_until(lambda: any("not ready from now on" in message for message in service.messages()))

        assert service.stop(signals[1]) == 0
