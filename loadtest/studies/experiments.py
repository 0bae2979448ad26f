"""The paper's four experiments: their worlds, their learners, and the learners' regret."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from loadtest.replay import delays
from loadtest.replay.arm_worlds import ArmWorld, mab_jester, mab_synthetic
from loadtest.replay.jester import read_jester
from loadtest.replay.plan import RateChoice, plan_session
from loadtest.replay.point_worlds import PointWorld
from loadtest.replay.quadratic_worlds import bco_synthetic, bco_yacht
from loadtest.studies.many_runs import expected_losses
from service.learners.base import FloatArray, IntArray

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
    file_names: tuple[str, ...] = ()
    """Possible names of its data file; the first one found is read."""


JESTER_FILES = ("jester_dataset_1_1.zip", "jester-data-1.zip", "jester-data-1.xls", "jester-data-1.xlsx")
EXPERIMENTS = (
    Experiment("mab_synthetic", ARM_ENTRIES),
    Experiment("mab_jester", ARM_ENTRIES, (*JESTER_FILES, "jester-data-1.csv.gz", "jester-data-1.csv")),
    Experiment("bco_synthetic", POINT_ENTRIES),
    Experiment("bco_yacht", POINT_ENTRIES, ("yacht_hydrodynamics.data",)),
)
_WORLDS: dict[str, Callable[[Path], ArmWorld | PointWorld]] = {
    "mab_synthetic": lambda _: mab_synthetic(),
    "mab_jester": lambda path: mab_jester(read_jester([path])),
    "bco_synthetic": lambda _: bco_synthetic(),
    "bco_yacht": bco_yacht,
}


@cache
def load_world(name: str, path: Path) -> ArmWorld | PointWorld:
    """Make the world of an experiment.

    Parameters
    ----------
    path : its data file; ignored by experiments that have none
    """
    return _WORLDS[name](path)


class Job(NamedTuple):
    """The runs of one learner in one experiment: the work of one process."""

    experiment: str
    path: Path
    entry: Entry
    seeds: tuple[int, ...]
    scale: float = 1.0
    """Factor c on the theorem's rates."""


class Curve(NamedTuple):
    """Normalised regret Reg_t / T: mean and standard error over the runs, at the listed slots."""

    mean: float
    stderr: float
    slots: list[int]
    means: list[float]
    stderrs: list[float]
    seeds: int


def seeds_of(count: int) -> tuple[int, ...]:
    """Return the seeds of a study with ``count`` runs: 0, 1, 2, ...; a run can be replayed alone with its seed."""
    return tuple(range(count))


def standard_error(values: FloatArray) -> FloatArray:
    """Return the standard error of the mean over the last axis, which has the runs; 0 for one run."""
    runs = values.shape[-1]
    spread: FloatArray = values.std(axis=-1, ddof=1) / np.sqrt(runs) if runs > 1 else np.zeros(values.shape[:-1])
    return spread


def play(job: Job) -> FloatArray:
    """Play a job and return the normalised regret Reg_t / T of each run at every slot, shape (slots, runs)."""
    world = load_world(job.experiment, job.path)
    return play_world(world, job.entry, job.seeds, job.scale)


def play_world(world: ArmWorld | PointWorld, entry: Entry, seeds: Sequence[int], scale: float = 1.0) -> FloatArray:
    """Play a learner in any world; see ``play`` for the result, and ``Job`` for ``scale``."""
    options = entry.options | ({} if scale == 1.0 else {"rate_scale": scale})
    spec = plan_session(world, entry.kind, entry.rates, 0, options).spec
    expected = expected_losses(world, spec, _delays(entry, world.slots), seeds)
    best = world.best_fixed().losses
    return (expected - best[:, None]).cumsum(axis=0) / world.slots


def _delays(entry: Entry, slots: int) -> IntArray:
    return delays.strict(slots) if entry.delayed else np.zeros(slots, dtype=np.int64)


def baseline_regret(experiment: str, path: Path) -> FloatArray:
    """Return the normalised regret of a player that never learns, shape (slots, 1)."""
    world = load_world(experiment, path)
    regret = (world.baseline().losses - world.best_fixed().losses).cumsum() / world.slots
    return regret[:, None]


def summarise(regret: FloatArray) -> Curve:
    """Compute mean and standard error over the runs, at no more than ``MAX_CURVE`` slots.

    Parameters
    ----------
    regret : shape (slots, runs)
    """
    slots, runs = regret.shape
    kept = np.unique(np.linspace(1, slots, min(slots, MAX_CURVE)).round().astype(int))
    thinned = regret[kept - 1]
    spread = standard_error(thinned)
    means = thinned.mean(axis=1)
    return Curve(float(means[-1]), float(spread[-1]), kept.tolist(), means.tolist(), spread.tolist(), runs)
