"""Bandits of libraries that a user could install instead (extra ``peers``), one policy for each run.

They get what the service gets: the arm of a loss, when it comes; of clicks also the missing ones, at the window's
end. Vowpal Wabbit wants the probability of the decision too; it gets that of the arm's oldest open one.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from loadtest.study.players import Player, Turn
from service.learners.base import FloatArray, IntArray


class Policy(Protocol):
    """One run of a library's bandit."""

    def choose(self, u: float) -> int:
        """Return an arm; ``u`` is a uniform number for those that leave the draw to the caller."""

    def learn(self, arm: int, reward: float) -> None:
        """Learn a reward."""


class River:
    """A policy of river."""

    def __init__(self, policy: Any, arms: int) -> None:
        self._policy, self._arms = policy, list(range(arms))

    def choose(self, u: float) -> int:  # noqa: ARG002 - it draws by itself
        return int(self._policy.pull(self._arms))

    def learn(self, arm: int, reward: float) -> None:
        self._policy.update(arm, reward)


def river_thompson(arms: int, seed: int) -> Policy:
    """Thompson sampling with a Beta distribution of each arm."""
    from river import bandit, proba  # an extra, and slow to load

    return River(bandit.ThompsonSampling(reward_obj=proba.Beta(seed=seed), seed=seed), arms)


def river_ucb(arms: int, seed: int) -> Policy:
    """UCB1: delta 1 gives its bonus."""
    from river import bandit  # an extra, and slow to load

    return River(bandit.UCB(delta=1, seed=seed), arms)


def river_greedy(arms: int, seed: int) -> Policy:
    """Greedy play with a tenth of the draws uniform."""
    from river import bandit  # an extra, and slow to load

    return River(bandit.EpsilonGreedy(epsilon=0.1, seed=seed), arms)


class MabWiser:
    """Thompson sampling of MABWiser; uniform until it has been fitted with the first reward."""

    def __init__(self, arms: int, seed: int) -> None:
        from mabwiser.mab import MAB, LearningPolicy  # an extra, and slow to load

        self._model = MAB(list(range(arms)), LearningPolicy.ThompsonSampling(), seed=seed)
        self._arms, self._fitted = arms, False

    def choose(self, u: float) -> int:
        return int(self._model.predict()) if self._fitted else int(u * self._arms)

    def learn(self, arm: int, reward: float) -> None:
        (self._model.partial_fit if self._fitted else self._model.fit)([arm], [int(reward)])
        self._fitted = True


class Vowpal:
    """``--cb_explore`` of Vowpal Wabbit with a constant feature."""

    def __init__(self, arms: int, seed: int) -> None:
        from vowpalwabbit import Workspace  # an extra

        self._model = Workspace(f"--cb_explore {arms} --epsilon 0.1 --quiet --random_seed {seed}")
        self._open: defaultdict[int, deque[float]] = defaultdict(deque)

    def choose(self, u: float) -> int:
        p = np.array(self._model.predict("| all"))
        arm = min(int(np.searchsorted(np.cumsum(p), u * p.sum(), side="right")), len(p) - 1)
        self._open[arm].append(float(p[arm]))
        return arm

    def learn(self, arm: int, reward: float) -> None:
        probability = self._open[arm].popleft()
        self._model.learn(f"{arm + 1}:{1 - reward}:{probability} | all")


class PeerPlayer(Player):
    """A policy for each run.

    Parameters
    ----------
    make : makes a policy for a number of arms and a seed
    seeds : of the runs
    """

    def __init__(
        self, make: Callable[[int, int], Policy], arms: int, seeds: tuple[int, ...], default: float | None
    ) -> None:
        super().__init__(default)
        self._arms, self._policies = arms, [make(arms, seed) for seed in seeds]

    def act(self, turn: Turn) -> tuple[FloatArray, IntArray]:
        choices = zip(self._policies, turn.u.tolist(), strict=True)
        arms = np.array([policy.choose(u) for policy, u in choices])
        return np.eye(self._arms)[arms], arms

    def settle(self, runs: IntArray, arms: IntArray, losses: FloatArray, slots: IntArray) -> None:  # noqa: ARG002
        for run, arm, loss in zip(runs.tolist(), arms.tolist(), losses.tolist(), strict=True):
            self._policies[run].learn(arm, 1 - loss)
