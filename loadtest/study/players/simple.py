"""Uniform play, Thompson sampling, and DEXP3 at its anytime rates, in many runs."""

from __future__ import annotations

from typing import Any

import numpy as np

from loadtest.study.players.player import Mask, Player, Turn
from service.learners.base import FloatArray, IntArray, draw
from service.learners.dexp3 import ANYTIME_SCALE, MAX_EXPONENT
from service.learners.maths import add_arms, remove_arms


def uniform_over(shape: tuple[int, int], eligible: Mask | None) -> FloatArray:
    """Return uniform play over the eligible arms, shape (runs, arms)."""
    if eligible is None:
        return np.full(shape, 1 / shape[1])
    shares: FloatArray = eligible / eligible.sum(axis=1, keepdims=True)
    return shares


class Uniform(Player):
    """Uniform play, which learns nothing."""

    def __init__(self, runs: int, arms: int) -> None:
        super().__init__(None)
        self._shape = runs, arms

    def act(self, turn: Turn) -> tuple[FloatArray, IntArray]:
        p = uniform_over(self._shape, turn.eligible)
        return p, draw(p, turn.u)

    def settle(self, runs: IntArray, arms: IntArray, losses: FloatArray, slots: IntArray) -> None:
        """Learn nothing."""

    def add_arms(self, count: int) -> None:
        self._shape = self._shape[0], self._shape[1] + count

    def remove_arms(self, positions: IntArray) -> None:
        self._shape = self._shape[0], self._shape[1] - len(positions)


class Thompson(Player):
    """Thompson sampling with Beta(1, 1) before the first event; a loss between 0 and 1 counts as a share of one.

    Parameters
    ----------
    provisional : whether the default loss is learned at the act and replaced by what comes within the window
    seed : of the samples
    """

    def __init__(
        self, runs: int, arms: int, default: float | None, *, provisional: bool = False, seed: int = 0
    ) -> None:
        super().__init__(default)
        self._provisional = provisional
        self._counts = np.ones((2, runs, arms))
        self._random = np.random.default_rng([seed, 7])
        self._all = np.arange(runs)

    def act(self, turn: Turn) -> tuple[FloatArray, IntArray]:
        sampled = self._random.beta(self._counts[0], self._counts[1])
        if turn.eligible is not None:
            sampled = np.where(turn.eligible, sampled, -1.0)
        arms = sampled.argmax(axis=1)
        p = np.zeros(sampled.shape)
        p[self._all, arms] = 1.0
        if self._provisional and self.default is not None:
            self._learn(self._all, arms, self.default, 1.0)
        return p, arms

    def settle(self, runs: IntArray, arms: IntArray, losses: FloatArray, slots: IntArray) -> None:  # noqa: ARG002 - slots unknown
        if self._provisional and self.default is not None:
            self._learn(runs, arms, self.default, -1.0)
        self._learn(runs, arms, losses, 1.0)

    def expire(self, runs: IntArray, arms: IntArray, slots: IntArray) -> None:
        if not self._provisional:
            super().expire(runs, arms, slots)

    def _learn(self, runs: IntArray, arms: IntArray, losses: Any, weight: float) -> None:
        self._counts[0, runs, arms] += weight * (1 - losses)
        self._counts[1, runs, arms] += weight * losses

    def add_arms(self, count: int) -> None:
        fresh = np.ones((*self._counts.shape[:2], count))
        self._counts = np.concatenate([self._counts, fresh], axis=2)

    def remove_arms(self, positions: IntArray) -> None:
        self._counts = np.delete(self._counts, positions, axis=2)


class AnytimeDexp3(Player):
    """DEXP3 at its anytime rates, with a sum of delays for each run."""

    def __init__(self, runs: int, arms: int, default: float | None) -> None:
        super().__init__(default)
        self._p = np.full((runs, arms), 1 / arms)
        self._t, self._delay_sum = 0, np.zeros(runs)

    def act(self, turn: Turn) -> tuple[FloatArray, IntArray]:
        arms = self._p.shape[1]
        self._t += 1
        self._delay_sum += turn.outstanding
        self._floor = np.minimum(1 / (self._t + self._delay_sum), 0.25)
        self._rate = ANYTIME_SCALE * np.sqrt((1 + np.log(arms)) / (arms * self._t + self._delay_sum))
        self._clip = 4 * (0.5 - self._floor) / self._rate
        self._open = self._p.copy()
        return self._open, draw(self._open, turn.u)

    def settle(self, runs: IntArray, arms: IntArray, losses: FloatArray, slots: IntArray) -> None:  # noqa: ARG002 - slots unknown
        estimate = np.minimum(self._clip[runs], losses / self._open[runs, arms])
        w = self._p[runs]
        w[np.arange(len(runs)), arms] *= np.exp(-np.minimum(self._rate[runs] * estimate, MAX_EXPONENT))
        w /= w.sum(axis=1, keepdims=True)
        w = np.maximum(w, (self._floor[runs] / w.shape[1])[:, None])
        self._p[runs] = w / w.sum(axis=1, keepdims=True)

    def add_arms(self, count: int) -> None:
        self._p, self._open = add_arms(self._p, count), add_arms(self._open, count)

    def remove_arms(self, positions: IntArray) -> None:
        floor = float(self._floor.max())
        self._p, self._open = (remove_arms(part, positions, floor) for part in (self._p, self._open))
