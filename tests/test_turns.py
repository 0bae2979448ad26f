"""Winners of a conflict wait, losers don't; a session that nobody else writes costs nothing."""

from __future__ import annotations

import asyncio
import statistics
import time

import pytest

from service import turns
from service.cache import SessionCache
from service.committer import Committer
from service.learners.dexp3 import Dexp3Spec
from service.operations import Act
from service.specification import Specification, Stored
from service.store import codec
from service.store.base import NewSession
from service.store.redis import RedisStore
from service.turns import CONTENDED_SECONDS, LONGEST_TURN, Turns


@pytest.fixture
def slept(monkeypatch):
    """The pauses taken."""
    pauses = []

    async def sleep(seconds):
        pauses.append(seconds)

    monkeypatch.setattr(asyncio, "sleep", sleep)
    return pauses


@pytest.fixture
def clock(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(turns.time, "monotonic", lambda: now[0])
    return now


async def test_a_session_of_ones_own_is_not_waited_for(slept):
    found = Turns()
    found.lost("other", 0.01)
    await found.give_way("s")

    assert slept == []


async def test_a_winner_waits_as_long_as_losing_attempts_take_and_no_longer_than_it_must(slept, clock):
    found = Turns()
    found.lost("s", 0.004)
    await found.give_way("s")
    for _ in range(100):
        found.lost("s", 5.0)
    await found.give_way("s")

    assert 0.004 <= slept[0] <= 0.008
    assert LONGEST_TURN * 0.99 <= slept[1] <= 2 * LONGEST_TURN


async def test_it_is_forgotten_when_the_others_have_gone(slept, clock):
    found = Turns()
    found.lost("s", 0.004)
    clock[0] += CONTENDED_SECONDS + 0.1
    await found.give_way("s")
    clock[0] -= CONTENDED_SECONDS
    await found.give_way("s")

    assert slept == []


async def test_what_is_remembered_is_bounded(slept, monkeypatch):
    monkeypatch.setattr(turns, "MAX_SESSIONS", 2)
    found = Turns()
    for name in "abc":
        found.lost(name, 0.001)
    for name in "abc":
        await found.give_way(name)

    assert len(slept) == 1


async def test_nobody_starves_where_four_workers_write_one_session(redis_server):
    """64 clients, 16 on each worker: the 99th percentile is below ten medians, and nobody is turned away."""
    stores = [RedisStore(redis_server.url) for _ in range(4)]
    committers = [Committer(store, SessionCache(10), max_queue=1000) for store in stores]
    stored = Stored.of(Specification(learner=Dexp3Spec(n_arms=100), seed=1))
    run = stored.start()
    await stores[0].create(NewSession("s", "first", stored.encode(), codec.encode(run.ledger, run.state)))
    seconds = []

    async def client(committer):
        for _ in range(25):
            started = time.perf_counter()
            await committer.submit("s", Act(1, 10**6, single=True))
            seconds.append(time.perf_counter() - started)

    await asyncio.gather(*(client(committers[n % 4]) for n in range(64)))
    snapshot = await stores[0].load("s")
    for store in stores:
        await store.close()

    assert codec.decode(snapshot.state, run.learner.state_type, by_arm=True).ledger.slot == 64 * 25
    assert sorted(seconds)[int(0.99 * len(seconds))] < 10 * statistics.median(seconds)
