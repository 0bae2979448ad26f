"""The short way of a commit: what goes it, what does not, and that the long way finds what has become of it."""

import asyncio
import time
from collections.abc import Callable
from typing import Any

import pytest

from loadtest.chaos.faults import CuttingProxy
from service.errors import StateCorruptError, StoreUnavailableError
from service.store.base import ArmCounts, Committed, Conflict, Known, NotFound, StoreFullError, StoreOptions
from service.store.redis import scripts
from service.store.redis.connection import LARGE_BYTES
from service.store.redis.store import RedisStore
from tests.support.real_redis import RedisServer
from tests.support.sessions import commit, digest, new_session, version
from tests.support.waiting import until, wait_until

ALL = {
    "records": {b"1": b"one", b"2": b"two"},
    "counts": {0: ArmCounts(1, 0.1), 5: ArmCounts(2, 1 / 3, expired=1), 40: ArmCounts(defaulted=1, removed=2)},
}


def tried(store: RedisStore) -> list[bool]:
    """Whether each plain try of a store wrote, as they come."""
    found, run_plain = list[bool](), store._client.run_plain

    async def noted(*args: Any) -> bool:
        found.append(False)
        found[-1] = await run_plain(*args)
        return found[-1]

    store._client.run_plain = noted  # type: ignore[method-assign]
    return found


def kept(server: RedisServer) -> dict[bytes, tuple[Any, int]]:
    """Every key with what it holds and its deadline."""
    found, client = {}, server.client
    for key in client.scan_iter():
        is_hash = client.type(key) == b"hash"
        found[key] = (client.hgetall(key) if is_hash else client.get(key), client.pexpiretime(key))
    return found


@pytest.fixture
async def store(redis_server):
    """A store whose session has a commit of writer a, with an event id, a record and counts."""
    opened = RedisStore(redis_server.url)
    await opened.create(new_session())
    await opened.commit(commit("a-0", "a-1", event_ids=[digest(0)], **ALL))
    return opened


@pytest.mark.parametrize("idle", [None, 60_000])
async def test_it_writes_what_the_long_way_writes(redis_server, idle):
    """Two sessions with the same commits, of which one is always forgotten."""
    counted = list[int]()
    store = RedisStore(redis_server.url, StoreOptions(on_plain_commit=lambda: counted.append(1)))
    plain = tried(store)
    series: list[dict[str, Any]] = [
        {"event_ids": [digest("one")]},
        {},
        {"event_ids": [digest(n) for n in range(300)], "counts": {3: ArmCounts(300, 7.0)}},
        {"records": {b"1": None, b"3": b"three"}, "event_ids": [digest("two")]},
        {"records": {b"3": None}, "checksum": b"a-3"},
        {"records": {b"2": None}, "counts": {5: ArmCounts(1, -1e-9), 41: ArmCounts(2**40)}},
        {"event_ids": [digest("three")], "values": {digest("three"): b"value"}},
        {"event_ids": [digest("four")], "remember_seconds": 10**7},
        {"event_ids": [digest("five")], "remember_seconds": 10**7},
    ]
    for name in ("plain", "long"):
        await store.create(new_session(name, idle_ttl_ms=idle))
        await store.commit(commit("a-0", "a-0a", session_id=name, event_ids=[digest("x")], idle_ttl_ms=idle, **ALL))
        before = "a-0a"
        for n, fields in enumerate(series):
            if name == "long":
                store._client.left.clear()
            each = commit(before, f"a-{n}", session_id=name, idle_ttl_ms=idle, **fields)
            assert await store.commit(each) == Committed()
            before = f"a-{n}"

    # The first that asks for longer begins a bucket, the long way.
    assert plain == [True] * (len(series) - 1) == [True] * len(counted)
    hashes, times = [], []
    for name in ("plain", "long"):
        keys = sorted(redis_server.client.keys(f"bandit:{{{name}}}*"))
        fields = [redis_server.client.hgetall(key) for key in keys]
        stamps = {b"created_at", b"expires_at"}
        hashes.append([{k: v for k, v in each.items() if k not in stamps} for each in fields])
        times.append([redis_server.client.pexpiretime(key) for key in keys])
        expires_at = redis_server.client.hget(f"bandit:{{{name}}}", "expires_at")
        assert expires_at is None if idle is None else set(times[-1]) == {int(expires_at)}
    assert hashes[0] == hashes[1]
    assert idle or times[0] == times[1]


