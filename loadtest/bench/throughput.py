"""Throughput of the service beside floors, endpoints that do less on the same stack, in turns on one machine."""

from __future__ import annotations

import json
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

from loadtest.bench.closed_loop import (
    Conversation,
    act_and_feedback,
    posts,
    repeated_post,
    run_clients,
)
from loadtest.bench.floors import REDIS
from loadtest.bench.open_loop import latencies
from loadtest.bench.wrk import run_wrk
from loadtest.errors import LoadTestError
from loadtest.processes import RedisProcess, RunningProcess, free_port, running_redis, running_service, wait_until

NOTHING, READ, SCRIPT = "nothing", "redis_get", "lua_script"
HOT, MANY, ACTS, EVENTS = "hot", "many", "bulk_acts", "bulk_events"
TARGETS = {
    NOTHING: "N: an endpoint doing nothing",
    READ: "G: the same with one Redis GET",
    SCRIPT: "the same update as a Lua script",
    HOT: "service: act and feedback, one session",
    MANY: "service: act and feedback, {sessions} sessions",
    ACTS: "service: acts, {bulk} a call",
    EVENTS: "service: events, {bulk} a call",
}
FLOORS = (NOTHING, READ)
CALLS = 100
"""Calls of ``acts`` before a turn of bulk events, and calls with their events in it."""
PACKAGES = ("fastapi", "starlette", "uvicorn", "uvloop", "httptools", "pydantic", "numpy", "redis")
LEARNER = {"kind": "dexp3", "learning_rate": 0.01, "loss_clip": 1.0, "probability_floor": 0.1}
WARM_UP = 0.2
"""Share of a turn that every target gets before the first one counts."""
OPEN_LOOP_SHARE = 0.6
"""Share of the measured rate at which latencies are measured."""
EVENT = b'{"arm": 3, "loss": 0.5}'
SESSIONS = "/v1/sessions"
_TICKS = os.sysconf("SC_CLK_TCK")


class Options(NamedTuple):
    """What is measured, and for how long."""

    seconds: float
    repetitions: int
    clients: int
    n_arms: int
    workers: Sequence[int]
    sessions: int = 1000
    bulk: int = 100
    wrk: str | None = None
    """The program; None: clients in Python."""


class Target(NamedTuple):
    """A port, what clients say to it, and the processes that work for it."""

    port: int
    talk: Callable[[], Conversation]
    pids: Sequence[int]
    says: Mapping[str, str] | None = None
    """The same for wrk; None where only clients in Python say it."""
    is_audited: bool = False
    """Whether what it acknowledges is counted by sessions."""
    per_call: int = 1
    """Acts or events in one request."""
    prepare: Callable[[], Iterator[bytes]] | None = None
    """Acts before a turn, and returns the bodies of the events that clients post in it, all together."""


@dataclass
class Measured:
    """Requests, acts or events per second of every target, and processor time of each, by repetition."""

    rates: dict[str, list[float]] = field(default_factory=lambda: {name: [] for name in TARGETS})
    cpu: dict[str, list[float]] = field(default_factory=lambda: {name: [] for name in TARGETS})
    """Microseconds of all processes that work for the target, Redis included."""
    latency: dict[str, float] = field(default_factory=dict)

    def summary(self) -> dict[str, Any]:
        """Rates, and the ratios of the service and its processor time to each floor within each repetition."""
        ours = [name for name in TARGETS if name not in FLOORS]
        return {
            "per_second": {name: spread(rates) for name, rates in self.rates.items()},
            "cpu_microseconds": {name: spread(used) for name, used in self.cpu.items()},
            "rate_over": {floor: {name: self._over(self.rates, name, floor) for name in ours} for floor in FLOORS},
            "cpu_over": {floor: {name: self._over(self.cpu, name, floor) for name in ours} for floor in FLOORS},
            "open_loop_milliseconds": self.latency,
        }

    @staticmethod
    def _over(numbers: Mapping[str, Sequence[float]], name: str, floor: str) -> dict[str, Any]:
        return spread([one / other for one, other in zip(numbers[name], numbers[floor], strict=True)])


