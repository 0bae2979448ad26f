"""What a session, a request and an event id take of memory and of a core: the table of docs/capacity.md.

Everything is measured in bytes and processor time, so that other load on the machine changes little of it.
"""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from loadtest.bench.footprint import Stores, event_of, reported, running_stores
from loadtest.bench.load import Conversation, request, run_clients
from loadtest.bench.measured import cpu_seconds
from loadtest.bench.report import number
from loadtest.study.page import wrapped, write_between
from loadtest.study.tables import markdown

WINDOW = {"expiry": {"after_seconds": 1800, "default_loss": 1}}
LEARNERS: Mapping[str, Mapping[str, Any]] = {
    "multiscale_tsallis": WINDOW,
    "centred_tsallis": WINDOW,
    "dexp3": {},
    "tsallis_delayed": {},
}
"""Kinds that are measured, each with the fields of its sessions; those with a window are as in the README."""
BY_SLOT = {"tsallis_delayed"}
"""Kinds whose events name their slot."""
N_ARMS = (10, 1_000)
FEW_ARMS = 100
BULK, CALLS = 1_000, 20
"""Events of a call, and calls, by which an event id and an event of a large batch are measured."""
MEMORY = ("learner", "arms", "session in Redis, kB", "sessions a GB", "in a worker, kB", "event id, B", "log, B")
TIMES = ("learner", "arms", "many sessions: worker, us", "Redis, us", "one: worker, us", "Redis, us", "batch, us")
MARKS = ("<!-- capacity: what follows is written by the command -->", "<!-- capacity: end -->")


class Spent(NamedTuple):
    """What a request takes: microseconds of a core, and bytes of Redis's append-only file."""

    worker: float
    redis: float
    log: float


class Taken(NamedTuple):
    """What sessions of one kind take."""

    session: float
    """Bytes of Redis's memory once each arm was reported, without event ids."""
    cached: float
    """Bytes of a worker's memory for a session that it has at hand."""
    event_id: float
    """Bytes of Redis's memory."""
    many: Spent
    """If many sessions are called in turn."""
    one: Spent
    """If all call one session: their requests share commits."""
    bulk: float
    """Microseconds of a worker for an event of a large batch."""


def held(stores: Stores) -> int:
    """Return the bytes that Redis holds, without buffers of connections and of its log."""
    memory = stores.redis.information("memory")
    return int(memory["used_memory"]) - sum(int(memory[name]) for name in ("mem_clients_normal", "mem_aof_buffer"))


def asked(paths: Sequence[str], *, by_slot: bool) -> Conversation:
    """Repeat an act in one of these sessions, drawn anew, and the event that answers it."""
    while True:
        path = random.choice(paths)  # noqa: S311 - spreads load
        action = json.loads((yield request("POST", f"{path}/act")))
        yield request("POST", f"{path}/feedback", json.dumps(event_of(action, by_slot=by_slot)).encode())


def measure(kind: str, n_arms: int, sessions: int, clients: int, seconds: float) -> Taken:
    """Measure sessions of one kind with a service of one worker and a Redis of their own.

    Parameters
    ----------
    sessions : of 100 arms or fewer; a tenth of them with more, which take as much memory together
    """
    by_slot, sessions = kind in BY_SLOT, sessions if n_arms <= FEW_ARMS else max(1, sessions // 10)
    with running_stores() as stores:
        worker, redis = stores.service.workers(), [stores.redis.pid]

        def make(name: str) -> str:
            return stores.create(name, {"kind": kind, "n_arms": n_arms}, **LEARNERS[kind])

        def spent(*paths: str) -> Spent:
            def now() -> tuple[float, ...]:
                return 1e6 * cpu_seconds(worker), 1e6 * cpu_seconds(redis), stores.written()[0]

            before = now()
            rate = run_clients(stores.service.port, partial(asked, paths, by_slot=by_slot), clients, seconds)
            return Spent(*((after - then) / rate.requests for after, then in zip(now(), before, strict=True)))

        stores.redis.command("CONFIG SET auto-aof-rewrite-percentage 0")
        fill = partial(reported, count=min(BULK, n_arms), by_slot=by_slot)
        stores.talk(partial(fill, iter([make("warm")] * 10)), 1)
        before = held(stores), stores.resident()
        paths = [make(f"s{number}") for number in range(sessions)]
        stores.talk(partial(fill, iter(paths)), clients)
        after = held(stores), stores.resident()
        session, cached = ((now - then) / sessions for now, then in zip(after, before, strict=True))
        many, one = spent(*paths), spent(make("one"))
        event_id, bulk = in_bulk(stores, make("bulk"), by_slot=by_slot)
    return Taken(session, cached, event_id, many, one, bulk)


def in_bulk(stores: Stores, path: str, *, by_slot: bool) -> tuple[float, float]:
    """Return the bytes of Redis's memory for an event id, and a worker's microseconds for an event."""
    worker, size, busy = stores.service.workers(), held(stores), 0.0
    for _ in range(CALLS):
        actions = stores.client.post(f"{path}/acts", json={"count": BULK}).json()["actions"]
        events = [event_of(each, by_slot=by_slot) for each in actions]
        before = cpu_seconds(worker)
        stores.client.post(f"{path}/feedbacks", json={"events": events}).raise_for_status()
        busy += cpu_seconds(worker) - before
    return (held(stores) - size) / (BULK * CALLS), 1e6 * busy / (BULK * CALLS)


def tables(found: Sequence[tuple[str, int, Taken]]) -> Sequence[Sequence[Sequence[str]]]:
    """Return two tables with their heads, of bytes and of processor time, from what was measured of each kind."""
    memory: list[Sequence[str]] = [MEMORY]
    times: list[Sequence[str]] = [TIMES]
    for kind, n_arms, taken in found:
        held, many, one = taken.session, taken.many, taken.one
        cells = (held / 1000, 1e9 / held, taken.cached / 1000, taken.event_id, many.log)
        memory.append((f"`{kind}`", f"{n_arms:,}", *map(number, cells)))
        cells = (many.worker, many.redis, one.worker, one.redis, taken.bulk)
        times.append((f"`{kind}`", f"{n_arms:,}", *map(number, cells)))
    return memory, times


def write(found: Sequence[tuple[str, int, Taken]], told: str, page: Path) -> None:
    """Write the tables, behind what is told of the run, between the marks of a page."""
    write_between(MARKS, "\n\n".join([wrapped(told), *map(markdown, tables(found))]), page)
