"""The service's metrics, how they are told, and what a worker measures of itself: see docs/metrics.md.

Every series exists from the start and no label has its value from a request, so the number of series never changes.
"""

import asyncio
import hashlib
import math
import os
import platform
import struct
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from functools import cache
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol, TypeVar, cast

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector

from .. import __version__
from ..errors import StoreUnavailableError
from .multiprocess import STORE_RESTARTS, WORKER_RESTARTS, Increment, Observe, fast_inc, fast_observe

# -- The answer of ``GET /metrics``: the metrics of all workers in Prometheus' text format.
#
# Each worker keeps its metrics in files that the parent makes, so any worker can sum those of all.
# Files are named by the worker's number, not by its process id, so a worker that replaces a dead one continues
# its counts.

CONTENT_TYPE = CONTENT_TYPE_PLAIN_0_0_4


TRIES, PAUSE_SECONDS = 50, 0.02
"""How often metrics are read again, and how long after, if files are missing or can't be read."""
OTHER = "other"
"""Method and route of requests that match no route."""
OUTCOMES = ("applied", "updated", "duplicate", "removed", "voided", "surplus", "invalid", "refused", "expired")
COMMITS = {"Committed": "committed", "Known": "known", "Conflict": "conflict", "NotFound": "not_found"}
"""By the class of the outcome."""
CALLS = (
    *("create", "load", "recall", "commit", "delete", "list", "count", "announce", "ping", "token_key"),
    *("read_records", "read_counts", "read_log", "read_segments", "segment_names", "export", "restore"),
)
FIGURES = {
    "memory_bytes": "Memory that the store uses; in a cluster that of its fullest server.",
    "memory_limit_bytes": "What that server may use (`maxmemory`); 0 without a limit.",
    "replicas": "Replicas that have all but the newest commits; in a cluster of the server with fewest.",
    "replica_lag_seconds": "Time since the store has heard of the replica that it heard of last.",
}
"""What the store says of itself, by the names of ``Store.figures``."""
_Mode = Literal["livesum", "livemin", "livemax"]
_STATUSES = ("2xx", "2xx", "2xx", "3xx", "4xx", "5xx")
"""By the first digit of the status, from 0."""
_REQUEST_SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10)
_STORE_SECONDS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 0.5, 1, 5)
_DELAY_SECONDS = (0.1, 1, 10, 60, 300, 900, 3_600, 14_400, 86_400, 604_800, 2_592_000)
_LAG_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5)
_BATCH_SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)


@cache
def revision(package: Path = Path(__file__).parents[1]) -> str:
    """Return the commit that a package was built from, in its file ``REVISION``, else a digest of its files."""
    with suppress(OSError):
        return (package / "REVISION").read_text("utf-8").strip()
    digest = hashlib.sha256()
    for path in sorted(each for each in package.rglob("*") if "__pycache__" not in each.parts and each.is_file()):
        digest.update(f"{path.relative_to(package)}\0{path.stat().st_size}\0".encode() + path.read_bytes())
    return digest.hexdigest()


class Labels(NamedTuple):
    """All values of labels; they are known before the first request."""

    routes: Iterable[tuple[str, str]] = ()
    """Method and route template."""
    codes: Iterable[str] = ()
    """Problem codes."""
    learners: Iterable[str] = ()
    hints: Iterable[str] = ()
    """Codes of hints."""


class Progress(Protocol):
    """A session's counts."""

    slot: int
    """Slots opened."""
    outstanding: int
    """Decisions that wait for feedback."""
    total_delay: int
    """Sum of ``outstanding`` over the closed slots."""
    expired: int
    """Decisions that got no feedback in time."""


