"""Connections to Redis: many calls on one, calls under way when it is lost, and few connections."""

import asyncio
import random
from contextlib import suppress
from types import SimpleNamespace

import pytest
import uvloop
from redis.asyncio import Connection
from redis.exceptions import ConnectionError as LostConnectionError
from redis.exceptions import ResponseError

from loadtest.chaos.faults import CuttingProxy
from service.errors import StoreUnavailableError
from service.store.base import Committed, StoreOptions
from service.store.redis.client import CALLS_PER_CONNECTION
from service.store.redis.connection import LARGE_BYTES, Call, Pipeline, ServerConnections, packed
from service.store.redis.store import RedisStore
from tests.support.sessions import commit, digest, loaded, new_session, version
from tests.support.waiting import wait_until

NAMES = [f"s{n}" for n in range(60)]


async def store_with_sessions(url, options=None):
    store = RedisStore(url, options)
    await asyncio.gather(*(store.create(new_session(name, spec=name.encode(), state=b"")) for name in NAMES))
    return store


class Load:
    """A client for each session, which makes the state a byte longer with each commit."""

    def __init__(self, store):
        self._store = store
        self._done = False
        self.made = dict.fromkeys(NAMES, 0)
        self._clients = [asyncio.create_task(self._keep_committing(name)) for name in NAMES]

    async def _keep_committing(self, name):
        while not self._done:
            n = self.made[name]
            grown = commit(
                f"a-{n}", f"a-{n + 1}", session_id=name, state=b"x" * (n + 1), event_ids=[digest((name, n))]
            )
            assert await self._store.commit(grown) == Committed()
            self.made[name] = n + 1

    async def more(self):
        """Wait until each client had ten more commits acknowledged."""
        wanted = {name: n + 10 for name, n in self.made.items()}
        async with asyncio.timeout(60):
            while any(self.made[name] < n for name, n in wanted.items()):
                done, _ = await asyncio.wait(self._clients, timeout=0.01)
                for client in done:
                    client.result()

    async def end(self):
        self._done = True
        await asyncio.gather(*self._clients)


# -- Connections that are cut or stall, to a real server: nothing twice, nothing lost.

QUICK = StoreOptions(reply_seconds=0.2, retry_seconds=3)


@pytest.fixture
async def store(redis_server):
    return RedisStore(redis_server.url)


async def test_connections_that_the_server_closed_are_replaced_unseen(store, created, redis_server):
    for n in range(50):
        redis_server.client.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
        if n % 2:
            assert await store.commit(commit(f"a-{n - 1}", f"a-{n + 1}")) == Committed()
        else:
            assert await version(store) == f"a-{n}"
        await store.ping()


@pytest.mark.parametrize("cuts", [["request"], ["reply"], ["reply", "reply", "request"]])
async def test_a_commit_cut_off_anywhere_is_applied_once(redis_server, cuts):
    with CuttingProxy(redis_server.port) as proxy:
        store = RedisStore(f"redis://127.0.0.1:{proxy.port}")
        await store.create(new_session())
        await store.commit(commit("a-0", "a-1", session_id="none"))
        proxy.arm(*cuts)

        outcome = await store.commit(commit("a-0", "a-1", event_ids=[digest(1)], answers={digest("k"): b"answer"}))

        assert outcome == Committed()
        assert proxy.cut == len(cuts)
        assert await store.commit(commit("a-1", "a-2", event_ids=[digest(2)])) == Committed()


async def test_a_creation_cut_off_before_its_reply_is_ours(redis_server):
    with CuttingProxy(redis_server.port) as proxy:
        store = RedisStore(f"redis://127.0.0.1:{proxy.port}")
        await store.create(new_session("other"))
        proxy.arm("reply")

        assert (await store.create(new_session())).version == "a-0"
        assert proxy.cut == 1


