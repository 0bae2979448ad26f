"""Rates and processor times of the service beside floors and peers, in turns on one machine."""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import httpx
from redis import Redis

from loadtest.bench.floors import LOCKED_PATH, MEMORY_PATH, PEERS_ARMS, PEERS_REDIS, REDIS
from loadtest.bench.load import (
    Conversation,
    Rate,
    act_and_feedback,
    latencies,
    posts,
    repeated,
    run_clients,
    run_wrk,
)
from loadtest.bench.measured import cpu_seconds, machine, ratios, running_uvicorn, spread
from loadtest.errors import LoadTestError
from loadtest.processes import RedisProcess, running_redis, running_service

NOTHING, READ, SCRIPT = "nothing", "redis_get", "lua_script"
HOT, MANY, ACTS, EVENTS = "hot", "many", "bulk_acts", "bulk_events"
SEPARATE, MOST = "separate", "most"
EVERYSEC, MANY_EVERYSEC, FEW_ARMS, MOST_ARMS = "hot_everysec", "many_everysec", "few_arms", "most_arms"
VIEW, LIST, CREATE = "view", "list", "create"
MEMORY_HOT, MEMORY_MANY, LOCKED_HOT, LOCKED_MANY = "memory_hot", "memory_many", "locked_hot", "locked_many"
LABELS = {
    NOTHING: "N: an endpoint doing nothing",
    READ: "G: the same with one Redis GET",
    SCRIPT: "the same update as a Lua script",
    MEMORY_HOT: "river in memory: one session",
    MEMORY_MANY: "river in memory: {sessions} sessions",
    LOCKED_HOT: "river in Redis, locked: one session",
    LOCKED_MANY: "river in Redis, locked: {sessions} sessions",
    HOT: "service: act and feedback, one session",
    EVERYSEC: "service: one session, `appendfsync everysec`",
    FEW_ARMS: "service: one session, 10 arms",
    MOST_ARMS: "service: one session, 10,000 arms",
    MANY: "service: act and feedback, {sessions} sessions",
    MOST: "service: act and feedback, {most} sessions",
    MANY_EVERYSEC: "service: {sessions} sessions, `appendfsync everysec`",
    SEPARATE: "service: act and feedback, a session for each client",
    ACTS: "service: acts, {bulk} a call",
    EVENTS: "service: events, {bulk} a call",
    VIEW: "service: view of a session",
    LIST: "service: sessions listed, {page} a page",
    CREATE: "service: sessions created",
}
FLOORS = (NOTHING, READ)
MOST_OF = 10
"""Most sessions for each of those where there are many."""
ARMS = {FEW_ARMS: 10, MOST_ARMS: 10_000}
"""Of sessions that are used beside those of the command's number of arms."""
IN_MEMORY, IN_REDIS = (MEMORY_HOT, MEMORY_MANY), (LOCKED_HOT, LOCKED_MANY)
CALLS = 1500
"""Calls of bulk events that are prepared for each second of a turn, which ends with the last of them."""
MOST_CALLS = 10_000
"""Such calls in a turn, whose bodies take 25 MB."""
TOGETHER = 10
"""Such calls whose actions are drawn together."""
PAGE = 50
"""Sessions in a page of the list."""
EVENT = b'{"arm": 3, "loss": 0.5}'
SESSIONS = "/v1/sessions"


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
    peers: bool = False
    """Whether river is measured too."""

    @property
    def most(self) -> int:
        """Sessions where there are more than a worker keeps decoded."""
        return MOST_OF * self.sessions


class Target(NamedTuple):
    """A port, what clients say to it, and the processes that work for it."""

    port: int
    talk: Callable[[], Conversation]
    pids: Sequence[int]
    says: Mapping[str, str] | None = None
    """The same for wrk: variables of ``talk.lua``; None where only clients in Python say it."""
    is_audited: bool = False
    """Whether what it acknowledges is counted by sessions."""
    per_call: int = 1
    """Acts, events or listed sessions in one request."""
    appendfsync: str = "always"
    """When Redis writes its log to the disk meanwhile."""
    prepare: Callable[[float], Sequence[bytes]] | None = None
    """Acts before a turn of so many seconds, and returns the bodies of the events that clients post in it."""


def names_of(options: Options, workers: int) -> list[str]:
    """Return the targets in their order; what keeps its state in memory has one process only."""
    left_out = set[str]() if options.peers else {*IN_MEMORY, *IN_REDIS}
    if workers > 1:
        left_out.update(IN_MEMORY)
    return [name for name in LABELS if name not in left_out]


def of_floors(port: int, pids: Sequence[int], redis: int, n_arms: int) -> dict[str, Target]:
    """Two endpoints without a learner, and a learner written as scripts; ``redis`` is a process id."""

    def floor(path: str, *others: int) -> Target:
        return one_call(port, [*pids, *others], "POST", path, EVENT)

    script = calls_in_turn(port, [*pids, redis], f"/act?n_arms={n_arms}", "/feedback", 1)
    return {NOTHING: floor("/nothing"), READ: floor("/read", redis), SCRIPT: script}


