"""How the service starts, says that it is well, and obeys signals."""

import contextlib
import os
import signal
import socket
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from loadtest.processes import free_port
from tests.support.http import http_client
from tests.support.real_redis import RedisServer
from tests.support.running import CHECKOUT, RunningService, act, alive, create, is_ready
from tests.support.waiting import wait_until

# -- What a start says of itself, what makes it fail with a clear reason, and what it waits for.

pytestmark = [pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc"), pytest.mark.processes]


def test_it_says_where_it_listens_and_which_store_without_the_password(run):
    service = run("--store-url", "redis://user:hunter22@127.0.0.1:1/0")

    assert service.url.startswith("http://127.0.0.1:")
    assert f"listening on {service.url}, store redis://***@127.0.0.1:1/0" in service.messages()
    service.stop()
    assert "hunter22" not in service.text()


def test_a_misspelt_variable_is_named_and_its_value_is_not(run):
    service = run("--store-url", "memory://", environment={"BANDIT_STORE_ULR": "redis://u:hunter22@h"})
    service.wait_ready()

    assert "not settings of this service: BANDIT_STORE_ULR" in service.messages()
    assert "hunter22" not in service.text()


def test_variables_of_uvicorn_are_none_of_its_own(run):
    service = run("--store-url", "memory://", environment={"WEB_CONCURRENCY": "auto"})

    service.wait_ready()


def test_it_serves_where_all_standard_streams_are_closed(run):
    port, shell = free_port(), 'exec "$0" -m service "$@" <&- >&- 2>&-'
    run("--store-url", "memory://", "--port", str(port), command=("bash", "-c", shell, sys.executable))
    with http_client(f"http://127.0.0.1:{port}") as client:
        wait_until(lambda: is_ready(client))


@pytest.mark.parametrize("given", [{}, {"OPENBLAS_NUM_THREADS": "2", "MALLOC_TRIM_THRESHOLD_": "9"}])
def test_workers_start_one_thread_of_numpys_blas_and_keep_memory_unless_told_otherwise(run, given):
    service = run("--store-url", "memory://", environment=given)
    service.wait_ready()
    (worker,) = service.workers()
    variables = Path(f"/proc/{worker}/environ").read_text().split("\0")

    assert f"OPENBLAS_NUM_THREADS={given.get('OPENBLAS_NUM_THREADS', '1')}" in variables
    assert f"MALLOC_TRIM_THRESHOLD_={given.get('MALLOC_TRIM_THRESHOLD_', 32 * 2**20)}" in variables


@pytest.mark.quick
def test_a_taken_port_is_a_clear_failure(run):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        service = run("--port", str(port))

        assert service.process.wait(30) == 1
    assert (
        service.text()
        == f"service: can't listen on 127.0.0.1:{port}: Address already in use; choose another with --port\n"
    )


def test_an_unknown_host_is_a_clear_failure(run):
    service = run("--host", "host.invalid")

    assert service.process.wait(30) == 1
    assert "service: can't listen on host.invalid:0: " in service.text()


def test_a_second_service_on_the_same_folder_is_refused(run, tmp_path):
    first = run()
    first.wait_ready()
    (tmp_path / "second").mkdir()
    with RunningService(tmp_path / "second", "--data-dir", str(tmp_path / "data")) as second:
        assert second.process.wait(30) == 1
        assert "service: " in second.text()
        assert str(tmp_path / "data") in second.text()
        assert "Traceback" not in second.text()
    with first.client() as client:
        create(client)


@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_worker_that_cannot_start_fails_the_whole_start(run, tmp_path, workers):
    (tmp_path / "sitecustomize.py").write_text("import sys\nsys.modules['service.app'] = None\n")
    service = run("--workers", workers, environment={"PYTHONPATH": str(tmp_path)})

    assert service.process.wait(30) == 3
    assert "a worker ended with 1 before it could serve: giving up" in service.messages()
    assert not service.children("")


@pytest.mark.parametrize("url", ["redis://user:hunter22@127.0.0.1:port/0", "http://user:hunter22@127.0.0.1"])
def test_a_store_url_that_cannot_be_read_is_a_bad_setting(run, url):
    service = run("--store-url", url)

    assert service.process.wait(30) == 2
    assert service.text().startswith("service: --store-url (BANDIT_STORE_URL): ")
    assert "hunter22" not in service.text()


# -- Health while the store is down, frozen and back.


def test_a_store_that_is_down_makes_it_wait_and_heal(run, tmp_path, server_program):
    with contextlib.closing(RedisServer(tmp_path)) as server:
        service = run("--store-url", server.url, "--workers", "2")
        with http_client(service.url) as client:
            wait_until(lambda: client.get("/livez").status_code == 200)
            down = client.get("/readyz")
            assert (down.status_code, down.json()["code"]) == (503, "store_unavailable")
            server.start()
            wait_until(lambda: client.get("/readyz").status_code == 200)
            act(client, create(client))
        assert service.stop() == 0


def test_health_asked_by_head_is_that_of_get_without_body(run, own_redis_server):
    service = run("--store-url", own_redis_server.url)
    with service.client() as client:
        for status in (200, 503):
            for path in ("/livez", "/readyz"):
                shown, asked = (client.request(method, path) for method in ("GET", "HEAD"))
                assert asked.status_code == shown.status_code == (200 if path == "/livez" else status)
                assert asked.headers.keys() == shown.headers.keys()
                assert (asked.headers["content-length"], asked.content) == (str(len(shown.content)), b"")
            own_redis_server.freeze()
            wait_until(lambda: client.get("/readyz").status_code == 503)
        own_redis_server.thaw()
        assert client.put("/livez").headers["allow"] == "GET, HEAD"


# -- SIGTERM, SIGINT and a hang-up: a clean stop, whatever is under way, and an end at once for who asks twice.


@pytest.mark.parametrize("workers", ["1", pytest.param("2", marks=pytest.mark.quick)])
def test_it_serves_and_ends_cleanly_on_a_signal(run, workers):
    service = run("--workers", workers)
    with service.client() as client:
        act(client, create(client))
        server = service.children("unixsocket")
        pids = service.workers(int(workers))
        ended = service.stop(signal.SIGTERM)

    assert ended == 0
    assert not any(map(alive, pids + server))
    assert "stopped" in service.messages()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP])
