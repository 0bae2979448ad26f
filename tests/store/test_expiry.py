"""What goes by the store's clock: idle deadlines, and windows of event ids."""

import asyncio
import time

import pytest

from service.store import open_store
from service.store.base import Committed, Known, NotFound, Store, StoreOptions
from service.store.memory import MemoryStore
from service.store.redis.store import RedisStore
from tests.support.sessions import commit, digest, loaded, new_session
from tests.support.waiting import until

# -- Idle expiry and the dedupe window, on every store; times are short and waits end on conditions.


async def gone(store: Store, session_id: str = "s") -> bool:
    return await store.load(session_id) is None


async def test_an_idle_session_goes_at_its_deadline_and_no_commit_brings_it_back(store):
    await store.create(new_session(idle_ttl_ms=150))
    snapshot = await loaded(store)
    assert snapshot.expires_at == pytest.approx(snapshot.created_at + 0.15, abs=0.0011)

    await until(lambda: gone(store))

    assert store.now() >= snapshot.expires_at - 0.002
    absent = commit("a-0", "a-1", idle_ttl_ms=150, event_ids=[digest(1)], records={b"1": b"x"})
    assert await store.commit(absent) == NotFound()
    assert await gone(store)
    assert await store.recall("s", digest("k")) is None
    assert await store.read_records("s") == {}
    assert [each.session_id for each in (await store.list(None, 10)).sessions] == []


async def test_a_commit_moves_the_deadline_and_a_confirmation_does_not(store):
    await store.create(new_session(idle_ttl_ms=60_000))
    first = await store.load("s")
    await store.commit(commit("a-0", "a-1", idle_ttl_ms=90_000))
    moved = await store.load("s")
    await store.commit(commit("a-1", None))
    await store.commit(commit("x", "a-2", idle_ttl_ms=500_000))
    await store.recall("s", digest("k"))
    after = await store.load("s")

    assert first.expires_at is not None
    assert moved.expires_at is not None
    assert moved.expires_at - first.expires_at == pytest.approx(30, abs=5)
    assert after == moved


async def test_a_new_deadline_is_not_before_the_least_that_a_commit_names(store):
    """By the first commit of a worker, and by a later one, which Redis carries out another way."""
    await store.create(new_session(idle_ttl_ms=60_000))
    least = round(store.now() * 1000) + 600_000
    for number in (1, 2):
        each = commit(f"a-{number - 1}", f"a-{number}", idle_ttl_ms=60_000, least_deadline_ms=least + number)
        assert await store.commit(each) == Committed()
        assert (await loaded(store)).expires_at == (least + number) / 1000
    await store.commit(commit("a-2", "a-3", idle_ttl_ms=900_000, least_deadline_ms=least))

    assert (await loaded(store)).expires_at == pytest.approx(least / 1000 + 300, abs=20)


async def test_a_commit_without_idle_time_leaves_the_deadline(store):
    await store.create(new_session(idle_ttl_ms=400))
    before = await store.load("s")
    assert await store.commit(commit("a-0", "a-1", event_ids=[digest(1)], records={b"1": b"x"})) == Committed()
    after = await store.load("s")

    assert after.expires_at == before.expires_at
    await until(lambda: gone(store))
    assert await store.read_records("s") == {}


async def test_a_new_session_of_an_expired_ones_id_starts_clean(store):
    await store.create(new_session(idle_ttl_ms=100, answer=(digest("k"), b"old")))
    await store.commit(commit("a-0", "a-1", idle_ttl_ms=100, event_ids=[digest(1)], records={b"1": b"x"}))
    await until(lambda: gone(store))
    await store.create(new_session(version="w0"))

    assert await store.recall("s", digest("k")) is None
    assert await store.read_records("s") == {}
    assert await store.commit(commit("w0", "w1", event_ids=[digest(1)])) == Committed()


