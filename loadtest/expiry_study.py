"""What it costs to learn where most decisions are never answered: expiry on, off, and full feedback."""

from __future__ import annotations

import math
from dataclasses import replace
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from loadtest import delays
from loadtest.click_worlds import CLICKS, NO_CLICK, jester_clicks, jester_clicks_at, switching_clicks
from loadtest.experiments import seeds_of
from loadtest.jester import Ratings, read_jester
from loadtest.passing_time import pass_time
from loadtest.plan import RateChoice, plan_session
from loadtest.scaling import CHANGE_AT
from loadtest.scenarios import SYNTHETIC_SLOTS, ArmWorld, mab_synthetic
from service.learners.base import ArmLearner, FloatArray, Spec
from service.learners.run import ArmAction, ArmFeedback, Expiry, Params, Run

WINDOW = 8
"""Seconds a decision may stay unanswered; a slot opens every second."""
UNANSWERED = (0.2, 0.8, 0.99)
"""Share of acts without an answer under uniform play."""
RANDOM_DEFAULT = 0.5
"""Default loss where it is drawn who answers; uniform play pays about as much."""
NO_CLICK_LOSS = CLICKS.learned(NO_CLICK)
LEARNERS = ("centred_tsallis", "dexp3", "clw")


class Mode(StrEnum):
    """What becomes of the decisions nobody answers."""

    FULL = "full"
    """They are answered all the same."""
    TOLD = "told"
    """They are answered with the default loss: what expiry teaches, but on time."""
    ON = "on"
    """They expire into the default loss."""
    DROPPED = "dropped"
    """They expire, and nothing is learned from them."""
    OFF = "off"
    """They stay outstanding."""
    ALONE = "alone"
    """They are never taken: full feedback on the answered ones alone."""


CLICK_MODES = (Mode.FULL, Mode.ON, Mode.OFF)
"""Where clicks are the answers, told is full feedback."""
ANSWERED = (Mode.FULL, Mode.TOLD)
"""Every decision gets an answer, after its delay."""


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


class Game(NamedTuple):
    """A task as one run meets it."""

    world: ArmWorld
    answered: NDArray[np.bool_]
    """Whether the arm's loss would be posted, shape (slots, n_arms)."""
    default: float
    """The loss of an expired decision, as the learner sees it."""
    max_delay: int = WINDOW
    """In slots, for CLW."""


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
            _file(path),
        )
        for task in TASKS.values()
        if path is not None or not task.needs_ratings
        for share in task.shares
        for kind in LEARNERS
        for mode in task.modes
    ]
    return sorted(found, key=lambda case: -TASKS[case.task].slots)


def _file(path: Path | None) -> Path:
    return path or Path()


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
    spread = np.std(regret, ddof=1) / np.sqrt(len(regret)) if len(regret) > 1 else 0.0
    return Found(float(np.mean(regret)), float(spread), float(np.mean(uniform)))


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


def longest_delay(unanswered: float) -> int:
    """About how late a missing click is noticed, in slots, of an arm that is played all the time.

    Every click settles the arm's oldest decision. So none expires until as many are outstanding as the window
    has slots, and that takes the longer the fewer stay unanswered.
    """
    return math.ceil(WINDOW / unanswered)


@cache
def _jester(path: Path, unanswered: float | None) -> ArmWorld:
    ratings = _ratings(path)
    return jester_clicks(ratings) if unanswered is None else jester_clicks_at(ratings, 1 - unanswered)


@cache
def _ratings(path: Path) -> Ratings:
    return read_jester([path])


def alone(game: Game) -> Game:
    """The answered slots of a game in which answers don't depend on the arm."""
    kept = game.answered[:, 0]
    return game._replace(world=replace(game.world, posted=game.world.posted[kept]), answered=game.answered[kept])


def spec_of(game: Game, kind: str) -> Spec:
    """The learner's fields, the same in every mode."""
    fields = {"max_delay": game.max_delay} if kind == "clw" else {}
    return plan_session(game.world, kind, RateChoice.AUTO, 0, fields).spec


def play(game: Game, spec: Spec, mode: Mode, seed: int) -> FloatArray:
    """p_t . l_t of every slot; time is handed in, a second per slot."""
    run = Run.start(Params(spec, seed, game.world.loss_range, _expiry(game, mode)))
    learner, losses, late = run.learner, game.world.losses, delays.strict(game.world.slots)
    told = np.where(game.answered, losses, game.default) if mode is Mode.TOLD else losses
    assert isinstance(learner, ArmLearner)  # noqa: S101 - the study's learners are over arms
    expected = np.empty(len(losses))
    due: dict[int, list[ArmFeedback]] = {}
    for t in range(1, len(losses) + 1):
        pass_time(run, float(t))
        action = run.act()
        assert isinstance(action, ArmAction)  # noqa: S101 - as above
        expected[t - 1] = learner.distribution(run.state) @ losses[t - 1]
        if mode in ANSWERED or game.answered[t - 1, action.arm]:
            event = ArmFeedback(action.arm, float(told[t - 1, action.arm]))
            due.setdefault(t + int(late[t - 1]), []).append(event)
        for event in due.pop(t, ()):
            run.settle(event)
    return expected


def _expiry(game: Game, mode: Mode) -> Expiry | None:
    if mode is Mode.ON:
        return Expiry(float(WINDOW), game.default)
    return Expiry(float(WINDOW), None) if mode is Mode.DROPPED else None
