"""``stored`` measures real bytes of a real Redis and of a real worker."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from loadtest.commands import app


@pytest.mark.processes
def test_bytes_are_measured(tmp_path: Path) -> None:
    """A vector of 3,000 arms is written once in many requests; one of 500 in each commit."""
    sizes = ["--n-arms", "500", "--n-arms", "3000"]
    arguments = ["--clients", "1", "--seconds", "1", "--sessions", "20", "--out", str(tmp_path)]

    result = CliRunner().invoke(app, ["stored", *sizes, *arguments])

    assert result.exit_code == 0, result.output
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert summary["log_bytes"]["500"] > 500 * 8
    assert 100 < summary["log_bytes"]["3000"] < 3000 * 8 / 2
    assert all(0.3 < each <= 1 for each in summary["requests_per_commit"].values())
    assert 1_000 < summary["idle_memory"]["redis"] < 20_000
    assert "3,000 arms" in result.output
