"""Rates and processor times of the service beside floors and peers, in turns on one machine."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import httpx
from redis import Redis

from loadtest.bench import load
from loadtest.bench.floors import LOCKED_PATH, MEMORY_PATH, PEERS_ARMS, PEERS_REDIS, REDIS
from loadtest.bench.measured import cpu_seconds, ratios, running_uvicorn, spread
from loadtest.errors import LoadTestError
from loadtest.processes import RedisProcess, running_redis, running_service

LABELS = {
    "asgi": "bare ASGI: an application doing nothing",
    "nothing": "N: an endpoint of FastAPI doing nothing",
    "redis_get": "G: the same with one Redis GET, by redis-py's pool",
    "pipelined_get": "P: the same with one Redis GET, on one pipelined connection",
    "lua_script": "the same update as a Lua script",
    "memory_hot": "river in memory: one session",
    "memory_many": "river in memory: {sessions} sessions",
    "locked_hot": "river in Redis, locked: one session",
    "locked_many": "river in Redis, locked: {sessions} sessions",
    "hot": "service: act and feedback, one session",
    "many": "service: act and feedback, {sessions} sessions",
    "most": "service: act and feedback, {most} sessions",
    "hot_always": "service: one session, `appendfsync always`",
    "readme_hot": "service: README's session with ids",
    "readme_many": "service: {sessions} of README's sessions with ids",
    "few_arms": "service: one session, 10 arms",
    "most_arms": "service: one session, 10,000 arms",
    "few_tsallis": "service: `multiscale_tsallis`, 10 arms",
    "most_tsallis": "service: `multiscale_tsallis`, 10,000 arms",
    "few_open": "service: one session with expiry, {few_open} outstanding",
    "most_open": "service: the same, {most_open} outstanding",
    "bulk_acts": "service: acts, {bulk} a call",
    "bulk_events": "service: events, {bulk} a call",
    "view": "service: view of a session",
    "list": "service: sessions listed, {page} a page",
    "create": "service: sessions created",
}
IN_MEMORY, IN_REDIS = ("memory_hot", "memory_many"), ("locked_hot", "locked_many")
PARTS = {
    "floors": ("redis_get", "pipelined_get", "lua_script", *IN_MEMORY, *IN_REDIS),
    "sessions": ("hot", "many", "most", "hot_always"),
    "readme": ("readme_hot", "readme_many"),
    "arms": ("few_arms", "most_arms", "few_tsallis", "most_tsallis", "few_open", "most_open"),
    "bulk": ("bulk_acts", "bulk_events"),
    "rest": ("view", "list", "create"),
}
"""Targets that are measured together, beside N and bare ASGI."""
MOST_OF = 10
"""Most sessions for each of those where there are many."""
OUTSTANDING = {"few_open": 10, "most_open": 1000}
"""Decisions that are outstanding, for each of those sessions."""
WORKERS = (1, 2, 4)
"""Worker processes of services that are compared with each other."""
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
AT_ONCE = 1000
"""Most acts in a call."""
CREATE_SECONDS = 600
"""For which sessions may be created."""


class Options(NamedTuple):
    """What is measured, and for how long."""

    seconds: float
    repetitions: int
    clients: int
    n_arms: int
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
    talk: Callable[[], load.Conversation]
    pids: Sequence[int]
    says: Mapping[str, str] | None = None
    """The same for wrk: variables of ``talk.lua``; None where only clients in Python say it."""
    is_audited: bool = False
    """Whether what it acknowledges is counted by sessions."""
    per_call: int = 1
    """Acts, events or listed sessions in one request."""
    appendfsync: str = "everysec"
    """When Redis writes its log to the disk meanwhile."""
    prepare: Callable[[float], Sequence[bytes]] | None = None
    """Acts before a turn of so many seconds, and returns the bodies of the events that clients post in it."""


class Kept(NamedTuple):
    """So many sessions of a target, whose ids begin with ``name``, and what they are created with."""

    name: str
    number: int
    fields: Mapping[str, Any]
    event: str = load.REPORTED
    acts: int = 1
    """Outstanding from the start, in each but the most."""


README = {"reward_range": [0, 1], "expiry": {"after_seconds": 1800, "default_reward": 0}}
README_EVENT = '{"arm": %d, "reward": 1, "event_id": "%s"}'
DEXP3 = {"kind": "dexp3", "learning_rate": 0.01, "loss_clip": 1.0, "probability_floor": 0.1}
TSALLIS = {"kind": "multiscale_tsallis"}


def kept_for(options: Options) -> dict[str, Kept]:
    """Return the sessions of each target that acts and reports in turn; of the same ones, the fewest first."""
    dexp3, arms = {"learner": DEXP3 | {"n_arms": options.n_arms}}, {"n_arms": options.n_arms}
    hot = Kept("s", 1, dexp3)
    readme = Kept("readme", 1, README | {"learner": TSALLIS | arms}, README_EVENT)
    found = {"hot_always": hot, "hot": hot, "many": hot._replace(number=options.sessions)}
    found |= {"most": hot._replace(number=options.most), "readme_hot": readme}
    found["readme_many"] = readme._replace(number=options.sessions)
    for name, learner in (("arms", DEXP3), ("tsallis", TSALLIS)):
        for size, n_arms in (("few", 10), ("most", 10_000)):
            found[f"{size}_{name}"] = Kept(f"{size}_{name}", 1, {"learner": learner | {"n_arms": n_arms}})
    late, acts = dexp3 | {"expiry": {"after_seconds": 86_400, "default_loss": None}}, options.sessions
    return found | {name: Kept(name, 1, late, acts=acts * each) for name, each in OUTSTANDING.items()}


def names_of(options: Options, parts: Iterable[str]) -> list[str]:
    """Return the targets of these parts in their order, behind what all are compared with."""
    wanted = {"asgi", "nothing", *(name for part in parts for name in PARTS.get(part, ()))}
    wanted -= set() if options.peers else {*IN_MEMORY, *IN_REDIS}
    return [name for name in LABELS if name in wanted]


def of_floors(port: int, pids: Sequence[int], redis: int, n_arms: int) -> dict[str, Target]:
    """Endpoints without a learner, and a learner written as scripts; ``redis`` is a process id."""
    with_redis = [*pids, redis]
    paths = {"asgi": ("/bare", pids), "nothing": ("/nothing", pids)}
    paths |= {"redis_get": ("/read", with_redis), "pipelined_get": ("/pipelined", with_redis)}
    found = {name: one_call(port, used, "POST", path, EVENT) for name, (path, used) in paths.items()}
    return found | {"lua_script": calls_in_turn(port, with_redis, f"/act?n_arms={n_arms}", "/feedback", 1)}


def of_peers(port: int, pids: Sequence[int], redis: int, sessions: int) -> dict[str, Target]:
    """River's policies, in memory and in Redis."""
    found = {}
    for path, names, used in ((MEMORY_PATH, IN_MEMORY, pids), (LOCKED_PATH, IN_REDIS, [*pids, redis])):
        act, feedback = (f"{path}/{call}".replace("{session}", "%d") for call in ("act", "feedback"))
        for name, number in zip(names, (1, sessions), strict=True):
            found[name] = calls_in_turn(port, used, act, feedback, number)
    return found


