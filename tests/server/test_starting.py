"""What a start says of itself, what makes it fail with a clear reason, and what it waits for."""

import socket
import sys
from pathlib import Path

import pytest

from tests.support.running import RunningService, create

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


@pytest.mark.parametrize("given", [{}, {"OPENBLAS_NUM_THREADS": "2"}])
def test_workers_start_one_thread_of_numpys_blas_unless_told_otherwise(run, given):
    service = run("--store-url", "memory://", environment=given)
    service.wait_ready()
    (worker,) = service.workers()
    variables = Path(f"/proc/{worker}/environ").read_text().split("\0")

    assert f"OPENBLAS_NUM_THREADS={given.get('OPENBLAS_NUM_THREADS', '1')}" in variables


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
