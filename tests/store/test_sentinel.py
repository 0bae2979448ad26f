"""A master, a replica and a sentinel: the master dies, the store follows, nothing counts twice."""

from __future__ import annotations

import asyncio
import time
from urllib.parse import quote

import pytest
from redis.exceptions import ResponseError

from service.errors import StoreUnavailableError
from service.store import open_store
from service.store.base import Committed, StoreOptions
from service.store.redis.store import RedisStore
from service.store.redis.url import plain_url
from tests.support.real_redis import RedisServer
from tests.support.sentinel import Watched
from tests.support.sessions import commit, digest, new_session
from tests.support.waiting import wait_until

SECRET = "p@s:s/w%rd#?,"
PATIENT = StoreOptions(reply_seconds=0.5, retry_seconds=20)


@pytest.mark.processes
@pytest.mark.quick
async def test_a_store_follows_the_master_through_a_failover(watched: Watched) -> None:
    store = open_store(watched.url, options=PATIENT)
    await store.create(new_session())
    for n in range(20):
        assert await store.commit(commit(f"v{n}", f"v{n + 1}", event_ids=[digest(n)])) == Committed()
    await asyncio.to_thread(wait_until, watched.in_step)
    watched.master.kill()

    outcome = await store.commit(commit("v20", "v21", event_ids=[digest(20)]))

    assert outcome == Committed()
    snapshot = await store.load("s")
    assert snapshot is not None
    assert snapshot.version == "v21"
    assert watched.replica.client.hget("bandit:{s}", "version") == b"v21"
    await store.ping()
    await store.close()


@pytest.mark.processes
async def test_commits_go_on_at_the_new_master_soon_after_an_ordered_failover(watched: Watched) -> None:
    """The old master stays up and takes commits for ten more seconds; the store has left it long before."""
    store = RedisStore(watched.url, PATIENT)
    await store.create(new_session(state=b""))
    await asyncio.to_thread(wait_until, watched.in_step)
    made = [0]
    done = asyncio.Event()

    async def keep_committing() -> None:
        while not done.is_set():
            snapshot = await store.load("s")
            assert snapshot is not None
            n = made[0]
            outcome = await store.commit(commit(snapshot.version, f"v{n + 1}", event_ids=[digest(n)]))
            made[0] = n + isinstance(outcome, Committed)
            await asyncio.sleep(0.005)

    committing = asyncio.create_task(keep_committing())
    await asyncio.to_thread(wait_until, lambda: swapping(watched.sentinel))
    await asyncio.to_thread(wait_until, lambda: watched.replica.client.info("replication")["role"] == "master")
    swapped, started = made[0], time.monotonic()
    await asyncio.to_thread(
        wait_until, lambda: int(watched.replica.client.hget("bandit:{s}", "version")[1:]) > swapped
    )
    left = time.monotonic() - started
    done.set()
    await committing

    snapshot = await store.load("s")
    assert snapshot is not None
    assert snapshot.version == f"v{made[0]}"
    assert left < 30
    await store.close()


def newest(server: RedisServer) -> int:
    return int(server.client.hget("bandit:{s}", "version")[1:])


def swapping(sentinel: RedisServer) -> bool:
    """Ask for a failover; the sentinel refuses until it has seen the replica well."""
    try:
        return bool(sentinel.client.execute_command("SENTINEL", "FAILOVER", "main"))
    except ResponseError:
        return False


@pytest.mark.processes
async def test_without_a_master_the_store_is_unavailable_and_says_so(watched: Watched) -> None:
    store = open_store(watched.url.replace("/main", "/other"), options=StoreOptions(retry_seconds=0.1))
    started = time.monotonic()
    with pytest.raises(StoreUnavailableError, match="sentinels are out of reach"):
        await store.load("s")

    assert time.monotonic() - started < 10
    await store.close()


def test_an_url_names_sentinels_service_database_and_options() -> None:
    password = quote(SECRET, safe="")
    plain, sentinels, service = plain_url(f"redis+sentinel://u:{password}@a,b:1,[::1]:2/main/3?client_name=x")

    assert plain == f"redis://u:{password}@hosts/3?client_name=x"
    assert sentinels == [("a", 26379), ("b", 1), ("::1", 2)]
    assert service == "main"


@pytest.mark.parametrize("bad", ["host:1", "/main", ":hunter#2@h/main", "h:hunter2/main"])
def test_an_url_without_sentinels_or_service_is_refused(bad: str) -> None:
    with pytest.raises(ValueError, match="store URL") as caught:
        open_store(f"redis+sentinel://{bad}")
    assert "hunter" not in str(caught.value)