async def test_commits_that_race_with_expiry_are_whole_or_gone(store):
    """Near their deadline 200 sessions get a commit each; whatever comes later finds nothing."""
    names = [f"s{n}" for n in range(200)]
    for n, name in enumerate(names):
        await store.create(new_session(name, idle_ttl_ms=200 + n))

    async def keep_committing(name: str) -> None:
        version, turn = "a-0", 0
        while True:
            fields = {"session_id": name, "event_ids": [digest(turn)], "records": {b"%d" % turn: b"x"}}
            outcome = await store.commit(commit(version, f"a-{turn + 1}", **fields))
            if outcome == NotFound():
                return
            assert outcome == Committed()
            version, turn = f"a-{turn + 1}", turn + 1

    await asyncio.gather(*map(keep_committing, names))

    assert [each.session_id for each in (await store.list(None, 1000)).sessions] == []


async def test_ids_and_answers_are_remembered_for_the_window_and_forgotten_later(store_url):
    """With a window of half a second: still known just before its end, unknown soon after."""
    window = 0.5
    options = StoreOptions(prefix=f"w{time.monotonic_ns()}", dedupe_window_seconds=window)
    store = open_store(store_url, options=options)
    await store.create(new_session())
    recorded_after = time.monotonic()
    await store.commit(commit("a-0", "a-1", event_ids=[digest(1)], answers={digest("k"): b"answer"}))
    looks = 0
    while True:
        outcome = await store.commit(commit("a-1", None, event_ids=[digest(1)], lookups=[digest("k")]))
        if time.monotonic() - recorded_after > window:
            break
        assert outcome == Known(dict.fromkeys([digest(1)], b""), {digest("k"): b"answer"})
        looks += 1

    assert looks > 0
    await until(lambda: forgotten(store))
    assert await store.recall("s", digest("k")) is None
    assert await store.commit(commit("a-1", "a-2", event_ids=[digest(1)])) == Committed()
    await store.delete("s")


async def forgotten(store: Store) -> bool:
    return await store.commit(commit("a-1", None, event_ids=[digest(1)])) == Committed()


# -- What is remembered depends on no setting of the worker that looks it up.

MINUTE, DAY, MONTH = 60, 86_400, 30 * 86_400


@pytest.fixture
def opened(redis_server):
    """Opens stores by their dedupe window in seconds."""
    return lambda window: RedisStore(redis_server.url, StoreOptions(dedupe_window_seconds=window))


@pytest.mark.parametrize(("before", "after"), [(DAY, MINUTE), (MINUTE, DAY), (DAY, MONTH), (MONTH, DAY + 1)])
async def test_another_window_forgets_nothing_that_was_acknowledged(opened, before, after):
    first, second = opened(before), opened(after)
    await first.create(new_session(answer=(digest("c"), b"created")))
    await first.commit(commit("a-0", "a-1", event_ids=[digest(1)], answers={digest("k"): b"answer"}))

    assert await second.recall("s", digest("c")) == b"created"
    assert await second.commit(commit("a-1", "a-2", event_ids=[digest(1)], lookups=[digest("k")])) == Known(
        dict.fromkeys([digest(1)], b""), {digest("k"): b"answer"}
    )
    await second.commit(commit("a-1", "a-2", event_ids=[digest(2)]))
    assert await first.commit(commit("a-2", "a-3", event_ids=[digest(2)])) == Known({digest(2): b""}, {})


async def test_workers_of_several_windows_share_a_session_and_leave_no_key(opened, redis_server):
    stores = [opened(window) for window in (MINUTE, DAY, MONTH, 7 * DAY)]
    await stores[0].create(new_session(idle_ttl_ms=60_000))
    for n in range(12):
        store = stores[n % len(stores)]
        changed = commit(f"a-{n}", f"a-{n + 1}", event_ids=[digest(n)], idle_ttl_ms=60_000 + n)
        assert await store.commit(changed) == Committed()
    everything = commit("a-12", None, event_ids=[digest(n) for n in range(12)])
    for store in stores:
        assert await store.commit(everything) == Known(dict.fromkeys(everything.event_ids, b""), {})

    assert len({redis_server.client.pexpiretime(key) for key in redis_server.client.keys("bandit:{s}*")}) == 1
    assert await stores[1].delete("s") is True
    assert redis_server.client.dbsize() == 0


