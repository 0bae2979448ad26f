"""The paper's four experiments: worlds, learners, many runs of each at once, and the best factor c on the rates."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from loadtest.replay.jester import read_jester
from loadtest.replay.session import RateChoice, plan_session
from loadtest.replay.worlds import (
    ArmWorld,
    PointWorld,
    bco_synthetic,
    bco_yacht,
    mab_jester,
    mab_synthetic,
    strict_delays,
)
from service.learners.base import ArmLearner, FloatArray, IntArray, PointLearner, Slot, SlotLearner, Spec, many


def expected_losses(world: ArmWorld | PointWorld, spec: Spec, delays: IntArray, seeds: Sequence[int]) -> FloatArray:
    """Play the world once per seed and return the expected losses, p_t . l_t or f_t(x_t), shape (slots, runs).

    Column i has exactly the numbers of a session with ``seeds[i]``.

    Parameters
    ----------
    delays : of each slot's feedback, in slots, shape (slots,); 0 arrives at the end of the slot
    """
    learner = spec.build()
    if isinstance(world, ArmWorld):
        assert isinstance(learner, ArmLearner)  # noqa: S101 - a plan pairs worlds with learners
        runs: _ArmRuns | _PointRuns = _ArmRuns(world, learner, seeds)
    else:
        assert isinstance(learner, PointLearner)  # noqa: S101 - a plan pairs worlds with learners
        runs = _PointRuns(world, learner, seeds)
    expected = np.empty((world.slots, len(seeds)))
    due: dict[int, list[Any]] = {}
    outstanding = 0
    for t in range(1, world.slots + 1):
        expected[t - 1], event = runs.open(t, outstanding)
        outstanding += 1
        due.setdefault(t + int(delays[t - 1]), []).append(event)
        for arrived in due.pop(t, ()):
            outstanding -= 1
            runs.settle(arrived, outstanding)
    return expected


def uniforms(seeds: Sequence[int], slots: int, stream: int) -> FloatArray:
    """Return u_t (stream 0) or v_t (stream 1) of sessions with these seeds, shape (slots, runs)."""
    streams = (np.random.Philox(key=seed, counter=[0, 0, 0, stream]) for seed in seeds)
    return np.stack([np.random.Generator(bits).random(slots) for bits in streams], axis=1)


class _ArmRuns:
    """Runs in a world of arms: ``open`` returns expected losses, shape (runs,), and the event for ``settle``."""

    def __init__(self, world: ArmWorld, learner: ArmLearner[Any], seeds: Sequence[int]) -> None:
        self._losses, self._learner = world.losses, learner
        self._state = many(learner.start(), len(seeds))
        self._index = np.arange(len(seeds))
        self._u = uniforms(seeds, world.slots, 0)
        self._v = uniforms(seeds, world.slots, 1) if learner.second_stream else np.zeros((world.slots, 1))

    def open(self, t: int, outstanding: int) -> tuple[FloatArray, Any]:
        learner, losses = self._learner, self._losses[t - 1]
        slot = Slot(t, outstanding, self._u[t - 1], self._v[t - 1])
        self._state, drawn = learner.draw(learner.open(self._state, slot), slot)
        arm = np.broadcast_to(drawn, self._index.shape)
        record = learner.record(self._state, arm) if isinstance(learner, SlotLearner) else None
        expected = (learner.distribution(self._state) * losses).sum(axis=-1)
        return expected, (arm, losses[arm], record)

    def settle(self, event: Any, outstanding: int) -> None:  # noqa: ARG002 - learners over arms don't ask
        arm, loss, record = event
        if isinstance(self._learner, SlotLearner):
            self._state = self._learner.settle(self._state, arm, loss, record=record)
        else:
            self._state = self._learner.settle(self._state, arm, loss)


class _PointRuns:
    """The same in a world of points."""

    def __init__(self, world: PointWorld, learner: PointLearner[Any], seeds: Sequence[int]) -> None:
        self._world, self._learner = world, learner
        self._state = many(learner.start(), len(seeds))
        self._v = uniforms(seeds, world.slots, 1) if learner.second_stream else np.zeros((world.slots, 1))

    def open(self, t: int, outstanding: int) -> tuple[FloatArray, FloatArray]:
        self._state = self._learner.open(self._state, Slot(t, outstanding, 0.0, self._v[t - 1]))
        x, query_points = self._learner.x(self._state), self._learner.query_points(self._state)
        if query_points is None:
            return self._world.loss(t, x), self._world.gradient(t, x)
        values = self._world.loss(t, np.concatenate([x[..., None, :], query_points], axis=-2))
        return values[..., 0], values

    def settle(self, event: FloatArray, outstanding: int) -> None:
        self._state = self._learner.settle(self._state, event, outstanding)


SCALES = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0)
"""The grid over c."""
MAX_CURVE = 500
"""Most points of a curve; the last slot is always one of them."""


class Entry(NamedTuple):
    """A learner in an experiment."""

    key: str
    """The learner's kind, with a suffix for a variant; without one it has the theorem's rates."""
    kind: str
    options: dict[str, Any] = {}  # noqa: RUF012 - never changed
    rates: RateChoice = RateChoice.THEOREM
    delayed: bool = True
    """False: every loss arrives at the end of its slot."""
    random: bool = True
    """Whether its regret depends on the seed."""


ARM_ENTRIES = (
    Entry("exp3", "exp3", delayed=False),
    Entry("bold", "bold"),
    Entry("dexp3", "dexp3"),
    Entry("clw", "clw"),
    Entry("clw_random", "clw", {"schedule": "random"}),
    Entry("exp3_current", "exp3_current"),
    Entry("dexp3_anytime", "dexp3", rates=RateChoice.ANYTIME),
    Entry("centred_tsallis", "centred_tsallis", rates=RateChoice.ANYTIME),
)
POINT_ENTRIES = (
    Entry("ogd", "ogd", delayed=False, random=False),
    Entry("mbco", "mbco", delayed=False, random=False),
    Entry("solid", "solid", random=False),
    Entry("dbgd", "dbgd", random=False),
    Entry("clw_mbco", "clw_mbco", random=False),
    Entry("clw_mbco_random", "clw_mbco", {"schedule": "random"}),
    Entry("dbgd_anytime", "dbgd", rates=RateChoice.ANYTIME, random=False),
)


class Experiment(NamedTuple):
    """A world and its learners."""

    name: str
    entries: tuple[Entry, ...]
    world: Callable[[Path], ArmWorld | PointWorld]
    """Makes it from its data file, where it has one."""
    file_names: tuple[str, ...] = ()
    """Possible names of its data file; the first one found is read."""


JESTER_FILES = ("jester_dataset_1_1.zip", "jester-data-1.zip", "jester-data-1.xls", "jester-data-1.xlsx")
JESTER_CSV = ("jester-data-1.csv.gz", "jester-data-1.csv")
EXPERIMENTS = (
    Experiment("mab_synthetic", ARM_ENTRIES, lambda _: mab_synthetic()),
    Experiment(
        "mab_jester", ARM_ENTRIES, lambda path: mab_jester(read_jester([path])), (*JESTER_FILES, *JESTER_CSV)
    ),
    Experiment("bco_synthetic", POINT_ENTRIES, lambda _: bco_synthetic()),
    Experiment("bco_yacht", POINT_ENTRIES, bco_yacht, ("yacht_hydrodynamics.data",)),
)


class Job(NamedTuple):
    """The runs of one learner in one experiment: the work of one process."""

    experiment: str
    path: Path
    entry: Entry
    seeds: tuple[int, ...]
    """0, 1, 2, ...; a run can be replayed alone with its seed."""
    scale: float = 1.0
    """Factor c on the theorem's rates."""


