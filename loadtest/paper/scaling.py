"""How regret at the theorem's rates grows: with the horizon, and with the delays."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from loadtest.paper.experiments import (
    POINT_ENTRIES,
    Entry,
    expected_losses,
    figure_text,
    play_world,
    standard_error,
)
from loadtest.replay.session import RateChoice, plan_session
from loadtest.replay.worlds import ArmWorld, IsotropicWorld, PointWorld, bco_synthetic, mab_synthetic
from loadtest.terminal import on_all_cores

HORIZONS = (4000, 8000, 16_000, 32_000, 64_000, 128_000)
"""Shorter ones end before the learner at its small rates has left uniform play."""
FIXED_HORIZON = 64_000
DELAYS = {"dexp3": (1, 2, 4, 8, 16), "dbgd": (4, 8, 16, 32, 64, 128)}
"""Longer ones bring DEXP3's small rates down to uniform play; shorter ones cost DBGD next to nothing."""
FIXED_DELAY = 3
CHANGE_AT = 4
"""The synthetic losses change after a quarter of the horizon, as in the paper."""
SEEDS = 10
SHUFFLE_SEED = 0
ORDERS = 50


class Point(NamedTuple):
    """One learner at one horizon under one constant delay."""

    study: str
    """What is varied: ``horizon`` or ``delay``."""
    kind: str
    slots: int
    delay: int
    seeds: int

    @property
    def complexity(self) -> int:
        """What the theorem's bound is the root of, but for n_arms or dim: d-bar (T + D), and T + D for points."""
        total = self.slots + self.delay * self.slots
        return total * self.delay if self.kind == "dexp3" else total


def points(seeds: int) -> list[Point]:
    """Both studies for both of the paper's learners; longest first."""
    studies = [
        Point(study, kind, slots, delay, seeds if kind == "dexp3" else 1)
        for kind in ("dexp3", "dbgd")
        for study, slots, delay in (
            *(("horizon", slots, FIXED_DELAY) for slots in HORIZONS),
            *(("delay", FIXED_HORIZON, delay) for delay in DELAYS[kind]),
        )
    ]
    return sorted(studies, key=lambda point: -point.slots)


def total_regret(point: Point) -> tuple[float, float]:
    """Reg_T and its standard error."""
    world: ArmWorld | PointWorld
    if point.kind == "dexp3":
        world = mab_synthetic(point.slots, point.slots // CHANGE_AT)
    else:
        world = shuffled(bco_synthetic(point.slots))
    delays = np.minimum(point.delay, np.arange(point.slots - 1, -1, -1))
    fields = {"horizon": point.slots, "max_delay": point.delay, "total_delay": int(delays.sum())}
    spec = plan_session(world, point.kind, RateChoice.AUTO, 0, fields).spec
    expected = expected_losses(world, spec, delays, range(point.seeds))
    regret = (expected - world.best_fixed().losses[:, None]).sum(axis=0)
    return float(regret.mean()), float(standard_error(regret))


def shuffled(world: IsotropicWorld, seed: int = SHUFFLE_SEED) -> IsotropicWorld:
    """Return the same losses in random order: without it delay meets the losses' own period."""
    order = np.random.default_rng(seed).permutation(world.slots)
    return IsotropicWorld(f"{world.name}_shuffled", world.vectors[order], world.numbers[order])


def shuffled_regret(entry: Entry) -> dict[str, float]:
    """Reg_T / T on the paper's synthetic losses of points in random order: mean and standard error over orders."""
    world = bco_synthetic()
    runs = np.array([play_world(shuffled(world, seed), entry, (seed,))[-1, 0] for seed in range(ORDERS)])
    return {"mean": float(runs.mean()), "stderr": float(standard_error(runs))}


def slopes(found: dict[Point, tuple[float, float]]) -> dict[str, dict[str, Any]]:
    """``{kind}_{study}`` to the points and the slope of log Reg_T against log of the varied quantity."""
    studies: dict[str, dict[str, Any]] = {}
    for name in sorted({f"{point.kind}_{point.study}" for point in found}):
        chosen = sorted(point for point in found if f"{point.kind}_{point.study}" == name)
        varied = [point.slots if point.study == "horizon" else point.complexity for point in chosen]
        regret = [found[point][0] for point in chosen]
        slope, last = (_slope(varied[start:], regret[start:]) for start in (0, -2))
        label = "T" if chosen[0].study == "horizon" else "d-bar (T+D)" if chosen[0].kind == "dexp3" else "T+D"
        studies[name] = {"against": label, "x": varied, "regret": regret}
        studies[name] |= {"stderr": [found[point][1] for point in chosen], "slope": slope, "last_slope": last}
    return studies


def _slope(x: list[int], y: list[float]) -> float:
    return float(np.polyfit(np.log(x), np.log(y), 1)[0])


def measure() -> tuple[dict[str, dict[str, Any]], dict[str, dict[str, float]]]:
    """Return the slopes of all studies, and the regret of points in random order."""
    asked = points(SEEDS)
    regret = on_all_cores("scaling", total_regret, asked)
    order = on_all_cores("random order", shuffled_regret, POINT_ENTRIES)
    random_order = dict(zip((entry.key for entry in POINT_ENTRIES), order, strict=True))
    return slopes(dict(zip(asked, regret, strict=True))), random_order


def tables(
    studies: Mapping[str, Mapping[str, Any]], random_order: Mapping[str, Mapping[str, float]]
) -> Iterator[Any]:
    """Yield title, head and rows of what was measured."""
    rows = [(name, of["against"], f"{of['slope']:.2f}", f"{of['last_slope']:.2f}") for name, of in studies.items()]
    yield "Growth of Reg_T", ("learner, varied", "against", "slope", "slope at the end"), rows
    figures = [(key, figure_text(found)) for key, found in random_order.items()]
    yield "Synthetic losses of points in random order", ("learner", "Reg_T / T"), figures
