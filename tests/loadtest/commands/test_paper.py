"""The ``paper`` command end to end, and what it is made of."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from loadtest.commands import app
from loadtest.figures import plot_scaling
from loadtest.studies.experiments import ARM_ENTRIES, EXPERIMENTS, POINT_ENTRIES, Curve
from loadtest.studies.paper_jobs import SCALES, collect, find_data, jobs_of
from loadtest.studies.scaling import Point, points, shuffled_regret, slopes, total_regret


def curve(mean: float) -> Curve:
    return Curve(mean, 0.1, [1, 2], [0.0, mean], [0.0, 0.1], 3)


def yacht(folder: Path) -> Path:
    rows = np.random.default_rng(3).uniform(-2, 60, (40, 7))
    path = folder / "yacht_hydrodynamics.data"
    np.savetxt(path, rows, fmt="%.3f")
    return path


@pytest.mark.slow
def test_the_command_writes_figures_and_summary_and_says_what_it_skipped(tmp_path: Path) -> None:
    yacht(tmp_path)
    out = tmp_path / "out"
    result = CliRunner().invoke(app, ["paper", "--data-dir", str(tmp_path), "--seeds", "2", "--out", str(out)])

    assert result.exit_code == 0, result.output
    summary = json.loads((out / "summary.json").read_text())
    assert list(summary) == ["mab_synthetic", "bco_synthetic", "bco_yacht"]
    assert set(summary["mab_synthetic"]) == {entry.key for entry in ARM_ENTRIES} | {"uniform"}
    assert set(summary["bco_yacht"]) == {entry.key for entry in POINT_ENTRIES} | {"standing_still"}
    for learners in summary.values():
        for figures in learners.values():
            assert figures["curve"][-1] == figures["mean"]
            assert len(figures["curve"]) == len(figures["curve_slots"])
            assert math.isfinite(figures["stderr"])
    assert all((out / f"{name}.png").read_bytes().startswith(b"\x89PNG") for name in summary)
    assert "skipped mab_jester" in result.stderr
    assert "eigentaste.berkeley.edu" in result.stderr


def test_the_first_file_found_is_taken(tmp_path: Path) -> None:
    for name in ("jester-data-1.csv", "jester-data-1.csv.gz"):
        (tmp_path / name).touch()
    found = find_data(tmp_path)

    assert found.ready["mab_jester"].name == "jester-data-1.csv.gz"
    assert list(found.skipped) == ["bco_yacht"]


def test_only_learners_that_draw_are_run_on_many_seeds() -> None:
    jobs = jobs_of({"bco_synthetic": Path()}, {"bco_synthetic": 9}, tune=False)

    assert {job.entry.key: len(job.seeds) for job in jobs if job.entry.random} == {"clw_mbco_random": 9}
    assert {len(job.seeds) for job in jobs if not job.entry.random} == {1}


def test_tuning_runs_the_theorems_rates_on_a_grid() -> None:
    jobs = jobs_of({"mab_synthetic": Path()}, {"mab_synthetic": 2}, tune=True)
    scales: dict[str, list[float]] = {}
    for job in jobs:
        scales.setdefault(job.entry.key, []).append(job.scale)

    assert scales["dexp3"] == list(SCALES)
    assert scales["dexp3_anytime"] == scales["centred_tsallis"] == [1.0]


def test_the_best_factor_stands_beside_c_1() -> None:
    jobs = jobs_of({"mab_synthetic": Path()}, {"mab_synthetic": 2}, tune=True)
    curves = [curve(0.5 if job.scale == 4.0 else 1.0 + job.scale) for job in jobs]
    learners = collect(jobs, curves)["mab_synthetic"]

    assert learners["clw"]["mean"] == 2.0
    assert (learners["clw_tuned"]["mean"], learners["clw_tuned"]["rate_scale"]) == (0.5, 4.0)
    assert learners["clw_tuned"]["grid"]["0.5"] == 1.5
    assert "dexp3_anytime_tuned" not in learners


def test_experiments_are_named_as_the_paper_orders_them() -> None:
    assert [experiment.name for experiment in EXPERIMENTS] == [
        "mab_synthetic",
        "mab_jester",
        "bco_synthetic",
        "bco_yacht",
    ]


def test_slopes_by_hand() -> None:
    """Regret 3 sqrt(T) has slope 1/2."""
    found = {Point("horizon", "dbgd", slots, 3, 1): (3 * math.sqrt(slots), 0.0) for slots in (100, 400, 1600)}
    study = slopes(found)["dbgd_horizon"]

    assert study["x"] == [100, 400, 1600]
    assert (study["slope"], study["last_slope"]) == (pytest.approx(0.5), pytest.approx(0.5))


def test_the_bound_counts_delays_as_the_theorems_do() -> None:
    assert Point("delay", "dexp3", 100, 4, 1).complexity == 4 * (100 + 400)
    assert Point("delay", "dbgd", 100, 4, 1).complexity == 100 + 400


@pytest.mark.parametrize("kind", ["dexp3", "dbgd"])
def test_regret_grows_with_the_horizon_and_slower_than_it(kind: str) -> None:
    short, long = (total_regret(Point("horizon", kind, slots, 3, 4))[0] for slots in (1000, 4000))

    assert short < long < 4 * short


@pytest.mark.slow
def test_in_random_order_delay_helps_little() -> None:
    """50 orders; the figures are .01932 and .01733 with an error of .0002 each."""
    entries = {entry.key: entry for entry in POINT_ENTRIES}
    ogd, solid = (shuffled_regret(entries[key])[0] for key in ("ogd", "solid"))

    assert (ogd, solid) == (pytest.approx(0.01932, abs=1e-3), pytest.approx(0.01733, abs=1e-3))


@pytest.mark.slow
def test_growth_is_drawn(tmp_path: Path) -> None:
    study = {"against": "d-bar (T+D)", "x": [10, 100], "regret": [3.0, 9.0], "stderr": [0.1, 0.1], "slope": 0.48}
    plot_scaling({"dexp3_delay": study}, tmp_path / "scaling.png")

    assert (tmp_path / "scaling.png").read_bytes().startswith(b"\x89PNG")


def test_every_study_has_its_points() -> None:
    assert {f"{point.kind}_{point.study}" for point in points(2)} == {
        "dexp3_horizon",
        "dexp3_delay",
        "dbgd_horizon",
        "dbgd_delay",
    }