def spread(numbers: Sequence[float]) -> dict[str, Any]:
    """Median, extremes and all of the numbers."""
    return {"median": statistics.median(numbers), "min": min(numbers), "max": max(numbers), "all": list(numbers)}


def cpu_seconds(pids: Sequence[int]) -> float:
    """Processor time that these processes have used (Linux)."""
    used = 0
    for pid in pids:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        used += int(fields[11]) + int(fields[12])
    return used / _TICKS


def bench(options: Options, data: Path, logs: Path, advance: Callable[[], object]) -> dict[str, Any]:
    """Measure all targets and return the summary.

    Raises
    ------
    LoadTestError
        where something does not start, a request fails, or a session has other counts than were acknowledged.
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
        "generator": "clients in Python" if options.wrk is None else "wrk; clients in Python for bulk and latency",
    }


def machine() -> dict[str, Any]:
    """What the figures were made on."""
    return {
        "cpus": os.cpu_count(),
        "load_average": os.getloadavg(),
        "platform": platform.platform(),
        "python": platform.python_version(),
        "versions": {name: version(name) for name in PACKAGES},
    }


def _workers_ratio(found: Mapping[str, Measured]) -> dict[str, Any]:
    """The service's medians with the most workers to those with the fewest."""
    fewest, most = (pick(found, key=int) for pick in (min, max))

    def ratio(target: str) -> float:
        one, other = (statistics.median(found[count].rates[target]) for count in (most, fewest))
        return one / other

    return {f"{most}_to_{fewest}": {target: ratio(target) for target in (HOT, MANY)}}


def _measured(
    options: Options, redis: RedisProcess, logs: Path, workers: int, advance: Callable[[], object]
) -> Measured:
    measured, acknowledged = Measured(), 2 * options.sessions
    with _targets(options, redis, logs, workers) as targets:
        for target in targets.values():
            acknowledged += _turn(options, target, WARM_UP * options.seconds)[0]
        for _ in range(options.repetitions):
            for name, target in targets.items():
                counted, rate, used = _turn(options, target, options.seconds)
                measured.rates[name].append(rate)
                measured.cpu[name].append(used)
                acknowledged += counted
                advance()
        rate = OPEN_LOOP_SHARE * statistics.median(measured.rates[MANY])
        measured.latency = latencies(targets[MANY].port, targets[MANY].talk, options.clients, options.seconds, rate)
        acknowledged += int(measured.latency["requests"])
        turns = 2 * (options.repetitions + 1) if options.wrk else 0  # of HOT and MANY
        _audit(targets[HOT].port, acknowledged, turns * options.clients)
    return measured


def _turn(options: Options, target: Target, seconds: float) -> tuple[int, float, float]:
    """Call a target for some seconds.

    Returns
    -------
    Acts and events of the service that were acknowledged, those (or requests) per second, and microseconds of
    processor time for each.
    """
    acted, talk = 0, target.talk
    if target.prepare is not None:
        bodies, acted = target.prepare(), CALLS * target.per_call
        talk = partial(posts, f"{SESSIONS}/s0/feedbacks", bodies)
    before = cpu_seconds(target.pids)
    if options.wrk and target.says is not None:
        rate = run_wrk(options.wrk, target.port, options.clients, seconds, target.says)
    else:
        rate = run_clients(target.port, talk, options.clients, seconds)
    done = rate.requests * target.per_call
    used = 1e6 * (cpu_seconds(target.pids) - before) / max(done, 1)
    return (done + acted) * target.is_audited, done / rate.seconds, used