async def test_ids_count_in_every_bucket_that_lives(redis_server):
    """Buckets of other windows too, and after a clock was set back."""
    other = RedisStore(redis_server.url, StoreOptions(dedupe_window_seconds=3600))
    store = RedisStore(redis_server.url)
    plain = tried(store)
    await other.create(new_session(idle_ttl_ms=10**9))
    await other.commit(commit("a-0", "b-1", writer="b", event_ids=[digest("b")], idle_ttl_ms=10**9))
    await store.commit(commit("b-1", "a-1", event_ids=[digest("a")], idle_ttl_ms=10**9))

    assert await store.commit(commit("a-1", "a-2", event_ids=[digest("c")], idle_ttl_ms=10**9)) == Committed()
    for known in "abc":
        asked = [digest(known), *([digest("new")] if known == "a" else [])]
        found = await store.commit(commit("a-2", "a-3", event_ids=asked, idle_ttl_ms=10**9))
        assert found == Known(dict.fromkeys([digest(known)], b""), {})
    assert plain == [True, False, False, False]
    buckets = redis_server.client.keys("*:seen:*")
    assert len(buckets) == 2
    assert all(0 < redis_server.client.pttl(key) < 10**9 for key in buckets)


async def test_a_known_id_keeps_its_value(store):
    one = {"event_ids": [digest("v")], "values": {digest("v"): b"value"}}
    assert await store.commit(commit("a-1", "a-2", **one)) == Committed()

    again = commit("a-2", "a-3", event_ids=[digest("v")], values={digest("v"): b"other"})

    for _ in range(2):
        assert await store.commit(again) == Known({digest("v"): b"value"}, {})
    replaced = commit("a-2", "a-3", event_ids=[digest("w")], values={digest("v"): b"better"})
    assert scripts.plain_call(replaced, store._client.left["s"], store._keys, store.now()) is None


Damage = Callable[[RedisServer, RedisStore], Any]
FIELD = "bandit:{s}"
OTHER: dict[str, tuple[Damage, dict[str, Any], Any]] = {
    "a known id": (lambda *_: None, {"event_ids": [digest(0)]}, Known),
    "a known id among others": (lambda *_: None, {"event_ids": [digest(7), digest(0)]}, Known),
    "another state": (lambda server, _: server.client.hset(FIELD, "state", "changed"), {}, Conflict),
    "no state": (lambda server, _: server.client.hdel(FIELD, "state"), {}, Conflict),
    "another version": (lambda server, _: server.client.hset(FIELD, "version", "b-1"), {}, Conflict),
    "no session": (lambda server, _: server.client.delete(FIELD), {}, NotFound),
    "another type of session": (lambda server, _: retyped(server, FIELD), {}, Conflict),
    "records of another type": (lambda server, _: retyped(server, f"{FIELD}:slots"), {}, StateCorruptError),
    "dropped records of another type": (
        lambda server, _: retyped(server, f"{FIELD}:slots"),
        {"records": {b"1": None}},
        StateCorruptError,
    ),
    "a bucket of another type": (
        lambda server, _: retyped(server, server.client.keys("*:seen:*")[0].decode()),
        {},
        StateCorruptError,
    ),
    "a full server": (lambda server, _: server.client.config_set("maxmemory", 1), {}, StoreFullError),
    "a full server and nothing beside": (
        lambda server, _: server.client.config_set("maxmemory", 1),
        {"records": {}, "event_ids": []},
        StoreFullError,
    ),
}


