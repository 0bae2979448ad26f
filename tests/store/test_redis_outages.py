"""A Redis that fails: what is told, what is tried again, and what survives."""

import asyncio
import gc
import time
import warnings
from contextlib import asynccontextmanager, suppress

import pytest
from redis import exceptions
from redis._parsers.base import BaseParser
from redis.asyncio.sentinel import MasterNotFoundError

from service.errors import StoreUnavailableError
from service.server.worker import EventLoop
from service.store.base import Committed, StoreOptions
from service.store.redis.store import RedisStore
from service.store.redis.url import NO_MASTER, failure_of
from tests.support.real_redis import RedisServer
from tests.support.sessions import commit, digest, new_session
from tests.support.waiting import wait_until

# -- A real server that freezes, restarts or is down: noticed soon, waited for, and unavailable only while it is.


async def test_a_server_that_restarts_quickly_is_waited_for(own_redis_server):
    store = RedisStore(own_redis_server.url, StoreOptions(retry_seconds=15))
    await store.create(new_session())
    own_redis_server.stop()
    waiting = asyncio.create_task(store.commit(commit("a-0", "a-1")))
    await asyncio.to_thread(own_redis_server.start)

    assert await waiting == Committed()


async def test_a_server_that_is_down_is_unavailable_only_while_it_is(own_redis_server):
    store = RedisStore(own_redis_server.url, StoreOptions(retry_seconds=0.2))
    await store.create(new_session())
    own_redis_server.kill()
    for _ in range(3):
        with pytest.raises(StoreUnavailableError, match="no connection"):
            await store.commit(commit("a-0", "a-1"))
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
    assert await store.commit(commit("a-0", "a-1")) == Committed()


# -- Every way a server refuses is told by its own words, with any version of redis-py.

WRAPPED = "Error running script (call to f_1234): @user_script:9: @user_script: 9: "


@pytest.mark.parametrize(
    ("reply", "words", "passing"),
    [
        ("LOADING Redis is loading the dataset in memory", "LOADING", True),
        ("BUSY Redis is busy running a script.", "BUSY", True),
        ("TRYAGAIN Multiple keys request during rehashing of slot", "TRYAGAIN", True),
        ("CLUSTERDOWN Hash slot not served", "CLUSTERDOWN", True),
        ("MASTERDOWN Link with MASTER is down", "MASTERDOWN", True),
        ("MOVED 3999 127.0.0.1:6381", "cluster", False),
        ("ASK 3999 127.0.0.1:6381", "cluster", False),
        ("OOM command not allowed when used memory > 'maxmemory'.", "full", False),
        (f"ERR {WRAPPED}-OOM command not allowed when used memory > 'maxmemory'.", "full", False),
        ("READONLY You can't write against a read only replica.", "replica", False),
        (f"ERR {WRAPPED}-READONLY You can't write against a read only replica.", "replica", False),
        ("MISCONF Redis is configured to save RDB snapshots", "disk", False),
        (f"ERR {WRAPPED}-MISCONF Errors writing to the AOF file", "disk", False),
        ("NOREPLICAS Not enough good replicas to write.", "replicas", False),
        ("NOAUTH Authentication required.", "credentials", False),
        ("ERR Protocol error: unauthenticated multibulk length", "credentials", False),
        ("WRONGPASS invalid username-password pair or user is disabled.", "credentials", False),
        ("NOPERM this user has no permissions to run the 'evalsha' command", "permission", False),
        ("ERR max number of clients reached", "too many clients", True),
        ("ERR something nobody thought of", "something nobody thought of", False),
    ],
)
def test_a_reply_is_told(reply, words, passing):
    what = failure_of(BaseParser.parse_error(reply))

    assert words in what.reason
    assert what.is_transient is passing


@pytest.mark.parametrize("error", [exceptions.TimeoutError("timed out"), exceptions.ConnectionError("closed")])
def test_a_lost_connection_may_pass(error):
    assert failure_of(error).is_transient


def test_a_long_refusal_is_cut():
    assert len(failure_of(exceptions.ResponseError("x" * 10_000)).reason) < 300


def test_sentinels_out_of_reach_are_told_from_those_that_know_no_master():
    assert failure_of(MasterNotFoundError("No master found for 'main'")) == NO_MASTER
    unreached = failure_of(MasterNotFoundError("No master found for 'main' : <a> - ConnectionError()"))
    assert (unreached.reason.partition(" (")[0], unreached.is_transient) == ("sentinels are out of reach", True)


async def test_sentinels_out_of_reach_are_named_in_the_failure_of_a_call():
    store = RedisStore("redis+sentinel://127.0.0.1:1,127.0.0.1:2/main", StoreOptions(retry_seconds=0))

    with pytest.raises(StoreUnavailableError, match=r"out of reach \(127.0.0.1:1, 127.0.0.1:2\)"):
        await store.load("s")


def test_a_refused_command_is_named():
    text = "NOPERM User small has no permissions to run the 'cluster|slots' command"

    assert failure_of(BaseParser.parse_error(text)).reason.endswith("(NOPERM): cluster|slots")


# -- A server killed in the middle of commits: with ``appendfsync always`` its file has all it acknowledged.

KILLS = 5
WORTH = 200
"""Commits before a kill."""
WRITERS = 4


@pytest.fixture
def server(server_program, tmp_path):
    server = RedisServer(tmp_path, "--appendfsync", "always").start()
    yield server
    server.close()


async def commit_until_it_fails(store, name, acknowledged):
    with suppress(StoreUnavailableError):
        while True:
            n = acknowledged[name]
            grown = commit(f"a-{n}", f"a-{n + 1}", session_id=name, writer=f"{n:x}", event_ids=[digest(n)])
            assert await store.commit(grown) == Committed()
            acknowledged[name] = n + 1


