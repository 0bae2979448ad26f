"""The command of growth: measures all that grows at small sizes, writes its page, and leaves nothing behind."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from loadtest.bench.growth.livez import running_probe
from loadtest.bench.growth.report import MARKS, section
from loadtest.bench.growth.rows import of_json
from loadtest.bench.markdown import page_with
from loadtest.bench.servers import children
from loadtest.commands import app
from loadtest.errors import LoadTestError
from tests.support.pages import ROOT
from tests.support.programs import server_binary
from tests.support.running import RunningService, alive
from tests.support.waiting import wait_until

PAGE = ROOT / "docs" / "performance.md"
SMALL = {"sessions": 30, "arms": 20, "outstanding": 60, "open-slots": 60, "events": 12, "workers": 2}


@pytest.mark.slow
@pytest.mark.alone
@pytest.mark.skipif(sys.platform != "linux", reason="workers are found in /proc")
def test_all_that_grows_is_measured_at_small_sizes(tmp_path: Path) -> None:
    server_binary()
    page = tmp_path / "performance.md"
    page.write_text(f"begin\n\n{MARKS[0]}\n\n{MARKS[1]}\n\nend\n")
    words = [f"--{name}={most}" for name, most in SMALL.items()]
    words += ["--seconds=0.2", "--repetitions=2", "--calls=2", "--clients=4", "--no-wrk"]
    before = children(os.getpid())

    result = CliRunner().invoke(app, ["growth", *words, f"--out={tmp_path}", f"--page={page}"])

    assert result.exit_code == 0, result.output
    summary = json.loads((tmp_path / "summary.json").read_text())
    rows = of_json(summary["rows"])
    most = {row.grows: row.steps[-1].size for row in rows}
    assert list(most.values()) == [30, 20, 60, 12, 2]
    for row in rows:
        assert all(len(step.values) == 2 and min(step.values) > 0 and step.livez_ms > 0 for step in row.steps), row
    assert page.read_text() == f"begin\n\n{MARKS[0]}\n\n{section(summary)}\n\n{MARKS[1]}\n\nend\n"
    assert {path.suffix for path in (tmp_path / "results").iterdir()} == {".svg", ".png", ".json"}
    assert "one call, ms" in result.output
    assert set(children(os.getpid())) <= set(before)


def test_the_page_is_what_the_command_writes() -> None:
    """Numbers written by hand are faults: after a change of its words, write the page again."""
    summary = json.loads((PAGE.parent / "results" / "growth.json").read_text())

    text = PAGE.read_text()

    assert page_with(text, MARKS, section(summary)) == text


@pytest.mark.processes
def test_the_probe_reports_the_longest_wait_and_ends_with_its_block(tmp_path: Path) -> None:
    with RunningService(tmp_path, "--store-url", "memory://") as service:
        service.wait_ready()
        before = set(children(os.getpid()))
        with running_probe(int(service.url.rpartition(":")[2]), 2) as probe:
            (own,) = set(children(os.getpid())) - before
            wait_until(lambda: probe.longest() > 0)
            service.stop()
            with pytest.raises(LoadTestError, match="livez failed"):
                wait_until(lambda: probe.longest() < 0)

    assert not alive(own)
