"""Calls that fail, and whose callers may have left, leave no exception that nobody has looked at.

asyncio logs such an exception, as "never retrieved", when its future is collected.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from service.errors import StoreUnavailableError
from service.server.worker import EventLoop
from service.store.base import StoreOptions
from service.store.redis.store import RedisStore
from tests.support.real_redis import RedisServer
from tests.support.sentinel import Watched
from tests.support.sessions import commit, digest, new_session

pytestmark = pytest.mark.parametrize(
    "loop",
    [
        pytest.param(EventLoop, id="worker"),
        pytest.param(asyncio.new_event_loop, id="asyncio", marks=pytest.mark.slow),
    ],
)
Loop = Callable[[], asyncio.AbstractEventLoop]
NAMES = [f"s{n}" for n in range(40)]
IMPATIENT = StoreOptions(reply_seconds=0.3, connect_seconds=0.3, retry_seconds=0)
SAFE = StoreOptions(reply_seconds=1, connect_seconds=1, retry_seconds=5, min_replicas=1)


def unheeded(loop: Loop, scenario: Callable[[], Awaitable[object]]) -> list[str]:
    """What the loop's exception handler is told while the scenario runs, and when all of it is collected."""
    told: list[str] = []

    async def watched() -> None:
        running = asyncio.get_running_loop()
        running.set_exception_handler(lambda _, context: told.append(f"{context}"))
        await scenario()
        gc.collect()
        await asyncio.sleep(0)

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(watched())
        gc.collect()
    return told


def calls_to(store: RedisStore) -> list[asyncio.Task[Any]]:
    """Commits, views and large commits, which have a connection each."""
    large = bytes(100_000)
    calls = [store.commit(commit("v0", "v1", session_id=name, event_ids=[digest(name)])) for name in NAMES]
    calls += [store.commit(commit("v0", "v1", session_id=name, state=large)) for name in NAMES[:4]]
    return [asyncio.create_task(call) for call in (*calls, *map(store.load, NAMES), store.ping())]


async def fail(calls: list[asyncio.Task[Any]], harm: Callable[[], object]) -> None:
    """Let every second caller leave, some before and some after the harm; the others are told."""
    await asyncio.sleep(0)  # The calls are sent.
    for call in calls[::4]:
        call.cancel()
    await asyncio.to_thread(harm)
    for call in calls[2::4]:
        call.cancel()
    ends = await asyncio.gather(*calls, return_exceptions=True)
    failed = {type(end) for end in ends if isinstance(end, BaseException)}
    assert failed == {asyncio.CancelledError, StoreUnavailableError}


@asynccontextmanager
async def opened(url: str, options: StoreOptions = IMPATIENT) -> AsyncIterator[RedisStore]:
    store = RedisStore(url, options)
    try:
        yield store
    finally:
        await store.close()


async def fill(store: RedisStore) -> None:
    for name in NAMES:
        await store.create(new_session(name))


@pytest.mark.parametrize("harm", ["kill", "freeze"])
def test_calls_under_way_when_the_store_fails(own_redis_server: RedisServer, loop: Loop, harm: str) -> None:
    async def scenario() -> None:
        async with opened(own_redis_server.url) as store:
            await fill(store)
            own_redis_server.client.execute_command("CLIENT", "PAUSE", 60_000, "ALL")
            await fail(calls_to(store), getattr(own_redis_server, harm))

    assert unheeded(loop, scenario) == []


@pytest.mark.parametrize("harm", ["kill", "freeze"])
def test_callers_that_wait_for_a_connection(own_redis_server: RedisServer, loop: Loop, harm: str) -> None:
    """A connection that is never made; some who wait for it leave, in the second round all of them."""

    async def scenario() -> None:
        async with opened(own_redis_server.url) as store:
            getattr(own_redis_server, harm)()
            await fail(calls_to(store), lambda: None)
            calls = calls_to(store)
            await asyncio.sleep(0)
            for call in calls:
                call.cancel()
            await asyncio.gather(*calls, return_exceptions=True)

    assert unheeded(loop, scenario) == []


def test_a_store_that_is_closed_while_calls_are_under_way(own_redis_server: RedisServer, loop: Loop) -> None:
    async def scenario() -> None:
        async with opened(own_redis_server.url) as store:
            await fill(store)
            own_redis_server.freeze()
            calls = calls_to(store)
            await asyncio.sleep(0)
        await asyncio.gather(*calls, return_exceptions=True)

    assert unheeded(loop, scenario) == []


@pytest.mark.processes
def test_sentinels_and_their_master_fail(watched: Watched, loop: Loop) -> None:
    """Each in turn: the replica, which commits wait for, the master, and the sentinel."""

    async def scenario() -> None:
        async with opened(watched.url, StoreOptions()) as store:
            await fill(store)
        async with opened(watched.url, SAFE) as store:
            for server in (watched.replica, watched.master, watched.sentinel):
                await fail(calls_to(store), server.freeze)
            await fail(calls_to(store), watched.sentinel.kill)

    assert unheeded(loop, scenario) == []