async def test_a_commit_that_timed_out_is_applied_once_and_never_later(redis_server):
    """The server stalls for longer than the timeout, then works off every copy it was sent."""
    store = RedisStore(redis_server.url, QUICK)
    await store.create(new_session())
    for n in range(4):
        redis_server.client.execute_command("CLIENT", "PAUSE", 500, "ALL")
        assert await store.commit(commit(f"a-{n}", f"a-{n + 1}", event_ids=[digest(n)])) == Committed()

    assert await store.commit(commit("a-4", "a-5")) == Committed()
    assert await version(store) == "a-5"
    assert redis_server.client.info("commandstats")["cmdstat_evalsha"]["calls"] > 6


async def test_flushed_scripts_are_sent_again(store, created, redis_server):
    for n in range(20):
        redis_server.client.script_flush()
        assert await store.commit(commit(f"a-{n}", f"a-{n + 1}", event_ids=[digest(n)])) == Committed()
        assert await version(store) == f"a-{n + 1}"


async def test_cancelled_callers_leave_no_reply_for_the_next(redis_server):
    """1,500 calls cancelled after a random part of a stalled reply, beside steady ones (seed 7)."""
    chance = random.Random(7)
    store = RedisStore(redis_server.url, StoreOptions(max_connections=4, pool_wait_seconds=20))
    names = [f"s{n}" for n in range(20)]
    for name in names:
        await store.create(new_session(name, spec=name.encode()))

    async def steady(name):
        for _ in range(60):
            assert (await loaded(store, name)).spec == name.encode()

    async def leave_early(name):
        with suppress(TimeoutError):
            async with asyncio.timeout(chance.random() * 0.003):
                assert (await loaded(store, name)).spec == name.encode()

    async def hasty():
        for _ in range(75):
            await leave_early(chance.choice(names))

    await asyncio.gather(*map(steady, names), *(hasty() for _ in range(20)))

    assert await asyncio.gather(*(version(store, name) for name in names)) == ["a-0"] * 20


async def test_a_cancelled_commit_can_be_asked_about(redis_server):
    store = RedisStore(redis_server.url)
    await store.create(new_session())
    redis_server.client.execute_command("CLIENT", "PAUSE", 300, "ALL")
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await store.commit(commit("a-0", "a-1", event_ids=[digest(1)]))

    assert await store.commit(commit("a-0", "a-1", event_ids=[digest(1)])) == Committed()


def test_uvloops_own_error_of_a_lost_connection_is_one(redis_server, monkeypatch):
    """Under uvloop a connection that is lost just before it is written to raises no OSError."""
    lost = []
    connect = Connection.on_connect_check_health

    async def connecting(connection, **options):
        if not lost:
            lost.append(connection)
            connection._writer.transport.abort()
            while "closed=True" not in repr(connection._writer.transport):  # noqa: ASYNC110 - the loop closes it
                await asyncio.sleep(0)
        await connect(connection, **options)

    async def scenario():
        store = RedisStore(redis_server.url, StoreOptions(retry_seconds=30.0))
        await store.create(new_session())
        assert await store.commit(commit("a-0", "a-1")) == Committed()
        await store.close()

    monkeypatch.setattr(Connection, "on_connect_check_health", connecting)
    uvloop.run(scenario())

    assert len(lost) == 1


# -- Many calls under way on one connection: replies in their order, each to its own call.

ECHO = [packed(("ECHO", str(n))) for n in range(1000)]


@pytest.fixture
async def pipeline(redis_server):
    opened = await Pipeline.open({"host": "127.0.0.1", "port": redis_server.port}, 5)
    yield opened
    opened.close()


async def test_commands_of_one_turn_leave_in_one_write_and_replies_keep_their_order(pipeline, monkeypatch):
    writes, write = [], pipeline._transport.writelines
    monkeypatch.setattr(pipeline._transport, "writelines", lambda data: (writes.append(data), write(data)))

    replies = await asyncio.gather(*map(pipeline.send, ECHO))

    assert replies == [b"%d" % n for n in range(len(ECHO))]
    assert writes == [ECHO]


async def test_an_error_is_that_of_its_own_call(pipeline):
    first, wrong, last = map(pipeline.send, (ECHO[1], packed(("ECHO",)), ECHO[2]))

    with pytest.raises(ResponseError, match="wrong number"):
        await wrong
    assert (await first, await last) == (b"1", b"2")
    assert pipeline.is_open