def _audit(port: int, acknowledged: int, cut_off: int) -> None:
    """Whether the sessions count what was acknowledged.

    Parameters
    ----------
    cut_off : requests that wrk may have left without waiting for their answers: they may count
    """
    counted = 0
    with httpx.Client(base_url=f"http://127.0.0.1:{port}") as client:
        cursor: str | None = None
        while True:
            page = client.get(
                SESSIONS, params={"limit": 1000} | ({} if cursor is None else {"cursor": cursor})
            ).json()
            counted += sum(session["slot"] + session["feedbacks"] for session in page["sessions"])
            if (cursor := page["next_cursor"]) is None:
                break
    if not acknowledged <= counted <= acknowledged + cut_off:
        raise LoadTestError(
            f"{acknowledged} acts and events were acknowledged, the sessions have {counted}; {cut_off} more may be"
        )


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
        _create(service.url, options)
        of_floors = [floors.pid, *children(floors.pid)]
        of_service = [*service.workers(), redis.pid]
        act, feedback = f"{SESSIONS}/s%d/act", f"{SESSIONS}/s%d/feedback"
        scripted = f"/act?n_arms={options.n_arms}"

        def floor(path: str, *others: int) -> Target:
            says = {"BENCH_FEEDBACK": path, "BENCH_SESSIONS": "1"}
            return Target(port, partial(repeated_post, path, EVENT), [*of_floors, *others], says)

        def single(sessions: int) -> Target:
            talk = partial(act_and_feedback, act, feedback, sessions)
            says = {"BENCH_ACT": act, "BENCH_FEEDBACK": feedback, "BENCH_SESSIONS": str(sessions)}
            return Target(service.port, talk, of_service, says, is_audited=True)

        bulk = partial(Target, service.port, pids=of_service, is_audited=True, per_call=options.bulk)
        acts = json.dumps({"count": options.bulk}).encode()
        script = partial(act_and_feedback, scripted, "/feedback")
        says = {"BENCH_ACT": scripted, "BENCH_FEEDBACK": "/feedback", "BENCH_SESSIONS": "1"}
        yield {
            NOTHING: floor("/nothing"),
            READ: floor("/read", redis.pid),
            SCRIPT: Target(port, script, [*of_floors, redis.pid], says),
            HOT: single(1),
            MANY: single(options.sessions),
            ACTS: bulk(talk=partial(repeated_post, f"{SESSIONS}/s0/acts", acts)),
            EVENTS: bulk(talk=partial(posts, "", iter(())), prepare=partial(_acted, service.url, options.bulk)),
        }


def _create(url: str, options: Options) -> None:
    """Create the sessions, and use each once: the first request of a session in a worker reads it."""
    learner = LEARNER | {"n_arms": options.n_arms}
    with httpx.Client(base_url=url) as client:
        for number in range(options.sessions):
            body = {"session_id": f"s{number}", "learner": learner, "seed": number}
            created = client.post(SESSIONS, json=body)
            if created.status_code != httpx.codes.CREATED:
                raise LoadTestError(f"a session was not created: {created.text}")
            arm = client.post(f"{SESSIONS}/s{number}/act").raise_for_status().json()["arm"]
            event = {"arm": arm, "loss": 0.5}
            client.post(f"{SESSIONS}/s{number}/feedback", json=event).raise_for_status()


def _acted(url: str, bulk: int) -> Iterator[bytes]:
    """Act, and return the bodies of the events for all actions."""
    bodies = []
    with httpx.Client(base_url=url) as client:
        for _ in range(CALLS):
            actions = client.post(f"{SESSIONS}/s0/acts", json={"count": bulk}).raise_for_status().json()["actions"]
            events = [{"arm": action["arm"], "loss": 0.5} for action in actions]
            bodies.append(json.dumps({"events": events}).encode())
    return iter(bodies)


def children(pid: int) -> Sequence[int]:
    """Process ids of the children of a process (Linux)."""
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def _floors(port: int, workers: int) -> Sequence[str]:
    served = ("--port", str(port), "--workers", str(workers), "--loop", "uvloop", "--http", "httptools")
    quiet = ("--no-access-log", "--log-level", "warning", "--no-server-header")
    return (sys.executable, "-m", "uvicorn", "loadtest.bench.floors:make_app", "--factory", *served, *quiet)


def _answers(floors: RunningProcess, port: int) -> bool:
    if not floors.running:
        raise LoadTestError(f"the floors ended: {floors.last_words()}")
    try:
        answer = httpx.post(f"http://127.0.0.1:{port}/read", json={"arm": 0, "loss": 0.5})
    except httpx.TransportError:
        return False
    return answer.status_code == httpx.codes.OK
