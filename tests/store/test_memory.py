"""Time in the memory store, by a clock of the test's own."""

from __future__ import annotations

import pytest

from service.store.base import Committed, Known, NotFound, StoreOptions
from service.store.memory import MemoryStore
from tests.support.clock import Clock
from tests.support.sessions import commit, digest, new_session


@pytest.fixture
def store(clock: Clock) -> MemoryStore:
    clock.now = 1000.0
    return MemoryStore(StoreOptions(dedupe_window_seconds=60), clock)


async def test_each_commit_moves_the_deadline_by_the_idle_time(store: MemoryStore, clock: Clock) -> None:
    await store.create(new_session(idle_ttl_ms=10_000))
    clock.now = 1009
    await store.commit(commit("v0", "v1", idle_ttl_ms=10_000))
    clock.now = 1018.9
    snapshot = await store.load("s")
    clock.now = 1019

    assert snapshot is not None
    assert (snapshot.created_at, snapshot.expires_at) == (1000, 1019)
    assert await store.commit(commit("v1", "v2", idle_ttl_ms=10_000)) == NotFound()


async def test_sessions_nobody_asks_for_are_dropped_all_the_same(store: MemoryStore, clock: Clock) -> None:
    for n in range(100):
        await store.create(new_session(f"s{n}", idle_ttl_ms=1000 * (n + 1)))
    await store.delete("s40")
    clock.now = 1050
    await store.load("other")

    assert len(store._sessions) == 50


async def test_a_window_is_counted_from_the_recording(store: MemoryStore, clock: Clock) -> None:
    await store.create(new_session())
    await store.commit(commit("v0", "v1", event_ids=[digest(1)]))
    clock.now = 1030
    await store.commit(commit("v1", "v2", event_ids=[digest(2)]))
    clock.now = 1059.9
    both = await store.commit(commit("v2", None, event_ids=[digest(1), digest(2)]))
    clock.now = 1060
    later = await store.commit(commit("v2", None, event_ids=[digest(1), digest(2)]))
    clock.now = 1090

    assert both == Known(frozenset([digest(1), digest(2)]), {})
    assert later == Known(frozenset([digest(2)]), {})
    assert await store.commit(commit("v2", "v3", event_ids=[digest(1), digest(2)])) == Committed()


async def test_time_does_not_follow_a_clock_that_is_set_back(store: MemoryStore, clock: Clock) -> None:
    clock.now = 2000
    assert store.now() == 2000
    clock.now = 1500
    assert store.now() == 2000


async def test_it_says_that_it_forgets(store: MemoryStore) -> None:
    assert "forgets" in (await store.warnings())[0]
