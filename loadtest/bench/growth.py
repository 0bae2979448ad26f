"""How the time of one call grows with arms, with outstanding decisions, and with the events in it."""

from __future__ import annotations

import http.client
import json
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import numpy as np

from loadtest.bench.floors import REDIS
from loadtest.bench.measured import running_uvicorn
from loadtest.bench.targets import EVENT, SESSIONS
from loadtest.errors import ServiceError
from loadtest.processes import RedisProcess, running_redis, running_service

CALL = 1000
"""Acts of one call while decisions gather."""
REMEMBERED = 10_000
"""Actions that the client keeps for its events: as many as one call may report."""
ANSWER_SECONDS = 120.0
PASSES = 100
"""Calls of a floor, and of numpy, whose median is compared."""
BY_ARMS = {"kind": "dexp3", "n_arms": 100}
HOLDERS: Mapping[str, Mapping[str, Any]] = {
    "expiry": {"learner": BY_ARMS, "expiry": {"after_seconds": 86_400}},
    "open slots": {"learner": {"kind": "exp3", "n_arms": 100, "learning_rate": 0.01, "max_open_slots": 1_000_000}},
}
"""What remembers outstanding decisions: times of acts, counted in buckets, or a record of each slot."""


class Sizes(NamedTuple):
    """The largest sizes, and how they are measured."""

    arms: int = 100_000
    outstanding: int = 1_000_000
    events: int = 10_000
    repetitions: int = 3
    calls: int = 10
    """Calls whose median is the time of one repetition."""

    def limited(self, most: int) -> Sizes:
        """Return sizes that are at most so large."""
        return self._replace(**{name: min(getattr(self, name), most) for name in ("arms", "outstanding", "events")})

    def steps(self) -> int:
        """Return how often ``measure`` advances."""
        outstanding = len(HOLDERS) * len(sizes_to(self.outstanding, 10_000))
        return len(sizes_to(self.arms, 10)) + outstanding + len(sizes_to(self.events, 1))


def sizes_to(most: int, first: int) -> list[int]:
    """Return the sizes from ``first`` on, each ten times the one before, with ``most`` as the last one."""
    sizes = []
    while first < most:
        sizes.append(first)
        first *= 10
    return [*sizes, most]