async def test_a_reply_that_belongs_to_no_call_ends_the_connection(pipeline):
    """After it no reply could be trusted to be that of its call."""
    assert await pipeline.send(ECHO[1] + ECHO[2]) == b"1"
    await asyncio.to_thread(wait_until, lambda: not pipeline.is_open)

    with pytest.raises(LostConnectionError):
        await pipeline.send(ECHO[3])


async def test_a_retired_connection_ends_with_its_last_reply(pipeline):
    replies = [pipeline.send(command) for command in ECHO]
    pipeline.retire()

    assert await asyncio.gather(*replies) == [b"%d" % n for n in range(len(ECHO))]
    assert pipeline._transport.is_closing()


def test_a_connection_that_was_just_lost_takes_no_call_under_uvloop(redis_server):
    """Before its loop has told the connection, uvloop would raise no OSError."""

    async def scenario():
        pipeline = await Pipeline.open({"host": "127.0.0.1", "port": redis_server.port}, 5)
        pipeline._transport.abort()
        assert pipeline.is_open
        with pytest.raises(LostConnectionError):
            pipeline.send(ECHO[1])

    uvloop.run(scenario())


# -- Many calls under way in a store: each gets its own reply, or its own failure, once.

PATIENT = StoreOptions(reply_seconds=0.5, retry_seconds=60)
IMPATIENT = {"kill": StoreOptions(reply_seconds=20, retry_seconds=0)}
IMPATIENT |= {"freeze": StoreOptions(reply_seconds=0.5, retry_seconds=0)}
"""A reply must not be missing for too long before the server is killed."""


def killed(server):
    server.kill()
    server.start()


def stopped(server):
    server.stop()
    server.start()


def frozen(server):
    """For longer than the timeout of a reply."""
    server.client.execute_command("CLIENT", "PAUSE", 1200, "ALL")


def cut(server):
    server.client.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")


@pytest.mark.parametrize("harm", [killed, stopped, pytest.param(frozen, marks=pytest.mark.slow), cut])
async def test_what_was_under_way_is_acknowledged_once(own_redis_server, harm):
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
    assert [one.version for one in snapshots if one] == [f"a-{n}" for n in load.made.values()]


@pytest.mark.parametrize("harm", ["kill", "freeze"])
async def test_no_call_is_left_without_an_end(own_redis_server, harm):
    store = await store_with_sessions(own_redis_server.url, IMPATIENT[harm])
    own_redis_server.client.execute_command("CLIENT", "PAUSE", 60_000, "ALL")
    calls = [asyncio.create_task(store.commit(commit("a-0", "a-1", session_id=name))) for name in NAMES]
    calls += [asyncio.create_task(store.load(name)) for name in NAMES]
    await asyncio.sleep(0)  # They are sent in this turn of the event loop.
    await asyncio.to_thread(getattr(own_redis_server, harm))

    async with asyncio.timeout(10):
        ends = await asyncio.gather(*calls, return_exceptions=True)

    reason = {"kill": "no connection", "freeze": "did not answer in time"}[harm]
    assert all(isinstance(end, StoreUnavailableError) and reason in str(end) for end in ends)


async def test_a_deletion_among_others_that_was_sent_is_not_sent_again(redis_server):
    with CuttingProxy(redis_server.port) as proxy:
        store = await store_with_sessions(f"redis://127.0.0.1:{proxy.port}")
        await store.create(new_session("gone"))
        await store.delete("none")
        proxy.arm("reply")
        commits = [store.commit(commit("a-0", "a-1", session_id=name)) for name in NAMES]

        deletion, *outcomes = await asyncio.gather(store.delete("gone"), *commits, return_exceptions=True)

        assert isinstance(deletion, StoreUnavailableError)
        assert outcomes == [Committed()] * len(NAMES)


async def test_a_deletion_that_was_not_sent_is_tried_again(own_redis_server):
    store = await store_with_sessions(own_redis_server.url, PATIENT)
    own_redis_server.stop()
    shared = store._client._server._shared
    await asyncio.to_thread(wait_until, lambda: not shared.is_open)
    deletion = asyncio.create_task(store.delete(NAMES[0]))
    await asyncio.to_thread(own_redis_server.start)

    assert await deletion is True


