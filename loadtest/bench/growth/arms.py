"""How one act and one event grow with the number of arms."""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median

import numpy as np

from loadtest.bench.growth.rows import MILLISECONDS, Row, sizes_to
from loadtest.bench.growth.scene import Scene
from loadtest.bench.growth.session import Session

FIRST = 10
PASSES = 100


def grow_arms(scene: Scene, advance: Callable[[], object]) -> list[Row]:
    """Return the rows of arms."""
    most, sessions = scene.options.arms, {}
    for size in sizes_to(most, min(FIRST, most)):
        sessions[size] = Session(scene, f"arms-{size}", {"learner": {"kind": "dexp3", "n_arms": size}})
        sessions[size].act()
        advance()
    acted = scene.in_turn({size: session.act for size, session in sessions.items()})
    settled = scene.in_turn({size: session.settle for size, session in sessions.items()})
    return [Row("one act", "arms", MILLISECONDS, acted), Row("one event", "arms", MILLISECONDS, settled)]


def pass_milliseconds(n_arms: int) -> float:
    """Return the median time of numpy's cumulative sum of so many weights."""
    weights, taken = np.random.default_rng(1).random(n_arms), []
    for _ in range(PASSES):
        started = time.perf_counter()
        np.cumsum(weights)
        taken.append(1000 * (time.perf_counter() - started))
    return median(taken)
