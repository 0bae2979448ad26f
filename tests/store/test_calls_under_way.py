"""Many calls under way in a store: each gets its own reply, or its own failure, once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from loadtest.chaos.faults import CuttingProxy
from service.errors import StoreUnavailableError
from service.store.base import Committed, StoreOptions
from service.store.redis.connection import LARGE_BYTES
from tests.support.committing_clients import NAMES, Load, store_with_sessions
from tests.support.real_redis import RedisServer
from tests.support.sessions import commit, digest, new_session
from tests.support.waiting import wait_until

PATIENT = StoreOptions(reply_seconds=0.5, retry_seconds=60)
IMPATIENT = {
    "kill": StoreOptions(reply_seconds=20, retry_seconds=0),
    "freeze": StoreOptions(reply_seconds=0.5, retry_seconds=0),
}
"""A reply must not be missing for too long before the server is killed."""


def killed(server: RedisServer) -> None:
    server.kill()
    server.start()


def stopped(server: RedisServer) -> None:
    server.stop()
    server.start()


def frozen(server: RedisServer) -> None:
    """For longer than the timeout of a reply."""
    server.client.execute_command("CLIENT", "PAUSE", 1200, "ALL")


def cut(server: RedisServer) -> None:
    server.client.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")


@pytest.mark.parametrize("harm", [killed, stopped, pytest.param(frozen, marks=pytest.mark.slow), cut])
async def test_what_was_under_way_is_acknowledged_once(
    own_redis_server: RedisServer, harm: Callable[[RedisServer], None]
) -> None:
    store = await store_with_sessions(own_redis_server.url, PATIENT)
    load = Load(store)
    await load.more()
    for _ in range(3):
        own_redis_server.client.config_set("appendfsync", "always")  # A server that was started again forgets it.
        await asyncio.to_thread(harm, own_redis_server)
        await load.more()
    await load.end()

    snapshots = await asyncio.gather(*map(store.load, NAMES))
    assert [len(one.state) for one in snapshots if one] == list(load.made.values())
    assert [one.version for one in snapshots if one] == [f"v{n}" for n in load.made.values()]
    await store.close()


@pytest.mark.parametrize("harm", ["kill", "freeze"])
async def test_no_call_is_left_without_an_end(own_redis_server: RedisServer, harm: str) -> None:
    store = await store_with_sessions(own_redis_server.url, IMPATIENT[harm])
    own_redis_server.client.execute_command("CLIENT", "PAUSE", 60_000, "ALL")
    calls = [asyncio.create_task(store.commit(commit("v0", "v1", session_id=name))) for name in NAMES]
    calls += [asyncio.create_task(store.load(name)) for name in NAMES]
    await asyncio.sleep(0)  # They are sent in this turn of the event loop.
    await asyncio.to_thread(getattr(own_redis_server, harm))

    async with asyncio.timeout(10):
        ends = await asyncio.gather(*calls, return_exceptions=True)

    reason = {"kill": "no connection", "freeze": "did not answer in time"}[harm]
    assert all(isinstance(end, StoreUnavailableError) and reason in str(end) for end in ends)
    await store.close()


async def test_a_deletion_among_others_that_was_sent_is_not_sent_again(redis_server: RedisServer) -> None:
    with CuttingProxy(redis_server.port) as proxy:
        store = await store_with_sessions(f"redis://127.0.0.1:{proxy.port}")
        await store.create(new_session("gone"))
        await store.delete("none")
        proxy.arm("reply")
        commits = [store.commit(commit("v0", "v1", session_id=name)) for name in NAMES]

        deletion, *outcomes = await asyncio.gather(store.delete("gone"), *commits, return_exceptions=True)

        assert isinstance(deletion, StoreUnavailableError)
        assert outcomes == [Committed()] * len(NAMES)
        await store.close()


async def test_a_deletion_that_was_not_sent_is_tried_again(own_redis_server: RedisServer) -> None:
    store = await store_with_sessions(own_redis_server.url, PATIENT)
    own_redis_server.stop()
    shared = store._client._server._shared
    await asyncio.to_thread(wait_until, lambda: not shared.is_open)
    deletion = asyncio.create_task(store.delete(NAMES[0]))
    await asyncio.to_thread(own_redis_server.start)

    assert await deletion is True
    await store.close()


async def test_callers_that_leave_keep_their_place(redis_server: RedisServer) -> None:
    """The connection stays: the others get their own replies from it."""
    store = await store_with_sessions(redis_server.url)
    connections = connected_so_far(redis_server)
    redis_server.client.execute_command("CLIENT", "PAUSE", 200, "ALL")
    calls = [asyncio.create_task(store.load(name)) for name in NAMES]
    await asyncio.sleep(0)
    for call in calls[::2]:
        call.cancel()

    snapshots = await asyncio.gather(*calls[1::2])

    assert [one.spec.decode() for one in snapshots if one] == NAMES[1::2]
    assert [call.cancelled() for call in calls] == [True, False] * (len(NAMES) // 2)
    assert connected_so_far(redis_server) == connections
    await store.close()


def connected_so_far(server: RedisServer) -> int:
    return int(server.client.info("stats")["total_connections_received"])


async def test_a_large_reply_and_a_large_commit_among_small_ones(redis_server: RedisServer) -> None:
    store = await store_with_sessions(redis_server.url)
    large = bytes(range(256)) * 20_000
    await store.create(new_session("large", state=large))
    connections = connected_so_far(redis_server)
    commits = [commit("v0", "v1", session_id=name, event_ids=[digest(name)]) for name in NAMES]
    grown = commit("v0", "v1", session_id="large", state=large + b"x")

    results = await asyncio.gather(store.load("large"), store.commit(grown), *map(store.commit, commits))

    assert results[0] is not None
    assert results[0].state in {large, large + b"x"}
    assert results[1:] == [Committed()] * (1 + len(NAMES))
    assert (await asyncio.gather(*map(store.load, NAMES)))[5].version == "v1"
    assert connected_so_far(redis_server) == connections  # That of the creation is used again.
    await store.close()


async def test_large_calls_have_connections_of_their_own(redis_server: RedisServer) -> None:
    store = await store_with_sessions(redis_server.url)
    connections = connected_so_far(redis_server)

    await asyncio.gather(*(store.create(new_session(f"l{n}", state=bytes(LARGE_BYTES))) for n in range(3)))

    assert connected_so_far(redis_server) == connections + 3
    await store.close()
