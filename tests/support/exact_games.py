"""Small games in all their K^T courses at once, so that expectations are exact."""

import itertools
from typing import NamedTuple

import numpy as np
import pytest

from service.learners.base import FloatArray, IntArray

ROUNDING = 1e-12
HUNDREDS = [3, pytest.param(200, marks=pytest.mark.slow)]


class Game(NamedTuple):
    """Losses, shape (T, K), and for each slot the slots whose events arrive in it, in order."""

    losses: FloatArray
    arriving: list[list[int]]

    @property
    def delays(self) -> list[int]:
        return [u - s for u, slots in sorted(enumerate(self.arriving)) for s in slots]

    @property
    def max_delay(self) -> int:
        return max(1, *self.delays)


def game(seed: int) -> Game:
    """K 2-3, T 4-8; delays at random, in one burst, or in reversed order; all events arrive by the last slot."""
    rng = np.random.default_rng(seed)
    k = int(rng.integers(2, 4))
    t = int(rng.integers(4, 9 if k == 2 else 7))
    delays = [
        rng.integers(0, t, t),
        np.full(t, 2),
        np.where(np.arange(t) < t // 2, t // 2 - np.arange(t), 0),
        np.maximum(t - 2 - 2 * np.arange(t), 0),
    ][seed % 4]
    arriving: list[list[int]] = [[] for _ in range(t)]
    for s in range(t):
        arriving[min(t - 1, s + int(delays[s]))].append(s)
    for slots in arriving:
        rng.shuffle(slots)
    losses = rng.random((t, k)) if seed % 3 else rng.integers(0, 2, (t, k)).astype(float)
    return Game(losses, arriving)


def actions(played: Game) -> IntArray:
    t, k = played.losses.shape
    return np.array(list(itertools.product(range(k), repeat=t)))


def expected(chance: FloatArray, values: FloatArray) -> float:
    return float((chance * values).sum())
