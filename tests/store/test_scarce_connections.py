"""Few connections serve many calls, and waits for one are bounded."""

from __future__ import annotations

import asyncio

import pytest

from service.errors import StoreUnavailableError
from service.store.base import StoreOptions
from service.store.redis.client import CALLS_PER_CONNECTION
from service.store.redis.store import RedisStore
from tests.support.real_redis import RedisServer
from tests.support.sessions import new_session, version
from tests.support.waiting import wait_until


async def test_few_connections_serve_many_calls(redis_server: RedisServer) -> None:
    """500 calls at once on 5 connections, once those of tests before have ended."""
    wait_until(lambda: connected(redis_server) == 1)
    store = RedisStore(redis_server.url, StoreOptions(max_connections=5, pool_wait_seconds=20))
    await asyncio.gather(*(store.create(new_session(f"s{n}")) for n in range(500)))

    versions = await asyncio.gather(*(version(store, f"s{n}") for n in range(500)))

    assert versions == ["v0"] * 500
    assert connected(redis_server) <= 6
    await store.close()


def connected(server: RedisServer) -> int:
    """How many clients are, with the test's own."""
    return int(server.client.info("clients")["connected_clients"])


async def test_calls_that_get_no_connection_in_time_are_told_so(redis_server: RedisServer) -> None:
    store = RedisStore(redis_server.url, StoreOptions(max_connections=2, pool_wait_seconds=0.05))
    await store.create(new_session())
    redis_server.client.execute_command("CLIENT", "PAUSE", 400, "ALL")

    results = await asyncio.gather(*(store.load("s") for _ in range(100)), return_exceptions=True)

    refused = [one for one in results if isinstance(one, StoreUnavailableError)]
    assert {str(one) for one in refused} == {"all connections to the store are busy"}
    assert len(refused) == 100 - 2 * CALLS_PER_CONNECTION
    assert await version(store) == "v0"
    await store.close()


async def test_a_server_with_too_many_clients_is_unavailable_until_some_leave(redis_server: RedisServer) -> None:
    store = RedisStore(redis_server.url, StoreOptions(retry_seconds=0.1))
    redis_server.client.config_set("maxclients", 1)
    with pytest.raises(StoreUnavailableError, match=r"too many clients|no connection"):
        await store.create(new_session())
    redis_server.client.config_set("maxclients", 10_000)

    assert (await store.create(new_session())).version == "v0"
    await store.close()
