"""The loop over slots: act, look at p_t, count the regret, deliver what is due at the slot's end."""

from __future__ import annotations

import hashlib
import heapq
import time
from array import array
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from loadtest.errors import LoadTestError
from loadtest.replay.session import SLACK, ClickStream, Counts, Driver, Event, SimulatedTime
from loadtest.replay.worlds import NO_CLICK, ArmWorld, World
from service.learners.base import FloatArray, IntArray


class Pace:
    """Starts slots and times them from when they were meant to start.

    At a fixed rate a slot that could not start in time has waited, and the wait counts: a service that
    stalls for two seconds delays every slot meant for these two seconds, and the percentiles show it.

    Parameters
    ----------
    slots_per_second : None starts a slot as soon as the one before has ended
    arrivals : when each slot is meant to start instead, in the clock's seconds, shape (slots,)
    """

    def __init__(
        self,
        slots_per_second: float | None = None,
        clock: Callable[[], float] = time.perf_counter,
        sleep: Callable[[float], None] = time.sleep,
        arrivals: FloatArray | None = None,
    ) -> None:
        self.seconds: array[float] = array("d")
        """Of each slot, from when it was meant to start to the answer of its last call."""
        self._interval = None if slots_per_second is None else 1 / slots_per_second
        self._clock, self._sleep, self._arrivals = clock, sleep, arrivals
        self._first: float | None = None
        self._meant = 0.0

    def begin(self, t: int) -> None:
        """Return when slot ``t`` may start."""
        self._meant = now = self._clock()
        self._first = now if self._first is None else self._first
        if self._arrivals is not None:
            self._meant = float(self._arrivals[t - 1])
        elif self._interval is not None:
            self._meant = self._first + (t - 1) * self._interval
        if self._meant > now:
            self._sleep(self._meant - now)

    def end(self) -> None:
        """Note that the slot has ended."""
        self.seconds.append(self._clock() - self._meant)


@dataclass
class Record:
    """What happened in a replay, also in one that ended early."""

    losses: FloatArray
    """Realised losses of the slots played."""
    expected: FloatArray
    """p_t . l_t of the slots played."""
    arms: list[int | None] = field(default_factory=list)
    """Arms of the slots played; None for points."""
    played: int = 0
    sent: int = 0
    """Events that were handed to the driver."""
    acknowledged: int = 0
    duplicates: int = 0
    surplus: int = 0
    """Events that found no outstanding decision and were skipped."""
    pending: list[Event] = field(default_factory=list)
    """Events never sent, in the order of the slots at the end of which they are due."""
    unanswered: list[Event] = field(default_factory=list)
    """Events sent without an answer: they may or may not be in the state."""
    seconds: float = 0.0
    interrupted: bool = False
    error: LoadTestError | None = None
    counts: Counts | None = None
    """The session's own counts at the end; None where it couldn't be asked."""
    clicks_only: bool = False
    """Whether decisions end without an event, by expiry, too."""
    digest: str = ""
    """SHA-256 over all events in slot order: equal streams of events have equal digests."""

    def problems(self) -> list[str]:
        """Everything that keeps this run from counting."""
        found = [] if self.error is None else [f"ended early: {self.error}"]
        if self.counts is None:
            return [*found, "the session's counts are unknown"]
        if self.acknowledged != self.counts.feedbacks:
            found.append(f"{self.acknowledged} events acknowledged, {self.counts.feedbacks} settled")
        if self.clicks_only:
            accounted = self.counts.feedbacks + self.counts.expired + self.counts.outstanding
            if accounted != self.counts.slot:
                found.append(f"{self.counts.slot} acts, {accounted} settled, expired or outstanding")
        elif not self.unanswered and self.counts.outstanding != len(self.pending):
            found.append(f"{self.counts.outstanding} decisions outstanding, {len(self.pending)} events pending")
        return found


class Replay:
    """One session's replay.

    Parameters
    ----------
    world : played from its first slot
    delays : d_t of each slot, at least as many as are played
    driver : a session before its first slot
    pace : when slots start
    """

    def __init__(self, world: World, delays: IntArray, driver: Driver, pace: Pace | None = None) -> None:
        self.pace = pace or Pace()
        self._world, self._delays, self._driver = world, delays, driver
        self._due: dict[int, list[Event]] = {}
        self._hash = hashlib.sha256()
        self._record = Record(np.empty(self._world.slots), np.empty(self._world.slots))

    def run(
        self,
        *,
        drain: bool = True,
        stopped: Callable[[], bool] = lambda: False,
        advance: Callable[[int], None] = lambda _: None,
    ) -> Record:
        """Play all slots, or until ``stopped``; then send what is still due, or leave it pending.

        Failures end the replay and are found in the record, with everything counted until then.
        """
        record, start = self._record, time.perf_counter()
        try:
            for t in range(1, self._world.slots + 1):
                if stopped():
                    record.interrupted = True
                    break
                self.pace.begin(t)
                self._slot(t)
                self._deliver(self._arrived(t))
                self.pace.end()
                advance(t)
            if drain:
                self._drain(stopped)
        except LoadTestError as error:
            record.error = error
        record.seconds = time.perf_counter() - start
        record.losses, record.expected = record.losses[: record.played], record.expected[: record.played]
        record.pending, record.digest = self._left(), self._hash.hexdigest()
        try:
            record.counts = self._driver.counts()
        except LoadTestError as error:
            record.error = record.error or error
        return record

    def _slot(self, t: int) -> None:
        action = self._driver.act()
        if action.slot != t:
            raise LoadTestError(f"expected slot {t}, got slot {action.slot}: someone else acts in this session")
        outcome = self._world.play(action, self._driver.look(t))
        event = Event(t, outcome.arm, outcome.posted)
        self._schedule(event)
        record = self._record
        record.losses[t - 1], record.expected[t - 1] = outcome.loss, outcome.expected
        record.arms.append(outcome.arm)
        record.played = t
        posted = event.posted.tolist() if isinstance(event.posted, np.ndarray) else event.posted
        self._hash.update(f"{t},{event.arm},{posted!r}\n".encode())

    def _schedule(self, event: Event) -> None:
        self._due.setdefault(event.slot + int(self._delays[event.slot - 1]), []).append(event)

    def _arrived(self, t: int) -> list[Event]:
        return self._due.pop(t, [])

    def _drain(self, stopped: Callable[[], bool]) -> None:  # noqa: ARG002 - nothing is waited for here
        self._deliver([event for due in sorted(self._due) for event in self._due.pop(due)])

    def _left(self) -> list[Event]:
        return [event for due in sorted(self._due) for event in self._due[due]]

    def _deliver(self, events: list[Event]) -> None:
        if not events:
            return
        record = self._record
        record.sent += len(events)
        record.unanswered = events
        receipt = self._driver.deliver(events)
        record.unanswered = []
        record.acknowledged += receipt.acknowledged
        record.duplicates += receipt.duplicates
        record.surplus += receipt.surplus


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
        pace = Pace(stream.slots_per_second, self._now, self._sleep, arrivals)
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
