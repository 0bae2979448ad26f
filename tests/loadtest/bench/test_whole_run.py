"""One run measures every row of the table, writes its page, and leaves nothing behind."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from loadtest.bench.goals import GOALS, compared
from loadtest.bench.growth import report as growth_report
from loadtest.bench.markdown import page_with
from loadtest.bench.report import MARKS, section, spread_cell
from loadtest.bench.servers import children
from loadtest.commands import app
from tests.support.pages import ROOT
from tests.support.programs import server_binary

PAGE = ROOT / "docs" / "performance.md"
ALL_MARKS = (*MARKS, *growth_report.MARKS)
BEYOND_SMALL_SIZES = {
    "1,000 sessions, rate over G",
    "10,000 sessions, rate over G",
    "1,000 sessions, processor time over N",
    "kB of an idle session of 100 arms: worker",
    "100,000 arms, one act: passes beyond N",
    "100,000 arms, one event: passes beyond N",
}


@pytest.mark.recipes
@pytest.mark.alone
@pytest.mark.skipif(sys.platform != "linux", reason="workers are found in /proc")
def test_a_small_run_measures_all_parts(tmp_path: Path) -> None:
    server_binary()
    page = tmp_path / "performance.md"
    page.write_text("\n\n".join(ALL_MARKS))
    before = children(os.getpid())
    small = ["--seconds=0.2", "--repetitions=1", "--clients=4", "--sessions=30", "--grow-to=30", "--no-wrk"]

    result = CliRunner().invoke(app, ["bench", *small, f"--out={tmp_path}", f"--page={page}"])

    assert result.exit_code == 0, result.output
    summary = json.loads((tmp_path / "summary.json").read_text())
    left_out = {goal.name for goal, found in compared(summary) if found is None}
    assert left_out == BEYOND_SMALL_SIZES
    assert section(summary) in page.read_text()
    assert growth_report.section(summary["growth"]) in page.read_text()
    assert "start until ready" in result.output
    assert {path.name for path in (tmp_path / "results").iterdir()} >= {"bench.json", "growth.json", "growth.png"}
    assert set(children(os.getpid())) <= set(before)


@pytest.mark.parametrize(
    ("text", "flags", "reason"),
    [
        (f"{MARKS[0]}\n", [], "lacks"),
        ("\n".join(ALL_MARKS), ["--workers=2"], "one worker"),
        (None, [], "lacks"),
    ],
)
def test_a_page_that_cannot_be_written_is_refused_before_anything_runs(
    tmp_path: Path, text: str | None, flags: list[str], reason: str
) -> None:
    page = tmp_path / "page.md"
    if text is not None:
        page.write_text(text)

    result = CliRunner().invoke(app, ["bench", *flags, f"--page={page}", f"--out={tmp_path / 'out'}"])

    assert result.exit_code == 2
    assert reason in result.output
    assert (page.read_text() if page.exists() else None) == text
    assert not (tmp_path / "out").exists()


def test_the_page_is_what_the_command_writes() -> None:
    """Numbers written by hand are faults: after a change of its words, write the page again."""
    summary = json.loads((PAGE.parent / "results" / "bench.json").read_text())

    text = PAGE.read_text()

    assert page_with(text, MARKS, section(summary)) == text
    assert all(found is not None for _, found in compared(summary))


@pytest.mark.parametrize(
    ("name", "good", "bad"), [("one session, rate over N", 1.2, 1.19), (GOALS[4].name, 0.9, 0.91)]
)
def test_a_goal_is_reached_at_its_number(name: str, good: float, bad: float) -> None:
    (goal,) = (each for each in GOALS if each.name == name)

    assert goal.is_reached(good)
    assert not goal.is_reached(bad)


def test_a_spread_is_shown_where_there_is_one() -> None:
    assert spread_cell({"median": 2.0, "min": 1.0, "max": 30.0}) == "2.00 (1.00 to 30.0)"
    assert spread_cell({"median": 2.0, "min": 2.0, "max": 2.0}) == "2.00"
    assert spread_cell(None) == ""
