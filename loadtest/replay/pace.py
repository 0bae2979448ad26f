"""When slots are meant to begin: as soon as possible, or at a fixed rate whatever the service does."""

from __future__ import annotations

import time
from array import array
from collections.abc import Callable

from service.learners.base import FloatArray


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
        self._meant = self._start_of(t, now, self._first)
        if self._meant > now:
            self._sleep(self._meant - now)

    def _start_of(self, t: int, now: float, first: float) -> float:
        return now if self._interval is None else first + (t - 1) * self._interval

    def end(self) -> None:
        """Note that the slot has ended."""
        self.seconds.append(self._clock() - self._meant)


class ArrivalPace(Pace):
    """Starts each slot when its visitor arrives.

    Parameters
    ----------
    arrivals : when each slot is meant to start, in the clock's seconds, shape (slots,)
    """

    def __init__(
        self,
        arrivals: FloatArray,
        clock: Callable[[], float] = time.perf_counter,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        super().__init__(None, clock, sleep)
        self._arrivals = arrivals

    def _start_of(self, t: int, now: float, first: float) -> float:  # noqa: ARG002 - arrivals are absolute
        return float(self._arrivals[t - 1])
