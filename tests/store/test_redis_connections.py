"""Lost, cut, stalled and scarce connections to a real server: nothing twice, nothing lost, bounded waits."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator
from contextlib import suppress

import pytest
import uvloop
from redis.asyncio import Connection

from loadtest.chaos.proxy import CuttingProxy
from service.store.base import Committed, StoreUnavailableError
from service.store.options import StoreOptions
from service.store.redis.connection.client import CALLS_PER_CONNECTION
from service.store.redis.store import RedisStore
from tests.support.real_redis import RedisServer
from tests.support.sessions import commit, digest, new_session
from tests.support.waiting import until, wait_until

QUICK = StoreOptions(reply_seconds=0.2, retry_seconds=3)


@pytest.fixture
async def store(redis_server: RedisServer) -> AsyncIterator[RedisStore]:
    opened = RedisStore(redis_server.url)
    yield opened
    await opened.close()


async def version(store: RedisStore, session_id: str = "s") -> str | None:
    snapshot = await store.load(session_id)
    return snapshot.version if snapshot is not None else None


async def has_version(store: RedisStore, wanted: str) -> bool:
    return await version(store) == wanted


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

        outcome = await store.commit(commit("v0", "v1", events=[digest(1)], answers={digest("k"): b"answer"}))

        assert outcome == Committed()
        assert proxy.cut == len(cuts)
        assert await store.commit(commit("v1", "v2", events=[digest(2)])) == Committed()
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
        outcome = await store.commit(commit(f"v{n}", f"v{n + 1}", events=[digest(n)]))
        assert outcome == Committed()

    assert await store.commit(commit("v4", "v5")) == Committed()
    assert await version(store) == "v5"
    calls = redis_server.client.info("commandstats")["cmdstat_evalsha"]["calls"]
    assert calls > 6
    await store.close()


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


async def test_flushed_scripts_are_sent_again(store: RedisStore, redis_server: RedisServer) -> None:
    await store.create(new_session())
    for n in range(20):
        redis_server.client.script_flush()
        assert await store.commit(commit(f"v{n}", f"v{n + 1}", events=[digest(n)])) == Committed()
        assert await version(store) == f"v{n + 1}"


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
            await store.commit(commit("v0", "v1", events=[digest(1)]))

    assert await store.commit(commit("v0", "v1", events=[digest(1)])) == Committed()
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
