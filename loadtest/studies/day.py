"""One simulated day of a small shop: which of eight items to show to each visitor, learned from clicks alone."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from loadtest.errors import LoadTestError
from loadtest.replay.click_replay import ClickReplay
from loadtest.replay.click_stream import ClickStream, plan_clicks
from loadtest.replay.click_worlds import steady_clicks
from loadtest.replay.in_process_driver import InProcessDriver
from loadtest.replay.plan import RateChoice
from loadtest.replay.simulated_time import SimulatedTime
from service.learners.base import FloatArray, IntArray

ITEMS = {
    "mug": 0.04,
    "candle": 0.06,
    "scarf": 0.03,
    "poster": 0.07,
    "puzzle": 0.15,
    "notebook": 0.05,
    "tea": 0.08,
    "lamp": 0.06,
}
"""Name of an item to the share of visitors who click it when it is shown."""
NAMES, RATES = tuple(ITEMS), np.array(list(ITEMS.values()))
BEST = int(RATES.argmax())
VISITORS = 2400
KIND = "multiscale_tsallis"
HOURS, HOUR = 24, 3600.0
BUSIEST_HOUR = 17
CLICKS = ClickStream(window=1800.0, delay_median=120.0, delay_sigma=1.0)
"""Half of the clicks come within two minutes; what isn't clicked in half an hour counts as no click."""


class Day(NamedTuple):
    """What happened to each visitor of a day, in the order of their visits."""

    seed: int
    hour: IntArray
    """In which they came, 0 to 23, shape (visitors,)."""
    shown: IntArray
    """The item's index, shape (visitors,)."""
    clicked: FloatArray
    """1 for a click, shape (visitors,)."""
    uniform: FloatArray
    """The chance of a click had the item been drawn uniformly, shape (visitors,)."""
    best: FloatArray
    """1 where they would have clicked the best item, shape (visitors,)."""

    def between(self, start: int, end: int) -> Day:
        """Return the visitors of the hours from ``start`` until before ``end``."""
        inside = (self.hour >= start) & (self.hour < end)
        return Day(
            self.seed,
            self.hour[inside],
            self.shown[inside],
            self.clicked[inside],
            self.uniform[inside],
            self.best[inside],
        )


def simulate(seed: int, visitors: int = VISITORS, kind: str = KIND) -> Day:
    """Play one day in process: show items, report clicks when they happen, let the others expire.

    A click is reported with its item alone, not with the decision it belongs to. All numbers follow from ``seed``.

    Raises
    ------
    LoadTestError
        where the session's counts are not what was reported.
    """
    clicks_seed, delay_seed, arrivals_seed = map(int, np.random.SeedSequence(seed).generate_state(3))
    arrivals = arrival_times(visitors, arrivals_seed)
    world = steady_clicks(visitors, RATES.tolist(), clicks_seed)
    stream = CLICKS._replace(interval=HOURS * HOUR / visitors, delay_seed=delay_seed)
    clock = SimulatedTime()
    driver = InProcessDriver(plan_clicks(world, stream, kind, RateChoice.AUTO, seed, {}), clock.now)
    record = ClickReplay(world, stream, driver, clock, arrivals).run()
    if problems := record.problems():
        raise LoadTestError("; ".join(problems))
    hour = (arrivals // HOUR).astype(int)
    return Day(
        seed, hour, np.array(record.arms), 1 - record.losses, world.posted.mean(axis=1), world.posted[:, BEST]
    )


def arrival_times(visitors: int, seed: int) -> FloatArray:
    """Draw when visitors come, in seconds from midnight, sorted, shape (visitors,): few at night, most at 17:00."""
    hours = np.arange(HOURS)
    weights = 1.1 + np.cos(2 * np.pi * (hours - BUSIEST_HOUR) / HOURS)
    chance = np.random.default_rng(seed)
    drawn = chance.choice(hours, visitors, p=weights / weights.sum())
    return np.sort(HOUR * (drawn + chance.random(visitors)))