def retyped(server: RedisServer, key: str) -> None:
    server.client.delete(key)
    server.client.set(key, "text", ex=1000)


@pytest.mark.parametrize("reason", OTHER)
async def test_whatever_is_not_as_it_was_is_left_to_the_long_way(own_redis_server, reason):
    """The try writes nothing, and the outcome is that of the long way, which writes nothing either."""
    damage, fields, expected = OTHER[reason]
    store = RedisStore(own_redis_server.url, StoreOptions(retry_seconds=0.1))
    await store.create(new_session())
    await store.commit(commit("a-0", "a-1", event_ids=[digest(0)], **ALL))
    plain = tried(store)
    damage(own_redis_server, store)
    before = kept(own_redis_server)
    given = {"checksum": b"of a-1", "event_ids": [digest(1)]} | ALL | fields

    try:
        outcome: Any = await store.commit(commit("a-1", "a-2", **given))
    except StoreUnavailableError as error:
        outcome = error
    except StateCorruptError as error:
        outcome = error

    assert isinstance(outcome, expected)
    assert plain == [False]
    assert kept(own_redis_server) == before


async def test_counts_that_somebody_changed_are_left_to_the_long_way(store, redis_server):
    plain = tried(store)
    redis_server.client.hset(FIELD, "#0", b"\xa1x")

    assert await store.commit(commit("a-1", "a-2", **ALL)) == Committed()

    assert plain == [False]
    assert redis_server.client.hmget(FIELD, "version", "#0") == [b"a-2", b"\xa1x"]


@pytest.mark.parametrize(
    "fields",
    [
        {"lookups": [digest("k")]},
        {"event_lookups": [digest("k")]},
        {"answers": {digest("k"): b"answer"}},
        {"entries": [b"entry"], "max_entries": 9},
        {"spec": b"other"},
        {"about": b"about"},
        {"segments": {b"a": (1, b"one")}},
        {"permanent": True},
        {"event_ids": [digest(n) for n in range(1, scripts.MAX_PLAIN + 2)]},
        {"records": {b"%d" % n: b"x" for n in range(scripts.MAX_PLAIN + 1)}},
        {"to": "b-2"},
        {"writer": "b", "to": "b-2"},
    ],
    ids=lambda fields: next(iter(fields)),
)
async def test_what_is_rare_is_not_tried(store, fields):
    plain = tried(store)

    given = {"to": "a-2"} | fields
    assert await store.commit(commit("a-1", given.pop("to"), **given)) == Committed()

    assert plain == []


async def test_a_large_commit_goes_the_long_way(store):
    plain = tried(store)
    assert await store.commit(commit("a-1", "a-2", state=bytes(LARGE_BYTES))) == Committed()
    assert await store.commit(commit("a-2", "a-3")) == Committed()

    assert plain == [False, True]


async def test_a_session_keeps_its_deadline_where_a_commit_leaves_it(store, redis_server):
    await store.create(new_session("t", idle_ttl_ms=60_000))
    plain = tried(store)
    for n in range(3):
        await store.commit(commit(f"a-{n}", f"a-{n + 1}", session_id="t", idle_ttl_ms=60_000 if n == 1 else None))

    assert plain == [True]
    assert 0 < redis_server.client.pttl("bandit:{t}") <= 60_000


async def test_in_the_next_bucket_the_long_way_begins_it(redis_server):
    """Buckets are a quarter of a second wide here."""
    store = RedisStore(redis_server.url, StoreOptions(dedupe_window_seconds=1))
    plain, ids = tried(store), []
    await store.create(new_session())
    started, n = time.monotonic(), 0
    while time.monotonic() - started < 0.8:
        ids.append(digest(n))
        assert await store.commit(commit(f"a-{n}", f"a-{n + 1}", event_ids=ids[-1:])) == Committed()
        n += 1

    assert sum(plain) > n / 2
    assert await store.commit(commit(f"a-{n}", None, event_ids=ids)) == Known(dict.fromkeys(ids, b""), {})
    assert len(redis_server.client.keys("*:seen:*")) > 3
    assert all(redis_server.client.pttl(key) > 0 for key in redis_server.client.keys("*:seen:*"))


