"""Regret if most decisions are never answered: with expiry, without expiry, and with full feedback."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from loadtest.replay.arm_worlds import SYNTHETIC_SLOTS, ArmWorld, mab_synthetic
from loadtest.replay.click_worlds import CLICKS, NO_CLICK, jester_clicks, jester_clicks_at, switching_clicks
from loadtest.replay.jester import Ratings, read_jester
from loadtest.studies.experiments import seeds_of, standard_error
from loadtest.studies.expiry_game import Game, Mode, alone, longest_delay, play, spec_of
from loadtest.studies.scaling import CHANGE_AT

UNANSWERED = (0.2, 0.8, 0.99)
"""Share of acts without an answer under uniform play."""
RANDOM_DEFAULT = 0.5
"""Default loss if the answered decisions are drawn: about the loss of uniform play."""
NO_CLICK_LOSS = CLICKS.learned(NO_CLICK)
LEARNERS = ("centred_tsallis", "dexp3", "clw")
CLICK_MODES = (Mode.FULL, Mode.ON, Mode.OFF)
"""If clicks are the answers, ``DEFAULT`` equals ``FULL``."""


class Task(NamedTuple):
    """A stream, and the shares of its decisions without an answer."""

    name: str
    slots: int
    shares: tuple[float, ...] = UNANSWERED
    modes: tuple[Mode, ...] = CLICK_MODES
    """Without ``DROPPED`` for clicks: only clicks would be learned, and their losses are all equal."""
    needs_ratings: bool = False

    @property
    def random(self) -> bool:
        """Whether the answered decisions are drawn; in other tasks a decision is answered if it gets a click."""
        return Mode.ALONE in self.modes


TASKS = {
    task.name: task
    for task in (
        Task("synthetic", 2000, modes=tuple(Mode)),
        Task("synthetic, T = 20,000", 20_000, modes=tuple(Mode)),
        Task("Jester, top ratings", 24_983, needs_ratings=True),
        Task("Jester, rating > 5", 24_983, shares=(0.75,), needs_ratings=True),
        Task("switching", 20_000),
    )
}


class Case(NamedTuple):
    """The runs of one learner at one task: the work of one process."""

    task: str
    unanswered: float
    kind: str
    mode: Mode
    seeds: tuple[int, ...]
    path: Path = Path()
    """The Jester file."""


class Found(NamedTuple):
    """Reg_T / T: mean and standard error over the runs of a case, and the mean of uniform play."""

    mean: float
    stderr: float
    uniform: float


def cases(seeds: int, long_seeds: int, path: Path | None) -> list[Case]:
    """List all cases, those with most slots first.

    Parameters
    ----------
    seeds, long_seeds : number of runs of the short task, and of all others
    path : the file of Jester's ratings; None leaves out the tasks that need it
    """
    found = [
        Case(
            task.name,
            share,
            kind,
            mode,
            seeds_of(seeds if task.slots == SYNTHETIC_SLOTS else long_seeds),
            path or Path(),
        )
        for task in TASKS.values()
        if path is not None or not task.needs_ratings
        for share in task.shares
        for kind in LEARNERS
        for mode in task.modes
    ]
    return sorted(found, key=lambda case: -TASKS[case.task].slots)


def run_case(case: Case) -> Found:
    """Play every run of a case and return its regret."""
    regret, uniform = [], []
    for seed in case.seeds:
        game = game_of(case.task, case.unanswered, seed, case.path)
        if case.mode is Mode.ALONE:
            game = alone(game)
        best = game.world.best_fixed().losses.mean()
        regret.append(float(play(game, spec_of(game, case.kind), case.mode, seed).mean() - best))
        uniform.append(float(game.world.baseline().losses.mean() - best))
    return Found(float(np.mean(regret)), float(standard_error(np.array(regret))), float(np.mean(uniform)))


def game_of(name: str, unanswered: float, seed: int, path: Path = Path()) -> Game:
    """Make the game of a task for the run with this seed.

    Parameters
    ----------
    unanswered : share of decisions without an answer under uniform play
    path : the file of Jester's ratings, if the task needs it
    """
    task = TASKS[name]
    if task.random:
        world = mab_synthetic(task.slots, task.slots // CHANGE_AT)
        answered = np.random.default_rng(seed).random(task.slots) >= unanswered
        return Game(world, np.repeat(answered[:, None], world.posted.shape[1], axis=1), RANDOM_DEFAULT)
    if task.needs_ratings:
        world = _jester(path, None if len(task.shares) == 1 else unanswered)
    else:
        world = switching_clicks(task.slots, 1 - unanswered, seed)
    return Game(world, world.posted != NO_CLICK, NO_CLICK_LOSS, longest_delay(unanswered))


@cache
def _jester(path: Path, unanswered: float | None) -> ArmWorld:
    ratings = _ratings(path)
    return jester_clicks(ratings) if unanswered is None else jester_clicks_at(ratings, 1 - unanswered)


@cache
def _ratings(path: Path) -> Ratings:
    return read_jester([path])
