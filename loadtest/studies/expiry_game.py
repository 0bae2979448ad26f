"""One run where decisions stay unanswered: a stream, who answers, and what becomes of the others."""

from __future__ import annotations

import math
from dataclasses import replace
from enum import StrEnum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from loadtest.replay import delays
from loadtest.replay.arm_worlds import ArmWorld
from loadtest.replay.plan import RateChoice, plan_session
from loadtest.replay.simulated_time import pass_time
from service.engine.arm_run import ArmRun
from service.engine.feedback import ArmFeedback
from service.engine.params import Expiry, Params
from service.engine.run import start_run
from service.learners.base import FloatArray, Spec

WINDOW = 8
"""Seconds a decision may stay unanswered; a slot opens every second."""


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


ANSWERED = (Mode.FULL, Mode.TOLD)
"""Every decision gets an answer, after its delay."""


class Game(NamedTuple):
    """A task as one run meets it."""

    world: ArmWorld
    answered: NDArray[np.bool_]
    """Whether the arm's loss would be posted, shape (slots, n_arms)."""
    default: float
    """The loss of an expired decision, as the learner sees it."""
    max_delay: int = WINDOW
    """In slots, for CLW."""


def longest_delay(unanswered: float) -> int:
    """About how late a missing click is noticed, in slots, of an arm that is played all the time.

    Every click settles the arm's oldest decision. So none expires until as many are outstanding as the window
    has slots, and that takes the longer the fewer stay unanswered.
    """
    return math.ceil(WINDOW / unanswered)


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
    run = start_run(Params(spec, seed, game.world.loss_range, _expiry(game, mode)))
    assert isinstance(run, ArmRun)  # noqa: S101 - the study's learners are over arms
    losses, late = game.world.losses, delays.strict(game.world.slots)
    told = np.where(game.answered, losses, game.default) if mode is Mode.TOLD else losses
    expected = np.empty(len(losses))
    due: dict[int, list[ArmFeedback]] = {}
    for t in range(1, len(losses) + 1):
        pass_time(run, float(t))
        action = run.act()
        expected[t - 1] = run.learner.distribution(run.state) @ losses[t - 1]
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
