"""The command that replays over HTTP: its figures, what it leaves undone, and its end by a signal."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import httpx
import pytest
from typer.testing import CliRunner

from loadtest.commands import app
from tests.support.http import http_client
from tests.support.waiting import wait_until


@pytest.mark.slow
def test_the_command_reports_the_same_figures_both_ways(url: str, tmp_path: Path) -> None:
    found = []
    for name, way in (("http", ["--url", url]), ("in_process", ["--in-process"])):
        folder = tmp_path / name
        result = CliRunner().invoke(app, ["replay", "synthetic", "--slots", "200", *way, "--out", str(folder)])
        assert result.exit_code == 0, result.output
        found.append(json.loads((folder / "summary.json").read_text()))

    over_http, in_process = found
    differing = {name for name in over_http if over_http[name] != in_process[name]}
    assert differing <= {
        "latency_ms",
        "requests",
        "requests_per_second",
        "seconds",
        "driver",
        "session_id",
        "url",
        "parameters",
    }
    assert (tmp_path / "http" / "curve.csv").read_bytes() == (tmp_path / "in_process" / "curve.csv").read_bytes()
    assert over_http["acknowledged"] == over_http["settled"] == 200


def test_draining_over_http(url: str, tmp_path: Path) -> None:
    arguments = ["replay", "synthetic", "--slots", "7", "--no-drain", "--url", url, "--out", str(tmp_path)]
    result = CliRunner().invoke(app, arguments)

    assert result.exit_code == 0, result.output
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert (summary["acknowledged"], summary["settled"], summary["pending"]) == (5, 5, 2)
    view = httpx.get(f"{url}/v1/sessions/{summary['session_id']}").json()
    assert (view["feedbacks"], view["outstanding"]) == (5, 2)


@pytest.mark.processes
def test_an_interrupted_replay_reports_what_it_did(url: str, tmp_path: Path) -> None:
    """SIGINT ends it after the slot it is in; what is due later is sent, and the exit code tells."""
    command = [sys.executable, "-m", "loadtest", "replay", "synthetic", "--url", url, "--out", str(tmp_path)]
    before = {session["session_id"] for session in sessions(url)}
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        wait_until(lambda: any(s["slot"] > 20 for s in sessions(url) if s["session_id"] not in before))
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 130

    summary = json.loads((tmp_path / "summary.json").read_text())
    assert summary["interrupted"]
    assert not summary["ok"]
    assert 20 < summary["slots"] < 2000
    assert summary["slots"] == summary["acknowledged"] == summary["settled"]


def sessions(url: str) -> list[dict[str, object]]:
    with http_client(url) as http:
        return http.get("/v1/sessions").json()["sessions"]
