"""What is in the server: deadlines shared, nothing left, damage found and kept."""

import asyncio

import pytest

from service.errors import StateCorruptError, StoreUnavailableError
from service.store.base import ArmCounts, Committed, Conflict, NotFound, StoreOptions
from service.store.redis.scripts import Keys
from service.store.redis.store import NAMES_MS, RedisStore
from tests.support.sessions import commit, digest, loaded, new_session
from tests.support.waiting import wait_until

BESIDE = {"counts": {0: ArmCounts(feedbacks=1, losses=0.5)}, "entries": [b"entry"], "max_entries": 9}


@pytest.fixture
async def store(redis_server):
    return RedisStore(redis_server.url)


def deadlines(server):
    return {key.decode(): int(server.client.pexpiretime(key)) for key in server.client.scan_iter()}


async def test_all_keys_of_an_idle_session_share_its_deadline(store, redis_server):
    await store.create(new_session(idle_ttl_ms=60_000, answer=(digest("k"), b"answer")))
    for n in range(3):
        ttl = None if n == 1 else 60_000 + n
        fields = {"event_ids": [digest(n)], "records": {b"1": b"x"}, **BESIDE, "position": n + 1}
        await store.commit(commit(f"a-{n}", f"a-{n + 1}", idle_ttl_ms=ttl, **fields))
        snapshot = await loaded(store)
        assert snapshot.expires_at is not None
        found = deadlines(redis_server)
        assert len(found) == 4
        assert set(found.values()) == {round(snapshot.expires_at * 1000)}


async def test_names_of_segments_are_copied_for_a_minute_and_again(store, created, redis_server):
    await store.commit(commit("a-0", "a-1", segments={b"a": (1, b"x"), b"b": (2, b"x")}))
    assert await store.segment_names("s", None, 1) == [b"a"]
    copy = "bandit:{s}:copy:list:names"

    assert 0 < redis_server.client.pttl(copy) <= NAMES_MS
    redis_server.client.delete(copy)
    assert await store.segment_names("s", b"a", 1) == [b"b"]
    assert redis_server.client.pttl(copy) > 0


async def test_writers_are_listed_where_their_versions_do_not_tell(store, redis_server):
    await store.create(new_session(version="c-1"))
    found, before = [], "c-1"
    for writer, version in [("a", "a-1"), ("a", "a-2"), ("b", "b-1"), ("b", "b-2"), ("d", "own"), ("a", "a-3")]:
        await store.commit(commit(before, version, writer=writer))
        found.append(redis_server.client.hget("bandit:{s}", "writers").replace(b"\n", b","))
        before = version

    assert found == [b"", b"", b",a a-2", b",a a-2", b",a a-2,b b-2,d own", b",b b-2,d own"]


async def test_a_commit_logs_no_list_and_no_deadline_that_stays_as_it_is(store, redis_server):
    await store.create(new_session(version="c-1"))
    await store.commit(commit("c-1", "a-1", event_ids=[digest(1)]))
    with redis_server.client.monitor() as monitor:
        await store.commit(commit("a-1", "a-2", event_ids=[digest(2)]))
        redis_server.client.echo("end")
        seen = []
        for command in monitor.listen():
            if command["command"] == "ECHO end":
                break
            if command["client_type"] == "lua":
                seen.append(command["command"])
    redis_server.client.connection_pool.disconnect()  # It has two connections now, and other tests count them.

    assert [each.split()[0] for each in seen if each.split()[0] in {"HSET", "PEXPIREAT"}] == ["HSET", "HSET"]
    assert not [each for each in seen if each.startswith("HSET") and (" writers " in each or " buckets " in each)]


async def test_no_entry_of_a_log_is_older_than_the_one_before(store, created, redis_server):
    """The last one is of a server whose clock was an hour fast."""
    fast = int(store.now() * 1000) + 3_600_000
    redis_server.client.xadd("bandit:{s}:log", {"e": b"1"}, id=f"1-{fast}")
    await store.commit(commit("a-0", "a-1", entries=[b"2", b"3"], max_entries=9, position=2))

    log = await store.read_log("s", 0, 9)

    assert log.entries == [(n, fast / 1000, b"%d" % n) for n in (1, 2, 3)]


async def test_a_bucket_goes_before_a_session_that_outlives_it(redis_server):
    """With a window of 4 s a bucket is 1 s wide and ends 5 s after its end, whatever the idle time."""
    store = RedisStore(redis_server.url, StoreOptions(dedupe_window_seconds=4))
    for ttl in (None, 60_000_000):
        await store.create(new_session(idle_ttl_ms=ttl))
        await store.commit(commit("a-0", "a-1", event_ids=[digest(1)], idle_ttl_ms=ttl))
        (bucket,) = [key for key in deadlines(redis_server) if ":seen:" in key]
        number = int(bucket.rsplit(":", 1)[1])

        assert deadlines(redis_server)[bucket] == (number + 6) * 1000
        await store.delete("s")


async def test_a_permanent_session_has_three_permanent_keys(store, created, redis_server):
    await store.commit(commit("a-0", "a-1", event_ids=[digest(1)], records={b"1": b"x"}, **BESIDE))

    permanent = {key for key, deadline in deadlines(redis_server).items() if deadline == -1}

    assert permanent == {f"bandit:{{s}}{part}" for part in ("", ":slots", ":log")}


