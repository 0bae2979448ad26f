"""The loop over slots: act, look at p_t, count the regret, deliver what is due at the slot's end."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from loadtest.errors import LoadTestError
from loadtest.replay.driver import Counts, Driver, Event
from loadtest.replay.pace import Pace
from loadtest.replay.plan import Player, World
from service.learners.base import FloatArray, IntArray


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
            return [*found, *self._unaccounted(self.counts)]
        if not self.unanswered and self.counts.outstanding != len(self.pending):
            found.append(f"{self.counts.outstanding} decisions outstanding, {len(self.pending)} events pending")
        return found

    @staticmethod
    def _unaccounted(counts: Counts) -> list[str]:
        accounted = counts.feedbacks + counts.expired + counts.outstanding
        return (
            [] if accounted == counts.slot else [f"{counts.slot} acts, {accounted} settled, expired or outstanding"]
        )


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
        self._player: Player = world.player()
        self._slots = world.slots
        self._delays = delays
        self._driver = driver
        self._due: dict[int, list[Event]] = {}
        self._hash = hashlib.sha256()
        self._record = Record(np.empty(self._slots), np.empty(self._slots))

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
        record = self._record
        start = time.perf_counter()
        try:
            self._play(stopped, advance)
            if drain:
                self._drain(stopped)
        except LoadTestError as error:
            record.error = error
        record.seconds = time.perf_counter() - start
        return self._finished()

    def _play(self, stopped: Callable[[], bool], advance: Callable[[int], None]) -> None:
        for t in range(1, self._slots + 1):
            if stopped():
                self._record.interrupted = True
                return
            self.pace.begin(t)
            self._slot(t)
            self._deliver(self._arrived(t))
            self.pace.end()
            advance(t)

    def _slot(self, t: int) -> None:
        action = self._driver.act()
        if action.slot != t:
            raise LoadTestError(f"expected slot {t}, got slot {action.slot}: someone else acts in this session")
        outcome = self._player.play(action, self._driver.look(t))
        event = Event(t, outcome.arm, outcome.posted)
        self._schedule(event)
        self._record.losses[t - 1], self._record.expected[t - 1] = outcome.loss, outcome.expected
        self._record.arms.append(outcome.arm)
        self._record.played = t
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

    def _finished(self) -> Record:
        record = self._record
        record.losses, record.expected = record.losses[: record.played], record.expected[: record.played]
        record.pending = self._left()
        record.digest = self._hash.hexdigest()
        try:
            record.counts = self._driver.counts()
        except LoadTestError as error:
            record.error = record.error or error
        return record
