"""Worlds of clicks: a click is posted as 1 and costs nothing, a missing one costs 1 and is never posted."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from loadtest.replay.arm_worlds import ArmWorld
from loadtest.replay.jester import Ratings
from service.engine.loss_range import LossRange
from service.learners.base import FloatArray

CLICKS = LossRange(best=1.0, worst=0.0)
NO_CLICK = 0.0
"""What is posted for it, where something is; the default loss of a session that learns from clicks alone."""
CLICK_ABOVE = 5.0
"""A rating above this is a click."""


def jester_clicks(ratings: Ratings, fill_seed: int = 0) -> ArmWorld:
    """Users as visitors, jokes as items: a visitor clicks the jokes they would have rated above ``CLICK_ABOVE``."""
    return _clicks("jester_clicks", ratings.filled(fill_seed) > CLICK_ABOVE, "joke")


def steady_clicks(slots: int, rates: Sequence[float], seed: int) -> ArmWorld:
    """Independent clicks: each visitor would click item k with probability ``rates[k]``, all the time."""
    return _clicks("steady_clicks", np.random.default_rng(seed).random((slots, len(rates))) < rates, "item")


def _clicks(name: str, clicked: np.ndarray[tuple[int, ...], np.dtype[np.bool_]], arm_name: str = "arm") -> ArmWorld:
    posted: FloatArray = clicked.astype(float)
    return ArmWorld(name, posted, CLICKS, arm_name)