def in_sessions(port: int, pids: Sequence[int], kept: Kept) -> Target:
    """Acts and reports in turn, in one of these sessions at random."""
    path = f"{SESSIONS}/{kept.name}%d"
    asked = calls_in_turn(port, pids, f"{path}/act", f"{path}/feedback", kept.number, kept.event)
    return asked._replace(is_audited=True)


def of_service(url: str, pids: Sequence[int], options: Options) -> dict[str, Target]:
    """Single calls in one session and in many, calls in bulk and views of the first one, lists and creations."""
    port = int(url.rpartition(":")[2])
    kept = kept_for(options)
    found = {name: in_sessions(port, pids, each) for name, each in kept.items()}
    found["hot_always"] = found["hot_always"]._replace(appendfsync="always")
    acts, new = (json.dumps(body).encode() for body in ({"count": options.bulk}, kept["hot"].fields))
    other, listed = partial(one_call, port, pids), min(PAGE, options.sessions)
    bulk = other("POST", f"{SESSIONS}/s0/acts", acts)._replace(is_audited=True, per_call=options.bulk)
    return found | {
        "bulk_acts": bulk,
        "bulk_events": bulk._replace(says=None, prepare=partial(acted, f"{url}{SESSIONS}/s0/acts", options.bulk)),
        "view": other("GET", f"{SESSIONS}/s0"),
        "list": other("GET", f"{SESSIONS}?limit={PAGE}")._replace(per_call=listed),
        "create": other("POST", SESSIONS, new),
    }


def one_call(port: int, pids: Sequence[int], method: str, path: str, body: bytes = b"") -> Target:
    """Repeat one request."""
    says = {"BENCH_METHOD": method, "BENCH_PATH": path} | ({"BENCH_BODY": body.decode()} if body else {})
    return Target(port, partial(load.repeated, method, path, body), pids, says)