async def test_callers_that_leave_keep_their_place(redis_server):
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


def connected_so_far(server):
    return int(server.client.info("stats")["total_connections_received"])


async def test_a_large_reply_and_a_large_commit_among_small_ones(redis_server):
    store = await store_with_sessions(redis_server.url)
    large = bytes(range(256)) * 20_000
    await store.create(new_session("large", state=large))
    connections = connected_so_far(redis_server)
    commits = [commit("a-0", "a-1", session_id=name, event_ids=[digest(name)]) for name in NAMES]
    grown = commit("a-0", "a-1", session_id="large", state=large + b"x")

    results = await asyncio.gather(store.load("large"), store.commit(grown), *map(store.commit, commits))

    assert results[0] is not None
    assert results[0].state in {large, large + b"x"}
    assert results[1:] == [Committed()] * (1 + len(NAMES))
    assert (await asyncio.gather(*map(store.load, NAMES)))[5].version == "a-1"
    assert connected_so_far(redis_server) == connections  # That of the creation is used again.


async def test_large_calls_have_connections_of_their_own(redis_server):
    store = await store_with_sessions(redis_server.url)
    connections = connected_so_far(redis_server)

    await asyncio.gather(*(store.create(new_session(f"l{n}", state=bytes(LARGE_BYTES))) for n in range(3)))

    assert connected_so_far(redis_server) == connections + 3


async def test_who_leaves_while_sentinels_are_asked_leaves_no_connection_behind(redis_server):
    """They name the server to the first who asks, then answer nobody."""
    wait_until(lambda: connected(redis_server) == 1)
    names, asked_again = [{"host": "127.0.0.1", "port": redis_server.port}], asyncio.Event()

    async def where():
        if not names:
            asked_again.set()
            await asyncio.Event().wait()
        return names.pop()

    server = ServerConnections({}, StoreOptions(), SimpleNamespace(where=where, is_current=lambda _: False))
    large = Call(("ECHO", bytes(LARGE_BYTES)))
    await server.send(large)
    caller = asyncio.create_task(server.send(large))
    await asked_again.wait()
    assert connected(redis_server) == 2

    caller.cancel()
    await asyncio.wait([caller])
    await asyncio.to_thread(wait_until, lambda: connected(redis_server) == 1)


# -- Few connections serve many calls, and waits for one are bounded.


async def test_few_connections_serve_many_calls(redis_server):
    """500 calls at once on 5 connections, once those of tests before have ended."""
    wait_until(lambda: connected(redis_server) == 1)
    store = RedisStore(redis_server.url, StoreOptions(max_connections=5, pool_wait_seconds=20))
    await asyncio.gather(*(store.create(new_session(f"s{n}")) for n in range(500)))

    versions = await asyncio.gather(*(version(store, f"s{n}") for n in range(500)))

    assert versions == ["a-0"] * 500
    assert connected(redis_server) <= 6


def connected(server):
    """How many clients are, with the test's own."""
    return int(server.client.info("clients")["connected_clients"])


async def test_calls_that_get_no_connection_in_time_are_told_so(redis_server):
    store = RedisStore(redis_server.url, StoreOptions(max_connections=2, pool_wait_seconds=0.05))
    await store.create(new_session())
    redis_server.client.execute_command("CLIENT", "PAUSE", 400, "ALL")

    results = await asyncio.gather(*(store.load("s") for _ in range(100)), return_exceptions=True)

    refused = [one for one in results if isinstance(one, StoreUnavailableError)]
    assert {str(one) for one in refused} == {"all connections to the store are busy"}
    assert len(refused) == 100 - 2 * CALLS_PER_CONNECTION
    assert await version(store) == "a-0"


async def test_a_server_with_too_many_clients_is_unavailable_until_some_leave(redis_server):
    store = RedisStore(redis_server.url, StoreOptions(retry_seconds=0.1))
    redis_server.client.config_set("maxclients", 1)
    with pytest.raises(StoreUnavailableError, match=r"too many clients|no connection"):
        await store.create(new_session())
    redis_server.client.config_set("maxclients", 10_000)

    assert (await store.create(new_session())).version == "a-0"
