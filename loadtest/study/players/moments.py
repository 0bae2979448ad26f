"""Counts and moments of the losses of each run."""

from __future__ import annotations

import numpy as np

from service.learners.base import FloatArray, IntArray


class Moments:
    """Counts and moments of the losses of each run, shape (runs,)."""

    def __init__(self, runs: int) -> None:
        self.events = np.zeros(runs, dtype=np.int64)
        self.mean, self.square_sum, self.square_max, self.size_sum, self.delay_sum = np.zeros((5, runs))

    def open(self, outstanding: IntArray) -> None:
        """Open a slot."""
        self.delay_sum += outstanding
        self.known, self.shift = self.events > 0, self.mean.copy()

    def squares(self, t: int) -> tuple[FloatArray, FloatArray]:
        """Return (V + M)/(n + 1) where an event came, and max(t, n)."""
        return (self.square_sum + self.square_max) / (self.events + 1), np.maximum(t, self.events).astype(float)

    def delayed(self) -> FloatArray:
        """Return D (A/n)^2."""
        term: FloatArray = self.delay_sum * (self.size_sum / np.maximum(self.events, 1)) ** 2
        return term

    def learn(self, runs: IntArray, losses: FloatArray) -> None:
        """Count losses."""
        deviation = np.where(self.known[runs], losses - self.shift[runs], 0.0)
        self.square_sum[runs] += deviation**2
        self.size_sum[runs] += abs(deviation)
        self.square_max[runs] = np.maximum(self.square_max[runs], deviation**2)
        self.events[runs] += 1
        self.mean[runs] += (losses - self.mean[runs]) / self.events[runs]

    def correct(self, runs: IntArray, losses: FloatArray, default: float) -> None:
        """Put losses in the place of the default."""
        known = self.known[runs]
        deviation = np.where(known, losses - self.shift[runs], 0.0)
        before = np.where(known, default - self.shift[runs], 0.0)
        self.square_sum[runs] = np.maximum(self.square_sum[runs] + deviation**2 - before**2, 0.0)
        self.size_sum[runs] = np.maximum(self.size_sum[runs] + abs(deviation) - abs(before), 0.0)
        self.square_max[runs] = np.maximum(self.square_max[runs], deviation**2)
        self.mean[runs] += (losses - default) / self.events[runs]
