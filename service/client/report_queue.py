"""Reports that wait, session by session in their order, and the batches that are made of them. Has no lock."""

from __future__ import annotations

import uuid
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from .answers import Settlement
from .calls import encode
from .errors import BanditsError

Event: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True)
class ReportRules:
    """How reports are gathered and sent.

    Attributes
    ----------
    interval : seconds that a report waits for others
    max_batch, max_batch_bytes : events of one call, and their JSON
    max_waiting : reports that may wait; more are dropped
    call_timeout : seconds for one call
    give_up_after : seconds of failed calls, beyond which a batch is dropped; less than the service remembers ids
    close_timeout : seconds that ``close`` waits for what is left
    """

    interval: float = 0.5
    max_batch: int = 500
    max_batch_bytes: int = 1_000_000
    max_waiting: int = 10_000
    call_timeout: float = 10.0
    give_up_after: float = 3600.0
    close_timeout: float = 10.0


@dataclass(frozen=True)
class ReportError:
    """Reports that were dropped, and why; what ``on_error`` is called with."""

    session_id: str
    events: Sequence[Event]
    error: BanditsError


@dataclass
class ReportCounts:
    """What became of reports, in numbers of events.

    Attributes
    ----------
    waiting : not answered so far
    applied, duplicates, surplus, removed, voided : as the service settled them
    dropped : refused by the service, or given up; ``on_error`` was called with each
    fallbacks : of actions that the service did not choose; nobody needs them
    """

    waiting: int = 0
    applied: int = 0
    duplicates: int = 0
    surplus: int = 0
    removed: int = 0
    voided: int = 0
    dropped: int = 0
    fallbacks: int = 0

    def add(self, settled: Settlement) -> None:
        """Count what one call settled."""
        for name in ("applied", "duplicates", "surplus", "removed", "voided"):
            setattr(self, name, getattr(self, name) + getattr(settled, name))


OnError: TypeAlias = Callable[[ReportError], None]


@dataclass
class Batch:
    """Events of one call; what is sent again is sent with the same key and the same ids.

    Attributes
    ----------
    failing_since : when its first call failed
    """

    events: list[Event]
    key: str = field(default_factory=lambda: uuid.uuid4().hex)
    failing_since: float | None = None


class Lane:
    """The reports of one session.

    Parameters
    ----------
    session_id : of the session
    rules : when reports are sent, and how many in one call

    Attributes
    ----------
    due_at : when the next call may be made
    added, done : reports so far
    failures : of calls in a row
    """

    def __init__(self, session_id: str, rules: ReportRules) -> None:
        self.session_id = session_id
        self.due_at = 0.0
        self.added = self.done = self.failures = self._hurried = 0
        self._rules = rules
        self._waiting: deque[tuple[Event, int]] = deque()
        self._batches: deque[Batch] = deque()

    def put(self, event: Event, now: float) -> bool:
        """Add a report, and return whether the next call became due earlier by it.

        Parameters
        ----------
        event : the report, with an event id
        now : seconds of the monotonic clock

        Raises
        ------
        ValueError, TypeError
            for what JSON has no form for, such as NaN.
        """
        first = self.is_empty()
        self._waiting.append((event, len(encode(event))))
        self.added += 1
        full = not self.failures and len(self._waiting) >= self._rules.max_batch
        if first or full:
            self.due_at = now if full else now + self._rules.interval
        return first or full

    def hurry(self) -> None:
        """Make the reports so far due."""
        self.due_at, self._hurried = 0.0, self.added

    def is_empty(self) -> bool:
        """Return whether all is done."""
        return not self._waiting and not self._batches

    def head(self) -> Batch:
        """Return the batch to send; the same until it is done."""
        if not self._batches:
            self._batches.append(Batch(self._cut()))
        return self._batches[0]

    def _cut(self) -> list[Event]:
        events: list[Event] = []
        room = self._rules.max_batch_bytes
        while self._waiting and len(events) < self._rules.max_batch and (not events or self._waiting[0][1] <= room):
            event, size = self._waiting.popleft()
            events.append(event)
            room -= size + 1
        return events

    def finish(self, now: float, *rest: Sequence[Event]) -> int:
        """End the first batch, but for these of its events, which go on as batches.

        Parameters
        ----------
        now : seconds of the monotonic clock
        rest : events of one new batch each; empty ones make none

        Returns
        -------
        How many of its events are done.
        """
        self.failures = 0
        done = len(self._batches.popleft().events) - sum(map(len, rest))
        self._batches.extendleft(Batch(list(events)) for events in reversed(rest) if events)
        self.done += done
        is_due = self._batches or self.done < self._hurried or len(self._waiting) >= self._rules.max_batch
        self.due_at = now if is_due else now + self._rules.interval
        return done

    def left(self) -> list[Event]:
        """Return all events that are not done."""
        return [event for batch in self._batches for event in batch.events] + [event for event, _ in self._waiting]
