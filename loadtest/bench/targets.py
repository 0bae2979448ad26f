"""What the bench measures: floors, what one would write instead, and the service."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import count
from typing import NamedTuple

import httpx

from loadtest.bench.load import Conversation, act_and_feedback, repeated

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
PEERS_ARMS, PEERS_REDIS = "PEERS_ARMS", "PEERS_REDIS"
"""Variables with the number of arms and the Redis's URL."""
MEMORY_PATH, LOCKED_PATH = "/memory/{session}", "/locked/{session}"


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
