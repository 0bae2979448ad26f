"""The paper's experiments as jobs for all cores; the best factor c on the theorem's rates."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from loadtest.replay.plan import RateChoice
from loadtest.studies.experiments import (
    ARM_ENTRIES,
    EXPERIMENTS,
    Curve,
    Entry,
    Experiment,
    Job,
    baseline_regret,
    play,
    seeds_of,
    summarise,
)

T = TypeVar("T")
R = TypeVar("R")

SCALES = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0)
"""The grid over c."""
NO_FILE = Path()


class Found(NamedTuple):
    """Experiments that can be run, each with its data file, and those that can't."""

    ready: dict[str, Path]
    skipped: dict[str, str]
    """Name to what is missing."""


def find_data(folder: Path) -> Found:
    """Look for the experiments' data files in ``folder``."""
    found = Found({}, {})
    for experiment in EXPERIMENTS:
        path = _data_file(experiment, folder)
        if path is None:
            found.skipped[experiment.name] = f"none of {', '.join(experiment.file_names)} in {folder}"
        else:
            found.ready[experiment.name] = path
    return found


def _data_file(experiment: Experiment, folder: Path) -> Path | None:
    if not experiment.file_names:
        return NO_FILE
    return next((folder / name for name in experiment.file_names if (folder / name).is_file()), None)


def jobs_of(ready: Mapping[str, Path], seeds: Mapping[str, int], *, tune: bool) -> list[Job]:
    """All runs of the study; longest first, so that no process waits for the other at the end."""
    jobs = [
        Job(experiment.name, ready[experiment.name], entry, _seeds(entry, seeds[experiment.name]), scale)
        for experiment in EXPERIMENTS
        if experiment.name in ready
        for entry in experiment.entries
        for scale in (SCALES if tune and entry.rates is RateChoice.THEOREM else (1.0,))
    ]
    return sorted(jobs, key=lambda job: job.experiment != "mab_jester")


def _seeds(entry: Entry, count: int) -> tuple[int, ...]:
    return seeds_of(count if entry.random else 1)


def run_job(job: Job) -> Curve:
    """One learner's curve."""
    return summarise(play(job))


def on_all_cores(work: Callable[[T], R], items: Sequence[T], done: Callable[[T], None] = lambda _: None) -> list[R]:
    """Return ``[work(item) for item in items]``, computed in one process per core.

    ``done`` is called with each item when its result is there.
    """
    cores = os.cpu_count() or 1
    # Fresh processes: a fork would copy the progress bar's thread in the middle of whatever it does.
    with ProcessPoolExecutor(cores, mp_context=multiprocessing.get_context("spawn")) as pool:
        futures = {pool.submit(work, item): item for item in items}
        for future in as_completed(futures):
            future.result()
            done(futures[future])
        return [future.result() for future in futures]


def collect(jobs: Iterable[Job], curves: Iterable[Curve]) -> dict[str, dict[str, dict[str, Any]]]:
    """``{experiment: {learner: figures}}``, in the order of the paper; tuned where a grid was run."""
    grids: dict[tuple[str, str], dict[float, Curve]] = {}
    paths: dict[str, Path] = {}
    for job, curve in zip(jobs, curves, strict=True):
        grids.setdefault((job.experiment, job.entry.key), {})[job.scale] = curve
        paths[job.experiment] = job.path
    return {
        experiment.name: _learners(experiment, grids) | _baseline(experiment, paths[experiment.name])
        for experiment in EXPERIMENTS
        if experiment.name in paths
    }


def _learners(experiment: Experiment, grids: Mapping[tuple[str, str], Mapping[float, Curve]]) -> dict[str, Any]:
    learners = {}
    for entry in experiment.entries:
        grid = grids[experiment.name, entry.key]
        learners[entry.key] = figures_of(grid[1.0])
        if len(grid) > 1:
            learners[f"{entry.key}_tuned"] = _tuned(grid)
    return learners


def _baseline(experiment: Experiment, path: Path) -> dict[str, Any]:
    name = "uniform" if experiment.entries is ARM_ENTRIES else "standing_still"
    return {name: figures_of(summarise(baseline_regret(experiment.name, path)))}


def figures_of(curve: Curve) -> dict[str, Any]:
    """Return a curve as the summary holds it."""
    return {
        "mean": curve.mean,
        "stderr": curve.stderr,
        "seeds": curve.seeds,
        "curve": curve.means,
        "curve_stderr": curve.stderrs,
        "curve_slots": curve.slots,
    }


def _tuned(grid: Mapping[float, Curve]) -> dict[str, Any]:
    scale = min(grid, key=lambda scale: grid[scale].mean)
    means = {f"{scale:g}": curve.mean for scale, curve in sorted(grid.items())}
    return figures_of(grid[scale]) | {"rate_scale": scale, "grid": means}
