"""docs/nginx.conf before the service: keep-alive times that fit, a prefix, bodies, errors."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from service.settings import Settings
from tests.compose import COMPOSE, ROOT
from tests.real_redis import free_port
from tests.running import RunningService
from tests.waiting import wait_until

CONFIG = (ROOT / "docs/nginx.conf").read_text()


def seconds(name: str) -> int:
    return int(re.findall(rf"{name} (\d+)s;", CONFIG)[0])


def test_it_gives_up_idle_connections_before_the_service_does():
    assert seconds("keepalive_timeout") <= Settings.model_fields["keep_alive_seconds"].default - 10


def test_it_lets_through_what_the_service_reads():
    assert f"client_max_body_size {Settings.model_fields['max_body_bytes'].default};" in CONFIG


def test_it_is_what_the_compose_profile_runs():
    nginx = COMPOSE["services"]["nginx"]

    assert nginx["profiles"] == ["nginx"]
    assert nginx["volumes"] == ["./docs/nginx.conf:/etc/nginx/nginx.conf:ro"]
    assert nginx["depends_on"]["service"] == {"condition": "service_healthy", "restart": True}
    assert "listen 8080;" in CONFIG


@pytest.fixture
def balanced(tmp_path: Path) -> Iterator[httpx.Client]:
    """A client of a real nginx with this very file, before a service that knows its prefix."""
    program = shutil.which("nginx", path=f"{os.environ['PATH']}:/usr/sbin")
    if program is None:
        pytest.skip("needs nginx")
    port, folder = free_port(), tmp_path / "nginx"
    folder.mkdir()
    with RunningService(tmp_path, "--store-url", "memory://", "--root-path", "/bandit") as service:
        service.wait_ready()
        text = CONFIG.replace("service:8000", service.url.removeprefix("http://"))
        text = text.replace("listen 8080;", f"listen 127.0.0.1:{port};").replace("/tmp/nginx", f"{folder}/nginx")
        (folder / "nginx.conf").write_text(text)
        flags = ["-p", str(folder), "-c", str(folder / "nginx.conf"), "-g", "daemon off;"]
        with (folder / "log").open("wb") as log, subprocess.Popen([program, *flags], stderr=log) as nginx:
            try:
                with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=30) as client:
                    wait_until(lambda: answers(client))
                    yield client
            finally:
                nginx.terminate()


def answers(client: httpx.Client) -> bool:
    try:
        return client.get("/readyz").status_code == 200
    except httpx.ConnectError:
        return False


def test_the_service_works_under_a_prefix(balanced):
    body = {"session_id": "s", "learner": {"kind": "dexp3", "n_arms": 3}}

    assert balanced.post("/bandit/v1/sessions", json=body).status_code == 201
    arm = balanced.post("/bandit/v1/sessions/s/act").json()["arm"]
    assert balanced.post("/v1/sessions/s/feedback", json={"arm": arm, "loss": 0}).json()["applied"] == 1
    assert balanced.post("/bandit/v1/sessions/s/feedback/", json={"arm": arm, "loss": 0}).status_code == 404


def test_the_documentation_loads_under_a_prefix(balanced):
    page = balanced.get("/bandit/docs").text
    for address in re.findall(r"""(?:src|href)="([^"]+)"|url: '([^']+)'""", page):
        assert balanced.get(f"/bandit/{''.join(address)}").status_code == 200, address

    assert balanced.get("/bandit/openapi.json").json()["servers"] == [{"url": "/bandit"}]


def test_a_body_that_is_too_large_is_the_same_problem_as_without_it(balanced):
    answer = balanced.post("/v1/sessions", content=b" " * 2_000_001, headers={"Content-Type": "application/json"})

    assert answer.status_code == 413
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["code"] == "payload_too_large"
