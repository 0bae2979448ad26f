"""A real server that freezes, restarts or is down: noticed soon, waited for, and unavailable only while it is."""

from __future__ import annotations

import asyncio
import time

import pytest

from service.errors import StoreUnavailableError
from service.store.base import Committed, StoreOptions
from service.store.redis.store import RedisStore
from tests.support.real_redis import RedisServer
from tests.support.sessions import commit, new_session, version
from tests.support.waiting import until


async def has_version(store: RedisStore, wanted: str) -> bool:
    return await version(store) == wanted


async def test_a_frozen_server_is_noticed_soon_and_its_late_copy_is_harmless(
    own_redis_server: RedisServer,
) -> None:
    store = RedisStore(own_redis_server.url, StoreOptions(reply_seconds=0.3, retry_seconds=0.3))
    await store.create(new_session())
    await store.commit(commit("v0", "v1", session_id="none"))
    own_redis_server.freeze()
    started = time.monotonic()
    with pytest.raises(StoreUnavailableError, match="in time"):
        await store.commit(commit("v0", "v1"))
    committing = time.monotonic() - started
    started = time.monotonic()
    with pytest.raises(StoreUnavailableError, match="in time"):
        await store.ping()
    pinging = time.monotonic() - started
    own_redis_server.thaw()
    await until(lambda: has_version(store, "v1"))

    assert committing < 10
    assert pinging < 10
    assert await store.commit(commit("v0", "v1")) == Committed()
    await store.ping()
    await store.close()


async def test_a_server_that_restarts_quickly_is_waited_for(own_redis_server: RedisServer) -> None:
    store = RedisStore(own_redis_server.url, StoreOptions(retry_seconds=15))
    await store.create(new_session())
    own_redis_server.stop()
    waiting = asyncio.create_task(store.commit(commit("v0", "v1")))
    await asyncio.to_thread(own_redis_server.start)

    assert await waiting == Committed()
    await store.close()


async def test_a_server_that_is_down_is_unavailable_only_while_it_is(own_redis_server: RedisServer) -> None:
    store = RedisStore(own_redis_server.url, StoreOptions(retry_seconds=0.2))
    await store.create(new_session())
    own_redis_server.kill()
    for _ in range(3):
        with pytest.raises(StoreUnavailableError, match="no connection"):
            await store.commit(commit("v0", "v1"))
    started = time.monotonic()
    for call in (
        store.load("s"),
        store.ping(),
        store.list(None, 10),
        store.delete("s"),
        store.recall("s", b"k" * 16),
    ):
        with pytest.raises(StoreUnavailableError, match="no connection"):
            await call
    failing = time.monotonic() - started
    await asyncio.to_thread(own_redis_server.start)

    assert failing < 10
    assert await store.commit(commit("v0", "v1")) == Committed()
    await store.close()
