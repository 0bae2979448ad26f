"""Samples of sessions over time, on each kind of store."""

from __future__ import annotations

import pytest

from service.store.base import NewSession, Store


async def created(store: Store, version: str = "1") -> float:
    """Create session ``s``, and return when the store says that was."""
    await store.create(NewSession("s", version, b"spec", b"state"))
    snapshot = await store.load("s")
    assert snapshot is not None
    return snapshot.created_at


async def test_a_sample_is_read_at_its_place(store):
    at = await created(store)

    assert [await store.history.record("s", at, place, b"\0%d" % place) for place in (7, 9, 7)] == [1, 2, 2]
    assert await store.history.read("s") == {7: b"\x007", 9: b"\x009"}


async def test_a_session_without_samples_has_none(store):
    await created(store)

    assert await store.history.read("s") == {}
    assert await store.history.read("other") is None


async def test_what_is_dropped_is_gone(store):
    at = await created(store)
    for place in range(600):
        await store.history.record("s", at, place, b"sample")

    await store.history.thin("s", range(500), 100)
    await store.history.thin("other", [1], 0)

    assert sorted(await store.history.read("s")) == list(range(500, 600))
    assert await store.history.record("s", at, 600, b"sample") == 101
    assert await store.load("other") is None


@pytest.mark.parametrize("made_again", [True, False])
async def test_a_deleted_session_gets_no_sample(store, made_again):
    at = await created(store)
    await store.history.record("s", at, 1, b"sample")
    await store.delete("s")
    if made_again:
        await created(store, "2")

    assert await store.history.record("s", at, 2, b"sample") is None
    assert await store.history.read("s") == ({} if made_again else None)


async def test_an_export_leaves_it_out(store):
    await store.history.record("s", await created(store), 1, b"sample")

    whole = await store.export("s")

    assert b"sample" not in repr(whole).encode()