def find_data(folder: Path) -> tuple[dict[str, Path], dict[str, str]]:
    """Return experiments that can be run, each with its data file in ``folder``, and what is missing for others."""
    ready, skipped = {}, {}
    for experiment in EXPERIMENTS:
        found = [folder / name for name in experiment.file_names if (folder / name).is_file()]
        if experiment.file_names and not found:
            skipped[experiment.name] = f"none of {', '.join(experiment.file_names)} in {folder}"
        else:
            ready[experiment.name] = found[0] if found else Path()
    return ready, skipped


def jobs_of(ready: Mapping[str, Path], seeds: Mapping[str, int], *, tune: bool) -> list[Job]:
    """All runs of the study; longest first, so that no process waits for the other at the end."""
    jobs = [
        Job(name, ready[name], entry, tuple(range(seeds[name] if entry.random else 1)), scale)
        for name, entries, *_ in EXPERIMENTS
        if name in ready
        for entry in entries
        for scale in (SCALES if tune and entry.rates is RateChoice.THEOREM else (1.0,))
    ]
    return sorted(jobs, key=lambda job: job.experiment != "mab_jester")


def run_job(job: Job) -> dict[str, Any]:
    """One learner's curve."""
    return summarise(play(job))


@cache
def load_world(name: str, path: Path) -> ArmWorld | PointWorld:
    """Make the world of an experiment from its data file."""
    return next(experiment for experiment in EXPERIMENTS if experiment.name == name).world(path)