class Metrics:
    """The metrics of one process.

    Parameters
    ----------
    labels : values that labels can have
    folder : where all workers keep their metrics; ``text`` then reports sums over the workers. None: this process
        reports its metrics alone
    """

    def __init__(self, labels: Labels, folder: Path | None = None) -> None:
        disable_created_metrics()
        self.registry = CollectorRegistry()
        # Names begin with ``bandit_``.
        self._named: dict[str, Any] = {"namespace": "bandit", "registry": self.registry}
        self._folder, self._scrapes = folder, asyncio.Lock()
        self.committed_at = -math.inf
        """When the store last carried out a commit, in monotonic seconds."""
        self._files = 0 if folder is None else len(list(folder.glob("*.db")))
        self._add_requests(labels)
        self._add_processes()

    def _gauge(self, name: str, text: str, mode: _Mode = "livesum", labels: Iterable[str] = ()) -> Gauge:
        """Make a gauge; ``mode`` says how the values of living workers become one."""
        return Gauge(name, text, labels, multiprocess_mode=mode, **self._named)

    def _counter(self, name: str, text: str) -> Increment:
        return fast_inc(Counter(name, text, **self._named))

    def _counters(self, name: str, text: str, label: str, known: Iterable[str]) -> Mapping[str, Increment]:
        family = Counter(name, text, [label], **self._named)
        return {value: fast_inc(family.labels(value)) for value in known}

    def _histogram(self, name: str, text: str, buckets: Iterable[float]) -> Observe:
        return fast_observe(Histogram(name, text, buckets=tuple(buckets), **self._named))

    def _add_requests(self, labels: Labels) -> None:
        """Add what is counted of requests, and of what they did to sessions."""
        text = "Requests answered, by route template and class of status."
        requests = Counter("http_requests", text, ["method", "route", "status"], **self._named)
        name, text = "http_request_duration_seconds", "Time from a request's head to its answer, by route template."
        seconds = Histogram(name, text, ["method", "route"], buckets=_REQUEST_SECONDS, **self._named)
        self._requests = {}
        for route in [*dict.fromkeys(labels.routes), (OTHER, OTHER)]:
            counts = [fast_inc(requests.labels(*route, status)) for status in _STATUSES]
            self._requests[route] = fast_observe(seconds.labels(*route)), counts
        self.problems = self._counters("problems", "Errors answered, by their code.", "code", labels.codes)
        text = "Sessions created, by learner."
        self.sessions_created = self._counters("sessions_created", text, "learner", labels.learners)
        text = "Sessions with a hint why they may not learn, by its code, as the sweeper last counted them."
        family = self._gauge("sessions_with_hint", text, labels=("hint",))
        self._with_hint = {code: family.labels(code) for code in labels.hints}
        self.sessions_halted = self._counter("sessions_halted", "Sessions halted by their guard.")
        self.sessions_deleted = self._counter("sessions_deleted", "Sessions deleted by request.")
        self.events = self._counters("events", "Feedback events, by outcome.", "outcome", OUTCOMES)
        self.decisions_opened = self._counter("decisions_opened", "Decisions made: slots opened by acts.")
        self.decisions_settled = self._counter("decisions_settled", "Decisions that are no longer outstanding.")
        text = "Decisions that were outstanding when their session was deleted by request."
        self.decisions_abandoned = self._counter("decisions_abandoned", text)
        text = "Time from act to feedback, in sessions with expiry."
        self.delay_seconds = self._histogram("feedback_delay_seconds", text, _DELAY_SECONDS)
        text = "Sum, over the slots that were closed, of the decisions outstanding at that moment."
        self.delay_slots = self._counter("delay_slots", text)

    def _add_processes(self) -> None:
        """Add what is measured of commits, of the store and of the worker itself."""
        self.commit_requests = self._histogram("commit_requests", "Requests in one group commit.", _BATCH_SIZES)
        self.commits = self._counters("commits", "Attempts to commit, by outcome.", "outcome", COMMITS.values())
        text = "Time until a call to the store returned or failed, by call; `/readyz` makes the call `ping`."
        seconds = Histogram("store_call_seconds", text, ["call"], buckets=_STORE_SECONDS, **self._named)
        self.store_seconds: Mapping[str, Observe] = {call: fast_observe(seconds.labels(call)) for call in CALLS}
        text = "Calls to the store that failed, by call."
        self.store_failures = self._counters("store_failures", text, "call", CALLS)
        text = "Commits that the store carried out the short way; most of a busy session are."
        self.plain_commits = self._counter("plain_commits", text)
        text = "Number of times that the store's clock went back."
        self.clock_steps_back = self._counter("store_clock_steps_back", text)
        self._gauge("workers", "Worker processes that serve.").set(1)
        text = "Whether every worker can commit: 1, or 0 while `/readyz` answers 503."
        self.ready = self._gauge("ready", text, "livemin")
        self.connections = self._gauge("connections", "Connections of clients that are open.")
        self.queued_requests = self._gauge("queued_requests", "Requests that wait for their session's commit.")
        text = "Delay with which the event loop of a worker runs a due callback, measured four times a second."
        self.event_loop_lag_seconds = self._histogram("event_loop_lag_seconds", text, _LAG_SECONDS)
        # Every worker sees the same store, so the sum would count it several times.
        self.store = {name: self._gauge(f"store_{name}", each, "livemax") for name, each in FIGURES.items()}
        text = "Sessions with due decisions that the sweeper has found and not settled yet."
        self.sweeper_backlog = self._gauge("sweeper_backlog", text)
        self.memory_bytes = self._gauge("memory_bytes", "Resident memory of the workers.")
        self._counter(*WORKER_RESTARTS)
        self._counter(*STORE_RESTARTS)
        text = "Always 1; the labels are the versions of the service and of Python, and the build."
        build = self._gauge("build_info", text, "livemax", ("version", "python", "revision"))
        build.labels(__version__, platform.python_version(), revision()).set(1)

    def sessions_with_hint(self, counts: Mapping[str, int]) -> None:
        """Tell how many sessions have each hint, by its code."""
        for code, gauge in self._with_hint.items():
            gauge.set(counts.get(code, 0))

    async def text(self) -> bytes:
        """Return all metrics in the text format; they are read and written in a thread."""
        async with self._scrapes:
            return await asyncio.to_thread(self._text)

    def _text(self) -> bytes:
        folder = self._folder
        for _ in range(TRIES):
            if folder is None:
                break
            # The parent makes again what is removed of the folder, and empties files of a worker that has ended.
            with suppress(OSError, ValueError, struct.error):
                if len(list(folder.glob("*.db"))) >= self._files:
                    collected = CollectorRegistry()
                    MultiProcessCollector(collected, str(folder))
                    return generate_latest(collected)
            time.sleep(PAUSE_SECONDS)
        return generate_latest(self.registry)

    def count(
        self, events: Mapping[str, int], before: Progress, after: Progress, delays: Iterable[float] = ()
    ) -> None:
        """Count the decisions and events of one commit.

        Parameters
        ----------
        events : number of events by outcome
        before, after : the session's counts before and after the commit
        delays : seconds from act to feedback, for the events where they are known
        """
        for outcome, number in events.items():
            if number:
                self.events["duplicate" if outcome == "duplicates" else outcome](number)
        if expired := after.expired - before.expired:
            self.events["expired"](expired)
        for delay in delays:
            self.delay_seconds(delay)
        if opened := after.slot - before.slot:
            self.decisions_opened(opened)
        if settled := opened + before.outstanding - after.outstanding:
            self.decisions_settled(settled)
        if delay_slots := after.total_delay - before.total_delay:
            self.delay_slots(delay_slots)

    def answered(self, method: str, route: str, status: int, seconds: float) -> tuple[str, str]:
        """Count a request that was answered.

        Parameters
        ----------
        method : of HTTP, in capitals; empty where there was no request
        route : template of the route
        status : of HTTP
        seconds : time from the request's head to its answer

        Returns
        -------
        The labels method and route under which it was counted, ``OTHER`` for both if they match no route.
        """
        key = (method, route)
        if (counted := self._requests.get(key)) is None:
            counted = self._requests[key := (OTHER, OTHER)]
        observe, counts = counted
        observe(seconds)
        counts[status // 100]()
        return key


# -- Calls to the store, each timed under the name of the method that is called.

StoreT = TypeVar("StoreT")
OnFailure = Callable[[str, str], None]
SpanOf = Callable[[str], AbstractContextManager[Any]]
"""Makes the span of a call to the store, by its name."""


def timed(
    store: StoreT, metrics: Metrics, span_of: SpanOf | None = None, on_failure: OnFailure = lambda *_: None
) -> StoreT:
    """Return a store whose ``CALLS`` are timed and counted; all else is that of ``store``.

    Parameters
    ----------
    span_of : None where requests are not traced
    on_failure : gets the name of each call that failed, and why
    """

    def timed_call(name: str) -> Callable[..., Coroutine[Any, Any, Any]]:
        observe, failed, is_commit = metrics.store_seconds[name], metrics.store_failures[name], name == "commit"
        no_span = nullcontext()

        async def call(*args: Any, **named: Any) -> Any:
            started = time.perf_counter()
            try:
                with no_span if span_of is None else span_of(name) as span:
                    result = await getattr(store, name)(*args, **named)
                    if is_commit and span is not None:
                        span.set_attribute("bandit.outcome", COMMITS[type(result).__name__])
            except StoreUnavailableError as error:
                failed()
                on_failure(name, str(error))
                raise
            finally:
                observe(time.perf_counter() - started)
            if is_commit:
                metrics.commits[COMMITS[type(result).__name__]]()
                metrics.committed_at = time.monotonic()
            return result

        return call

    return cast("StoreT", _Timed(store, {name: timed_call(name) for name in CALLS}))


class _Timed:
    """A store with some calls in place of its own."""

    def __init__(self, store: Any, calls: Mapping[str, Callable[..., Any]]) -> None:
        self._store = store
        vars(self).update(calls, now=store.now)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


# -- What a worker measures of itself while it serves: how late its event loop runs, what waits, memory,
# readiness.

LAG_SECONDS = 0.25
"""Time between two measurements of the event loop's lag, and of queue and memory."""
READY_SECONDS = 5.0
"""Time between two looks at the store."""
_STATM = Path("/proc/self/statm")


async def watch_process(
    metrics: Metrics,
    waiting: Callable[[], int],
    is_ready: Callable[[], Awaitable[bool]],
    figures: Callable[[], Awaitable[Mapping[str, float]]],
) -> None:
    """Measure until it is cancelled.

    Parameters
    ----------
    metrics : get what is measured
    waiting : how many requests wait in this worker
    is_ready : whether the worker can commit; asks the store
    figures : of the store, as it returns them
    """

    async def watch_event_loop() -> None:
        clock = asyncio.get_running_loop().time
        while True:
            metrics.queued_requests.set(waiting())
            metrics.memory_bytes.set(resident_bytes())
            due = clock() + LAG_SECONDS
            await asyncio.sleep(LAG_SECONDS)
            metrics.event_loop_lag_seconds(max(0.0, clock() - due))

    async def watch_store() -> None:
        while True:
            metrics.ready.set(ready := await is_ready())
            # A user who may not run INFO is told so once, by the store; an outage by the readiness.
            with suppress(StoreUnavailableError):
                for name, value in (await figures()).items() if ready else ():
                    metrics.store[name].set(value)
            await asyncio.sleep(READY_SECONDS)

    await asyncio.gather(watch_event_loop(), watch_store())


def resident_bytes() -> int:
    """Return the memory of this process that is not swapped out; 0 where the system doesn't say (Linux does)."""
    with suppress(OSError):
        return int(_STATM.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return 0