def calls_in_turn(
    port: int, pids: Sequence[int], act: str, feedback: str, sessions: int, event: str = load.REPORTED
) -> Target:
    """Make an act and the feedback for its arm, in one of so many sessions; ``%d`` in the paths is its number."""
    says = {"BENCH_ACT": act, "BENCH_FEEDBACK": feedback, "BENCH_SESSIONS": str(sessions), "BENCH_EVENT": event}
    return Target(port, partial(load.act_and_feedback, act, feedback, sessions, event), pids, says)


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


WARM_UP = 0.2
"""Share of a turn that every target gets before the first one counts."""
OPEN_LOOP_SHARE = 0.6
"""Share of the rate of clients that wait for answers, at which latencies are measured."""
PYTHON = "clients in Python"
WRK = f"wrk; {PYTHON} for events in bulk and latency"
PLAIN = "plain"
"""Under which commits by the short script are counted, beside the outcomes."""


class Measured:
    """What came of every target, by repetition."""

    def __init__(self) -> None:
        self.rates: dict[str, list[float]] = defaultdict(list)
        """Requests, acts or events per second."""
        self.cpu: dict[str, list[float]] = defaultdict(list)
        """Microseconds of all processes that work for the target, Redis included."""
        self.shares: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
        """Of the commits of a target, those that were in conflict, and those that went the plain way."""
        self.latencies: list[dict[str, float]] = []
        """What the open loop found."""

    def summary(self) -> dict[str, Any]:
        """Spreads, and the ratios of each target and its processor time to N's within each repetition."""
        others = [name for name in self.rates if name != "nothing" and "nothing" in self.rates]
        latency = {name: spread([each[name] for each in self.latencies]) for name in (self.latencies or [{}])[0]}
        return {
            "per_second": {name: spread(rates) for name, rates in self.rates.items()},
            "cpu_microseconds": {name: spread(used) for name, used in self.cpu.items()},
            "rate_over": {name: ratios(self.rates, name, "nothing") for name in others},
            "cpu_over": {name: ratios(self.cpu, name, "nothing") for name in others},
            "shares": {kind: {n: spread(each) for n, each in of.items()} for kind, of in self.shares.items()},
        } | ({"open_loop_milliseconds": latency} if latency else {})


def measure(
    options: Options, names: Sequence[str], data: Path, logs: Path, advance: Callable[[], object]
) -> dict[str, Any]:
    """Measure these targets of one worker and return the summary.

    Raises
    ------
    LoadTestError
        where something does not start, a request fails, or a session has other counts than were acknowledged.
    """
    with running_redis(data, logs) as redis, ExitStack() as stack:
        url = f"redis://127.0.0.1:{redis.port}/0"
        floors = stack.enter_context(running_uvicorn("floors", {REDIS: url}, logs, "/read"))
        found = of_floors(*floors, redis.pid, options.n_arms)
        service = stack.enter_context(running_service(logs, "--workers", "1", "--store-url", url))
        found |= of_service(service.url, [*service.workers(), redis.pid], options)
        if options.peers:
            variables = {PEERS_ARMS: str(options.n_arms), PEERS_REDIS: url}
            peers = stack.enter_context(running_uvicorn("peers", variables, logs, "/memory/0/act"))
            found |= of_peers(*peers, redis.pid, options.sessions)
        kept = [each for name, each in kept_for(options).items() if name in names or name == "hot"]
        acknowledged = {service.port: _create(service.port, options, kept)}
        measured = _in_turns(options, redis, {name: found[name] for name in names}, acknowledged, advance)
        with Redis(port=redis.port) as client:
            return {"rates": measured.summary(), "redis_server": client.info("server")["redis_version"]}


def measure_workers(options: Options, data: Path, logs: Path, advance: Callable[[], object]) -> dict[str, Any]:
    """Compare services with one worker and with more on one Redis: one session, and many at random."""
    with running_redis(data, logs) as redis, ExitStack() as stack:
        targets, acknowledged = dict[str, Target](), dict[int, int]()
        for workers in WORKERS:
            flags = ("--workers", str(workers), "--key-prefix", f"workers-{workers}")
            url = f"redis://127.0.0.1:{redis.port}/0"
            service = stack.enter_context(running_service(logs, *flags, "--store-url", url))
            kept = {name: each for name, each in kept_for(options).items() if name in ("hot", "many")}
            acknowledged[service.port] = _create(service.port, options, kept.values())
            pids = [*service.workers(), redis.pid]
            for name, each in kept.items():
                targets[f"{name}_{workers}"] = in_sessions(service.port, pids, each)
        return _in_turns(options, redis, targets, acknowledged, advance).summary()


