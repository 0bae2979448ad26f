"""Throughput of the service beside floors, endpoints that do less on the same stack, in turns on one machine."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import httpx
from redis import Redis

from loadtest.bench.floors import REDIS
from loadtest.bench.load import Rate, latencies, posts, run_clients, run_wrk
from loadtest.bench.measured import cpu_seconds, machine, ratios, running_uvicorn, spread
from loadtest.bench.targets import (
    ARMS,
    FLOORS,
    HOT,
    MANY,
    PEERS_ARMS,
    PEERS_REDIS,
    SEPARATE,
    SESSIONS,
    Options,
    Target,
    names_of,
    of_floors,
    of_peers,
    of_service,
)
from loadtest.errors import LoadTestError
from loadtest.processes import RedisProcess, running_redis, running_service

LEARNER = {"kind": "dexp3", "learning_rate": 0.01, "loss_clip": 1.0, "probability_floor": 0.1}
WARM_UP = 0.2
"""Share of a turn that every target gets before the first one counts."""
OPEN_LOOP_SHARE = 0.6
"""Share of the measured rate at which latencies are measured."""
PYTHON = "clients in Python"
WRK = f"wrk; {PYTHON} for events in bulk, a session for each client, and latency"


SCALED = (HOT, MANY, SEPARATE)
"""Targets whose rates with several workers are compared with those of one."""


class Measured:
    """Requests, acts or events per second of every target, and processor time of each, by repetition."""

    def __init__(self, names: Iterable[str]) -> None:
        self.rates: dict[str, list[float]] = {name: [] for name in names}
        self.cpu: dict[str, list[float]] = {name: [] for name in self.rates}
        """Microseconds of all processes that work for the target, Redis included."""
        self.latencies: list[dict[str, float]] = []
        """What the open loop found, in each repetition."""

    def summary(self) -> dict[str, Any]:
        """Rates, and the ratios of each target and its processor time to each floor within each repetition."""
        others = [name for name in self.rates if name not in FLOORS]
        return {
            "per_second": {name: spread(rates) for name, rates in self.rates.items()},
            "cpu_microseconds": {name: spread(used) for name, used in self.cpu.items()},
            "rate_over": {floor: {name: ratios(self.rates, name, floor) for name in others} for floor in FLOORS},
            "cpu_over": {floor: {name: ratios(self.cpu, name, floor) for name in others} for floor in FLOORS},
            "open_loop_milliseconds": {
                name: spread([each[name] for each in self.latencies]) for name in self.latencies[0]
            },
        }


def workers_ratio(found: Mapping[str, Measured], options: Options) -> dict[str, Any]:
    """Return the service's medians with the most workers to those with the fewest.

    ``cpu_allows`` is what processor time would allow with a core for each process: the ratio of the numbers of
    workers, over that of the processor time of an act or event.
    """
    fewest, most = (pick(found, key=int) for pick in (min, max))

    def ratio(numbers: str, target: str) -> float:
        one, other = (statistics.median(getattr(found[count], numbers)[target]) for count in (most, fewest))
        return float(one / other)

    scaled = SCALED if options.sessions >= options.clients else (HOT, MANY)
    rate = {target: ratio("rates", target) for target in scaled}
    allowed = {target: int(most) / int(fewest) / ratio("cpu", target) for target in scaled}
    return {f"{most}_to_{fewest}": rate | {f"{target}_cpu_allows": number for target, number in allowed.items()}}


def measure(options: Options, data: Path, logs: Path, advance: Callable[[], object]) -> dict[str, Any]:
    """Measure all targets and return the summary.

    Raises
    ------
    LoadTestError
        where something does not start, a request fails, or a session has other counts than were acknowledged.
    """
    before = machine()
    with running_redis(data, logs) as redis:
        found = {str(count): _measured(options, redis, logs, count, advance) for count in options.workers}
        with Redis(port=redis.port) as client:
            server = client.info("server")
    return {
        "workers": {count: measured.summary() for count, measured in found.items()},
        "workers_ratio": workers_ratio(found, options),
        "options": options._asdict(),
        "machine": before | {"redis_server": server["redis_version"], "appendfsync": "always"},
        "generator": PYTHON if options.wrk is None else WRK,
    }


def _measured(
    options: Options, redis: RedisProcess, logs: Path, workers: int, advance: Callable[[], object]
) -> Measured:
    measured, acknowledged = Measured(names_of(options, workers)), 2 * (options.sessions + len(ARMS))
    with _targets(options, redis, logs, workers) as targets:
        for target in targets.values():
            acknowledged += _turn(options, redis, target, WARM_UP * options.seconds)[0]
        for _ in range(options.repetitions):
            for name, target in targets.items():
                counted, rate, used = _turn(options, redis, target, options.seconds)
                measured.rates[name].append(rate)
                measured.cpu[name].append(used)
                acknowledged += counted
                advance()
        rate = OPEN_LOOP_SHARE * statistics.median(measured.rates[MANY])
        for _ in range(options.repetitions):
            target = targets[MANY]
            measured.latencies.append(latencies(target.port, target.talk, options.clients, options.seconds, rate))
        acknowledged += sum(int(each["requests"]) for each in measured.latencies)
        _audit(targets[HOT].port, acknowledged, cut_off(options, targets.values()))
    return measured


def _turn(options: Options, redis: RedisProcess, target: Target, seconds: float) -> tuple[int, float, float]:
    """Call a target for some seconds.

    Returns
    -------
    Acts and events of the service that were acknowledged, those (or requests) per second, and microseconds of
    processor time for each.
    """
    bodies = () if target.prepare is None else target.prepare(seconds)
    talk = partial(posts, f"{SESSIONS}/s0/feedbacks", iter(bodies)) if bodies else target.talk
    redis.command(f"CONFIG SET appendfsync {target.appendfsync}")
    before = cpu_seconds(target.pids)
    if options.wrk is not None and target.says is not None:
        rate: Rate = run_wrk(options.wrk, target.port, options.clients, seconds, target.says)
    else:
        rate = run_clients(target.port, talk, options.clients, seconds)
    done = rate.requests * target.per_call
    used = 1e6 * (cpu_seconds(target.pids) - before) / max(done, 1)
    acted = len(bodies) * target.per_call
    return (done + acted) * target.is_audited, done / rate.seconds, used


def cut_off(options: Options, targets: Iterable[Target]) -> int:
    """Return how many acts and events may count without an answer: wrk may leave one of each client in each turn.

    Parameters
    ----------
    options : with the number of turns
    targets : of these turns
    """
    if options.wrk is None:
        return 0
    by_wrk = (target.per_call for target in targets if target.is_audited and target.says is not None)
    return options.clients * (options.repetitions + 1) * sum(by_wrk)


def _audit(port: int, acknowledged: int, cut_off: int) -> None:
    """Whether the sessions count what was acknowledged.

    Parameters
    ----------
    cut_off : acts and events for whose answers wrk did not wait: they may count
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
    """Start all servers on an empty Redis; end them in any case."""
    url = f"redis://127.0.0.1:{redis.port}/0"
    redis.command("FLUSHALL")
    with (
        running_uvicorn("floors", {REDIS: url}, logs, workers, "/read") as floors,
        running_service(logs, "--workers", str(workers), "--store-url", url) as service,
        ExitStack() as stack,
    ):
        _create(service.url, options)
        found = of_floors(*floors, redis.pid, options.n_arms)
        learner = LEARNER | {"n_arms": options.n_arms}
        found |= of_service(service.url, [*service.workers(), redis.pid], options, learner)
        if options.peers:
            variables = {PEERS_ARMS: str(options.n_arms), PEERS_REDIS: url}
            peers = stack.enter_context(running_uvicorn("peers", variables, logs, workers, "/memory/0/act"))
            found |= of_peers(*peers, redis.pid, options.sessions)
        yield {name: found[name] for name in names_of(options, workers)}


def _create(url: str, options: Options) -> None:
    """Create the sessions, and use all but the most once: the first request of a session in a worker reads it."""
    numbers = {f"s{number}": options.n_arms for number in range(options.most)}
    numbers |= {f"{name}0": n_arms for name, n_arms in ARMS.items()}
    unused = {f"s{number}" for number in range(options.sessions, options.most)}
    with httpx.Client(base_url=url) as client:
        for seed, (name, n_arms) in enumerate(numbers.items()):
            body = {"session_id": name, "learner": LEARNER | {"n_arms": n_arms}, "seed": seed}
            created = client.post(SESSIONS, json=body)
            if created.status_code != httpx.codes.CREATED:
                raise LoadTestError(f"a session was not created: {created.text}")
            if name in unused:
                continue
            arm = client.post(f"{SESSIONS}/{name}/act").raise_for_status().json()["arm"]
            event = {"arm": arm, "loss": 0.5}
            client.post(f"{SESSIONS}/{name}/feedback", json=event).raise_for_status()
