"""The worlds of the study, by group."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from loadtest.replay.click_worlds import CLICK_ABOVE
from loadtest.replay.jester import BEST, WORST, read_jester
from loadtest.study.streams import beta, between, day_and_night, drifting, gap, growing, switching, table
from loadtest.study.worlds import World

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
        groups[FULL].append(
            World(
                "Jester, ratings",
                JOKES,
                8000,
                table((ratings - WORST) / (BEST - WORST)),
                ("paper", 0),
                visitors=True,
                ratings=True,
            )
        )
        clicks = (ratings > CLICK_ABOVE).astype(float)
        groups[CLICKS].append(
            World("Jester, clicks", JOKES, 8000, table(clicks), ("spread", 300), window=1000, visitors=True)
        )
    return groups


def _full() -> list[World]:
    ten = World("10 arms, gap .2, delay 50", 10, 8000, gap(0.6, 0.4), ("constant", 50))
    return [
        World("2 arms, gap .1, paper's delays", 2, 8000, gap(0.55, 0.45), ("paper", 0)),
        World("10 arms, gap .01, paper's delays", 10, 8000, gap(0.51, 0.5), ("paper", 0)),
        ten,
        replace(
            ten, name="10 arms, gap .1, geometric delays, mean 100", chances=gap(0.5, 0.4), delay=("spread", 100)
        ),
        replace(ten, name="10 arms, gap .1, Pareto delays, median 20", chances=gap(0.5, 0.4), delay=("pareto", 20)),
        replace(ten, name="50 arms, gap .2, delay 500", arms=50, delay=("constant", 500)),
        replace(
            ten, name="1,000 arms, 0 to .8, delay 50", arms=1000, slots=4000, chances=between(0.0, 0.8), few=True
        ),
        replace(ten, name="10 arms, gap .2, 20 % lost", lost=0.2),
        replace(ten, name="10 arms, gap .2, 10 % doubled", doubled=0.1),
        replace(ten, name="10 arms, gap .2, in bursts of 500", delay=("burst", 500)),
    ]


def _clicks() -> list[World]:
    ten = World("10 items, Beta(5, 20), W 200, mean W/3", 10, 8000, beta(5, 20), ("spread", 67), window=200)
    thousand: dict[str, Any] = {"window": 1000, "delay": ("spread", 333)}
    two_thousand = replace(ten, window=2000, delay=("spread", 200))
    return [
        ten,
        replace(two_thousand, name="10 items, 1 % and .5 %, W 2,000, mean W/10", chances=gap(0.01, 0.005)),
        replace(two_thousand, name="10 items, 10 % and 5 %, W 2,000, mean W/10", chances=gap(0.1, 0.05)),
        replace(ten, name="2 items, 6 % and 5 %, W 1,000, mean W/3", arms=2, chances=gap(0.06, 0.05), **thousand),
        replace(ten, name="50 items, Beta(2, 30), W 1,000, mean W/3", arms=50, chances=beta(2, 30), **thousand),
        replace(
            ten,
            name="1,000 items, Beta(2, 30), W 1,000",
            arms=1000,
            slots=4000,
            chances=beta(2, 30),
            few=True,
            **thousand,
        ),
        replace(
            ten,
            name="10 items, Beta(2, 30), W 10,000, mean W/3",
            slots=20_000,
            chances=beta(2, 30),
            window=10_000,
            delay=("spread", 3333),
        ),
        replace(two_thousand, name="10 items, Beta(5, 20), W 2,000, Pareto", delay=("pareto", 40)),
        replace(two_thousand, name="10 items, Beta(2, 30), W 2,000, 10 % lost", chances=beta(2, 30), lost=0.1),
        replace(two_thousand, name="10 items, Beta(5, 20), W 2,000, 10 % doubled", doubled=0.1),
        replace(two_thousand, name="10 items, Beta(5, 20), W 2,000, in bursts of 500", delay=("burst", 500)),
        replace(ten, name="10 items, Beta(5, 20), W 200, all at .9 W", delay=("constant", 180)),
        replace(
            two_thousand,
            name="10 items, Beta(2, 30), W 2,000, all at .9 W",
            chances=beta(2, 30),
            delay=("constant", 1800),
        ),
        replace(
            two_thousand,
            name="10 items, 85 to 95 %, W 500, mean W/3",
            chances=between(0.85, 0.95),
            window=500,
            delay=("spread", 167),
        ),
        replace(
            two_thousand,
            name="20 items, 70 % barred, W 500, mean W/3",
            arms=20,
            chances=between(0.02, 0.2),
            window=500,
            delay=("spread", 167),
            barred=True,
        ),
        replace(
            two_thousand,
            name="20 items, slates of 4, W 500, mean W/3",
            arms=20,
            slots=3000,
            chances=between(0.02, 0.2),
            window=500,
            delay=("spread", 167),
            places=4,
        ),
    ]


def _changes() -> list[World]:
    ten = World("10 arms, .6 and .4, moved every 2,000", 10, 8000, switching(gap(0.6, 0.4), 2000), ("constant", 50))
    clicks = World(
        "10 items, 15 % and 5 %, moved every 4,000, W 1,000",
        10,
        8000,
        switching(gap(0.15, 0.05), 4000),
        ("spread", 333),
        window=1000,
    )
    coming = {2000: (None, 2), 3000: (0, 0), 4000: (None, 2), 5000: (1, 0)}
    return [
        ten,
        replace(ten, name="10 arms, .6 and .4, growing blocks", chances=growing(gap(0.6, 0.4), 500)),
        replace(ten, name="10 arms, drifting, delay 50", chances=drifting(0.3, 0.7, 4000)),
        replace(ten, name="10 arms, day and night, delay 50", chances=day_and_night(between(0.2, 0.9), 2400)),
        replace(ten, name="10 arms, 4 join, 2 leave, delay 50", chances=between(0.3, 0.7), changes=coming),
        clicks,
        replace(
            clicks,
            name="10 items, 5 to 25 %, day and night, W 1,000",
            chances=day_and_night(between(0.05, 0.25), 2400),
        ),
        replace(clicks, name="10 items, drifting, W 1,000", chances=drifting(0.05, 0.25, 4000)),
        replace(
            clicks,
            name="10 items, 4 join, 2 leave, W 1,000",
            chances=between(0.05, 0.25),
            changes=coming,
        ),
    ]


def _weary() -> list[World]:
    tired = World(
        "10 items, the most shown of 50 gets none, W 200",
        10,
        5000,
        between(0.2, 0.2),
        ("spread", 67),
        window=200,
        weary=("most", 50),
    )
    return [
        tired,
        replace(
            tired, name="10 items, the most shown of 50 gets none, W 2,000", window=2000, delay=("spread", 667)
        ),
        replace(
            tired,
            name="10 items, rates fade as shown, W 200",
            chances=between(0.1, 0.3),
            weary=("fading", 200),
        ),
        replace(
            tired,
            name="10 items, rates fade as shown, W 2,000",
            chances=between(0.1, 0.3),
            window=2000,
            delay=("spread", 667),
            weary=("fading", 200),
        ),
        replace(
            tired,
            name="10 arms, the most shown of 50 gets none, all losses at delay 50",
            chances=between(0.5, 0.5),
            window=None,
            delay=("constant", 50),
        ),
    ]


def _stalls() -> list[World]:
    low = World("10 arms, .02 and .01, delay 100", 10, 8000, gap(0.02, 0.01), ("constant", 100))
    return [
        World("5 arms, gap .1, T 2,000, paper's delays", 5, 2000, gap(0.55, 0.45), ("paper", 0)),
        World("2 arms, .06 and .05, paper's delays", 2, 8000, gap(0.06, 0.05), ("paper", 0)),
        low,
        replace(low, name="10 items, 2 % and 1 %, W 1,000, mean W/10", delay=("spread", 100), window=1000),
    ]


def _beside_libraries() -> list[World]:
    """Return short worlds: some of the libraries need a millisecond for each event."""
    clicks = World("10 items, 20 % and 10 %, W 500, T 3,000", 10, 3000, gap(0.2, 0.1), ("spread", 50), window=500)
    moved = switching(gap(0.6, 0.3), 1000)
    return [
        replace(clicks, few=True),
        World("10 arms, gap .2, delay 50, T 3,000", 10, 3000, gap(0.6, 0.4), ("constant", 50), few=True),
        World("10 arms, .6 and .3, moved every 1,000, T 3,000", 10, 3000, moved, ("constant", 50), few=True),
    ]


def check_names(groups: dict[str, list[World]]) -> None:
    """Raise ValueError where two worlds share a name, which names their results."""
    names = [world.name for group in groups.values() for world in group]
    if len(set(names)) != len(names):
        raise ValueError("two worlds share a name")


def shortened(world: World, slots: int) -> World | None:
    """Return a world of at most so many slots, its changes moved along; None where its window is too long."""
    if slots >= world.slots:
        return world
    if world.window is not None and slots < 2 * world.window:
        return None
    moved = {max(1, slot * slots // world.slots): change for slot, change in world.changes.items()}
    return replace(world, slots=slots, changes=moved)
