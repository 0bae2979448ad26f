"""Worlds of clicks: a click is posted as 1 and costs nothing, a missing one costs 1 and is never posted."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from loadtest.replay.arm_worlds import ArmWorld
from loadtest.replay.jester import Ratings
from service.engine.ledger import LossRange
from service.learners.base import FloatArray

CLICKS = LossRange(best=1.0, worst=0.0)
NO_CLICK = 0.0
"""What is posted for it, where something is; the default loss of a session that learns from clicks alone."""
CLICK_ABOVE = 5.0
"""A rating above this is a click."""
SWITCHING_ARMS = 5
BEST_IN_TURN = (0, 1, 2, 0)
"""The best arm of each quarter of a switching world."""


def jester_clicks(ratings: Ratings, fill_seed: int = 0, above: float = CLICK_ABOVE) -> ArmWorld:
    """Users as visitors, jokes as items: a visitor clicks the jokes they would have rated above ``above``."""
    return _clicks("jester_clicks", ratings.filled(fill_seed) > above, "joke")


def jester_clicks_at(ratings: Ratings, rate: float, fill_seed: int = 0) -> ArmWorld:
    """Return the same with the threshold at which uniform play has a click rate of ``rate``."""
    return jester_clicks(ratings, fill_seed, float(np.quantile(ratings.filled(fill_seed), 1 - rate)))


def switching_clicks(slots: int, rate: float, seed: int) -> ArmWorld:
    """Independent clicks; uniform play has a click rate of ``rate``, and the best arm changes three times.

    It is clicked twice as often as the average arm, or half way to always where that is less.
    """
    best = np.repeat(BEST_IN_TURN, -(-slots // len(BEST_IN_TURN)))[:slots]
    high = min(2 * rate, (1 + rate) / 2)
    low = (SWITCHING_ARMS * rate - high) / (SWITCHING_ARMS - 1)
    chances = np.where(best[:, None] == np.arange(SWITCHING_ARMS), high, low)
    return _clicks("switching_clicks", np.random.default_rng(seed).random(chances.shape) < chances)


def steady_clicks(slots: int, rates: Sequence[float], seed: int) -> ArmWorld:
    """Independent clicks: each visitor would click item k with probability ``rates[k]``, all the time."""
    return _clicks("steady_clicks", np.random.default_rng(seed).random((slots, len(rates))) < rates, "item")


def _clicks(name: str, clicked: np.ndarray[tuple[int, ...], np.dtype[np.bool_]], arm_name: str = "arm") -> ArmWorld:
    posted: FloatArray = clicked.astype(float)
    return ArmWorld(name, posted, CLICKS, arm_name)
