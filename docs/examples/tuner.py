"""Tune two weights of a ranking, of which only the outcome can be measured, with DBGD.

Each slot names a point and, for each dimension, a query point near it. The loss at all of them is reported later,
in one bundle that names neither slot nor point.
"""

from __future__ import annotations

import os
from collections import deque

from delayed_bandits import Bandits

BEST = (0.6, 0.2)
DELAY = 5
"""Slots until the outcome of one is known."""


def loss(weights: list[float]) -> float:
    """Stand for an experiment: how many visitors leave with these weights."""
    return sum((weight - best) ** 2 for weight, best in zip(weights, BEST, strict=True))


def main() -> None:
    """Tune for 200 slots."""
    with Bandits(os.environ.get("DELAYED_BANDITS_URL", "http://127.0.0.1:8000"), timeout=30) as bandits:
        box = {"kind": "box", "lower": [0.0, 0.0], "upper": [1.0, 1.0]}
        tuner = bandits.sessions.ensure(
            "ranking-weights", learner={"kind": "dbgd", "dim": 2, "feasible_set": box}, seed=1
        )
        running: deque[list[float]] = deque()
        for _ in range(200):
            action = tuner.act()
            running.append([loss(point) for point in [action.x, *action.query_points]])
            if len(running) > DELAY:
                tuner.feedback(losses=running.popleft())
        found = [round(weight, 2) for weight in tuner.view().x]
    print(f"weights {found}, loss {loss(found):.3f}")


if __name__ == "__main__":
    main()
