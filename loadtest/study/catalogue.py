"""The worlds of the study, by group."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from loadtest.replay.jester import BEST, WORST, read_jester
from loadtest.replay.worlds import CLICK_ABOVE
from loadtest.study.worlds import World, beta, between, bots, daily, drifting, gap, growing, novel, switching, table

FULL, CLICKS, CHANGES, WEARY, STALLS = "full", "clicks", "changes", "weary", "stalls"
LIBRARIES = "libraries"
JOKES = 100


def worlds(jester: Path | None) -> dict[str, list[World]]:
    """Return the worlds of each group.

    Parameters
    ----------
    jester : the file of ratings; None leaves its two worlds out
    """
    groups = {FULL: _full(), CLICKS: _clicks(), CHANGES: _changes(), WEARY: _weary(), STALLS: _stalls()}
    groups[LIBRARIES] = _beside_libraries()
    if jester is not None:
        ratings = read_jester([jester]).filled(0)
        of_visitors = partial(World, arms=JOKES, slots=8000, visitors=True)
        rated = table((ratings - WORST) / (BEST - WORST))
        groups[FULL].append(of_visitors("Jester, ratings", chances=rated, delay=("paper", 0), ratings=True))
        clicked = table((ratings > CLICK_ABOVE).astype(float))
        groups[CLICKS].append(of_visitors("Jester, clicks", chances=clicked, delay=("spread", 300), window=1000))
    return groups


def _full() -> list[World]:
    constant, one = ("constant", 50), gap(0.5, 0.4)
    ten = partial(World, arms=10, slots=8000, chances=gap(0.6, 0.4), delay=constant)
    paper = partial(World, slots=8000, delay=("paper", 0))
    rated = partial(ten, chances=between(0.3, 0.7), delay=("spread", 100), window=1000, null=True)
    return [
        paper("2 arms, gap .1, paper's delays", 2, chances=gap(0.55, 0.45)),
        paper("10 arms, gap .01, paper's delays", 10, chances=gap(0.51, 0.5)),
        ten("10 arms, gap .2, delay 50"),
        ten("10 arms, gap .1, geometric delays, mean 100", chances=one, delay=("spread", 100)),
        ten("10 arms, gap .1, Pareto delays, median 20", chances=one, delay=("pareto", 20)),
        ten("50 arms, gap .2, delay 500", arms=50, delay=("constant", 500)),
        ten("1,000 arms, 0 to .8, delay 50", arms=1000, slots=4000, chances=between(0.0, 0.8), few=True),
        ten("10 arms, gap .2, 20 % lost", lost=0.2),
        ten("10 arms, gap .2, 10 % doubled", doubled=0.1),
        ten("10 arms, gap .2, in bursts of 500", delay=("burst", 500)),
        ten("10 arms, gap .2, posted nightly, T 20,000", delay=("burst", 2000), slots=20_000),
        rated("10 arms, .3 to .7, 5 % answered, null default, T 20,000", slots=20_000, lost=0.95),
    ]


def _clicks() -> list[World]:
    rare = beta(2, 30)
    ten = partial(World, arms=10, slots=8000, chances=beta(5, 20))
    third = partial(ten, window=1000, delay=("spread", 333))
    tenth = partial(ten, window=2000, delay=("spread", 200))
    soon = partial(World, slots=8000, window=500, delay=("spread", 167))
    return [
        ten("10 items, Beta(5, 20), W 200, mean W/3", window=200, delay=("spread", 67)),
        tenth("10 items, 1 % and .5 %, W 2,000, mean W/10", chances=gap(0.01, 0.005)),
        tenth("10 items, 10 % and 5 %, W 2,000, mean W/10", chances=gap(0.1, 0.05)),
        third("2 items, 6 % and 5 %, W 1,000, mean W/3", arms=2, chances=gap(0.06, 0.05)),
        third("50 items, Beta(2, 30), W 1,000, mean W/3", arms=50, chances=rare),
        third("1,000 items, Beta(2, 30), W 1,000", arms=1000, slots=4000, chances=rare, few=True),
        third("1,000 items, Beta(2, 30), W 1,000, T 30,000", arms=1000, slots=30_000, chances=rare, few=True),
        World("10 items, Beta(2, 30), W 10,000, mean W/3", 10, 20_000, rare, ("spread", 3333), 10_000),
        tenth("10 items, Beta(5, 20), W 2,000, Pareto", delay=("pareto", 40)),
        tenth("10 items, Beta(2, 30), W 2,000, 10 % lost", chances=rare, lost=0.1),
        tenth("10 items, Beta(5, 20), W 2,000, 10 % doubled", doubled=0.1),
        tenth("10 items, Beta(5, 20), W 2,000, in bursts of 500", delay=("burst", 500)),
        World("10 items, Beta(5, 20), W 4,000, nightly", 10, 20_000, beta(5, 20), ("burst", 2000), 4000),
        tenth("10 items, Beta(5, 20), W 2,000, bots", chances=bots(beta(5, 20), 1000, 100)),
        ten("10 items, Beta(5, 20), W 200, all at .9 W", window=200, delay=("constant", 180)),
        tenth("10 items, Beta(2, 30), W 2,000, all at .9 W", chances=rare, delay=("constant", 1800)),
        soon("10 items, 85 to 95 %, W 500, mean W/3", 10, chances=between(0.85, 0.95)),
        soon("20 items, 70 % barred, W 500, mean W/3", 20, chances=between(0.02, 0.2), barred=True),
        soon("20 items, slates of 4, W 500, mean W/3", 20, slots=3000, chances=between(0.02, 0.2), places=4),
    ]


def _changes() -> list[World]:
    coming = {2000: (None, 2), 3000: (0, 0), 4000: (None, 2), 5000: (1, 0)}
    ten = partial(World, arms=10, slots=8000, delay=("constant", 50))
    clicks = partial(World, arms=10, slots=8000, delay=("spread", 333), window=1000)
    moved, moved_clicks = switching(gap(0.6, 0.4), 2000), switching(gap(0.15, 0.05), 4000)
    by_day = daily(between(0.05, 0.25), 2400)
    replaced = partial(clicks, arms=20, chances=beta(5, 20), changes={400 * turn: (0, 1) for turn in range(1, 20)})
    return [
        ten("10 arms, .6 and .4, moved every 2,000", chances=moved),
        ten("10 arms, .6 and .4, growing blocks", chances=growing(gap(0.6, 0.4), 500)),
        ten("10 arms, drifting, delay 50", chances=drifting(0.3, 0.7, 4000)),
        ten("10 arms, day and night, delay 50", chances=daily(between(0.2, 0.9), 2400)),
        ten("10 arms, 4 join, 2 leave, delay 50", chances=between(0.3, 0.7), changes=coming),
        clicks("10 items, 15 % and 5 %, moved every 4,000, W 1,000", chances=moved_clicks),
        clicks("10 items, 5 to 25 %, day and night, W 1,000", chances=by_day),
        clicks("10 items, drifting, W 1,000", chances=drifting(0.05, 0.25, 4000)),
        clicks("10 items, 4 join, 2 leave, W 1,000", chances=between(0.05, 0.25), changes=coming),
        replaced("20 items, one replaced every 400, W 1,000"),
        replaced("20 items, the same, new ones clicked twice, W 1,000", chances=novel(beta(5, 20), 20, 400, 500)),
    ]


def _weary() -> list[World]:
    soon, late = {"window": 200, "delay": ("spread", 67)}, {"window": 2000, "delay": ("spread", 667)}
    tired: Any = partial(World, arms=10, slots=5000, chances=between(0.2, 0.2), weary=("most", 50))
    fading: Any = partial(tired, chances=between(0.1, 0.3), weary=("fading", 200))
    all_losses = "10 arms, the most shown of 50 gets none, all losses at delay 50"
    return [
        tired("10 items, the most shown of 50 gets none, W 200", **soon),
        tired("10 items, the most shown of 50 gets none, W 2,000", **late),
        fading("10 items, rates fade as shown, W 200", **soon),
        fading("10 items, rates fade as shown, W 2,000", **late),
        tired(all_losses, chances=between(0.5, 0.5), delay=("constant", 50)),
    ]


def _stalls() -> list[World]:
    low = partial(World, arms=10, slots=8000, chances=gap(0.02, 0.01))
    return [
        World("5 arms, gap .1, T 2,000, paper's delays", 5, 2000, gap(0.55, 0.45), ("paper", 0)),
        World("2 arms, .06 and .05, paper's delays", 2, 8000, gap(0.06, 0.05), ("paper", 0)),
        low("10 arms, .02 and .01, delay 100", delay=("constant", 100)),
        low("10 items, 2 % and 1 %, W 1,000, mean W/10", delay=("spread", 100), window=1000),
    ]


def _beside_libraries() -> list[World]:
    """Return short worlds: some of the libraries need a millisecond for each event."""
    short = partial(World, arms=10, slots=3000, few=True)
    moved = switching(gap(0.6, 0.3), 1000)
    return [
        short("10 items, 20 % and 10 %, W 500, T 3,000", chances=gap(0.2, 0.1), delay=("spread", 50), window=500),
        short("10 arms, gap .2, delay 50, T 3,000", chances=gap(0.6, 0.4), delay=("constant", 50)),
        short("10 arms, .6 and .3, moved every 1,000, T 3,000", chances=moved, delay=("constant", 50)),
    ]


def shortened(world: World, slots: int) -> World | None:
    """Return a world of at most so many slots, its changes moved along; None where its window is too long."""
    if slots >= world.slots:
        return world
    if world.window is not None and slots < 2 * world.window:
        return None
    moved = {max(1, slot * slots // world.slots): change for slot, change in world.changes.items()}
    return replace(world, slots=slots, changes=moved)
