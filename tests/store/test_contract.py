"""What every store promises: what is written is there, once and whole, and a stale commit is a conflict."""

from __future__ import annotations

import os
import struct

import pytest

from service.store.base import Committed, Conflict, NewSession, NotFound, Store
from tests.support.sessions import commit, loaded, new_session


async def test_a_created_session_is_loaded_as_it_was_given(store: Store) -> None:
    created = await store.create(new_session())

    snapshot = await loaded(store)

    assert created == snapshot
    assert snapshot[:3] == ("v0", b"spec", b"state0")
    assert abs(snapshot.created_at - store.now()) < 5
    assert snapshot.expires_at is None


async def test_a_second_creation_tells_what_is_there(store: Store) -> None:
    await store.create(new_session())

    present = await store.create(new_session(version="w0", spec=b"other", state=b"other"))

    assert present == await loaded(store)
    assert present.version == "v0"


async def test_a_creation_sent_again_finds_itself(store: Store) -> None:
    created = await store.create(new_session(idle_ttl_ms=60_000))

    assert await store.create(new_session(idle_ttl_ms=60_000)) == created == await loaded(store)
    assert created.expires_at == pytest.approx(created.created_at + 60, abs=0.01)


async def test_an_unknown_session_is_none_not_found_and_not_deleted(store: Store) -> None:
    assert await store.load("s") is None
    assert await store.commit(commit("v0", "v1")) == NotFound()
    assert await store.commit(commit("v0", None)) == NotFound()
    assert await store.delete("s") is False
    assert await store.recall("s", b"k" * 16) is None
    assert await store.read_records("s") == {}


async def test_a_commit_replaces_version_and_state_and_nothing_else(store: Store) -> None:
    await store.create(new_session())
    before = await loaded(store)

    assert await store.commit(commit("v0", "v1")) == Committed()

    assert await loaded(store) == before._replace(version="v1", state=b"state of v1")


async def test_every_byte_and_every_double_comes_back(store: Store) -> None:
    doubles = struct.pack("<6d", 0.1, 5e-324, 1.7976931348623157e308, -0.0, 1 / 3, 1e-18)
    state = bytes(range(256)) + doubles + b"\r\n$-1\r\n\x00" + os.urandom(100_000)
    await store.create(new_session(spec=bytes(range(255, -1, -1)), state=state))

    assert (await loaded(store))[1:3] == (bytes(range(255, -1, -1)), state)
    await store.commit(commit("v0", "v1", state=state[::-1], checksum=state[-16:]))
    assert (await loaded(store)).state == state[::-1]


async def test_an_empty_state_is_a_state(store: Store) -> None:
    await store.create(new_session(state=b"", spec=b""))

    assert (await loaded(store))[:3] == ("v0", b"", b"")


async def test_a_commit_on_another_version_is_a_conflict_that_shows_the_session(store: Store) -> None:
    await store.create(new_session())
    await store.commit(commit("v0", "v1"))

    outcome = await store.commit(commit("v0", "b1", writer="b"))

    assert outcome == Conflict(await loaded(store))
    assert outcome.snapshot.version == "v1"


async def test_the_same_commit_again_is_committed_once(store: Store) -> None:
    await store.create(new_session())
    await store.commit(commit("v0", "v1"))
    after = await loaded(store)

    assert await store.commit(commit("v0", "v1")) == Committed()
    assert await loaded(store) == after


async def test_a_state_changed_by_hand_is_a_conflict_and_stays(store: Store) -> None:
    await store.create(new_session(state=b"bytes....tampered"))
    before = await loaded(store)

    outcome = await store.commit(commit("v0", "v1", checksum=b"checksum"))

    assert outcome == Conflict(before)
    assert await loaded(store) == before


async def test_a_state_that_ends_as_expected_is_replaced(store: Store) -> None:
    await store.create(new_session(state=b"bytes....checksum"))

    assert await store.commit(commit("v0", "v1", checksum=b"checksum")) == Committed()


async def test_a_confirmation_holds_for_the_present_version_only_and_writes_nothing(store: Store) -> None:
    await store.create(new_session())
    await store.commit(commit("v0", "v1"))
    before = await loaded(store)

    assert await store.commit(commit("v1", None, event_ids=[b"e" * 16])) == Committed()
    assert await store.commit(commit("v0", None)) == Conflict(before)
    assert await loaded(store) == before
    assert await store.commit(commit("v1", None, event_ids=[b"e" * 16])) == Committed()


async def test_deleting_leaves_nothing_for_the_next_session_of_that_id(store: Store) -> None:
    session = new_session(answer=(b"k" * 16, b"answer"))
    await store.create(session)
    await store.commit(commit("v0", "v1", event_ids=[b"e" * 16], records={b"7": b"slot"}))

    assert await store.delete("s") is True

    assert await store.load("s") is None
    assert await store.commit(commit("v1", "v2")) == NotFound()
    assert await store.load("s") is None
    assert (await store.create(new_session(version="w0"))).version == "w0"
    assert await store.recall("s", b"k" * 16) is None
    assert await store.read_records("s") == {}
    assert await store.commit(commit("v0", "v1")) == Conflict(await loaded(store))
    assert await store.commit(commit("w0", "w1", event_ids=[b"e" * 16])) == Committed()


async def test_sessions_do_not_see_each_other(store: Store) -> None:
    for name in ("s", "s2", "S", "a.b-c_d"):
        await store.create(new_session(name, spec=name.encode(), answer=(b"k" * 16, name.encode())))
    await store.commit(commit("v0", "v1", event_ids=[b"e" * 16], records={b"1": b"x"}))

    for name in ("s2", "S", "a.b-c_d"):
        assert (await loaded(store, name))[:2] == ("v0", name.encode())
        assert await store.recall(name, b"k" * 16) == name.encode()
        assert await store.read_records(name) == {}
        assert await store.commit(commit("v0", "v1", session_id=name, event_ids=[b"e" * 16])) == Committed()


async def test_a_store_that_works_answers_a_ping(store: Store) -> None:
    await store.ping()


async def test_the_clock_never_goes_backwards(store: Store) -> None:
    times = [store.now()]
    for _ in range(50):
        await store.load("s")
        times += [store.now(), store.now()]

    assert times == sorted(times)


@pytest.mark.parametrize("size", [1, 200_000])
async def test_a_session_of_any_size_is_created_and_committed(store: Store, size: int) -> None:
    await store.create(NewSession("big", "v0", b"spec", b"x" * size))

    await store.commit(commit("v0", "v1", session_id="big", state=b"y" * size))

    assert (await loaded(store, "big")).state == b"y" * size
