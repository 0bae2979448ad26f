"""Throughput of the service on one session, beside floors: endpoints that do less on the same stack."""

from __future__ import annotations

import os
import platform
import statistics
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import httpx
from redis import Redis

from loadtest.bench.closed_loop import Conversation, act_and_feedback, repeated_get, run_clients
from loadtest.bench.floors import REDIS
from loadtest.errors import LoadTestError
from loadtest.processes import RedisProcess, RunningProcess, free_port, running_redis, running_service, wait_until

NOTHING, READ, SCRIPT, SERVICE = "nothing", "redis_get", "lua_script", "service"
TARGETS = {
    NOTHING: "an endpoint doing nothing",
    READ: "an endpoint with one Redis GET",
    SCRIPT: "the same update as a Lua script",
    SERVICE: "the service: act and feedback",
}
PACKAGES = ("fastapi", "starlette", "uvicorn", "uvloop", "httptools", "pydantic", "numpy", "redis")
SESSION = "/v1/sessions/hot"
LEARNER = {"kind": "dexp3", "learning_rate": 0.01, "loss_clip": 1.0, "probability_floor": 0.1}
WARM_UP = 0.2
"""Share of a turn that every target gets before the first one counts."""


class Options(NamedTuple):
    """What is measured, and for how long."""

    seconds: float
    repetitions: int
    clients: int
    n_arms: int
    workers: Sequence[int]


class Target(NamedTuple):
    """A port, and what clients say to it."""

    port: int
    talk: Callable[[], Conversation]


@dataclass
class Measured:
    """Requests per second of every target, a number for each repetition."""

    rates: dict[str, list[float]] = field(default_factory=lambda: {name: [] for name in TARGETS})
    requests: int = 0
    """Acts and feedback of the service that were acknowledged."""

    def summary(self) -> dict[str, Any]:
        """Rates, and the service's ratio to each floor within each repetition."""
        ratios = {
            floor: [ours / theirs for ours, theirs in zip(self.rates[SERVICE], self.rates[floor], strict=True)]
            for floor in TARGETS
            if floor != SERVICE
        }
        return {
            "requests_per_second": {name: spread(rates) for name, rates in self.rates.items()},
            "service_to_floor": {name: spread(found) for name, found in ratios.items()},
        }


def spread(numbers: Sequence[float]) -> dict[str, Any]:
    """Median, extremes and all of the numbers."""
    return {"median": statistics.median(numbers), "min": min(numbers), "max": max(numbers), "all": list(numbers)}


def bench(options: Options, data: Path, logs: Path, advance: Callable[[], object]) -> dict[str, Any]:
    """Measure all targets and return the summary.

    Raises
    ------
    LoadTestError
        where something does not start, a request fails, or the session has other counts than were acknowledged.
    """
    with running_redis(data, logs) as redis:
        found = {str(count): _measured(options, redis, logs, count, advance) for count in options.workers}
        with Redis(port=redis.port) as client:
            server = client.info("server")
    return {
        "workers": {count: measured.summary() for count, measured in found.items()},
        "workers_ratio": _workers_ratio(found),
        "options": options._asdict(),
        "machine": machine() | {"redis_server": server["redis_version"], "appendfsync": "always"},
    }


def machine() -> dict[str, Any]:
    """What the figures were made on."""
    return {
        "cpus": os.cpu_count(),
        "platform": platform.platform(),
        "python": platform.python_version(),
        "versions": {name: version(name) for name in PACKAGES},
    }


def _workers_ratio(found: Mapping[str, Measured]) -> dict[str, float]:
    """The service's median with the most workers to that with the fewest."""
    fewest, most = (pick(found, key=int) for pick in (min, max))
    medians = {name: statistics.median(found[name].rates[SERVICE]) for name in (fewest, most)}
    return {f"{most}_to_{fewest}": medians[most] / medians[fewest]}


def _measured(
    options: Options, redis: RedisProcess, logs: Path, workers: int, advance: Callable[[], object]
) -> Measured:
    measured = Measured()
    with _targets(options, redis, logs, workers) as targets:
        for name, target in targets.items():
            requests = run_clients(*target, options.clients, WARM_UP * options.seconds).requests
            measured.requests += requests * (name == SERVICE)
        for _ in range(options.repetitions):
            for name, target in targets.items():
                rate = run_clients(*target, options.clients, options.seconds)
                measured.rates[name].append(rate.per_second)
                measured.requests += rate.requests * (name == SERVICE)
                advance()
        _audit(targets[SERVICE].port, measured.requests)
    return measured


def _audit(port: int, acknowledged: int) -> None:
    """Whether the session counts what was acknowledged, neither more nor less."""
    view = httpx.get(f"http://127.0.0.1:{port}{SESSION}").json()
    counted = view["slot"] + view["feedbacks"]
    if counted != acknowledged:
        raise LoadTestError(f"{acknowledged} acts and events were acknowledged, the session has {counted}")


@contextmanager
def _targets(options: Options, redis: RedisProcess, logs: Path, workers: int) -> Iterator[Mapping[str, Target]]:
    """Start the floors and the service on an empty Redis; end them in any case."""
    url = f"redis://127.0.0.1:{redis.port}/0"
    redis.command("FLUSHALL")
    port = free_port()
    floors = RunningProcess(
        _floors(port, workers), logs / "floors.log", os.environ | {REDIS: url}, with_children=True
    )
    with (
        running_service(logs, "--workers", str(workers), "--store-url", url) as service,
        ExitStack() as stack,
    ):
        stack.callback(floors.end)
        floors.start()
        wait_until(partial(_answers, floors, port), "the floors start")
        learner = LEARNER | {"n_arms": options.n_arms}
        created = httpx.post(
            f"{service.url}/v1/sessions", json={"session_id": "hot", "learner": learner, "seed": 1}
        )
        if created.status_code != httpx.codes.CREATED:
            raise LoadTestError(f"the session was not created: {created.text}")
        yield {
            NOTHING: Target(port, partial(repeated_get, "/nothing")),
            READ: Target(port, partial(repeated_get, "/read")),
            SCRIPT: Target(port, partial(act_and_feedback, f"/act?n_arms={options.n_arms}", "/feedback")),
            SERVICE: Target(service.port, partial(act_and_feedback, f"{SESSION}/act", f"{SESSION}/feedback")),
        }


def _floors(port: int, workers: int) -> Sequence[str]:
    served = ("--port", str(port), "--workers", str(workers), "--loop", "uvloop", "--http", "httptools")
    quiet = ("--no-access-log", "--log-level", "warning", "--no-server-header")
    return (sys.executable, "-m", "uvicorn", "loadtest.bench.floors:make_app", "--factory", *served, *quiet)


def _answers(floors: RunningProcess, port: int) -> bool:
    if not floors.running:
        raise LoadTestError(f"the floors ended: {floors.last_words()}")
    try:
        return httpx.get(f"http://127.0.0.1:{port}/read").status_code == httpx.codes.OK
    except httpx.TransportError:
        return False
