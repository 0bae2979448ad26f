"""What is remembered depends on no setting of the worker that looks it up."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack

import pytest

from service.store.base import Committed, Known, StoreOptions
from service.store.redis.store import RedisStore
from tests.support.real_redis import RedisServer
from tests.support.sessions import commit, digest, new_session

MINUTE, DAY, MONTH = 60, 86_400, 30 * 86_400
QUARTER_MS = DAY * 1000 // 4
Opened = Callable[[float], RedisStore]


@pytest.fixture
async def opened(redis_server: RedisServer) -> AsyncIterator[Opened]:
    """Opens stores by their dedupe window in seconds."""
    async with AsyncExitStack() as stack:

        def opened(window: float) -> RedisStore:
            store = RedisStore(redis_server.url, StoreOptions(dedupe_window_seconds=window))
            stack.push_async_callback(store.close)
            return store

        yield opened


@pytest.mark.parametrize(("before", "after"), [(DAY, MINUTE), (MINUTE, DAY), (DAY, MONTH), (MONTH, DAY + 1)])
async def test_another_window_forgets_nothing_that_was_acknowledged(
    opened: Opened, before: int, after: int
) -> None:
    first, second = opened(before), opened(after)
    await first.create(new_session(answer=(digest("c"), b"created")))
    await first.commit(commit("v0", "v1", event_ids=[digest(1)], answers={digest("k"): b"answer"}))

    assert await second.recall("s", digest("c")) == b"created"
    assert await second.commit(commit("v1", "v2", event_ids=[digest(1)], lookups=[digest("k")])) == Known(
        frozenset([digest(1)]), {digest("k"): b"answer"}
    )
    await second.commit(commit("v1", "v2", event_ids=[digest(2)]))
    assert await first.commit(commit("v2", "v3", event_ids=[digest(2)])) == Known(frozenset([digest(2)]), {})


async def test_workers_of_several_windows_share_a_session_and_leave_no_key(
    opened: Opened, redis_server: RedisServer
) -> None:
    stores = [opened(window) for window in (MINUTE, DAY, MONTH, 7 * DAY)]
    await stores[0].create(new_session(idle_ttl_ms=60_000))
    for n in range(12):
        store = stores[n % len(stores)]
        changed = commit(f"v{n}", f"v{n + 1}", event_ids=[digest(n)], idle_ttl_ms=60_000 + n)
        assert await store.commit(changed) == Committed()
    everything = commit("v12", None, event_ids=[digest(n) for n in range(12)])
    for store in stores:
        assert await store.commit(everything) == Known(frozenset(everything.event_ids), {})

    deadlines = {redis_server.client.pexpiretime(key) for key in redis_server.client.keys("bandit:{s}*")}
    assert len(deadlines) == 1
    assert await stores[1].delete("s") is True
    assert redis_server.client.dbsize() == 0


async def test_a_longer_window_is_promised_by_the_worker_that_commits(
    opened: Opened, redis_server: RedisServer
) -> None:
    day, month = opened(DAY), opened(MONTH)
    await day.create(new_session())
    await month.commit(commit("v0", "v1", event_ids=[digest(1)]))
    await day.commit(commit("v1", "v2", event_ids=[digest(2)]))

    kept = sorted(redis_server.client.ttl(key) for key in redis_server.client.keys("bandit:{s}:seen:*"))

    assert len(kept) == 2
    assert 1.25 * DAY < kept[0] <= 1.5 * DAY
    assert 1.25 * MONTH < kept[1] <= 1.5 * MONTH


async def test_a_list_of_buckets_changed_by_hand_stops_only_its_session(
    opened: Opened, redis_server: RedisServer
) -> None:
    store = opened(DAY)
    await store.create(new_session())
    redis_server.client.hset("bandit:{s}", "buckets", b"nonsense \xff 12=99999999999999999")

    assert await store.commit(commit("v0", "v1", event_ids=[digest(1)])) == Committed()
    assert await store.commit(commit("v1", "v2", event_ids=[digest(1)])) == Known(frozenset([digest(1)]), {})
