"""One simulated day of a small shop: which of eight items to show to each visitor, learned from clicks alone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from loadtest.errors import LoadTestError
from loadtest.figures import figure
from loadtest.replay.replay import ClickReplay
from loadtest.replay.session import ClickStream, InProcessDriver, RateChoice, SimulatedTime, plan_session
from loadtest.replay.worlds import steady_clicks
from service.learners.base import FloatArray, IntArray

ITEMS = {"mug": 0.04, "candle": 0.06, "scarf": 0.03, "poster": 0.07}
ITEMS |= {"puzzle": 0.15, "notebook": 0.05, "tea": 0.08, "lamp": 0.06}
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
        parts: list[Any] = [part[inside] for part in self[1:]]
        return Day(self.seed, *parts)


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
    driver = InProcessDriver(plan_session(world, kind, RateChoice.AUTO, seed, {}, stream), clock.now)
    record = ClickReplay(world, stream, driver, clock, arrivals).run()
    if problems := record.problems():
        raise LoadTestError("; ".join(problems))
    hour, posted = (arrivals // HOUR).astype(int), world.posted
    return Day(seed, hour, np.array(record.arms), 1 - record.losses, posted.mean(axis=1), posted[:, BEST])


def arrival_times(visitors: int, seed: int) -> FloatArray:
    """Draw when visitors come, in seconds from midnight, sorted, shape (visitors,): few at night, most at 17:00."""
    hours = np.arange(HOURS)
    weights = 1.1 + np.cos(2 * np.pi * (hours - BUSIEST_HOUR) / HOURS)
    chance = np.random.default_rng(seed)
    drawn = chance.choice(hours, visitors, p=weights / weights.sum())
    return np.sort(HOUR * (drawn + chance.random(visitors)))


HOURS_PER_LINE = 3
WIDTH = 5.0
"""Inches: 800 pixels."""


def lines_of(day: Day) -> Iterator[str]:
    """Yield a line for every three hours, and one for the whole day."""
    yield f"{'hours':8}{'visitors':>9}{'learner':>10}{'uniform':>10}{'best item':>11}{f'shown {NAMES[BEST]}':>14}"
    for start in range(0, HOURS, HOURS_PER_LINE):
        yield _line(f"{start:02}-{start + HOURS_PER_LINE:02}", day.between(start, start + HOURS_PER_LINE))
    yield _line("all day", day)


def _line(name: str, day: Day) -> str:
    rates = (day.clicked.mean(), day.uniform.mean(), day.best.mean())
    learner, uniform, best = (f"{100 * rate:.1f} %" for rate in rates)
    return f"{name:8}{len(day.hour):9,}{learner:>10}{uniform:>10}{best:>11}{(day.shown == BEST).mean():14.0%}"


def plot_day(day: Day, *paths: Path) -> None:
    """Draw click rates over the day: what the items shown bring on average, and the clicks really counted."""
    with figure(*paths, width=WIDTH) as axes:
        axes.axhline(100 * RATES[BEST], color="#009e73", linestyle="-.", label=f"best item only ({NAMES[BEST]})")
        shown = [(_when(part), 100 * RATES[part.shown].mean()) for part in _parts(day, 1)]
        axes.plot(*zip(*shown, strict=True), color="#0072b2", label="learner, on average")
        counted = [(_when(part), 100 * part.clicked.mean()) for part in _parts(day, HOURS_PER_LINE)]
        axes.plot(*zip(*counted, strict=True), "o", color="#0072b2", markersize=4, label="learner, counted")
        axes.axhline(100 * RATES.mean(), color="0.45", linestyle="--", label="uniform play")
        axes.set(xlim=(0, HOURS), xticks=range(0, HOURS + 1, 3), xlabel="hour of the day", ylabel="click rate, %")
        axes.set(ylim=(0, 20), yticks=range(0, 21, 5))
        axes.legend(loc="lower right", ncols=2)
        axes.set_title(f"{len(ITEMS)} items, {len(day.hour):,} visitors, seed {day.seed}", fontsize=9)


def _parts(day: Day, hours: int) -> Iterator[Day]:
    """Yield the parts of a day, each of so many hours, in which somebody came."""
    parts = (day.between(start, start + hours) for start in range(0, HOURS, hours))
    return (part for part in parts if len(part.hour))


def _when(part: Day) -> float:
    return float(part.hour.mean()) + 0.5
