"""What it costs to learn where most decisions are never answered: expiry on, off, and full feedback."""

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
"""Default loss where it is drawn who answers; uniform play pays about as much."""
NO_CLICK_LOSS = CLICKS.learned(NO_CLICK)
LEARNERS = ("centred_tsallis", "dexp3", "clw")
CLICK_MODES = (Mode.FULL, Mode.ON, Mode.OFF)
"""Where clicks are the answers, told is full feedback."""


class Task(NamedTuple):
    """A stream and how many of its decisions are answered."""

    name: str
    slots: int
    shares: tuple[float, ...] = UNANSWERED
    modes: tuple[Mode, ...] = CLICK_MODES
    """Dropping what nobody clicked leaves clicks alone, which are all alike."""
    needs_ratings: bool = False

    @property
    def random(self) -> bool:
        """Whether it is drawn who answers; elsewhere clicks are answers, and their absence is none."""
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
    """One learner's runs at one task; what a process is sent."""

    task: str
    unanswered: float
    kind: str
    mode: Mode
    seeds: tuple[int, ...]
    path: Path = Path()
    """The Jester file."""


class Found(NamedTuple):
    """Reg_T / T over the runs of a case, and of uniform play at the same losses."""

    mean: float
    stderr: float
    uniform: float


def cases(seeds: int, long_seeds: int, path: Path | None) -> list[Case]:
    """All cases, longest first; those of the ratings only where there is a file of them."""
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
    """The regret of every run of a case, summed up."""
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
    """The task as the run with this seed meets it."""
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
