"""How often the intervals of ``evaluate`` hold: simulated logs of late clicks, mostly without slots."""

from __future__ import annotations

import heapq
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import product
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np

from service.evaluation.command import arm_means, policies
from service.evaluation.delays import Floats
from service.evaluation.logs import match

RATES = (0.02, 0.04, 0.05, 0.08, 0.15)
ACTS = 4_000
"""A second apart."""
RARE = 10
"""Arms with fewer events are told apart."""


class World(NamedTuple):
    """How clicks come."""

    window: float
    """Seconds."""
    delay: float
    """Mean delay of a click, in seconds."""
    drift: float = 0.0
    """By which share of themselves rates rise and fall."""
    is_lognormal: bool = False
    """Whether delays are lognormal, with a deviation of the logarithm of 1, and not exponential."""
    tokens: float = 0.0
    """Share of the clicks that come by token, and so name their slot."""
    control: float = 0.0
    """Share of the acts in a control group, which draws uniformly."""
    said: float | None = None
    """Share of the clicks that say features, if rates are turned round for every other visitor; None: for none."""


WORLDS = {
    "long window": World(2000, 400),
    "short window": World(500, 20),
    "rates drift by half": World(2000, 400, drift=0.5),
    "lognormal delays": World(2000, 400, is_lognormal=True),
    "half by token": World(2000, 400, tokens=0.5),
    "control group": World(2000, 400, control=0.2),
    "features said": World(2000, 400, said=1.0),
}
WHAT = ("uniform", "best arm alone", "other arms alone", "mean of best arm", "means of other arms")
Entry = dict[str, Any]


def played(world: World, seed: int) -> tuple[list[Entry], Floats]:
    """Play a log with a policy that adapts to the clicks of its own group, by visitors of a kind.

    Returns
    -------
    its entries, the last one an expiry behind all windows; and the chance of a click within the window, shape
    (acts, arms)
    """
    rng = np.random.default_rng(seed)
    rates = rng.permutation(RATES)
    draws, hits, tokens, groups = rng.random((4, ACTS)).tolist()
    logarithm = math.log(world.delay) - 0.5
    drawn = rng.lognormal(logarithm, 1.0, ACTS) if world.is_lognormal else rng.exponential(world.delay, ACTS)
    moved = 1 + world.drift * np.sin(2 * np.pi * np.arange(ACTS) / ACTS)
    kinds = rng.integers(2, size=ACTS) if world.said is not None else np.zeros(ACTS, np.int64)
    chances = np.stack([rates, rates[::-1]])[kinds] * moved[:, None]
    until = ACTS + world.window * (1 + 1 / 64)
    expiry = {"after_seconds": world.window, "default_reward": 0}
    log: list[Entry] = [{"kind": "session", "expiry": expiry, "reward_range": [0, 1], "at": 0.0}]
    sums, counts, waiting = (
        np.ones((2, 5)).tolist(),
        np.full((2, 5), 20.0).tolist(),
        list[tuple[float, int, Entry]](),
    )

    def click(_: float, of: int, entry: Entry) -> None:
        log.append(entry)
        sums[kinds[of]][entry["arm"]] += entry.get("group") != "control"

    for t, (draw, delay, kind) in enumerate(zip(draws, drawn.tolist(), kinds.tolist(), strict=True)):
        while waiting and waiting[0][0] <= t:
            click(*heapq.heappop(waiting))
        means = [total / count for total, count in zip(sums[kind], counts[kind], strict=True)]
        soft = [math.exp(40 * (mean - max(means))) for mean in means]
        is_control = groups[t] < world.control
        p = [0.2] * 5 if is_control else [0.8 * each / sum(soft) + 0.04 for each in soft]
        arm = min(int(np.searchsorted(np.cumsum(p), draw, side="right")), 4)
        counts[kind][arm] += not is_control
        columns = {} if world.said is None else {"encoded": [1.0, 2.0 * kind - 1]}
        group = {"group": "control"} if is_control else {}
        log.append({"kind": "act", "slot": t + 1, "arm": arm, "probability": p[arm], "eligible": 5, "at": float(t)})
        log[-1] |= group | columns
        if hits[t] < chances[t, arm] and delay < world.window:
            named = (
                {"slot": t + 1} if tokens[t] < world.tokens else columns if tokens[t] < (world.said or 0) else {}
            )
            what = {"kind": "event", "arm": arm, "reward": 1.0, "outcome": "applied", "at": t + delay}
            heapq.heappush(waiting, (t + delay, t, what | named | group))
    while waiting:
        click(*heapq.heappop(waiting))
    log.append({"kind": "event", "arm": 0, "reward": 0.0, "outcome": "expired", "until": ACTS, "at": until})
    ratio = math.log(world.window) - logarithm
    within = NormalDist().cdf(ratio) if world.is_lognormal else 1 - math.exp(-world.window / world.delay)
    return log, chances * within


def hits_of(log: Sequence[Entry], chances: Floats) -> Iterator[tuple[str, bool, bool]]:
    """Yield for each estimate of a log what it is of, if its arm is a rare one, and if its interval holds."""
    outcomes = match(entry | {"position": number} for number, entry in enumerate(log, 1))
    events = Counter(entry["arm"] for entry in log if entry.get("outcome") == "applied")
    arms = np.array([entry["arm"] for entry in log if entry["kind"] == "act"])
    for kind, found in enumerate((policies(outcomes, 0.95), arm_means(outcomes, 0.95))):
        for each in found:
            arm = None if each.name == "uniform" else int(each.name[-1])
            place = 0 if arm is None else (1 if arm == chances.mean(axis=0).argmax() else 2) + 2 * kind
            # An arm's mean is over its own acts, and a policy's value over all.
            right = (chances if arm is None else chances[arms == arm if kind else ..., arm]).mean()
            if (interval := each.dr or each.ips) is not None:
                holds = bool(interval.low <= right <= interval.high)
                yield WHAT[place], arm is not None and events[arm] < RARE, holds


def counted(job: tuple[str, int]) -> Counter[tuple[str, bool, str, bool]]:
    """Count the intervals of one log, run out and cut at its last act, by whether they hold."""
    log, chances = played(WORLDS[job[0]], job[1])
    last = max(place for place, entry in enumerate(log) if entry["kind"] == "act")
    found = Counter[tuple[str, bool, str, bool]]()
    for is_cut, entries in ((False, log), (True, log[: last + 1])):
        for what, is_rare, holds in hits_of(entries, chances):
            found[job[0], is_cut, "arms with few events" if is_rare else what, holds] += 1
    return found


def table_rows(total: Counter[tuple[str, bool, str, bool]]) -> Iterator[Sequence[str]]:
    """Yield for each world, run out and cut, the share of intervals that hold."""
    for name, is_cut in product(WORLDS, (False, True)):
        cells = [(total[name, is_cut, what, True], total[name, is_cut, what, False]) for what in HEAD[1:]]
        if any(map(sum, cells)):
            shares = (f"{held / (held + lost):.3f}" if held + lost else "" for held, lost in cells)
            yield f"{name}, {'cut' if is_cut else 'run out'}", *shares


HEAD = ("log", *WHAT, "arms with few events")
