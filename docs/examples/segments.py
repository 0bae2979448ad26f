"""Show visitors from different places different items, without knowing which decision a click answers.

An act names the visitor's segment, and its event names the same. Segments learn from each other: a new one begins
with what is best for all.
"""

from __future__ import annotations

import os
import random

from delayed_bandits import Bandits

RATES = {"north": {"umbrella": 0.3, "sandals": 0.02}, "south": {"umbrella": 0.02, "sandals": 0.3}}


def main() -> None:
    """Let 2,400 visitors of two segments come."""
    visitors = random.Random(1)  # noqa: S311 - a simulation
    with Bandits(os.environ.get("DELAYED_BANDITS_URL", "http://127.0.0.1:8000"), timeout=30) as bandits:
        shop = bandits.sessions.ensure(
            "segments",
            learner={"kind": "multiscale_tsallis", "arms": ["umbrella", "sandals"]},
            segments={"max": 100},
            reward_range=[0, 1],
            seed=1,
        )
        for _ in range(60):
            for segment, rates in RATES.items():
                shop.feedbacks(
                    [
                        {
                            "label": each.label,
                            "segment": segment,
                            "reward": int(visitors.random() < rates[str(each.label)]),
                        }
                        for each in shop.acts(20, segment=segment)
                    ]
                )
        for segment in RATES:
            shares = shop.view(segment=segment).probabilities or []
            best, share = max(zip(["umbrella", "sandals"], shares, strict=True), key=lambda each: each[1])
            print(f"{segment}: {best} {'most of the time' if share > 0.7 else 'more often'}")


if __name__ == "__main__":
    main()
