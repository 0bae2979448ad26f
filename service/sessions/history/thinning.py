"""Which samples of a history stay: the older they are, the fewer.

A sample's place is the number of its five seconds since 1970. The latest ``PER_LEVEL`` places are level 0. Each
further level has places four times as wide, reaches four times as far back, and keeps the last sample of each.
"""

from __future__ import annotations

from collections.abc import Iterable

PERIOD_SECONDS = 5.0
"""Width of a place, and the time between two samples of a session."""
GROWTH = 4
PER_LEVEL = 36
LEVELS = 11
"""The last of them reaches back six years."""
MAX_SAMPLES = PER_LEVEL + (LEVELS - 1) * (PER_LEVEL - PER_LEVEL // GROWTH + 2)
"""What is left of any history, at most."""


def place_of(at: float) -> int:
    """Return the place of a sample taken at a time, in Unix seconds."""
    return int(at // PERIOD_SECONDS)


def dropped(places: Iterable[int], now: int) -> set[int]:
    """Return which of these places are to be dropped.

    Parameters
    ----------
    places : of a history's samples, in any order
    now : the present place
    """
    kept: dict[tuple[int, int], int] = {}
    everything = set(places)
    for place in sorted(everything):
        level = _level(now - place)
        if level < LEVELS:
            kept[level, place // GROWTH**level] = place
    return everything - set(kept.values())


def _level(age: int) -> int:
    """Return the finest level that reaches back to an age, in places."""
    level = 0
    while level < LEVELS and age >= PER_LEVEL * GROWTH**level:
        level += 1
    return level
