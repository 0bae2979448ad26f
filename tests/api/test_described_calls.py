"""A running service answers as its OpenAPI document says, whatever fits the document and whatever does not."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.examples import examples
from tests.support.running import RunningService

SETTINGS = Path(__file__).with_name("schemathesis.toml")


@pytest.mark.slow
def test_generated_calls_are_answered_as_described(tmp_path):
    with RunningService(tmp_path, "--store-url", "memory://") as service:
        service.wait_ready()
        with service.client() as client:
            paths = client.get("/openapi.json").json()["paths"]
        command = [sys.executable, "-m", "schemathesis.cli", "--config-file", str(SETTINGS)]
        how = ["--checks=all", "--seed=1", f"-n{examples(20)}", "--no-color"]
        run = subprocess.run(
            [*command, "run", f"{service.url}/openapi.json", *how],
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )

    assert run.returncode == 0, run.stdout[-8_000:]
    calls = sum(map(len, paths.values()))
    assert calls
    assert f"Selected: {calls}/{calls}" in run.stdout
    assert f"Tested: {calls}" in run.stdout
