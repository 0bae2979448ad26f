"""Open decisions of each arm in many runs, and when those without an event expire."""

from __future__ import annotations

import numpy as np

from service.learners.base import IntArray


class OpenDecisions:
    """Counts of open decisions.

    Parameters
    ----------
    runs, arms : how many runs, and arms there ever are
    windows : each window, and the runs that have it; empty where nothing expires
    """

    def __init__(self, runs: int, arms: int, windows: list[tuple[int, IntArray]]) -> None:
        self.by_arm = np.zeros((runs, arms), dtype=np.int64)
        self._recent = np.zeros((runs, arms), dtype=np.int64)
        self._windows, self._all = windows, np.arange(runs)
        self._acts: dict[int, list[tuple[IntArray, IntArray]]] = {}
        self.total = np.zeros(runs, dtype=np.int64)

    def act(self, t: int, arms: IntArray) -> None:
        """Open a decision in every run."""
        self.by_arm[self._all, arms] += 1
        self.total += 1
        if self._windows:
            self._recent[self._all, arms] += 1
        for window, runs in self._windows:
            self._acts.setdefault(t + window, []).append((runs, arms[runs]))

    def close(self, runs: IntArray, arms: IntArray) -> None:
        """Close a decision of these arms."""
        self.by_arm[runs, arms] -= 1
        self.total[runs] -= 1

    def expired(self, t: int) -> list[tuple[IntArray, IntArray]]:
        """Close the decisions whose window ends after slot ``t``: of each arm its oldest ones."""
        ended = []
        for acted, shown in self._acts.pop(t, ()):
            self._recent[acted, shown] -= 1
            is_over = self.by_arm[acted, shown] > np.maximum(self._recent[acted, shown], 0)
            runs, arms = acted[is_over], shown[is_over]
            if len(runs):
                self.close(runs, arms)
                ended.append((runs, arms))
        return ended

    def drop(self, arm: int) -> None:
        """Close all decisions of an arm that is removed."""
        self.total -= self.by_arm[:, arm]
        self.by_arm[:, arm] = 0
        self._recent[:, arm] = 0