class Session:
    """A session of the service, on which one client acts and reports."""

    def __init__(self, port: int, name: str, fields: Mapping[str, Any], calls: int) -> None:
        self._port, self._path, self._calls = port, f"{SESSIONS}/{name}", calls
        self._open: deque[Mapping[str, Any]] = deque(maxlen=REMEMBERED)
        self._names_slots = fields["learner"]["kind"] == "exp3"
        call_all(port, SESSIONS, [json.dumps({"session_id": name, "seed": 1} | dict(fields)).encode()])

    def gather(self, acts: int) -> None:
        """Act without feedback."""
        bodies = [b'{"count": %d}' % min(CALL, acts - done) for done in range(0, acts, CALL)]
        for answer, _ in call_all(self._port, f"{self._path}/acts", bodies):
            self._open.extend(answer["actions"])

    def act(self) -> float:
        """Act some times, and return the median in milliseconds."""
        answers = call_all(self._port, f"{self._path}/act", [b""] * self._calls)
        self._open.extend(action for action, _ in answers)
        return median(taken for _, taken in answers)

    def settle(self) -> float:
        """Report losses of some decisions, one in a call, and return the median in milliseconds."""
        bodies = [json.dumps(self._event()).encode() for _ in range(self._calls)]
        return median(taken for _, taken in call_all(self._port, f"{self._path}/feedback", bodies))

    def settle_together(self, events: int) -> float:
        """Act, report so many decisions in one call, some times, and return the median of these in milliseconds."""
        bodies = []
        for _ in range(min(self._calls, max(1, REMEMBERED // events))):
            self.gather(events)
            bodies.append(json.dumps({"events": [self._event() for _ in range(events)]}).encode())
        return median(taken for _, taken in call_all(self._port, f"{self._path}/feedbacks", bodies))

    def _event(self) -> Mapping[str, Any]:
        action = self._open.pop()
        return {"arm": action["arm"], "loss": 0.5} | ({"slot": action["slot"]} if self._names_slots else {})


def call_all(port: int, path: str, bodies: Sequence[bytes]) -> list[tuple[Any, float]]:
    """Post one body after the other on a new connection; return the answers, and the milliseconds that each took.

    Raises
    ------
    ServiceError
        for an answer that is no success.
    """
    found = []
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=ANSWER_SECONDS)) as connection:
        connection.connect()
        for body in bodies:
            started = time.perf_counter()
            connection.request("POST", path, body, {"Content-Type": "application/json"} if body else {})
            answer = connection.getresponse()
            content = answer.read()
            taken = 1000 * (time.perf_counter() - started)
            if answer.status not in (http.client.OK, http.client.CREATED):
                raise ServiceError(f"POST {path}: status {answer.status}: {content[:200].decode(errors='replace')}")
            found.append((json.loads(content), taken))
    return found


def measure(sizes: Sizes, logs: Path, advance: Callable[[], object]) -> dict[str, Any]:
    """Return the rows, and what the times at the most arms are compared with.

    Raises
    ------
    LoadTestError
        where something does not start, or a request fails.
    """
    with (
        tempfile.TemporaryDirectory(prefix="growth-") as data,
        running_redis(Path(data), logs) as redis,
        running_uvicorn("floors", {REDIS: (url := f"redis://127.0.0.1:{redis.port}")}, logs, 1, "/read") as floors,
        running_service(logs, "--workers", "1", "--store-url", url) as service,
    ):
        compared = {
            "floor_ms": median(taken for _, taken in call_all(floors.port, "/nothing", [EVENT] * PASSES)),
            "pass_ms": _pass_milliseconds(sizes.arms),
        }
        session = partial(Session, service.port, calls=sizes.calls)
        rows = [*_by_arms(session, sizes, advance), *_by_outstanding(session, sizes, redis, advance)]
        rows += _by_events(session, sizes, advance)
    return {"rows": rows, "compared": compared, "options": sizes._asdict()}


def _pass_milliseconds(n_arms: int) -> float:
    """Return the median time of numpy's cumulative sum of so many weights."""
    weights, taken = np.random.default_rng(1).random(n_arms), []
    for _ in range(PASSES):
        started = time.perf_counter()
        np.cumsum(weights)
        taken.append(1000 * (time.perf_counter() - started))
    return median(taken)


def _row(name: str, grows: str, repetitions: int, measures: Mapping[int, Callable[[], float]]) -> dict[str, Any]:
    """Measure all sizes in turn, so that other load on the machine affects all of them."""
    values: dict[int, list[float]] = {size: [] for size in measures}
    for _ in range(repetitions):
        for size, each in measures.items():
            values[size].append(each())
    return {"name": name, "grows": grows, "steps": [{"size": size, "values": of} for size, of in values.items()]}


def _by_arms(
    create: Callable[..., Session], sizes: Sizes, advance: Callable[[], object]
) -> Iterator[dict[str, Any]]:
    sessions = {}
    for size in sizes_to(sizes.arms, 10):
        sessions[size] = create(f"arms-{size}", {"learner": BY_ARMS | {"n_arms": size}})
        sessions[size].act()
        advance()
    yield _row("one act", "arms", sizes.repetitions, {size: each.act for size, each in sessions.items()})
    yield _row("one event", "arms", sizes.repetitions, {size: each.settle for size, each in sessions.items()})


def _by_outstanding(
    create: Callable[..., Session], sizes: Sizes, redis: RedisProcess, advance: Callable[[], object]
) -> Iterator[dict[str, Any]]:
    for holder, fields in HOLDERS.items():
        sessions = {}
        with _without_waiting_for_the_disk(redis):
            for size in sizes_to(sizes.outstanding, 10_000):
                sessions[size] = create(f"{holder.replace(' ', '-')}-{size}", fields)
                sessions[size].gather(size)
                advance()
        acts, events = ({size: getattr(each, of) for size, each in sessions.items()} for of in ("act", "settle"))
        yield _row(f"one act ({holder})", "outstanding decisions", sizes.repetitions, acts)
        yield _row(f"one event ({holder})", "outstanding decisions", sizes.repetitions, events)


@contextmanager
def _without_waiting_for_the_disk(redis: RedisProcess) -> Iterator[None]:
    """Let Redis answer before its file is on the disk, for what is made and not measured."""
    redis.command("CONFIG SET appendfsync no")
    try:
        yield
    finally:
        redis.command("CONFIG SET appendfsync always")


def _by_events(create: Callable[..., Session], sizes: Sizes, advance: Callable[[], object]) -> list[dict[str, Any]]:
    measures = {}
    for size in sizes_to(sizes.events, 1):
        measures[size] = partial(create(f"events-{size}", {"learner": BY_ARMS}).settle_together, size)
        advance()
    return [_row("one call", "events in a call", sizes.repetitions, measures)]
