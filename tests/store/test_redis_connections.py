"""Connections that are cut or stall, to a real server: nothing twice, nothing lost."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import suppress

import pytest
import uvloop
from redis.asyncio import Connection

from loadtest.chaos.faults import CuttingProxy
from service.errors import StoreUnavailableError
from service.store.base import Committed, StoreOptions
from service.store.redis.store import RedisStore
from tests.support.real_redis import RedisServer
from tests.support.sessions import commit, digest, new_session, version

QUICK = StoreOptions(reply_seconds=0.2, retry_seconds=3)


@pytest.fixture
async def store(redis_server: RedisServer) -> AsyncIterator[RedisStore]:
    opened = RedisStore(redis_server.url)
    yield opened
    await opened.close()


async def test_connections_that_the_server_closed_are_replaced_unseen(
    store: RedisStore, redis_server: RedisServer
) -> None:
    await store.create(new_session())
    for n in range(50):
        redis_server.client.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
        if n % 2:
            assert await store.commit(commit(f"v{n - 1}", f"v{n + 1}")) == Committed()
        else:
            assert await version(store) == f"v{n}"
        await store.ping()


@pytest.mark.parametrize("cuts", [["request"], ["reply"], ["reply", "reply", "request"]])
async def test_a_commit_cut_off_anywhere_is_applied_once(redis_server: RedisServer, cuts: list[str]) -> None:
    with CuttingProxy(redis_server.port) as proxy:
        store = RedisStore(f"redis://127.0.0.1:{proxy.port}")
        await store.create(new_session())
        await store.commit(commit("v0", "v1", session_id="none"))
        proxy.arm(*cuts)

        outcome = await store.commit(commit("v0", "v1", event_ids=[digest(1)], answers={digest("k"): b"answer"}))

        assert outcome == Committed()
        assert proxy.cut == len(cuts)
        assert await store.commit(commit("v1", "v2", event_ids=[digest(2)])) == Committed()
        await store.close()


async def test_a_creation_cut_off_before_its_reply_is_ours(redis_server: RedisServer) -> None:
    with CuttingProxy(redis_server.port) as proxy:
        store = RedisStore(f"redis://127.0.0.1:{proxy.port}")
        await store.create(new_session("other"))
        proxy.arm("reply")

        assert (await store.create(new_session())).version == "v0"
        assert proxy.cut == 1
        await store.close()


async def test_a_deletion_cut_off_before_its_reply_is_not_repeated(redis_server: RedisServer) -> None:
    with CuttingProxy(redis_server.port) as proxy:
        store = RedisStore(f"redis://127.0.0.1:{proxy.port}")
        await store.create(new_session())
        await store.delete("none")
        proxy.arm("reply")

        with pytest.raises(StoreUnavailableError, match="no connection"):
            await store.delete("s")

        assert await store.delete("s") is False
        await store.close()


async def test_a_commit_that_timed_out_is_applied_once_and_never_later(redis_server: RedisServer) -> None:
    """The server stalls for longer than the timeout, then works off every copy it was sent."""
    store = RedisStore(redis_server.url, QUICK)
    await store.create(new_session())
    for n in range(4):
        redis_server.client.execute_command("CLIENT", "PAUSE", 500, "ALL")
        outcome = await store.commit(commit(f"v{n}", f"v{n + 1}", event_ids=[digest(n)]))
        assert outcome == Committed()

    assert await store.commit(commit("v4", "v5")) == Committed()
    assert await version(store) == "v5"
    calls = redis_server.client.info("commandstats")["cmdstat_evalsha"]["calls"]
    assert calls > 6
    await store.close()


async def test_flushed_scripts_are_sent_again(store: RedisStore, redis_server: RedisServer) -> None:
    await store.create(new_session())
    for n in range(20):
        redis_server.client.script_flush()
        assert await store.commit(commit(f"v{n}", f"v{n + 1}", event_ids=[digest(n)])) == Committed()
        assert await version(store) == f"v{n + 1}"


async def test_cancelled_callers_leave_no_reply_for_the_next(redis_server: RedisServer) -> None:
    """1,500 calls cancelled after a random part of a stalled reply, beside steady ones (seed 7)."""
    chance = random.Random(7)
    store = RedisStore(redis_server.url, StoreOptions(max_connections=4, pool_wait_seconds=20))
    names = [f"s{n}" for n in range(20)]
    for name in names:
        await store.create(new_session(name, spec=name.encode()))

    async def steady(name: str) -> None:
        for _ in range(60):
            snapshot = await store.load(name)
            assert snapshot is not None
            assert snapshot.spec == name.encode()

    async def leave_early(name: str) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(chance.random() * 0.003):
                snapshot = await store.load(name)
                assert snapshot is not None
                assert snapshot.spec == name.encode()

    async def hasty() -> None:
        for _ in range(75):
            await leave_early(chance.choice(names))

    await asyncio.gather(*map(steady, names), *(hasty() for _ in range(20)))

    assert await asyncio.gather(*(version(store, name) for name in names)) == ["v0"] * 20
    await store.close()


async def test_a_cancelled_commit_can_be_asked_about(redis_server: RedisServer) -> None:
    store = RedisStore(redis_server.url)
    await store.create(new_session())
    redis_server.client.execute_command("CLIENT", "PAUSE", 300, "ALL")
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await store.commit(commit("v0", "v1", event_ids=[digest(1)]))

    assert await store.commit(commit("v0", "v1", event_ids=[digest(1)])) == Committed()
    await store.close()


def test_uvloops_own_error_of_a_lost_connection_is_one(
    redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Under uvloop a connection that is lost just before it is written to raises no OSError."""
    lost = []
    connect = Connection.on_connect_check_health

    async def connecting(connection: Connection, **options: bool) -> None:
        if not lost:
            lost.append(connection)
            connection._writer.transport.abort()
            while "closed=True" not in repr(connection._writer.transport):  # noqa: ASYNC110 - the loop closes it
                await asyncio.sleep(0)
        await connect(connection, **options)

    async def scenario() -> None:
        store = RedisStore(redis_server.url, StoreOptions(retry_seconds=30.0))
        await store.create(new_session())
        assert await store.commit(commit("v0", "v1")) == Committed()
        await store.close()

    monkeypatch.setattr(Connection, "on_connect_check_health", connecting)
    uvloop.run(scenario())

    assert len(lost) == 1