@pytest.mark.slow
async def test_what_was_acknowledged_survives_sigkill_and_at_most_one_commit_more_does(server):
    """The one more is that whose reply was lost."""
    names = [f"s{n}" for n in range(WRITERS)]
    for _ in range(KILLS):
        store = RedisStore(server.url, StoreOptions(retry_seconds=0.01))
        acknowledged = dict.fromkeys(names, 0)
        for name in names:
            await store.delete(name)
            await store.create(new_session(name))
        committing = [asyncio.create_task(commit_until_it_fails(store, name, acknowledged)) for name in names]
        await asyncio.to_thread(wait_until, lambda told=acknowledged: sum(told.values()) >= WORTH)
        await asyncio.to_thread(server.kill)
        await asyncio.gather(*committing)
        await store.close()
        await asyncio.to_thread(server.start)

        kept = {name: int(server.client.hget(f"bandit:{{{name}}}", "version")[2:]) for name in names}
        assert all(kept[name] - acknowledged[name] in (0, 1) for name in names)
        for name in names:
            ids = sum(server.client.hlen(key) for key in server.client.scan_iter(f"bandit:{{{name}}}:seen:*"))
            assert ids == kept[name]


# -- Calls that fail, and whose callers may have left, leave no exception that nobody has looked at.
#
# asyncio logs such an exception, as "never retrieved", when its future is collected.

EACH_LOOP = pytest.mark.parametrize(
    "loop", [EventLoop, pytest.param(asyncio.new_event_loop, marks=pytest.mark.slow)], ids=["worker", "asyncio"]
)
NAMES = [f"s{n}" for n in range(40)]
IMPATIENT = StoreOptions(reply_seconds=0.3, connect_seconds=0.3, retry_seconds=0)
SAFE = StoreOptions(reply_seconds=1, connect_seconds=1, retry_seconds=5, min_replicas=1)


def unheeded(loop, scenario):
    """What the loop's exception handler and warnings say of the scenario, until all of it is collected."""
    told = []

    async def watched():
        asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(f"{context}"))
        await scenario()
        gc.collect()
        await asyncio.sleep(0)

    # A warning that is an error would keep uvloop from closing what it warns of: it would wait for that forever.
    with warnings.catch_warnings(record=True) as warned, asyncio.Runner(loop_factory=loop) as runner:
        warnings.simplefilter("always")
        runner.run(watched())
        gc.collect()
    return told + [str(each.message) for each in warned]


def calls_to(store):
    """Commits, views and large commits, which have a connection each."""
    large = bytes(100_000)
    calls = [store.commit(commit("a-0", "a-1", session_id=name, event_ids=[digest(name)])) for name in NAMES]
    calls += [store.commit(commit("a-0", "a-1", session_id=name, state=large)) for name in NAMES[:4]]
    return [asyncio.create_task(call) for call in (*calls, *map(store.load, NAMES), store.ping())]


async def fail(calls, harm):
    """Let every second caller leave, some before and some after the harm; the others are told."""
    await asyncio.sleep(0)  # The calls are sent.
    for call in calls[::4]:
        call.cancel()
    await asyncio.to_thread(harm)
    for call in calls[2::4]:
        call.cancel()
    ends = await asyncio.gather(*calls, return_exceptions=True)
    kinds = {asyncio.CancelledError, StoreUnavailableError}
    failed = [end for end in ends if isinstance(end, BaseException)]
    assert {next(kind for kind in kinds if isinstance(end, kind)) for end in failed} == kinds


@asynccontextmanager
async def opened(url, options=IMPATIENT):
    store = RedisStore(url, options)
    try:
        yield store
    finally:
        await store.close()


async def fill(store):
    for name in NAMES:
        await store.create(new_session(name))


@EACH_LOOP
@pytest.mark.parametrize("harm", ["kill", "freeze"])
def test_calls_under_way_when_the_store_fails(own_redis_server, loop, harm):
    async def scenario():
        async with opened(own_redis_server.url) as store:
            await fill(store)
            own_redis_server.client.execute_command("CLIENT", "PAUSE", 60_000, "ALL")
            await fail(calls_to(store), getattr(own_redis_server, harm))

    assert unheeded(loop, scenario) == []


@EACH_LOOP
@pytest.mark.parametrize("harm", ["kill", "freeze"])
def test_callers_that_wait_for_a_connection(own_redis_server, loop, harm):
    """A connection that is never made; some who wait for it leave, in the second round all of them."""

    async def scenario():
        async with opened(own_redis_server.url) as store:
            getattr(own_redis_server, harm)()
            await fail(calls_to(store), lambda: None)
            calls = calls_to(store)
            await asyncio.sleep(0)
            for call in calls:
                call.cancel()
            await asyncio.gather(*calls, return_exceptions=True)

    assert unheeded(loop, scenario) == []


@EACH_LOOP
def test_a_store_that_is_closed_while_calls_are_under_way(own_redis_server, loop):
    async def scenario():
        async with opened(own_redis_server.url) as store:
            await fill(store)
            own_redis_server.freeze()
            calls = calls_to(store)
            await asyncio.sleep(0)
        await asyncio.gather(*calls, return_exceptions=True)

    assert unheeded(loop, scenario) == []


@EACH_LOOP
@pytest.mark.processes
def test_sentinels_and_their_master_fail(watched, loop):
    """Each in turn: the replica, which commits wait for, the master, and the sentinel."""

    async def scenario():
        async with opened(watched.url, StoreOptions()) as store:
            await fill(store)
        async with opened(watched.url, SAFE) as store:
            for server in (watched.replica, watched.master, watched.sentinel):
                await fail(calls_to(store), server.freeze)
            await fail(calls_to(store), watched.sentinel.kill)

    assert unheeded(loop, scenario) == []
