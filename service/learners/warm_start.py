"""What a learner knows before its first slot: means of arms, from acts somewhere else."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np


class InitialArm(NamedTuple):
    """An arm by its position, how often it was played, and its mean loss in [0, 1]."""

    position: int
    acts: int
    mean: float


class WarmStart(NamedTuple):
    """Counts of the learners that centre losses, as after that many events."""

    events: int
    """N, also the slots."""
    mean: float
    """b, of all events."""
    variance_sum: float
    """V = N b (1 - b)."""
    variance_max: float
    """M = max(b, 1 - b)^2."""
    deviation_sum: float
    """A = 2 N b (1 - b)."""
    advantages: Any
    """(m_k - b) n_k/(n_k + N/K), shape (n_arms,), 0 for arms not named."""

    @classmethod
    def of(cls, arms: Sequence[InitialArm], n_arms: int) -> WarmStart:
        """Count the acts of some arms.

        Parameters
        ----------
        arms : one or more, each once
        n_arms : K, the arms in all
        """
        events = sum(arm.acts for arm in arms)
        mean = sum(arm.acts * arm.mean for arm in arms) / events
        advantages = np.zeros(n_arms)
        for arm in arms:
            advantages[arm.position] = (arm.mean - mean) * arm.acts / (arm.acts + events / n_arms)
        variance = events * mean * (1 - mean)
        return cls(events, mean, variance, max(mean, 1 - mean) ** 2, 2 * variance, advantages)

    def sums(self, memory: Any) -> Any:
        """Return S of a learner that remembers ``memory`` slots (a number, or shape (..., 1)), less its least."""
        sums = np.minimum(self.events, memory) * self.advantages
        return sums - sums.min(axis=-1, keepdims=True)
