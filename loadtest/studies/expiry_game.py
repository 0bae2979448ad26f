"""One run in which some decisions stay unanswered: a stream, the answered decisions, and how the others settle."""

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
from service.engine.ledger import ArmFeedback, Expiry, Params
from service.engine.run import start_run
from service.learners.base import FloatArray, Spec

WINDOW = 8
"""Seconds a decision may stay unanswered; a slot opens every second."""


class Mode(StrEnum):
    """How unanswered decisions settle."""

    FULL = "full"
    """They are answered too, with their real loss."""
    DEFAULT = "default"
    """They are answered with the default loss, like other decisions: as with expiry, but sooner."""
    ON = "on"
    """They expire, and settle at the default loss."""
    DROPPED = "dropped"
    """They expire, and the learner learns nothing from them."""
    OFF = "off"
    """They stay outstanding."""
    ALONE = "alone"
    """They are left out of the stream: full feedback on the answered decisions alone."""


ANSWERED = (Mode.FULL, Mode.DEFAULT)
"""Modes in which every decision gets an answer, after its delay."""


class Game(NamedTuple):
    """The stream of one run."""

    world: ArmWorld
    answered: NDArray[np.bool_]
    """Whether a client would post the arm's loss, shape (slots, n_arms)."""
    default: float
    """The loss of an expired decision, as the learner sees it."""
    max_delay: int = WINDOW
    """Largest delay in slots, for CLW."""


def longest_delay(unanswered: float) -> int:
    """Estimate the delay, in slots, of the loss of an unanswered decision, if the arm is played in every slot.

    Every click settles the arm's oldest decision, so no decision expires until as many are outstanding as the
    window has slots. The fewer decisions stay unanswered, the longer that takes.

    Parameters
    ----------
    unanswered : share of decisions without an answer, above 0
    """
    return math.ceil(WINDOW / unanswered)


def alone(game: Game) -> Game:
    """Return a game with the answered slots only; its answers must not depend on the arm."""
    kept = game.answered[:, 0]
    return game._replace(world=replace(game.world, posted=game.world.posted[kept]), answered=game.answered[kept])


def spec_of(game: Game, kind: str) -> Spec:
    """Return the learner's specification, which is the same in every mode."""
    fields = {"max_delay": game.max_delay} if kind == "clw" else {}
    return plan_session(game.world, kind, RateChoice.AUTO, 0, fields).spec


def play(game: Game, spec: Spec, mode: Mode, seed: int) -> FloatArray:
    """Play the game, one slot per second of simulated time.

    Returns
    -------
    The expected loss p_t . l_t of every slot, shape (slots,).
    """
    run = start_run(Params(spec, seed, game.world.loss_range, _expiry(game, mode)))
    assert isinstance(run, ArmRun)  # noqa: S101 - the study's learners are over arms
    losses, late = game.world.losses, delays.strict(game.world.slots)
    posted = np.where(game.answered, losses, game.default) if mode is Mode.DEFAULT else losses
    expected = np.empty(len(losses))
    due: dict[int, list[ArmFeedback]] = {}
    for t in range(1, len(losses) + 1):
        pass_time(run, float(t))
        action = run.act()
        expected[t - 1] = run.learner.distribution(run.state) @ losses[t - 1]
        if mode in ANSWERED or game.answered[t - 1, action.arm]:
            event = ArmFeedback(action.arm, float(posted[t - 1, action.arm]))
            due.setdefault(t + int(late[t - 1]), []).append(event)
        for event in due.pop(t, ()):
            run.settle(event)
    return expected


def _expiry(game: Game, mode: Mode) -> Expiry | None:
    if mode is Mode.ON:
        return Expiry(float(WINDOW), game.default)
    return Expiry(float(WINDOW), None) if mode is Mode.DROPPED else None
