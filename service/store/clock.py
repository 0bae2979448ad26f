"""The store's clock as a worker knows it."""

from __future__ import annotations

import time
from collections.abc import Callable


class StoreClock:
    """The monotonic clock of this process plus an offset that each reply of the store refreshes.

    Until the first reply the offset is a guess from this machine's own wall clock.

    Parameters
    ----------
    monotonic, wall : clocks in seconds
    """

    def __init__(
        self, monotonic: Callable[[], float] = time.monotonic, wall: Callable[[], float] = time.time
    ) -> None:
        self._monotonic = monotonic
        self._offset = wall() - monotonic()
        self._latest = float("-inf")

    def observe(self, seconds: float) -> None:
        """Take over the time that a reply brought."""
        self._offset = seconds - self._monotonic()

    def estimate(self) -> float:
        """Unix seconds by the store's clock; falls back where that clock was set back."""
        return self._monotonic() + self._offset

    def now(self) -> float:
        """The estimate, but never less than any value returned before."""
        self._latest = max(self._latest, self.estimate())
        return self._latest
