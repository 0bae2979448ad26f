"""Winners of a conflict rest, losers don't; a session that nobody else writes costs nothing."""

from __future__ import annotations

import asyncio
import statistics

import pytest

from service import turns
from service.cache import SessionCache
from service.committer import Committer
from service.learners.dexp3 import Dexp3Spec
from service.operations import Act
from service.specification import Specification, Stored
from service.store import codec
from service.store.base import Committed, NewSession
from service.store.redis import RedisStore
from service.turns import CONTENDED_SECONDS, LONGEST_REST, Turns


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


async def test_a_session_of_ones_own_is_not_waited_for(slept, clock):
    found = Turns()
    found.lost("other", "b", 0.01)
    found.won("s")
    await found.rest("s")

    assert slept == []


async def test_a_winner_rests_a_turn_for_each_of_the_others_and_a_loser_does_not(slept, clock):
    found = Turns()
    for winner in "bcb":
        found.lost("s", winner, 0.004)
        await found.rest("s")
    assert slept == []

    found.won("s")
    await found.rest("s")

    assert 0.008 <= slept[0] <= 0.0105


async def test_rests_are_bounded(slept, clock):
    found = Turns()
    for n in range(100):
        found.lost("s", str(n), 60.0)
    found.won("s")
    await found.rest("s")

    assert slept == [pytest.approx(LONGEST_REST)]


async def test_others_are_forgotten_when_they_have_gone(slept, clock):
    found = Turns()
    found.lost("s", "b", 0.004)
    clock[0] += CONTENDED_SECONDS + 0.1
    found.won("s")
    await found.rest("s")

    assert slept == []


async def test_what_is_remembered_is_bounded(slept, clock, monkeypatch):
    monkeypatch.setattr(turns, "MAX_SESSIONS", 2)
    found = Turns()
    for name in "abc":
        found.lost(name, "b", 0.001)
    for name in "abc":
        found.won(name)
        await found.rest(name)

    assert len(slept) == 1


class CountedStore(RedisStore):
    """Counts the commits of all its kind."""

    commits = 0

    async def commit(self, commit):
        outcome = await super().commit(commit)
        CountedStore.commits += isinstance(outcome, Committed)
        return outcome


async def test_nobody_starves_where_four_workers_write_one_session(redis_server):
    """64 clients, 16 on each worker. Calls are measured in commits, which a busy machine doesn't stretch."""
    stores = [CountedStore(redis_server.url) for _ in range(4)]
    committers = [Committer(store, SessionCache(10), max_queue=1000) for store in stores]
    stored = Stored.of(Specification(learner=Dexp3Spec(n_arms=100), seed=1))
    run = stored.start()
    await stores[0].create(NewSession("s", "first", stored.encode(), codec.encode(run.ledger, run.state)))
    lengths = []

    async def client(committer):
        for _ in range(50):
            before = CountedStore.commits
            await committer.submit("s", Act(1, 10**6, single=True))
            lengths.append(CountedStore.commits - before)

    await asyncio.gather(*(client(committers[n % 4]) for n in range(64)))
    snapshot = await stores[0].load("s")
    for store in stores:
        await store.close()

    assert codec.decode(snapshot.state, run.learner.state_type, by_arm=True).ledger.slot == 64 * 50
    median, slow = statistics.median(lengths), sorted(lengths)[int(0.99 * len(lengths))]
    assert 3 <= median <= 8
    assert slow < 5 * median
