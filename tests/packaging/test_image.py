"""The image: built, small, named, and started alone as the page on deployment does. Needs an engine of Docker."""

import json
import shutil
import subprocess
import uuid

import httpx
import pytest

from service import __version__
from tests.packaging.conftest import ROOT
from tests.support.compose import DOCKERFILE
from tests.support.http import http_client
from tests.support.running import act, create, is_ready
from tests.support.waiting import wait_until

MOST_BYTES = 150_000_000
REVISION = "0123456789abcdef"


def docker(*words):
    return subprocess.run(["docker", *words], cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()


def has_engine():
    return (
        shutil.which("docker") is not None
        and not subprocess.run(["docker", "info"], capture_output=True).returncode
    )


def test_the_label_tells_the_version():
    assert f'org.opencontainers.image.version="{__version__}"' in DOCKERFILE


@pytest.mark.recipes
@pytest.mark.timeout(900)
def test_the_image_is_small_says_what_it_is_and_serves_alone():
    if not has_engine():
        pytest.skip("needs an engine of Docker")
    name = f"bandit-{uuid.uuid4().hex[:8]}"
    docker("build", "--target", "service", "-t", name, "--build-arg", f"REVISION={REVISION}", ".")
    lines = (ROOT / "docs/deployment.md").read_text().splitlines()
    (command,) = (line for line in lines if line.startswith("docker run"))
    command = command.replace(":8000:8000", ":0:8000").replace(
        "bandit:/data delayed-bandits", f"{name}:/data {name}"
    )
    try:
        about, base = (json.loads(docker("image", "inspect", each))[0] for each in (name, "python:3.11-slim"))
        assert about["Size"] - base["Size"] < MOST_BYTES
        labels = {key.rpartition(".")[2]: value for key, value in about["Config"]["Labels"].items()}
        assert (labels["version"], labels["revision"]) == (__version__, REVISION)
        for slots in (1, 2):
            container = docker(*command.split()[1:2], "-d", *command.split()[2:])
            try:
                with http_client(f"http://{docker('port', container, '8000')}") as client:
                    wait_until(lambda: answers(client))
                    session = create(client, session_id="kept") if slots == 1 else "kept"
                    assert act(client, session)["slot"] == slots
                    assert f'revision="{REVISION}"' in client.get("/metrics").text
                    assert "MIT license" in client.get("/dashboard-assets/plotly.min.js").text[:500]
                    assert "<html" in client.get("/", headers={"Accept": "text/html"}).text
            finally:
                docker("rm", "-f", container)
    finally:
        docker("volume", "rm", "-f", name)
        docker("image", "rm", "-f", name)


def answers(client):
    try:
        return is_ready(client)
    except httpx.TransportError:
        return False
