"""Winners of a conflict rest, losers don't; a session that nobody else writes costs nothing."""

from __future__ import annotations

import asyncio
import json
import statistics

import pytest

from service.commit import contention
from service.commit.contention import CONTENDED_SECONDS, LONGEST_WAIT, Contention, Version
from service.learners.dexp3 import Dexp3Spec
from service.models.events import ArmEvent
from service.models.specification import Specification
from service.models.stored import Stored
from service.serialization import state as codec
from service.sessions.act import Act
from service.sessions.feedback import SettleFeedback
from service.store.base import Committed, NewSession
from service.store.redis.store import RedisStore
from tests.support.sessions import queues_on


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
    monkeypatch.setattr(contention.time, "monotonic", lambda: now[0])
    return now


async def test_a_session_of_ones_own_is_not_waited_for(slept, clock):
    found = Contention()
    found.on_conflict("other", "b", 0.01)
    found.on_commit("s")
    await found.wait("s")

    assert slept == []


async def test_a_winner_rests_a_turn_for_each_of_the_others_and_a_loser_does_not(slept, clock):
    found = Contention()
    for winner in "bcb":
        found.on_conflict("s", winner, 0.004)
        await found.wait("s")
    assert slept == []

    found.on_commit("s")
    await found.wait("s")

    assert 0.008 <= slept[0] <= 0.0105


async def test_rests_are_bounded(slept, clock):
    found = Contention()
    for n in range(100):
        found.on_conflict("s", str(n), 60.0)
    found.on_commit("s")
    await found.wait("s")

    assert slept == [pytest.approx(LONGEST_WAIT)]


async def test_others_are_forgotten_when_they_have_gone(slept, clock):
    found = Contention()
    found.on_conflict("s", "b", 0.004)
    clock[0] += CONTENDED_SECONDS + 0.1
    found.on_commit("s")
    await found.wait("s")

    assert slept == []


async def test_what_is_remembered_is_bounded(slept, clock, monkeypatch):
    monkeypatch.setattr(contention, "MAX_SESSIONS", 2)
    found = Contention()
    for name in "abc":
        found.on_conflict(name, "b", 0.001)
    for name in "abc":
        found.on_commit(name)
        await found.wait(name)

    assert len(slept) == 1


class CountedStore(RedisStore):
    """Counts the commits of all its kind."""

    commits = 0

    async def commit(self, commit):
        outcome = await super().commit(commit)
        CountedStore.commits += isinstance(outcome, Committed)
        return outcome


@pytest.mark.alone
async def test_nobody_starves_where_four_workers_write_one_session(redis_server):
    """64 clients, 16 on each worker. Calls are measured in commits, which a busy machine doesn't stretch."""
    stores = [CountedStore(redis_server.url) for _ in range(4)]
    queues = [queues_on(store) for store in stores]
    stored = Stored.of(Specification(learner=Dexp3Spec(n_arms=100), seed=1))
    run = stored.start()
    await stores[0].create(NewSession("s", "first", stored.encode(), codec.encode(run.ledger, run.state)))
    lengths = []

    async def client(queues):
        for _ in range(50):
            before = CountedStore.commits
            await queues.submit("s", Act(1, 10**6, single=True))
            lengths.append(CountedStore.commits - before)

    await asyncio.gather(*(client(queues[n % 4]) for n in range(64)))
    snapshot = await stores[0].load("s")
    for store in stores:
        await store.close()

    assert codec.decode(snapshot.state, run.learner.state_type, by_arm=True).ledger.slot == 64 * 50
    median, slow = statistics.median(lengths), sorted(lengths)[int(0.99 * len(lengths))]
    assert 3 <= median <= 8
    assert slow < 5 * median


@pytest.mark.slow
async def test_a_large_batch_is_not_starved_by_small_requests(redis_server):
    """A batch of 10,000 takes a hundred times as long as the commits of another worker that never stops."""
    stores = [CountedStore(redis_server.url) for _ in range(2)]
    large, small = map(queues_on, stores)
    stored = Stored.of(Specification(learner=Dexp3Spec(n_arms=100), seed=1))
    run = stored.start()
    await stores[0].create(NewSession("s", "first", stored.encode(), codec.encode(run.ledger, run.state)))
    for _ in range(20):
        await large.submit("s", Act(1000, 10**9))
    events = [ArmEvent(arm=n % 100, loss=0.5, event_id=f"e{n}") for n in range(10_000)]
    settled = asyncio.create_task(large.submit("s", SettleFeedback(events, "skip")))
    acts = 0

    async def client():
        nonlocal acts
        while not settled.done():
            await small.submit("s", Act(1, 10**6, single=True))
            acts += 1

    await asyncio.gather(*(client() for _ in range(8)))
    answer = json.loads((await settled).body)
    snapshot = await stores[0].load("s")
    for store in stores:
        await store.close()

    ledger = codec.decode(snapshot.state, run.learner.state_type, by_arm=True).ledger
    assert answer["applied"] + answer["surplus"] == 10_000
    assert (ledger.slot, ledger.feedbacks) == (20_000 + acts, answer["applied"])
    assert acts > 8


async def test_a_version_that_asks_for_time_is_waited_for_so_long(slept):
    await contention.honour_grace(Version.parse("ab-1"))
    await contention.honour_grace(Version.parse(contention.request_grace("ab-2", 0.15, 1)))
    await contention.honour_grace(Version.parse(contention.request_grace("ab-3", 3600.0, 1)))

    assert slept == [0.3, contention.LONGEST_GRACE]
    assert contention.request_grace("ab-4", contention.LONGEST_ATTEMPT, contention.LOST_BEFORE_GRACE - 1) is None
    assert contention.request_grace("ab-5", 0.004, contention.LOST_BEFORE_GRACE) == "ab-5-8"
    assert contention.request_grace("ab-6", 0.0, contention.LOST_BEFORE_GRACE) == "ab-6-1"
