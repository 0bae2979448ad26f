"""Reports sent in batches, until they are acknowledged, by a thread that lives while some wait."""

import atexit
import inspect
import json
import logging
import math
import os
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable, Mapping, Sequence, Set
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from multiprocessing import util
from typing import Any, Protocol, TypeAlias

from . import calls as api
from .attempts import LONGEST, REPEATED, backoff
from .calls import UNKNOWN, ApiError, BanditsError, ClosedError, FeedbackOptions, Settlement, encode, kind_of
from .connection import OPEN

# -- What waits, session by session in its order, and the batches that are made of it. Has no lock.

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

    def __post_init__(self) -> None:
        """Refuse what no clock can wait for, and batches of nothing."""
        if wrong := [name for name, most in vars(self).items() if not (name == "max_batch") <= most <= LONGEST]:
            raise ValueError(f"{', '.join(wrong)}: give a number from 0 to {LONGEST:g}, or from 1 for max_batch")


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
    applied, duplicates, surplus, removed, voided, updated : as the service settled them
    dropped : refused by the service, or given up; ``on_error`` was called with each
    fallbacks : of actions that the service did not choose; nobody needs them
    """

    waiting: int = 0
    applied: int = 0
    duplicates: int = 0
    surplus: int = 0
    removed: int = 0
    voided: int = 0
    updated: int = 0
    dropped: int = 0
    fallbacks: int = 0


OnError: TypeAlias = Callable[[ReportError], None]


class ReportCalls(Protocol):
    """Sends events, and blocks until they are settled."""

    def settle(
        self, session_id: str, events: Sequence[Event], options: FeedbackOptions, key: str = ""
    ) -> Settlement:
        """Send events of a session with an Idempotency-Key."""

    def settle_many(self, events: Sequence[Event], options: FeedbackOptions) -> Settlement:
        """Send events of many sessions, all with ids."""


@dataclass
class Batch:
    """Events of one call; what is sent again is sent with the same key and the same ids.

    Attributes
    ----------
    size : bytes of their JSON
    failing_since : when its first call failed
    told : positions of those that ``on_error`` is called with
    """

    events: list[Event]
    key: str = field(default_factory=lambda: uuid.uuid4().hex)
    size: int = 0
    failing_since: float | None = None
    told: set[int] = field(default_factory=set)


class Lane:
    """The reports of one session.

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
        """Add a report with an event id, and return whether the next call became due earlier by it.

        Raises
        ------
        ValueError, TypeError
            for what JSON has no form for, such as NaN.
        """
        first, text = self.is_empty(), encode(event)
        self._waiting.append((json.loads(text), len(text)))  # As it is now: callers use their arrays again.
        self.added += 1
        full = not self.failures and len(self._waiting) >= self._rules.max_batch
        if first or full:
            self.due_at = now if full else now + self._rules.interval
        return first or full

    def hurry(self) -> None:
        """Make the reports so far due."""
        self.due_at, self._hurried = 0.0, self.added

    def back_off(self, least: float) -> None:
        """Let the next call wait, longer after each failure, and so many seconds at least."""
        self.failures += 1
        self.due_at = time.monotonic() + max(least, backoff(self.failures))

    def is_empty(self) -> bool:
        """Return whether all is done."""
        return not self._waiting and not self._batches

    def head(self) -> Batch:
        """Return the batch to send; the same until it is done."""
        if not self._batches:
            self._batches.append(Batch([]))
            events, room = self._batches[0].events, self._rules.max_batch_bytes
            most = min(self._rules.max_batch, len(self._waiting))
            while len(events) < most and (not events or self._waiting[0][1] <= room):
                event, size = self._waiting.popleft()
                events.append(event)
                room -= size + 1
            self._batches[0].size = self._rules.max_batch_bytes - room
        return self._batches[0]

    def finish(self, now: float, *rest: Sequence[Event]) -> int:
        """End the first batch, but for these of its events, which go on as batches; return how many are done."""
        self.failures = 0
        done = len(self._batches.popleft().events) - sum(map(len, rest))
        self._batches.extendleft(Batch(list(events)) for events in reversed(rest) if events)
        self.done += done
        is_due = self._batches or self.done < self._hurried or len(self._waiting) >= self._rules.max_batch
        self.due_at = now if is_due else now + self._rules.interval
        return done

    def left(self) -> list[Event]:
        """Return all events that are not done, nor told of now."""
        begun = [(batch, index) for batch in self._batches for index in range(len(batch.events))]
        left = [batch.events[index] for batch, index in begun if index not in batch.told]
        return left + [event for event, _ in self._waiting]


