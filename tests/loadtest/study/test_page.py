"""The command and its page: cells are played once, and every number of the page comes from the file of results."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from loadtest.commands import app
from loadtest.study.catalogue import CHANGES, CLICKS, FULL, STALLS, WEARY, worlds
from loadtest.study.cells import Size, batches, cells_of, load, play, run
from loadtest.study.learners import ENTRIES
from loadtest.study.page import page
from loadtest.study.results import by_world
from tests.support.pages import ROOT

SMALL = Size(2, 3, 30)


def few(group: str, place: int = 0):
    world = worlds(None)[group][place]
    return replace(world, window=world.window and 8, few=False)


@pytest.fixture(scope="module")
def results(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("study") / "results.json"
    groups = {FULL: [few(FULL, 2)], CLICKS: [few(CLICKS)], CHANGES: [few(CHANGES, 4)], WEARY: [few(WEARY)]}
    for _ in run(cells_of(groups | {STALLS: [few(STALLS)]}, SMALL), path):
        pass
    return path


def test_the_page_is_what_the_command_writes() -> None:
    """Numbers written by hand are faults: after a change of its words, write the page again."""
    assert (ROOT / "docs" / "results.md").read_text() == page(load(ROOT / "docs" / "results" / "study.json"))


@pytest.mark.slow
def test_every_learner_plays(results: Path) -> None:
    cells = load(results)

    assert {cell["learner"] for cell in cells.values()} == {entry.key for entry in ENTRIES if not entry.needs}
    for cell in cells.values():
        assert cell["best"] is None or all(
            reward <= best + 1e-9 for reward, best in zip(cell["reward"], cell["best"], strict=True)
        )


@pytest.mark.slow
def test_cells_are_played_once(results: Path, monkeypatch) -> None:
    monkeypatch.setattr("loadtest.study.cells.play", lambda batch: pytest.fail(f"{batch} is known"))
    groups = {FULL: [few(FULL, 2)]}

    assert list(run(cells_of(groups, SMALL), results)) == []


@pytest.mark.slow
def test_cells_of_one_kind_make_a_batch() -> None:
    groups = {FULL: [few(FULL, 2), few(FULL, 1)]}
    made = batches(cells_of(groups, SMALL, [entry for entry in ENTRIES if entry.key in {"dexp3", "exp3"}]))

    assert [len(batch) for batch in made] == [2, 1, 1]
    assert {result["world"] for result in play(made[0])} == {world.name for world in groups[FULL]}


@pytest.mark.slow
def test_the_page_has_its_tables_and_first_says_where_we_lose(results: Path) -> None:
    text = page(load(results))

    assert text.split("\n\n")[1].startswith("**Where we lose.**")
    for heading in ("All losses are reported", "Only clicks", "The world changes", "wear out", "Stalled", "sixth"):
        assert heading in text


@pytest.mark.slow
def test_differences_are_of_the_same_runs(results: Path) -> None:
    world = next(world for world in by_world(load(results)).values() if world.group == FULL)

    assert world.excess("multiscale_tsallis", "multiscale_tsallis") == (0.0, 0.0)
    assert not world.worse("multiscale_tsallis", "multiscale_tsallis")


@pytest.mark.slow
def test_the_command_writes_page_and_figures(tmp_path: Path) -> None:
    asked = ["study", "--quick", "--only", "10 arms, .02", "--out", tmp_path, "--page", tmp_path / "results.md"]
    done = CliRunner().invoke(app, [str(part) for part in asked])

    assert done.exit_code == 0, done.output
    assert (tmp_path / "results.md").read_text().startswith("# Results")
    assert {path.suffix for path in (tmp_path / "results").iterdir()} == {".svg", ".png", ".json"}
    assert json.loads((tmp_path / "results.json").read_text())
