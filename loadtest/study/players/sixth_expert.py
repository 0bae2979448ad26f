"""The sixth expert that may be mixed into ``multiscale_tsallis``: measured, not part of the service."""

from __future__ import annotations

import numpy as np

from loadtest.study.players.player import Mask
from service.learners.base import FloatArray, IntArray
from service.learners.multiscale_tsallis import FLOOR_SHARE


class ByArm:
    """The sixth expert: x_k = exp(-N_k kl(r_k, max r)), r the mean reward of an arm on the range of losses seen."""

    def __init__(self, runs: int, arms: int) -> None:
        self.count, self.total = np.zeros((2, runs, arms))
        self.low, self.high = np.full(runs, np.inf), np.full(runs, -np.inf)

    def learn(self, runs: IntArray, arms: IntArray, losses: FloatArray, count: int = 1) -> None:
        """Count losses; with ``count`` 0 they correct the total alone."""
        self.count[runs, arms] += count
        self.total[runs, arms] += losses

    def seen(self, runs: IntArray, losses: FloatArray) -> None:
        """Widen the range."""
        self.low[runs] = np.minimum(self.low[runs], losses)
        self.high[runs] = np.maximum(self.high[runs], losses)

    def distribution(self, t: int, eligible: Mask | None) -> FloatArray:
        """Return the expert's distribution, shape (runs, arms)."""
        width = np.where(self.high > self.low, self.high - self.low, 1.0)[:, None]
        low = np.where(np.isfinite(self.low), self.low, 0.0)[:, None]
        known = self.count > 0
        mean = np.where(known, self.total / np.maximum(self.count, 1), low)
        reward = np.clip(1 - (mean - low) / width, 0.0, 1.0)
        best = np.where(known, reward, 0.0).max(axis=1, keepdims=True)
        floor = FLOOR_SHARE / np.sqrt(t) / self.count.shape[1]
        x = np.maximum(np.exp(-self.count * _kl(reward, best)), floor)
        x = np.where(known, x, 1.0)
        x = x if eligible is None else np.where(eligible, x, 0.0)
        shares: FloatArray = x / x.sum(axis=1, keepdims=True)
        return shares

    def change(self, removed: IntArray | None, added: int) -> None:
        """Remove and add arms."""
        for name in ("count", "total"):
            part = getattr(self, name)
            part = part if removed is None else np.delete(part, removed, axis=1)
            setattr(self, name, np.concatenate([part, np.zeros((len(part), added))], axis=1))


def _kl(one: FloatArray, other: FloatArray) -> FloatArray:
    """Return the Kullback-Leibler divergence between Bernoulli distributions of these means."""
    tiny = 1e-12
    clipped = np.clip(other, tiny, 1 - tiny)
    first = one * np.log(np.maximum(one, tiny) / clipped)
    second = (1 - one) * np.log(np.maximum(1 - one, tiny) / (1 - clipped))
    divergence: FloatArray = np.maximum(first + second, 0.0)
    return divergence
