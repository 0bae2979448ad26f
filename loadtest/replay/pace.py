"""When slots are meant to begin: as soon as possible, or at a fixed rate whatever the service does."""

from __future__ import annotations

import time
from array import array
from collections.abc import Callable


class Pace:
    """Starts slots and times them from when they were meant to start.

    At a fixed rate a slot that could not start in time has waited, and the wait counts: a service that
    stalls for two seconds delays every slot meant for these two seconds, and the percentiles show it.

    Parameters
    ----------
    slots_per_second : None starts a slot as soon as the one before has ended
    """

    def __init__(
        self,
        slots_per_second: float | None = None,
        clock: Callable[[], float] = time.perf_counter,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.seconds: array[float] = array("d")
        """Of each slot, from when it was meant to start to the answer of its last call."""
        self._interval = None if slots_per_second is None else 1 / slots_per_second
        self._clock = clock
        self._sleep = sleep
        self._first: float | None = None
        self._meant = 0.0

    def begin(self, t: int) -> None:
        """Return when slot ``t`` may start."""
        now = self._clock()
        if self._first is None:
            self._first = now
        self._meant = now if self._interval is None else self._first + (t - 1) * self._interval
        if self._meant > now:
            self._sleep(self._meant - now)

    def end(self) -> None:
        """The slot has ended."""
        self.seconds.append(self._clock() - self._meant)
