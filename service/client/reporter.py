"""Reports sent in batches, until they are acknowledged, by a thread that lives while some wait."""

from __future__ import annotations

import atexit
import logging
import os
import threading
import time
import uuid
import weakref
from dataclasses import replace

from .attempts import backoff, is_passing
from .connection import Connection
from .errors import ApiError, BadAnswerError, BanditsError, ClosedError, QueueFullError
from .report_queue import Batch, Event, Lane, OnError, ReportCounts, ReportError, ReportRules
from .steps import slots

_log = logging.getLogger("delayed_bandits.client")
_TOO_LARGE = 413


class Reporter:
    """Takes reports at once and sends them later.

    Parameters
    ----------
    connection : by which the reports are sent; blocking, as a thread sends them
    rules : when reports are sent, how many in one call, and how many may wait
    on_error : is called with reports that are dropped, from any thread; by default they are logged

    Attributes
    ----------
    words : by which field events of known sessions say their outcome, for voids
    """

    def __init__(self, connection: Connection, rules: ReportRules, on_error: OnError | None) -> None:
        self.words: dict[str, str] = {}
        self._connection, self._rules = connection, rules
        self._on_error = on_error or _logged
        self.reset()
        _open.add(self)

    def reset(self) -> None:
        """Begin anew, as the child of a fork has to: what waits is its parent's."""
        self._changed = threading.Condition()
        self._lanes: dict[str, Lane] = {}
        self._counts = ReportCounts()
        self._thread: threading.Thread | None = None
        self._closed_at: float | None = None

    def put(self, session_id: str, event: Event | None) -> bool:
        """Take a report, and return whether it will be sent.

        Parameters
        ----------
        session_id : of the session
        event : as ``event_of`` returns it; None for that of a fallback, which is counted and not sent

        Raises
        ------
        ValueError, TypeError
            for what JSON has no form for, such as NaN.
        """
        with self._changed:
            if event is None:
                self._counts.fallbacks += 1
                return False
            refusal = self._refusal()
            if refusal is None:
                self._add(session_id, event)
                return True
        self._drop(session_id, [event], refusal)
        return False

    def _refusal(self) -> BanditsError | None:
        if self._closed_at is not None:
            return ClosedError("this client has been closed")
        if self._counts.waiting >= self._rules.max_waiting:
            return QueueFullError(
                f"{self._counts.waiting} reports wait: the service does not take them fast enough"
            )
        return None

    def _add(self, session_id: str, event: Event) -> None:
        lane = self._lanes.get(session_id) or Lane(session_id, self._rules)
        due = lane.put({"event_id": uuid.uuid4().hex, **event}, time.monotonic())
        self._lanes[session_id] = lane
        self._counts.waiting += 1
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="delayed-bandits-reports", daemon=True)
            self._thread.start()
        elif due:
            self._changed.notify_all()

    def counts(self) -> ReportCounts:
        """Return what became of the reports so far."""
        with self._changed:
            return replace(self._counts)

    def flush(self, timeout: float | None = None) -> bool:
        """Send what waits now, and return whether all of it was answered in time.

        Parameters
        ----------
        timeout : seconds; None waits without end
        """
        with self._changed:
            asked = [(lane, lane.added) for lane in self._lanes.values()]
            for lane, _ in asked:
                lane.hurry()
            self._changed.notify_all()
            return self._changed.wait_for(lambda: all(lane.done >= added for lane, added in asked), timeout)

    def close(self, timeout: float | None = None) -> None:
        """Send what waits; drop what is not answered within ``timeout`` seconds, and take nothing more.

        Parameters
        ----------
        timeout : None for ``close_timeout`` of the rules
        """
        seconds = self._rules.close_timeout if timeout is None else timeout
        with self._changed:
            self._closed_at = time.monotonic() + seconds
        self.flush(seconds)
        with self._changed:
            left = {lane.session_id: lane.left() for lane in self._lanes.values()}
            self._counts.waiting -= sum(map(len, left.values()))
            self._lanes = {}
            self._changed.notify_all()
        for session_id, events in left.items():
            self._drop(session_id, events, ClosedError(f"not acknowledged within {seconds:g} s of closing"))

    def _run(self) -> None:
        while (lane := self._next()) is not None:
            self._send(lane)

    def _next(self) -> Lane | None:
        """Wait for a session whose next call is due; None once nothing waits, which ends the thread."""
        with self._changed:
            while self._lanes:
                lane = min(self._lanes.values(), key=lambda each: each.due_at)
                wait = lane.due_at - time.monotonic()
                if wait <= 0:
                    return lane
                self._changed.wait(wait)
            self._thread = None
            return None

    def _send(self, lane: Lane) -> None:
        with self._changed:
            batch, seconds = lane.head(), self._rules.call_timeout
            if self._closed_at is not None:
                seconds = min(seconds, self._closed_at - time.monotonic())
        options: slots.FeedbackOptions = {"on_surplus": "skip", "timeout": seconds}
        steps = slots.feedbacks(lane.session_id, batch.events, self.words, options, batch.key)
        try:
            settled = self._connection.run(steps)
        except Exception as error:
            self._failed(lane, batch, error if isinstance(error, BanditsError) else BanditsError(repr(error)))
            return
        with self._changed:
            self._counts.add(settled)
            self._end(lane)

    def _failed(self, lane: Lane, batch: Batch, error: BanditsError) -> None:
        now, count = time.monotonic(), len(batch.events)
        if batch.failing_since is None:
            batch.failing_since = now
        if _comes_back(error) and now - batch.failing_since < self._rules.give_up_after:
            with self._changed:
                lane.failures += 1
                wait = max(backoff(lane.failures), error.retry_after if isinstance(error, ApiError) else 0.0)
                lane.due_at = now + wait
            return
        wrong = set(_wrong(error, count))
        if not wrong and count > 1 and isinstance(error, ApiError) and error.status in _OF_THE_BATCH:
            self._end(lane, batch.events[: count // 2], batch.events[count // 2 :])
            return
        wrong = wrong or set(range(count))
        self._drop(lane.session_id, [batch.events[index] for index in sorted(wrong)], error)
        self._end(lane, [event for index, event in enumerate(batch.events) if index not in wrong])

    def _end(self, lane: Lane, *rest: list[Event]) -> None:
        with self._changed:
            if self._lanes.get(lane.session_id) is not lane:
                return
            self._counts.waiting -= lane.finish(time.monotonic(), *rest)
            if lane.is_empty():
                del self._lanes[lane.session_id]
            self._changed.notify_all()

    def _drop(self, session_id: str, events: list[Event], error: BanditsError) -> None:
        if not events:
            return
        with self._changed:
            self._counts.dropped += len(events)
        try:
            self._on_error(ReportError(session_id, events, error))
        except Exception:
            _log.exception("on_error failed")


def _comes_back(error: BanditsError) -> bool:
    return is_passing(error) or isinstance(error, BadAnswerError)


def _wrong(error: BanditsError, count: int) -> list[int]:
    """Return the positions of the events that a batch was refused for."""
    return [index for index in error.indexes if index < count] if isinstance(error, ApiError) else []


def _logged(dropped: ReportError) -> None:
    _log.error("session %s: %d reports dropped: %s", dropped.session_id, len(dropped.events), dropped.error)


_OF_THE_BATCH = frozenset({_TOO_LARGE, 422})
"""Statuses after which smaller batches may do."""
_open: weakref.WeakSet[Reporter] = weakref.WeakSet()


def _close_all() -> None:
    for reporter in list(_open):
        reporter.close()


def _after_fork() -> None:
    for reporter in list(_open):
        reporter.reset()


atexit.register(_close_all)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
