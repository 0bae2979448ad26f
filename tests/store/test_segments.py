"""Segments beside a session's state, on every store."""

from __future__ import annotations

import pytest

from service.store.base import Committed, Conflict, ReadSegments, Store
from service.store.memory import MemoryStore
from tests.support.sessions import commit, new_session
from tests.support.waiting import until


async def test_segments_are_read_by_name_and_by_when_they_were_played(store: Store) -> None:
    await store.create(new_session())
    await store.commit(commit("v0", "v1", segments={b"a": (5, b"one"), b"": (2, b"\x00"), b"b c": (9, b"three")}))
    await store.commit(commit("v1", "v2", segments={b"a": (11, b"four"), b"": None, b"d": (3, b"five")}))

    found = await store.read_segments("s", [b"a", b"", b"none", b"b c"], 2)

    assert found == ReadSegments("v2", [b"four", None, None, b"three"], [(3, b"d"), (9, b"b c")])
    every = await store.read_segments("s", [], 100)
    assert every is not None
    assert list(every.oldest) == [(3, b"d"), (9, b"b c"), (11, b"a")]
    assert await store.read_segments("nobody", [b"a"]) is None


async def test_what_is_not_committed_changes_no_segment(store: Store) -> None:
    await store.create(new_session())
    await store.commit(commit("v0", "v1", segments={b"a": (1, b"one")}))

    assert isinstance(await store.commit(commit("v0", "v2", segments={b"a": None})), Conflict)
    assert await store.commit(commit("v0", "v1", segments={b"a": None})) == Committed()

    found = await store.read_segments("s", [b"a"])
    assert found is not None
    assert found.records == [b"one"]


async def test_names_are_listed_in_the_order_of_their_bytes(store: Store) -> None:
    await store.create(new_session())
    names = [b"%d" % n for n in range(1500)]
    await store.commit(commit("v0", "v1", segments={name: (n, b"x") for n, name in enumerate(names)}))

    assert await store.segment_names("s", None, 3) == sorted(names)[:3]
    assert await store.segment_names("s", sorted(names)[700], 2) == sorted(names)[701:703]
    assert await store.segment_names("s", None, 2, backwards=True) == sorted(names)[:-3:-1]
    assert await store.segment_names("s", sorted(names)[1], 9, backwards=True) == [sorted(names)[0]]
    assert await store.segment_names("nobody", None, 3) == []


async def test_segments_go_with_their_session(store: Store) -> None:
    await store.create(new_session())
    await store.commit(commit("v0", "v1", segments={b"a": (1, b"one")}))
    await store.delete("s")
    await store.create(new_session(version="w0"))

    found = await store.read_segments("s", [b"a"], 5)

    assert found == ReadSegments("w0", [None], [])


async def test_segments_expire_with_an_idle_session(store: Store) -> None:
    await store.create(new_session())
    await store.commit(commit("v0", "v1", segments={b"a": (1, b"one")}, idle_ttl_ms=50))

    async def gone() -> bool:
        return await store.load("s") is None and await store.segment_names("s", None, 1) == []

    await until(gone)


@pytest.mark.parametrize("count", [0, 3, 1200])
async def test_segments_move_with_an_exported_session(store: Store, count: int) -> None:
    await store.create(new_session())
    segments = {b"s%d" % n: (n + 1, b"record %d" % n) for n in range(count)}
    await store.commit(commit("v0", "v1", segments=segments))
    whole = await store.export("s")
    assert whole is not None
    assert whole.segments == segments
    other = MemoryStore()
    await other.restore("s", whole, new_session(version="r0"))
    again = await other.export("s")
    assert again is not None
    await store.delete("s")
    await store.restore("s", again, new_session(version="r1"))

    found = await store.read_segments("s", list(segments), 2)
    assert found is not None
    assert found.records == [record for _, record in segments.values()]
    assert list(found.oldest) == [(n + 1, b"s%d" % n) for n in range(min(count, 2))]
