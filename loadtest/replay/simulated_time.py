"""Time as an input: replays in process are told what time it is."""

from __future__ import annotations

from service.engine.expiry import expire_oldest
from service.engine.run import Run


class SimulatedTime:
    """A clock that moves when somebody sleeps on it."""

    def __init__(self, start: float = 0.0) -> None:
        self._now = start

    def now(self) -> float:
        """Seconds."""
        return self._now

    def sleep(self, seconds: float) -> None:
        """Let time pass."""
        self._now += seconds


def pass_time(run: Run, now: float) -> None:
    """Let a run's time pass and settle what has become due."""
    run.advance(now)
    while run.due:
        for _ in expire_oldest(run):
            pass
