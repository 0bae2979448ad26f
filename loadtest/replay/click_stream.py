"""When visitors come and how long their clicks take, in seconds; all of it can be played faster."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from loadtest.replay import delays
from loadtest.replay.click_worlds import NO_CLICK
from loadtest.replay.plan import Plan, RateChoice, World, plan_session
from service.engine.ledger import PER_WINDOW
from service.learners.base import FloatArray, IntArray

SLACK = 1 + 1 / PER_WINDOW
"""A decision is given up at most this many windows after it was taken."""


class ClickStream(NamedTuple):
    """The times of a stream of impressions."""

    window: float = 600.0
    """Seconds after which an impression without a click is taken for one that has none."""
    interval: float = 2.0
    """Seconds between impressions."""
    delay_median: float = 30.0
    delay_sigma: float = 1.5
    """Of the delay's logarithm: with 1.5 one click in 44 comes after 20 medians."""
    delay_seed: int = 0
    speed: float = 1.0
    """Everything happens this many times as fast, the session's window included."""

    @property
    def after_seconds(self) -> float:
        """The session's ``after_seconds``: the window at this speed."""
        return self.window / self.speed

    @property
    def slots_per_second(self) -> float:
        """Impressions a second."""
        return self.speed / self.interval

    def session_fields(self) -> dict[str, Any]:
        """Return the session's expiry: an impression without a click within the window counts as no click."""
        return {"expiry": {"after_seconds": self.after_seconds, "default_loss": NO_CLICK}}

    def click_delays(self, slots: int) -> FloatArray:
        """Seconds from each slot's impression to its click, as played."""
        seconds = delays.log_normal(slots, self.delay_median, self.delay_sigma, self.delay_seed)
        return seconds / self.speed

    def settled_after(self, slots: int) -> IntArray:
        """Return a bound on each slot's delay in slots, for learners that need one: the window."""
        window = math.ceil(SLACK * self.window / self.interval)
        return np.minimum(window, np.arange(slots - 1, -1, -1))


def plan_clicks(
    world: World, stream: ClickStream, kind: str, rates: RateChoice, seed: int, options: dict[str, Any]
) -> Plan:
    """Choose the fields of a session that learns from clicks alone: ``plan_session``, with the stream's window."""
    plan = plan_session(world, kind, rates, seed, options, stream.settled_after(world.slots))
    return replace(plan, session=plan.session | stream.session_fields())