# -- Lost replies, frozen servers and new ones: the long way finds what the try has done, in the time for retries.


@pytest.mark.parametrize("cuts", [["request"], ["reply"], ["reply", "reply"], ["half_request"]])
async def test_a_try_that_is_cut_off_counts_once(redis_server, cuts):
    with CuttingProxy(redis_server.port) as proxy:
        store = RedisStore(f"redis://127.0.0.1:{proxy.port}")
        await store.create(new_session())
        await store.commit(commit("a-0", "a-1", event_ids=[digest(0)]))
        plain = tried(store)
        proxy.arm(*cuts)

        assert await store.commit(commit("a-1", "a-2", event_ids=[digest(1)], **ALL)) == Committed()

        assert (plain, proxy.cut) == ([False], len(cuts))
        assert await store.commit(commit("a-2", "a-3", event_ids=[digest(2)])) == Committed()
        assert (await store.read_counts("s", [0])).rows == [ArmCounts(1, 0.1)]


async def test_a_frozen_server_takes_no_more_time_than_retries_may_and_its_late_copy_is_found(own_redis_server):
    store = RedisStore(own_redis_server.url, StoreOptions(reply_seconds=0.3, retry_seconds=0.3))
    await store.create(new_session())
    for n in range(2):
        await store.commit(commit(f"a-{n}", f"a-{n + 1}"))
    plain, long = tried(store), store._run_on_session
    own_redis_server.freeze()
    store._run_on_session = None  # type: ignore[assignment]
    with pytest.raises(StoreUnavailableError, match="in time"):
        await store.commit(commit("a-2", "a-3", **ALL))
    own_redis_server.thaw()
    store._run_on_session = long  # type: ignore[method-assign]

    async def is_there() -> bool:
        return await version(store) == "a-3"

    await until(is_there)
    assert plain == [False]
    assert await store.commit(commit("a-2", "a-3", **ALL)) == Committed()
    assert await store.commit(commit("a-3", "a-4")) == Committed()
    assert plain[-1]
    assert (await store.read_counts("s", [0])).rows == [ArmCounts(1, 0.1)]


# -- Clusters, sentinels and replicas.


@pytest.mark.processes
async def test_a_cluster_goes_it_at_the_master_of_each_session(cluster):
    store = RedisStore(cluster.url)
    names = [f"s{n}" for n in range(12)]
    for name in names:
        await store.create(new_session(name))
    plain = tried(store)
    for n in range(10):
        for name in names:
            await store.commit(commit(f"a-{n}", f"a-{n + 1}", session_id=name, event_ids=[digest(n)]))

    assert {cluster.master_of(name) for name in names} == {0, 1, 2}
    assert plain == [True] * 9 * len(names)


@pytest.mark.processes
async def test_sentinels_and_replicas_do_not_stand_in_its_way(watched):
    """But for one commit a second, before which the sentinels are asked."""
    for options in (StoreOptions(), StoreOptions(min_replicas=1, replica_seconds=10, reply_seconds=20)):
        store = RedisStore(watched.url, options)
        await store.delete("s")
        await store.create(new_session())
        plain, started = tried(store), time.monotonic()
        for n in range(50):
            await store.commit(commit(f"a-{n}", f"a-{n + 1}", event_ids=[digest(n)]))
            if options.min_replicas:
                assert watched.replica.client.hget("bandit:{s}", "version") == f"a-{n + 1}".encode()
        assert len(plain) == 49
        assert sum(plain) >= 48 - (time.monotonic() - started)
        await asyncio.to_thread(wait_until, watched.in_step)
