"""A simulated day as a table of a few lines, and as a figure."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from loadtest.figures import figure
from loadtest.studies.day import BEST, HOURS, ITEMS, NAMES, RATES, Day

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