def of_peers(port: int, pids: Sequence[int], redis: int, sessions: int) -> dict[str, Target]:
    """River's policies, in memory and in Redis."""
    found = {}
    for path, names, used in ((MEMORY_PATH, IN_MEMORY, pids), (LOCKED_PATH, IN_REDIS, [*pids, redis])):
        act, feedback = (f"{path}/{call}".replace("{session}", "%d") for call in ("act", "feedback"))
        for name, number in zip(names, (1, sessions), strict=True):
            found[name] = calls_in_turn(port, used, act, feedback, number)
    return found


def of_service(url: str, pids: Sequence[int], options: Options, learner: Mapping[str, object]) -> dict[str, Target]:
    """Single calls in one session and in many, calls in bulk and views of the first one, lists and creations."""
    port = int(url.rpartition(":")[2])

    def single(name: str, number: int) -> Target:
        path = f"{SESSIONS}/{name}%d"
        return calls_in_turn(port, pids, f"{path}/act", f"{path}/feedback", number)._replace(is_audited=True)

    hot, many = single("s", 1), single("s", options.sessions)
    acts, new = json.dumps({"count": options.bulk}).encode(), json.dumps({"learner": learner}).encode()
    other, listed = partial(one_call, port, pids), min(PAGE, options.sessions)
    bulk = other("POST", f"{SESSIONS}/s0/acts", acts)._replace(is_audited=True, per_call=options.bulk)
    return {
        HOT: hot,
        EVERYSEC: hot._replace(appendfsync="everysec"),
        **{name: single(name, 1) for name in ARMS},
        MANY: many,
        MOST: single("s", options.most),
        MANY_EVERYSEC: many._replace(appendfsync="everysec"),
        SEPARATE: many._replace(talk=separate(f"{SESSIONS}/s%d", options.sessions), says=None),
        ACTS: bulk,
        EVENTS: bulk._replace(says=None, prepare=partial(acted, f"{url}{SESSIONS}/s0/acts", options.bulk)),
        VIEW: other("GET", f"{SESSIONS}/s0"),
        LIST: other("GET", f"{SESSIONS}?limit={PAGE}")._replace(per_call=listed),
        CREATE: other("POST", SESSIONS, new),
    }


def one_call(port: int, pids: Sequence[int], method: str, path: str, body: bytes = b"") -> Target:
    """Repeat one request."""
    says = {"BENCH_METHOD": method, "BENCH_PATH": path} | ({"BENCH_BODY": body.decode()} if body else {})
    return Target(port, partial(repeated, method, path, body), pids, says)


def calls_in_turn(port: int, pids: Sequence[int], act: str, feedback: str, sessions: int) -> Target:
    """Make an act and the feedback for its arm, in one of so many sessions; ``%d`` in the paths is its number."""
    says = {"BENCH_ACT": act, "BENCH_FEEDBACK": feedback, "BENCH_SESSIONS": str(sessions)}
    return Target(port, partial(act_and_feedback, act, feedback, sessions), pids, says)


def separate(session: str, sessions: int) -> Callable[[], Conversation]:
    """Return what makes conversations like ``act_and_feedback``, each with a session of its own.

    Parameters
    ----------
    session : its path, in which ``%d`` is its number
    sessions : there are; with more clients some share one
    """
    numbers = count()

    def talk() -> Conversation:
        path = session.replace("%d", str(next(numbers) % sessions))
        return act_and_feedback(f"{path}/act", f"{path}/feedback")

    return talk


def acted(acts: str, bulk: int, seconds: float) -> list[bytes]:
    """Act, and return the bodies of the events for all actions.

    Parameters
    ----------
    acts : URL
    bulk : events in a body
    seconds : for which clients will post the bodies
    """
    bodies: list[bytes] = []
    with httpx.Client() as client:
        while len(bodies) < min(CALLS * seconds, MOST_CALLS):
            actions = client.post(acts, json={"count": TOGETHER * bulk}).raise_for_status().json()["actions"]
            events = [{"arm": action["arm"], "loss": 0.5} for action in actions]
            parts = (events[first : first + bulk] for first in range(0, len(events), bulk))
            bodies += (json.dumps({"events": part}).encode() for part in parts)
    return bodies


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
    counted, cursor = 0, ""
    with httpx.Client(base_url=f"http://127.0.0.1:{port}") as client:
        while cursor is not None:
            page = client.get(SESSIONS, params={"limit": 1000} | ({"cursor": cursor} if cursor else {})).json()
            counted += sum(session["slot"] + session["feedbacks"] for session in page["sessions"])
            cursor = page["next_cursor"]
    if not acknowledged <= counted <= acknowledged + cut_off:
        of = f"{acknowledged} acts and events were acknowledged, the sessions have {counted}"
        raise LoadTestError(f"{of}; {cut_off} more may be")


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
