"""A worker's estimate of the store's clock."""

from __future__ import annotations

import time
from collections.abc import Callable


class StoreClock:
    """The monotonic clock of this process plus an offset that each reply of the store updates.

    Until the first reply the offset is that of this machine's wall clock.

    Parameters
    ----------
    monotonic : returns seconds since any moment
    wall : returns Unix seconds
    """

    def __init__(
        self, monotonic: Callable[[], float] = time.monotonic, wall: Callable[[], float] = time.time
    ) -> None:
        self._monotonic = monotonic
        self._offset = wall() - monotonic()
        self._latest = float("-inf")

    def observe(self, seconds: float) -> None:
        """Set the clock to the time in a reply, in Unix seconds."""
        self._offset = seconds - self._monotonic()

    def estimate(self) -> float:
        """Return Unix seconds by the store's clock; they decrease if that clock was set back."""
        return self._monotonic() + self._offset

    def now(self) -> float:
        """Return Unix seconds by the store's clock, but never less than returned before."""
        self._latest = max(self._latest, self.estimate())
        return self._latest