# -- What sends it.

_log = logging.getLogger("delayed_bandits.client")
TOLD_EVERY = 60.0
"""Seconds between two lines about an outage."""
ALONE_SECONDS = 60.0
"""For so long each session has calls of its own after a call for many was refused: older services have no such."""


class Reporter:
    """Takes reports at once and sends them later; those that are dropped are logged where nobody asks for them."""

    def __init__(self, calls: ReportCalls, rules: ReportRules, on_error: OnError | None) -> None:
        self._calls, self._rules = calls, rules
        self._on_error = on_error or _logged
        if not callable(on_error or _logged) or inspect.iscoroutinefunction(on_error):
            raise TypeError("on_error: give a function, which is called from any thread and not awaited")
        self.reset()
        OPEN.add(self)

    def reset(self) -> None:
        """Begin anew, as the child of a fork has to: what waits is its parent's."""
        # Entered as such: an exception that a signal's handler raises can't leave it locked, as it can a condition.
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        self._lanes: dict[str, Lane] = {}
        self._counts = ReportCounts()
        self._thread: threading.Thread | None = None
        self._closed_at = math.inf
        self._told_at, self._fallbacks = -math.inf, 0
        self._alone_until = -math.inf

    def tell(self, session_id: str, error: BaseException, fallbacks: int) -> None:
        """Log a call that failed, and so many actions of fallbacks; no more than a line a minute."""
        with self._lock:
            self._fallbacks += fallbacks
            if (now := time.monotonic()) < self._told_at + TOLD_EVERY:
                return
            shown, self._fallbacks, self._told_at = self._fallbacks, 0, now
        _log.warning("session %s: %d fallbacks shown since the last such line; %s", session_id, shown, error)

    def put(self, session_id: str, event: Event | None) -> bool:
        """Take a report, and return whether it will be sent; None, for that of a fallback, is counted and not sent.

        Raises
        ------
        ValueError, TypeError
            for what JSON has no form for, such as NaN.
        """
        with self._lock:
            if event is None:
                self._counts.fallbacks += 1
                return False
            waiting = self._counts.waiting
            refusal: BanditsError | None = None
            if self._closed_at < math.inf:
                refusal = ClosedError("this client has been closed")
            elif waiting >= self._rules.max_waiting:
                refusal = api.QueueFullError(f"{waiting} reports wait: the service does not take them fast enough")
            elif not self._sends():
                refusal = BanditsError("no thread can be started to send it: too many, or the program ends")
            else:
                lane = self._lanes.get(session_id) or Lane(session_id, self._rules)
                due = lane.put({"event_id": uuid.uuid4().hex, **event}, time.monotonic())
                self._lanes[session_id] = lane
                self._counts.waiting += 1
                if due:
                    self._changed.notify_all()
        if refusal is not None:
            self._drop(session_id, [event], refusal)
        return refusal is None

    def counts(self) -> ReportCounts:
        """Return what became of the reports so far."""
        with self._lock:
            return replace(self._counts)

    def flush(self, timeout: float | None = None) -> bool:
        """Send what waits now, and return whether all of it was answered in time; None waits without end."""
        with self._lock:
            asked = [(lane, lane.added) for lane in self._lanes.values()]
            for lane, _ in asked:
                lane.hurry()
            if asked and (not self._sends() or self._thread is threading.current_thread()):
                timeout = 0.0  # It can't wait for itself, if ``on_error`` flushes.
            self._changed.notify_all()
            kept = self._lanes  # A client that closes drops what is left, and nobody answers it.
            self._changed.wait_for(lambda: self._lanes is not kept or all(a.done >= n for a, n in asked), timeout)
            return all(lane.done >= added for lane, added in asked)

    def close(self) -> None:
        """Send what waits, drop what is not answered within ``close_timeout``, and take nothing more."""
        seconds = self._rules.close_timeout
        with self._lock:
            self._closed_at = min(self._closed_at, time.monotonic() + seconds)
        try:
            self.flush(self._closed_at - time.monotonic())
        except SystemExit:  # Of a signal's handler: a pool sends SIGTERM to children that end already.
            self.close()
            raise
        finally:  # The user may interrupt it.
            with self._lock:
                left = {lane.session_id: lane.left() for lane in self._lanes.values()}
                self._counts.waiting, self._lanes = 0, {}
                self._changed.notify_all()
            for session_id, events in left.items():
                self._drop(session_id, events, ClosedError(f"not acknowledged within {seconds:g} s of closing"))

    def _sends(self) -> bool:
        """Return whether a thread sends; one is started if there is none, or it died."""
        if self._thread is None or not self._thread.is_alive():
            self._thread = threading.Thread(target=self._run, name="delayed-bandits-reports", daemon=True)
            try:
                self._thread.start()
            except RuntimeError:
                return False
        return True

    def _run(self) -> None:
        try:
            while lanes := self._next():
                if len(lanes) > 1:
                    self._send_many(lanes)
                else:
                    self._send(lanes[0])
        except BaseException:
            with self._lock:
                self._thread = None
                for lane in self._lanes.values():
                    lane.back_off(0.0)
                self._sends()
            _log.exception("a thread that sends reports failed, and another goes on")

    def _next(self) -> list[Lane]:
        """Wait for sessions whose reports are due, those of one call; none if nothing waits: it ends the thread."""
        with self._lock:
            while self._lanes:
                now, first = time.monotonic(), min(self._lanes.values(), key=lambda each: each.due_at)
                if first.due_at > now:
                    self._changed.wait(first.due_at - now)
                    continue
                found, events, size = [first], len(first.head().events), first.head().size
                for lane in self._lanes.values() if now >= self._alone_until else ():
                    if lane is not first and lane.due_at <= now:
                        events += len(lane.head().events)
                        size += lane.head().size
                        if events > min(self._rules.max_batch, api.MAX_NAMED) or size > self._rules.max_batch_bytes:
                            break
                        found.append(lane)
                return found
            self._thread = None
            return []

    def _send(self, lane: Lane) -> None:
        with self._lock:
            batch, left = lane.head(), self._closed_at - time.monotonic()
        options: FeedbackOptions = {"on_surplus": "skip", "timeout": min(self._rules.call_timeout, left)}
        try:
            settled = self._calls.settle(lane.session_id, batch.events, options, batch.key)
        except BaseException as error:
            self._failed(lane, batch, error if isinstance(error, BanditsError) else BanditsError(repr(error)))
            return
        self._count(settled, [(lane, event) for event in batch.events], set())
        self._end(lane)

    def _count(self, settled: Settlement, places: Sequence[tuple[Lane, Event]], again: Set[int]) -> None:
        """Count what was settled, and tell of what was skipped as wrong, but in lanes that are sent again."""
        with self._lock:
            for name in ("applied", "duplicates", "surplus", "removed", "voided", "updated"):
                setattr(self._counts, name, getattr(self._counts, name) + getattr(settled, name))
        told = {str(each.get("index")): each for each in settled.errors}
        for index in settled.invalid_indexes:
            lane, event = places[index]
            if id(lane) not in again:
                self._drop(lane.session_id, [event], _refusal(told.get(str(index), {})))

    def _send_many(self, lanes: Sequence[Lane]) -> None:
        """Send the first batches of several sessions in one call."""
        with self._lock:
            batches, left = [lane.head() for lane in lanes], self._closed_at - time.monotonic()
        places = [(lane, event) for lane, batch in zip(lanes, batches, strict=True) for event in batch.events]
        events = [{**event, "session_id": lane.session_id} for lane, event in places]
        failed, settled, unsettled = BanditsError(), Settlement(), list[int]()
        try:
            settled = self._calls.settle_many(events, {"timeout": min(self._rules.call_timeout, left)})
        except BaseException as error:
            if isinstance(error, ApiError) and error.status not in {401, *REPEATED}:
                self._alone_until = time.monotonic() + ALONE_SECONDS
                return
            failed = error if isinstance(error, BanditsError) else BanditsError(repr(error))
            unsettled = list(range(len(events)))
            if isinstance(error, ApiError) and (named := error.problem.get("unavailable_lines")):
                with suppress(ValueError, TypeError, LookupError):
                    part = [unsettled[each] for each in named]
                    settled, unsettled = api.settlement_of(error.problem, len(events), is_part=True), part
        again = {id(places[index][0]) for index in unsettled}
        self._count(settled, places, again)
        for lane, batch in zip(lanes, batches, strict=True):
            if id(lane) in again:
                self._failed(lane, batch, failed)
            else:
                self._end(lane)
        with self._lock:  # What failed together is sent again together.
            waiting = [lane for lane in lanes if id(lane) in again]
            latest = max((lane.due_at for lane in waiting), default=0.0)
            for lane in waiting:
                lane.due_at = latest

    def _failed(self, lane: Lane, batch: Batch, error: BanditsError) -> None:
        now, count = time.monotonic(), len(batch.events)
        batch.failing_since = batch.failing_since or now
        status, wrong = 0, set[int]()
        # Who refuses without a code is not the service, and may be gone soon; but too large is too large.
        if isinstance(error, ApiError) and (error.code != UNKNOWN or error.status == 413):
            status, wrong = error.status, set(error.indexes)
        if max(wrong, default=0) >= count:
            error, status, wrong = api.BadAnswerError(f"of {count} events it refuses others: {error}"), 0, set()
        failing = now - batch.failing_since
        if (not status or status in REPEATED) and failing < self._rules.give_up_after:
            with self._lock:
                lane.back_off(getattr(error, "retry_after", 0.0))
            if failing >= TOLD_EVERY:
                self.tell(lane.session_id, error, 0)
            return
        if not wrong and count > 1 and status in {413, 422}:  # Smaller batches may do.
            self._end(lane, batch.events[: count // 2], batch.events[count // 2 :])
            return
        batch.told = wrong = wrong or set(range(count))
        self._drop(lane.session_id, [batch.events[index] for index in sorted(wrong)], error)
        self._end(lane, [event for index, event in enumerate(batch.events) if index not in wrong])

    def _end(self, lane: Lane, *rest: list[Event]) -> None:
        with self._lock:
            if self._lanes.get(lane.session_id) is not lane:
                return
            self._counts.waiting -= lane.finish(time.monotonic(), *rest)
            if lane.is_empty():
                del self._lanes[lane.session_id]
            self._changed.notify_all()

    def _drop(self, session_id: str, events: list[Event], error: BanditsError) -> None:
        if not events:
            return
        with self._lock:
            self._counts.dropped += len(events)
        try:
            self._on_error(ReportError(session_id, events, error))
        except BaseException:
            _log.exception("on_error failed; session %s: %d reports dropped: %s", session_id, len(events), error)


def _refusal(told: Mapping[str, Any]) -> ApiError:
    """Return the error of an event that was skipped, by what is told of it."""
    code = told.get("code", "invalid_request")
    detail = ": ".join(str(told[name]) for name in ("field", "message") if name in told)
    status, problem = 404 if code == "unknown_session" else 422, {"code": code, "detail": detail}
    return kind_of(status, problem)(status, problem)


def _logged(dropped: ReportError) -> None:
    _log.error("session %s: %d reports dropped: %s", dropped.session_id, len(dropped.events), dropped.error)


@atexit.register
def _close_all() -> None:
    with ExitStack() as stack:  # All are closed, also if the wait for one is interrupted, or one before it began.
        for reporter in 2 * [each for each in list(OPEN) if isinstance(each, Reporter)]:
            stack.callback(reporter.close)


def _close_with_process(_: object = None) -> None:
    """Close at the end of a child of multiprocessing, which runs no ``atexit``, and before its queues close."""
    util.Finalize(None, _close_all, exitpriority=20)


# In a child that imports this, in one that multiprocessing forks, and in one that such a child forks itself.
_close_with_process()
util.register_after_fork(OPEN, _close_with_process)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_close_with_process)