def play(job: Job) -> FloatArray:
    """Play a job and return the normalised regret Reg_t / T of each run at every slot, shape (slots, runs)."""
    return play_world(load_world(job.experiment, job.path), job.entry, job.seeds, job.scale)


def play_world(world: ArmWorld | PointWorld, entry: Entry, seeds: Sequence[int], scale: float = 1.0) -> FloatArray:
    """Play a learner in any world; see ``play`` for the result, and ``Job`` for ``scale``."""
    options = entry.options | ({} if scale == 1.0 else {"rate_scale": scale})
    spec = plan_session(world, entry.kind, entry.rates, 0, options).spec
    delays = strict_delays(world.slots) if entry.delayed else np.zeros(world.slots, dtype=np.int64)
    best = world.best_fixed().losses
    return (expected_losses(world, spec, delays, seeds) - best[:, None]).cumsum(axis=0) / world.slots


def standard_error(values: FloatArray) -> FloatArray:
    """Return the standard error of the mean over the last axis, which has the runs; 0 for one run."""
    runs = values.shape[-1]
    spread: FloatArray = values.std(axis=-1, ddof=1) / np.sqrt(runs) if runs > 1 else np.zeros(values.shape[:-1])
    return spread


def summarise(regret: FloatArray) -> dict[str, Any]:
    """Return mean and standard error of Reg_t / T over the runs, at no more than ``MAX_CURVE`` slots.

    Parameters
    ----------
    regret : shape (slots, runs)
    """
    slots, runs = regret.shape
    kept = np.unique(np.linspace(1, slots, min(slots, MAX_CURVE)).round().astype(int))
    means, spread = regret[kept - 1].mean(axis=1), standard_error(regret[kept - 1])
    last = {"mean": float(means[-1]), "stderr": float(spread[-1]), "seeds": runs}
    return last | {"curve": means.tolist(), "curve_stderr": spread.tolist(), "curve_slots": kept.tolist()}


def collect(jobs: Iterable[Job], curves: Iterable[dict[str, Any]]) -> dict[str, dict[str, dict[str, Any]]]:
    """``{experiment: {learner: figures}}``, in the order of the paper; tuned where a grid was run."""
    grids: dict[tuple[str, str], dict[float, dict[str, Any]]] = {}
    paths: dict[str, Path] = {}
    for job, curve in zip(jobs, curves, strict=True):
        grids.setdefault((job.experiment, job.entry.key), {})[job.scale] = curve
        paths[job.experiment] = job.path
    found: dict[str, dict[str, dict[str, Any]]] = {}
    for name, entries, *_ in EXPERIMENTS:
        if name not in paths:
            continue
        learners = found[name] = {}
        for entry in entries:
            grid = grids[name, entry.key]
            learners[entry.key] = grid[1.0]
            if len(grid) > 1:
                scale = min(grid, key=lambda scale: grid[scale]["mean"])
                means = {f"{scale:g}": curve["mean"] for scale, curve in sorted(grid.items())}
                learners[f"{entry.key}_tuned"] = grid[scale] | {"rate_scale": scale, "grid": means}
        world = load_world(name, paths[name])
        still = (world.baseline().losses - world.best_fixed().losses).cumsum() / world.slots
        learners["uniform" if entries is ARM_ENTRIES else "standing_still"] = summarise(still[:, None])
    return found


def table_rows(summary: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> Iterator[Sequence[str]]:
    """Yield normalised regret of every learner, c = 1 beside the tuned c where there is one."""
    for name, learners in summary.items():
        yield (name,)
        for key, figures in learners.items():
            if not key.endswith("_tuned"):
                tuned = learners.get(f"{key}_tuned")
                best = f"{tuned['mean']:.4f} ({tuned['rate_scale']:g})" if tuned else ""
                yield f"  {key}", figure_text(figures), str(figures["seeds"]), best


def figure_text(of: Mapping[str, Any]) -> str:
    """Return mean and standard error."""
    return f"{of['mean']:.5f}" + (f" ± {of['stderr']:.5f}" if of["stderr"] else "")
