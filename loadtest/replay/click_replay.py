"""A replay in which only clicks are posted, each when its time has come."""

from __future__ import annotations

import heapq
import time
from collections.abc import Callable

from loadtest.replay.arm_worlds import ArmWorld
from loadtest.replay.click_stream import SLACK, ClickStream
from loadtest.replay.click_worlds import NO_CLICK
from loadtest.replay.driver import Driver, Event
from loadtest.replay.pace import ArrivalPace, Pace
from loadtest.replay.replay import Replay
from loadtest.replay.simulated_time import SimulatedTime
from service.learners.base import FloatArray

SLICE = 0.2
"""Longest sleep in seconds, so that a signal is noticed."""


class ClickReplay(Replay):
    """One session's replay of clicks.

    Parameters
    ----------
    world : a world of clicks, played from its first slot
    stream : when impressions and clicks happen
    driver : a session before its first slot, with the stream's window
    clock : None for real time; a simulated one is the driver's too
    arrivals : when visitors come, in the clock's seconds, shape (slots,); None for the stream's interval
    """

    def __init__(
        self,
        world: ArmWorld,
        stream: ClickStream,
        driver: Driver,
        clock: SimulatedTime | None = None,
        arrivals: FloatArray | None = None,
    ) -> None:
        self._now: Callable[[], float] = time.monotonic if clock is None else clock.now
        self._sleep: Callable[[float], None] = time.sleep if clock is None else clock.sleep
        times = (self._now, self._sleep)
        pace = Pace(stream.slots_per_second, *times) if arrivals is None else ArrivalPace(arrivals, *times)
        super().__init__(world, stream.settled_after(world.slots), driver, pace)
        self._record.clicks_only = True
        self._seconds = stream.click_delays(world.slots)
        self._window = stream.after_seconds
        self._clicks: list[tuple[float, int, Event]] = []
        """By the time at which they happen."""

    def _schedule(self, event: Event) -> None:
        if event.posted != NO_CLICK:
            due = self._now() + float(self._seconds[event.slot - 1])
            heapq.heappush(self._clicks, (due, event.slot, event))

    def _arrived(self, t: int) -> list[Event]:  # noqa: ARG002 - clicks come by the clock
        return self._until(self._now())

    def _until(self, now: float) -> list[Event]:
        arrived = []
        while self._clicks and self._clicks[0][0] <= now:
            arrived.append(heapq.heappop(self._clicks)[2])
        return arrived

    def _drain(self, stopped: Callable[[], bool]) -> None:
        """Wait until the last impression has had its time, and post the clicks that come until then."""
        end = self._now() + SLACK * SLACK * self._window
        while self._clicks and self._clicks[0][0] <= end and not stopped():
            self._wait(self._clicks[0][0], stopped)
            self._deliver(self._until(self._now()))
        self._wait(end, stopped)

    def _wait(self, until: float, stopped: Callable[[], bool]) -> None:
        while (left := until - self._now()) > 0 and not stopped():
            self._sleep(min(left, SLICE))

    def _left(self) -> list[Event]:
        return [event for _, _, event in sorted(self._clicks)]
