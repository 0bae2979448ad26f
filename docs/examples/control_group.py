"""Keep a control group beside a learner, and say how much the learner is better, with an interval.

One visitor in five is shown an item by chance: a session of the learner ``fixed``, with the same counts and means.
"""

from __future__ import annotations

import math
import os
import random

from delayed_bandits import Bandits
from delayed_bandits.client import SessionView

RATES = {"hat": 0.05, "scarf": 0.06, "shoes": 0.15}
WINDOW = {"after_seconds": 1800, "default_reward": 0}


def spread(view: SessionView) -> float:
    """Return the variance of the mean of a session's clicks."""
    mean, count = float(view["mean_reward"]), view.feedbacks
    return mean * (1 - mean) / max(count, 1)


def main() -> None:
    """Let 4,000 visitors come."""
    visitors = random.Random(1)  # noqa: S311 - a simulation
    with Bandits(os.environ.get("DELAYED_BANDITS_URL", "http://127.0.0.1:8000"), timeout=30) as bandits:
        kinds = {"learner": "multiscale_tsallis", "control": "fixed"}
        groups = {
            name: bandits.sessions.ensure(
                f"campaign-{name}", learner={"kind": kind, "arms": list(RATES)}, reward_range=[0, 1], seed=1
            )
            for name, kind in kinds.items()
        }
        for _ in range(100):
            for name, count in {"learner": 32, "control": 8}.items():
                actions = groups[name].acts(count)
                groups[name].feedbacks(
                    [
                        {"label": each.label, "reward": int(visitors.random() < RATES[str(each.label)])}
                        for each in actions
                    ]
                )
        learner, control = (groups[name].view() for name in kinds)
    gain = learner["mean_reward"] - control["mean_reward"]
    half = 1.96 * math.sqrt(spread(learner) + spread(control))
    print(f"clicks: {learner['mean_reward']:.3f} learned, {control['mean_reward']:.3f} by chance")
    print(f"gain {gain:.3f}, between {gain - half:.3f} and {gain + half:.3f} (95 %)")


if __name__ == "__main__":
    main()
