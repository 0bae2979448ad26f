"""How the time of one call grows with the arms of a session, and with its outstanding decisions."""

from __future__ import annotations

import http.client
import json
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import numpy as np

from loadtest.bench.floors import REDIS
from loadtest.bench.measured import running_uvicorn
from loadtest.bench.targets import EVENT, SESSIONS
from loadtest.errors import ServiceError
from loadtest.processes import running_redis, running_service

CALL = 1000
"""Acts of one call while decisions gather."""
ANSWER_SECONDS = 120.0
PASSES = 100
"""Calls of a floor, and of numpy, whose median is compared."""
DEXP3 = {"kind": "dexp3", "n_arms": 100}
EXP3 = {"kind": "exp3", "n_arms": 100, "learning_rate": 0.01, "max_open_slots": 1_000_000}


class Sizes(NamedTuple):
    """The largest sizes, and how they are measured."""

    arms: int = 100_000
    outstanding: int = 1_000_000
    repetitions: int = 3
    calls: int = 10
    """Calls whose median is the time of one repetition."""

    def sessions(self) -> Iterator[tuple[str, str, int, Mapping[str, Any]]]:
        """Yield what grows, which kind of session, its size and its fields.

        Outstanding decisions are remembered as times of acts, counted in buckets, or as a record of each slot.
        """
        for size in sizes_to(self.arms, 10):
            yield "arms", "", size, {"learner": DEXP3 | {"n_arms": size}}
        for size in sizes_to(self.outstanding, 10_000):
            yield (
                "outstanding decisions",
                " (expiry)",
                size,
                {"learner": DEXP3, "expiry": {"after_seconds": 86_400}},
            )
        for size in sizes_to(self.outstanding, 10_000):
            yield "outstanding decisions", " (open slots)", size, {"learner": EXP3}


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
        self._open: deque[Mapping[str, Any]] = deque(maxlen=CALL)
        self._names_slots = fields["learner"]["kind"] == "exp3"
        call_all(port, SESSIONS, [json.dumps({"session_id": name, "seed": 1} | dict(fields)).encode()])

    def gather(self, acts: int) -> None:
        """Act without feedback."""
        bodies = [b'{"count": %d}' % min(CALL, acts - done) for done in range(0, acts, CALL)]
        call_all(self._port, f"{self._path}/acts", bodies)

    def act(self) -> float:
        """Act some times, and return the median in milliseconds."""
        answers = call_all(self._port, f"{self._path}/act", [b""] * self._calls)
        self._open.extend(action for action, _ in answers)
        return median(taken for _, taken in answers)

    def settle(self) -> float:
        """Report losses of the last decisions, one in a call, and return the median in milliseconds."""
        bodies = []
        for action in (self._open.pop() for _ in range(self._calls)):
            slot = {"slot": action["slot"]} if self._names_slots else {}
            bodies.append(json.dumps({"arm": action["arm"], "loss": 0.5} | slot).encode())
        return median(taken for _, taken in call_all(self._port, f"{self._path}/feedback", bodies))


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

    All sizes of a row are measured in turn, so that other load on the machine affects all of them.
    """
    with (
        tempfile.TemporaryDirectory(prefix="growth-") as data,
        running_redis(Path(data), logs) as redis,
        running_uvicorn("floors", {REDIS: (url := f"redis://127.0.0.1:{redis.port}")}, logs, 1, "/read") as floors,
        running_service(logs, "--workers", "1", "--store-url", url) as service,
    ):
        floor = median(taken for _, taken in call_all(floors.port, "/nothing", [EVENT] * PASSES))
        compared = {"floor_ms": floor, "pass_ms": _pass_milliseconds(sizes.arms)}
        kinds: dict[tuple[str, str], dict[int, Session]] = {}
        # What is made and not measured need not wait for the disk.
        redis.command("CONFIG SET appendfsync no")
        for number, (grows, kind, size, fields) in enumerate(sizes.sessions()):
            session = Session(service.port, f"session-{number}", fields, sizes.calls)
            session.gather(size if grows != "arms" else 1)
            kinds.setdefault((grows, kind), {})[size] = session
            advance()
        redis.command("CONFIG SET appendfsync always")
        rows = []
        for (grows, kind), sessions in kinds.items():
            acts: dict[int, list[float]] = {size: [] for size in sessions}
            events: dict[int, list[float]] = {size: [] for size in sessions}
            for size, session in [*sessions.items()] * sizes.repetitions:
                acts[size].append(session.act())
                events[size].append(session.settle())
            for name, times in (("one act", acts), ("one event", events)):
                steps = [{"size": size, "values": values} for size, values in times.items()]
                rows.append({"name": f"{name}{kind}", "grows": grows, "steps": steps})
    return {"rows": rows, "compared": compared, "options": sizes._asdict()}


def _pass_milliseconds(n_arms: int) -> float:
    """Return the median time of numpy's cumulative sum of so many weights."""
    weights, taken = np.random.default_rng(1).random(n_arms), []
    for _ in range(PASSES):
        started = time.perf_counter()
        np.cumsum(weights)
        taken.append(1000 * (time.perf_counter() - started))
    return median(taken)
