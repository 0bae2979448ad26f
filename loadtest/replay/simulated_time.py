"""A simulated clock for replays in process."""

from __future__ import annotations

from service.engine.run import Run, expire_oldest


class SimulatedTime:
    """A clock that advances only by ``sleep``, in seconds."""

    def __init__(self, start: float = 0.0) -> None:
        self._now = start

    def now(self) -> float:
        """Return the time in seconds."""
        return self._now

    def sleep(self, seconds: float) -> None:
        """Advance the clock."""
        self._now += seconds


def pass_time(run: Run, now: float) -> None:
    """Advance a run to ``now``, in seconds, and settle the decisions that have expired."""
    run.advance(now)
    while run.due:
        for _ in expire_oldest(run):
            pass
