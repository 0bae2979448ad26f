"""Idle expiry and the dedupe window, on every store; times are short and waits end on conditions."""

from __future__ import annotations

import asyncio
import time

import pytest

from service.store import open_store
from service.store.base import Committed, Known, NotFound, Store, StoreOptions
from tests.support.sessions import commit, digest, new_session
from tests.support.waiting import until


async def gone(store: Store, session_id: str = "s") -> bool:
    return await store.load(session_id) is None


async def test_an_idle_session_goes_at_its_deadline_and_no_commit_brings_it_back(store: Store) -> None:
    await store.create(new_session(idle_ttl_ms=150))
    snapshot = await store.load("s")
    assert snapshot is not None
    assert snapshot.expires_at == pytest.approx(snapshot.created_at + 0.15, abs=0.0011)

    await until(lambda: gone(store))

    assert store.now() >= snapshot.expires_at - 0.002
    assert (
        await store.commit(commit("v0", "v1", idle_ttl_ms=150, event_ids=[digest(1)], records={b"1": b"x"}))
        == NotFound()
    )
    assert await gone(store)
    assert await store.recall("s", digest("k")) is None
    assert await store.read_records("s") == {}
    assert list((await store.list(None, 10)).session_ids) == []


async def test_a_commit_moves_the_deadline_and_a_confirmation_does_not(store: Store) -> None:
    await store.create(new_session(idle_ttl_ms=60_000))
    first = await store.load("s")
    await store.commit(commit("v0", "v1", idle_ttl_ms=90_000))
    moved = await store.load("s")
    await store.commit(commit("v1", None))
    await store.commit(commit("x", "v2", idle_ttl_ms=500_000))
    await store.recall("s", digest("k"))
    after = await store.load("s")

    assert first is not None
    assert moved is not None
    assert first.expires_at is not None
    assert moved.expires_at is not None
    assert moved.expires_at - first.expires_at == pytest.approx(30, abs=5)
    assert after == moved


async def test_a_commit_without_idle_time_leaves_the_deadline(store: Store) -> None:
    await store.create(new_session(idle_ttl_ms=400))
    before = await store.load("s")
    assert await store.commit(commit("v0", "v1", event_ids=[digest(1)], records={b"1": b"x"})) == Committed()
    after = await store.load("s")

    assert before is not None
    assert after is not None
    assert after.expires_at == before.expires_at
    await until(lambda: gone(store))
    assert await store.read_records("s") == {}


async def test_a_new_session_of_an_expired_ones_id_starts_clean(store: Store) -> None:
    await store.create(new_session(idle_ttl_ms=100, answer=(digest("k"), b"old")))
    await store.commit(commit("v0", "v1", idle_ttl_ms=100, event_ids=[digest(1)], records={b"1": b"x"}))
    await until(lambda: gone(store))
    await store.create(new_session(version="w0"))

    assert await store.recall("s", digest("k")) is None
    assert await store.read_records("s") == {}
    assert await store.commit(commit("w0", "w1", event_ids=[digest(1)])) == Committed()


async def test_commits_that_race_with_expiry_are_whole_or_gone(store: Store) -> None:
    """Near their deadline 200 sessions get a commit each; whatever comes later finds nothing."""
    names = [f"s{n}" for n in range(200)]
    for n, name in enumerate(names):
        await store.create(new_session(name, idle_ttl_ms=200 + n))

    async def keep_committing(name: str) -> None:
        version, turn = "v0", 0
        while True:
            fields = {"session_id": name, "event_ids": [digest(turn)], "records": {b"%d" % turn: b"x"}}
            outcome = await store.commit(commit(version, f"v{turn + 1}", **fields))
            if outcome == NotFound():
                return
            assert outcome == Committed()
            version, turn = f"v{turn + 1}", turn + 1

    await asyncio.gather(*map(keep_committing, names))

    assert list((await store.list(None, 1000)).session_ids) == []


async def test_ids_and_answers_are_remembered_for_the_window_and_forgotten_later(store_url: str) -> None:
    """With a window of half a second: still known just before its end, unknown soon after."""
    window = 0.5
    store = open_store(
        store_url, options=StoreOptions(prefix=f"w{time.monotonic_ns()}", dedupe_window_seconds=window)
    )
    await store.create(new_session())
    recorded_after = time.monotonic()
    await store.commit(commit("v0", "v1", event_ids=[digest(1)], answers={digest("k"): b"answer"}))
    looks = 0
    while True:
        outcome = await store.commit(commit("v1", None, event_ids=[digest(1)], lookups=[digest("k")]))
        if time.monotonic() - recorded_after > window:
            break
        assert outcome == Known(frozenset([digest(1)]), {digest("k"): b"answer"})
        looks += 1

    assert looks > 0
    await until(lambda: forgotten(store))
    assert await store.recall("s", digest("k")) is None
    assert await store.commit(commit("v1", "v2", event_ids=[digest(1)])) == Committed()
    await store.delete("s")
    await store.close()


async def forgotten(store: Store) -> bool:
    return await store.commit(commit("v1", None, event_ids=[digest(1)])) == Committed()
