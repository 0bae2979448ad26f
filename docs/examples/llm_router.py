"""Choose a language model for each request, by the rating of its answers less their price.

The rating of an answer comes minutes later, or never. A model that is down is left out by ``exclude``, and a
decision whose answer reached no user is cancelled with ``void``.
"""

from __future__ import annotations

import os
import random
from dataclasses import dataclass

from delayed_bandits import Bandits
from delayed_bandits.client import Action

LOWEST, HIGHEST = -0.3, 1.0
"""Of a reward: an answer that helped is worth 1, and the dearest one costs 0.3."""


@dataclass
class Model:
    """A model that stands for one of a provider."""

    helps: float
    cost: float


MODELS = {"large": Model(0.8, 0.3), "medium": Model(0.75, 0.05), "small": Model(0.4, 0.01)}


def main() -> None:
    """Answer 600 requests; "small" is down for a while."""
    visitors = random.Random(1)  # noqa: S311 - a simulation
    with Bandits(os.environ.get("DELAYED_BANDITS_URL", "http://127.0.0.1:8000"), timeout=30) as bandits:
        router = bandits.sessions.ensure(
            "llm-router",
            learner={"kind": "multiscale_tsallis", "arms": list(MODELS)},
            reward_range=[LOWEST, HIGHEST],
            expiry={"after_seconds": 3600, "default_reward": 0},
            seed=1,
        )
        waiting: list[tuple[Action, float]] = []
        for request in range(600):
            down = ["small"] if 200 <= request < 250 else None
            action = router.act(exclude=down, fallback="medium")
            model = MODELS[str(action.label)]
            if visitors.random() < 0.01:
                router.void(action)  # the provider failed: nobody saw an answer
            else:
                waiting.append((action, float(visitors.random() < model.helps) - model.cost))
            if len(waiting) >= 50:  # ratings come late
                for rated, reward in waiting:
                    router.report(rated, reward=reward)
                waiting.clear()
                bandits.flush()
        arms = {arm["label"]: arm["probability"] for arm in router.arms()}
    print("most requests go to", max(arms, key=lambda name: arms[name]))


if __name__ == "__main__":
    main()