def test_interrupting_it_is_a_clean_stop(run, number):
    service = run("--store-url", "memory://")
    service.wait_ready()

    assert service.stop(number) == 0
    assert f"received {number.name}, stopping" in service.messages()


def test_a_hang_up_does_not_end_it_under_nohup(run):
    service = run("--store-url", "memory://", command=("nohup", *CHECKOUT))
    service.wait_ready()
    service.process.send_signal(signal.SIGHUP)

    with service.client() as client:
        create(client)
    assert service.stop() == 0
    assert not [line for line in service.messages() if "SIGHUP" in line]


def test_a_stop_in_the_middle_of_its_imports_is_taken(run, tmp_path):
    slow = tmp_path / "slow"
    slow.mkdir()
    (slow / "pydantic.py").write_text(f"import signal\nopen({str(tmp_path / 'here')!r}, 'w')\nsignal.pause()\n")
    service = run("--store-url", "memory://", environment={"PYTHONPATH": str(slow), "COVERAGE_PROCESS_START": ""})
    wait_until((tmp_path / "here").exists)

    assert service.stop(signal.SIGTERM) == 0


def test_a_store_that_hangs_does_not_hold_a_stop(run, own_redis_server):
    service = run("--store-url", own_redis_server.url, "--grace-seconds", "1", "--store-timeout-seconds", "2")
    with service.client() as client, ThreadPoolExecutor(1) as pool:
        session = create(client)
        own_redis_server.freeze()
        waiting = pool.submit(client.post, f"/v1/sessions/{session}/act")
        wait_until(lambda: client.get("/readyz").status_code == 503)
        ended = service.stop()
        own_redis_server.thaw()

        assert ended == 0
        assert waiting.result().status_code >= 500


def test_accepted_requests_are_finished_at_a_stop(run):
    """What clients were told is in the store; what they were not told may or may not be."""
    service = run("--workers", "2")
    with service.client() as client, ThreadPoolExecutor(4) as pool:
        session = create(client)

        def hammer(_: int) -> int:
            slots = 0
            with http_client(service.url) as own, contextlib.suppress(httpx.TransportError):
                while (answer := own.post(f"/v1/sessions/{session}/act")).status_code == 200:
                    slots = max(slots, answer.json()["slot"])
            return slots

        told = pool.map(hammer, range(4))
        wait_until(lambda: client.get(f"/v1/sessions/{session}").json()["slot"] > 50)
        assert service.stop() == 0
        most = max(told)
    with run().client() as client:
        assert most <= client.get(f"/v1/sessions/{session}").json()["slot"] <= most + 4


def test_a_stop_does_not_wait_for_idle_connections(run):
    service = run("--store-url", "memory://", "--grace-seconds", "20")
    with contextlib.ExitStack() as stack:
        for _ in range(50):
            assert stack.enter_context(http_client(service.url)).get("/livez").status_code == 200
        service.process.terminate()

        assert service.process.wait(5) == 0


def test_a_second_signal_kills_at_once(run):
    service = run("--store-url", "memory://", "--grace-seconds", "60")
    service.wait_ready()
    (worker,) = service.workers()
    os.kill(worker, signal.SIGSTOP)
    service.process.terminate()
    wait_until(lambda: "received SIGTERM, stopping" in service.messages())

    assert service.stop() == 1
    assert not alive(worker)