async def test_a_deleted_session_leaves_no_key(store, redis_server):
    await store.create(new_session(answer=(digest("k"), b"answer")))
    await store.commit(commit("a-0", "a-1", event_ids=[digest(1)], records={b"1": b"x"}, **BESIDE))
    await store.delete("s")
    fields = {"event_ids": [digest(2)], "records": {b"1": b"x"}, "answers": {digest("j"): b""}, **BESIDE}
    await store.commit(commit("a-1", "a-2", **fields))

    assert redis_server.client.dbsize() == 0


@pytest.mark.slow
async def test_five_hundred_sessions_that_expire_under_commits_leave_no_key(redis_server):
    async def commit_until_gone(name):
        await store.create(new_session(name, idle_ttl_ms=300, answer=(digest("k"), b"answer")))
        n, outcome = 0, Committed()
        while isinstance(outcome, Committed):
            outcome = await store.commit(commit(f"a-{n}", f"a-{n + 1}", session_id=name, event_ids=[digest(n)]))
            n += 1
        assert outcome == NotFound()

    store = RedisStore(redis_server.url, StoreOptions(max_connections=8, pool_wait_seconds=30))
    await asyncio.gather(*(commit_until_gone(f"s{n}") for n in range(500)))
    wait_until(lambda: redis_server.client.dbsize() == 0)


async def test_a_clock_that_is_out_is_put_right_by_the_first_reply(store):
    store._client.clock.observe(12345.0)
    await store.create(new_session(answer=(digest("k"), b"answer")))
    store._client.clock.observe(5e9)

    assert await store.recall("s", digest("k")) == b"answer"
    store._client.clock.observe(12345.0)
    assert await store.commit(commit("a-0", "a-1", lookups=[digest("j")])) == Committed()
    store._client.clock.observe(12345.0)
    assert await store.delete("s") is True


async def test_a_clock_that_stays_out_ends_in_an_error(redis_server):
    store = RedisStore(redis_server.url)
    store._client.clock.observe(12345.0)
    store._client.clock.observe = lambda *_: None

    with pytest.raises(StoreUnavailableError, match="clock jumps"):
        await store.create(new_session(answer=(digest("k"), b"answer")))


@pytest.mark.parametrize("field", ["version", "state", "spec", "created_at", "expires_at"])
async def test_a_damaged_session_is_shown_as_it_is_and_never_overwritten(store, redis_server, field):
    await store.create(new_session(state=b"bytes checksum", idle_ttl_ms=60_000))
    for damage in ("hset", "hdel"):
        values = [b"\xffdamage"] if damage == "hset" else []
        getattr(redis_server.client, damage)("bandit:{s}", field, *values)
        before = redis_server.client.hgetall("bandit:{s}")
        snapshot = await loaded(store)
        if field in {"version", "state"}:
            assert await store.commit(commit("a-0", "a-1", checksum=b"checksum")) == Conflict(snapshot)
            assert redis_server.client.hgetall("bandit:{s}") == before


@pytest.mark.parametrize("part", ["log", "slots", "segments", "played"])
async def test_nothing_is_written_where_a_key_beside_the_state_has_another_type(store, redis_server, part):
    all_parts = BESIDE | {"records": {b"1": b"x"}, "segments": {b"a": (1, b"one")}}
    await store.create(new_session())
    redis_server.client.set(f"bandit:{{s}}:{part}", "text", ex=1000)
    before = redis_server.client.hgetall("bandit:{s}")

    with pytest.raises(StateCorruptError):
        await store.commit(commit("a-0", "a-1", **all_parts))
    assert redis_server.client.hgetall("bandit:{s}") == before
    assert set(redis_server.client.keys("bandit:{s}*")) == {b"bandit:{s}", b"bandit:{s}:%b" % part.encode()}


async def test_a_session_key_of_another_type_is_a_session_without_anything(store, redis_server):
    redis_server.client.set("bandit:{s}", "text", ex=1000)

    snapshot = await loaded(store)
    assert snapshot[:3] == ("", b"", b"")
    assert await store.commit(commit("a-0", "a-1")) == Conflict(snapshot)
    assert await store.create(new_session()) == snapshot
    assert await store.delete("s") is True


async def test_only_sessions_of_the_prefix_are_listed(redis_server):
    stores = [RedisStore(redis_server.url, StoreOptions(prefix=prefix)) for prefix in ("a*", "a", "ab", "[a]")]
    for n, store in enumerate(stores):
        await store.create(new_session(f"s{n}"))
    redis_server.client.set("a:{not a session", "x", ex=100)

    listed = [[each.session_id for each in (await store.list(None, 10)).sessions] for store in stores]

    assert listed == [["s0"], ["s1"], ["s2"], ["s3"]]


def test_all_keys_of_a_session_are_spelled_in_one_place_with_one_hash_tag():
    keys, numbers = Keys("p", 86400).at("s", 86400.0 * 10)

    assert keys[:3] == ("p:{s}", "p:{s}:slots", "p:{s}:log")
    assert keys[3:5] == ("p:{s}:segments", "p:{s}:played")
    assert (keys[5:-1], keys[-1]) == (tuple(f"p:{{s}}:seen:{n}" for n in range(34, 42)), "p:{s}:probe")
    assert numbers == "34 35 36 37 38 39 40 41"
