"""A simulated day: the learner earns what its page promises, and the same seed draws the same day."""

import numpy as np
import pytest
from typer.testing import CliRunner

from loadtest.commands import app
from loadtest.day import BEST, RATES, arrival_times, lines_of, plot_day, simulate

SEEDS = range(5)


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "share"), [("centred_tsallis", 0.9), ("multiscale_tsallis", 0.8)])
def test_at_the_end_of_the_day_more_visitors_click_than_under_uniform_play(kind, share):
    """The last three hours of five days: the gain is more than five standard errors."""
    evenings = [simulate(seed, kind=kind).between(21, 24) for seed in SEEDS]
    clicked = np.concatenate([evening.clicked for evening in evenings])
    uniform = np.concatenate([evening.uniform for evening in evenings])
    shown = np.concatenate([evening.shown for evening in evenings])
    gain = clicked - uniform

    assert gain.mean() > 5 * gain.std() / np.sqrt(len(gain))
    assert (shown == BEST).mean() > share


@pytest.mark.slow
def test_the_same_seed_is_the_same_day(tmp_path):
    day, again, other = simulate(3), simulate(3), simulate(4)
    paths = [tmp_path / name for name in ("day.png", "again.png", "day.svg", "again.svg")]
    plot_day(day, paths[0], paths[2])
    plot_day(again, paths[1], paths[3])

    assert list(lines_of(day)) == list(lines_of(again)) != list(lines_of(other))
    assert (paths[0].read_bytes(), paths[2].read_bytes()) == (paths[1].read_bytes(), paths[3].read_bytes())


def test_most_visitors_come_in_the_afternoon():
    """Of 20,000 visitors the share in an hour has a standard error of at most .002."""
    hours = np.bincount((arrival_times(20_000, 1) // 3600).astype(int), minlength=24) / 20_000

    assert hours.sum() == 1
    assert hours[17] > hours[9] + 0.02 > hours[5] + 0.04


@pytest.mark.slow
def test_the_command_prints_a_few_lines_and_writes_the_figure(tmp_path):
    result = CliRunner().invoke(app, ["day", "--out", str(tmp_path / "out"), "--seed", "2"])

    assert result.exit_code == 0, result.output
    lines = result.output.splitlines()
    assert len(lines) == 11
    assert max(map(len, lines[:10])) < 80
    assert lines[9].split()[:2] == ["all", "day"]
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"day.png", "day.svg"}
    assert RATES.argmax() == BEST
