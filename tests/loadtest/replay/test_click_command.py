"""The command that replays clicks, in process and against a service."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from loadtest.commands import app
from tests.support.jester_files import invented, write_csv
from tests.support.running import RunningService


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["replay", *map(str, arguments)])


def test_the_command_in_process(tmp_path: Path) -> None:
    data = write_csv(tmp_path, *invented(400).tolist())
    result = run("clicks", "--data", data, "--in-process", "--window", 100, "--out", tmp_path)

    assert result.exit_code == 0, result.output
    found = json.loads((tmp_path / "summary.json").read_text())
    assert (found["scenario"], found["learner"], found["impressions"]) == ("jester_clicks", "centred_tsallis", 400)
    assert found["settled"] + found["expired"] == 400
    assert found["expired_share"] == found["expired"] / 400
    assert found["click_rate"] == pytest.approx(1 - found["mean_loss"])
    assert found["uniform_click_rate"] == pytest.approx(1 - found["uniform_mean_loss"])
    assert "slot" not in found["latency_ms"]
    for text in ("regret per slot", "expired share", "click rate, uniform play"):
        assert text in result.output


def test_speed_changes_no_number_in_process(tmp_path: Path) -> None:
    data = write_csv(tmp_path, *invented(200).tolist())
    found = []
    for speed in (1, 512):
        run("clicks", "--data", data, "--in-process", "--speed", speed, "--out", tmp_path / str(speed))
        found.append((tmp_path / str(speed) / "curve.csv").read_bytes())

    assert found[0] == found[1]


@pytest.mark.processes
def test_the_command_against_a_service_in_a_hurry(tmp_path: Path) -> None:
    """The service's own clock: windows of half a second."""
    data = write_csv(tmp_path, *invented(150).tolist())
    with RunningService(tmp_path, "--store-url", "memory://") as service:
        service.wait_ready()
        result = run("clicks", "--data", data, "--url", service.url, "--speed", 1200, "--out", tmp_path / "out")

    assert result.exit_code == 0, result.output
    found = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert found["settled"] + found["expired"] == 150
    assert found["settled"] > 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["clicks", "--in-process"], "jester_dataset_1_1.zip"),
        (["clicks", "--in-process", "--slots-per-second", "5"], "not --slots-per-second"),
        (["synthetic", "--in-process", "--speed", "600"], "only clicks take --speed"),
        (["synthetic", "--in-process", "--delay-median", "6"], "only clicks take --delay-median"),
    ],
)
def test_what_cannot_be_replayed_ends_in_one_sentence(tmp_path: Path, arguments: list[str], message: str) -> None:
    result = run(*arguments, "--out", tmp_path / "out")

    assert result.exit_code == 1
    assert message in " ".join(result.stderr.split())