async def test_a_longer_window_is_promised_by_the_worker_that_commits(opened, redis_server):
    day, month = opened(DAY), opened(MONTH)
    await day.create(new_session())
    await month.commit(commit("a-0", "a-1", event_ids=[digest(1)]))
    await day.commit(commit("a-1", "a-2", event_ids=[digest(2)]))

    kept = sorted(redis_server.client.ttl(key) for key in redis_server.client.keys("bandit:{s}:seen:*"))

    assert len(kept) == 2
    assert 1.25 * DAY < kept[0] <= 1.5 * DAY
    assert 1.25 * MONTH < kept[1] <= 1.5 * MONTH


async def test_a_session_is_remembered_for_as_long_as_it_asks(opened, redis_server):
    store, keys = opened(DAY), redis_server.client
    for name, asked in (("s", MONTH), ("t", MINUTE)):
        await store.create(new_session(name, answer=(digest("c"), b"created")))
        first = commit("a-0", "a-1", session_id=name, event_ids=[digest(1)], remember_seconds=asked)
        await store.commit(first._replace(answers={digest("k"): b"answer"}))

    kept = {name: max(keys.ttl(key) for key in keys.keys(f"bandit:{{{name}}}:seen:*")) for name in "st"}
    assert 1.25 * MONTH < kept["s"] <= 1.5 * MONTH
    assert 1.25 * DAY < kept["t"] <= 1.5 * DAY
    assert await opened(MINUTE).recall("s", digest("k")) == b"answer"
    assert await opened(MINUTE).delete("s") is True
    assert keys.keys("bandit:{s}*") == []


async def test_what_is_remembered_already_is_kept_as_long_once_a_session_asks_for_more(opened, redis_server):
    store, keys = opened(DAY), redis_server.client
    await store.create(new_session())
    await store.commit(commit("a-0", "a-1", event_ids=[digest(1)]))

    longer = commit("a-1", "a-2", spec=b"other", remember_seconds=MONTH, prolongs=True)
    assert await store.commit(longer) == Committed()

    (bucket,) = keys.keys("bandit:{s}:seen:*")
    assert MONTH - 5 < keys.ttl(bucket) <= MONTH + 5
    again = commit("a-2", "a-3", event_ids=[digest(1), digest(2)], remember_seconds=MONTH)
    assert await store.commit(again) == Known({digest(1): b""}, {})
    assert await store.commit(again._replace(event_ids=[digest(2)])) == Committed()
    assert min(keys.ttl(key) for key in keys.keys("bandit:{s}:seen:*")) == keys.ttl(bucket)


async def test_memory_remembers_a_session_for_as_long_as_it_asks():
    now = [1000.0]
    store = MemoryStore(StoreOptions(dedupe_window_seconds=10), clock=lambda: now[0])
    await store.create(new_session())
    await store.commit(commit("a-0", "a-1", event_ids=[digest(1)]))
    await store.commit(commit("a-1", "a-2", event_ids=[digest(2)], remember_seconds=48))
    now[0] += 9
    await store.commit(commit("a-2", "a-3", remember_seconds=24, prolongs=True))
    for later, known in ((29, {1, 2}), (2, {2}), (20, set())):
        now[0] += later
        assert (await store.commit(commit("a-3", None, event_lookups=[digest(1), digest(2)]))) == (
            Known({digest(n): b"" for n in known}, {}) if known else Committed()
        )


async def test_a_list_of_buckets_changed_by_hand_stops_only_its_session(opened, redis_server):
    store = opened(DAY)
    await store.create(new_session())
    redis_server.client.hset("bandit:{s}", "buckets", b"nonsense \xff 12=99999999999999999")

    assert await store.commit(commit("a-0", "a-1", event_ids=[digest(1)])) == Committed()
    assert await store.commit(commit("a-1", "a-2", event_ids=[digest(1)])) == Known({digest(1): b""}, {})