def _in_turns(
    options: Options,
    redis: RedisProcess,
    targets: Mapping[str, Target],
    acknowledged: Mapping[int, int],
    advance: Callable[[], object],
) -> Measured:
    """Call all targets in turn, and compare what was acknowledged with what the sessions count.

    Parameters
    ----------
    acknowledged : acts before, by the port of their service
    """
    measured, counted = Measured(), Counter(acknowledged)
    for number in range(options.repetitions + 1):
        seconds = options.seconds if number else WARM_UP * options.seconds
        for name, target in targets.items():
            done, rate, used, shares = _turn(options, redis, target, seconds)
            counted[target.port] += done
            if number:
                measured.rates[name].append(rate)
                measured.cpu[name].append(used)
                for kind, share in shares.items():
                    measured.shares[kind][name].append(share)
                advance()
    if (many := targets.get("many")) is not None:
        # Those clients are in Python; wrk reaches a rate at which they would be the ones that are late.
        closed = load.run_clients(many.port, many.talk, options.clients, options.seconds)
        counted[many.port] += closed.requests
        rate = OPEN_LOOP_SHARE * closed.requests / closed.seconds
        for _ in range(options.repetitions):
            measured.latencies.append(load.latencies(many.port, many.talk, options.clients, options.seconds, rate))
            counted[many.port] += int(measured.latencies[-1]["requests"])
    for port in acknowledged:
        of_port = [target for target in targets.values() if target.port == port]
        _audit(port, counted[port], cut_off(options, of_port))
    return measured


def _turn(
    options: Options, redis: RedisProcess, target: Target, seconds: float
) -> tuple[int, float, float, Mapping[str, float]]:
    """Call a target for some seconds.

    Returns
    -------
    Acts and events of the service that were acknowledged, those (or requests) per second, microseconds of processor
    time for each, and shares of commits.
    """
    bodies = () if target.prepare is None else target.prepare(seconds)
    events = iter([load.request("POST", f"{SESSIONS}/s0/feedbacks", body) for body in bodies])
    talk = partial(load.sent, events) if bodies else target.talk
    redis.command(f"CONFIG SET appendfsync {target.appendfsync}")
    counted: Callable[[], Counter[str]] = partial(_commits, target.port) if target.is_audited else Counter
    commits = counted()
    before = cpu_seconds(target.pids)
    if options.wrk is not None and target.says is not None:
        rate = load.run_wrk(options.wrk, target.port, options.clients, seconds, target.says)
    else:
        rate = load.run_clients(target.port, talk, options.clients, seconds)
    done = rate.requests * target.per_call
    used = 1e6 * (cpu_seconds(target.pids) - before) / max(done, 1)
    commits = counted() - commits
    tried = sum(commits.values()) - commits[PLAIN]
    shares = {"conflict": commits["conflict"] / tried} if tried else {}
    shares |= {PLAIN: commits[PLAIN] / commits["committed"]} if commits[PLAIN] else {}
    acted = len(bodies) * target.per_call
    return (done + acted) * target.is_audited, done / rate.seconds, used, shares


def _commits(port: int) -> Counter[str]:
    """Count the commits of a service by their outcome, and those that went the plain way."""
    lines = httpx.get(f"http://127.0.0.1:{port}/metrics").raise_for_status().text.splitlines()
    samples = {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines if line[0] != "#")}
    outcomes = {name.split('"')[1]: value for name, value in samples.items() if "bandit_commits_total{" in name}
    plain = samples["bandit_plain_commits_total"]
    return Counter({name: int(value) for name, value in outcomes.items()} | {PLAIN: int(plain)})


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


def _create(port: int, options: Options, kept: Iterable[Kept]) -> int:
    """Create these sessions, and act in all but the most; return the number of acts."""
    new, acts, count = list[bytes](), list[bytes](), 0
    for name, number, fields, _, open_acts in {each.name: each for each in kept}.values():
        bodies = ({"session_id": f"{name}{each}", "seed": each, **fields} for each in range(number))
        new += [load.request("POST", SESSIONS, json.dumps(body).encode()) for body in bodies]
        at_once, used = min(open_acts, AT_ONCE), min(number, options.sessions)
        body = json.dumps({"count": at_once}).encode()
        for each in [*range(used)] * (open_acts // at_once):
            acts.append(load.request("POST", f"{SESSIONS}/{name}{each}/acts", body))
        count += used * (open_acts // at_once) * at_once
    for requests in (new, acts):
        load.run_clients(port, partial(load.sent, iter(requests)), options.clients, CREATE_SECONDS)
    return count
