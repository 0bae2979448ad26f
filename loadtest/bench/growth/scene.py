"""Where growth is measured: an empty Redis, a service on it, floors and the probe."""

from __future__ import annotations

import http.client
import json
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from loadtest.bench.closed_loop import Conversation, Rate, posts, run_clients
from loadtest.bench.floors import REDIS
from loadtest.bench.growth.livez import Probe, running_probe
from loadtest.bench.growth.rows import Step
from loadtest.bench.load import run_load
from loadtest.bench.servers import running_uvicorn
from loadtest.bench.targets import EVENT, NOTHING, Target, of_floors
from loadtest.errors import ServiceError
from loadtest.processes import RedisProcess, running_redis, running_service

SESSIONS = "/v1/sessions"
FILLING_SECONDS = 3600.0
"""Longer than it takes to make what is measured."""
ANSWER_SECONDS = 120.0
FLOOR_CALLS = 100


class GrowthOptions(NamedTuple):
    """The largest sizes, and how they are measured."""

    sessions: int = 100_000
    arms: int = 100_000
    outstanding: int = 1_000_000
    open_slots: int = 1_000_000
    """Of the outstanding decisions, where each keeps a record."""
    events: int = 10_000
    workers: int = 4
    seconds: float = 2.0
    """Of load for a rate."""
    repetitions: int = 3
    calls: int = 10
    """Calls whose median is a time of one repetition."""
    clients: int = 32
    wrk: str | None = None


class Caller:
    """A client that sends one request after the other."""

    def __init__(self, port: int) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=ANSWER_SECONDS)

    def close(self) -> None:
        """End its connection."""
        self._connection.close()

    def reconnect(self) -> None:
        """Leave a connection that the server may have closed, because it was idle, and open another."""
        self.close()
        self._connection.connect()

    def call(self, method: str, path: str, body: Any = None) -> Any:
        """Return the answer; ServiceError for one that is no success."""
        content = None if body is None else json.dumps(body).encode()
        return json.loads(self.send(method, path, content))

    def send(self, method: str, path: str, content: bytes | None) -> bytes:
        """Return the answer's body; ServiceError for one that is no success."""
        self._connection.request(method, path, content, {"Content-Type": "application/json"} if content else {})
        answer = self._connection.getresponse()
        body = answer.read()
        if answer.status not in (http.client.OK, http.client.CREATED):
            raise ServiceError(f"{method} {path}: status {answer.status}: {body[:200].decode(errors='replace')}")
        return body

    def milliseconds(self, method: str, path: str, content: bytes | None = None) -> float:
        """Send a request, and return how long its answer took."""
        started = time.perf_counter()
        self.send(method, path, content)
        return 1000 * (time.perf_counter() - started)


@dataclass
class Scene:
    """What runs, and how it is asked."""

    options: GrowthOptions
    port: int
    """Of the service."""
    pids: Sequence[int]
    floors: dict[str, Target]
    probe: Probe
    service: Caller
    redis: RedisProcess
    logs: Path

    @property
    def redis_url(self) -> str:
        """The address of the Redis."""
        return f"redis://127.0.0.1:{self.redis.port}/0"

    def at_rest(self) -> float:
        """Return the longest wait of a second and more without other requests, in milliseconds."""
        self.probe.longest()
        time.sleep(max(1.0, self.options.seconds))
        return self.probe.longest()

    def rate(self, target: Target) -> float:
        """Measure the requests per second of the closed loop."""
        return _per_second(run_load(target, self.options.wrk, self.options.clients, self.options.seconds))

    @contextmanager
    def without_waiting_for_the_disk(self) -> Iterator[None]:
        """Let Redis answer before its file is on the disk, for what is made and not measured."""
        self.redis.command("CONFIG SET appendfsync no")
        try:
            yield
        finally:
            self.redis.command("CONFIG SET appendfsync always")

    def fill(self, path: str, bodies: Iterator[bytes]) -> float:
        """Post all bodies, and return how many a second were answered."""

        def talk() -> Conversation:
            return posts(path, bodies)

        return _per_second(run_clients(self.port, talk, self.options.clients, FILLING_SECONDS))

    def floor_milliseconds(self) -> float:
        """Return the median time of a call of the endpoint that does nothing."""
        with closing(Caller(self.floors[NOTHING].port)) as caller:
            return median(caller.milliseconds("POST", "/nothing", EVENT) for _ in range(FLOOR_CALLS))

    def step(self, size: int, measure: Callable[[], float]) -> Step:
        """Measure once for each repetition, and the longest wait of others meanwhile."""
        return self.in_turn({size: measure})[0]

    def in_turn(self, measures: Mapping[int, Callable[[], float]]) -> list[Step]:
        """Measure all sizes in turn, so that other load on the machine affects all of them; a step for each."""
        self.service.reconnect()
        steps = {size: Step(size, [], 0) for size in measures}
        for _ in range(self.options.repetitions):
            for size, measure in measures.items():
                self.probe.longest()
                value = measure()
                steps[size] = steps[size].with_value(value, self.probe.longest())
        return list(steps.values())


def _per_second(rate: Rate) -> float:
    return rate.requests / rate.seconds


@contextmanager
def running_scene(options: GrowthOptions, logs: Path, workers: int = 1) -> Iterator[Scene]:
    """Start all of it, and end it in any case."""
    with (
        tempfile.TemporaryDirectory(prefix="growth-") as data,
        running_redis(Path(data), logs) as redis,
        running_uvicorn("floors", {REDIS: (url := f"redis://127.0.0.1:{redis.port}")}, logs, 1, "/read") as floors,
        running_service(logs, "--workers", str(workers), "--store-url", url) as service,
        running_probe(service.port, workers) as probe,
        closing(Caller(service.port)) as caller,
    ):
        targets = of_floors(*floors, redis.pid, 2)
        pids = [*service.workers(), redis.pid]
        yield Scene(options, service.port, pids, targets, probe, caller, redis, logs)
