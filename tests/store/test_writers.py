"""What every store promises to writers that lost a reply, or that write in turn."""

from __future__ import annotations

from typing import Any

from service.store.base import Commit, Committed, Conflict, Store
from tests.support.sessions import commit, loaded, new_session


async def test_a_lost_reply_is_cleared_up_after_another_has_committed(store: Store) -> None:
    """A commits and loses the reply, B commits, A asks again: committed, and here is what B made of it."""
    await store.create(new_session())
    await store.commit(commit("v0", "a1", event_ids=[b"e" * 16]))
    await store.commit(commit("a1", "b1", writer="b"))

    outcome = await store.commit(commit("v0", "a1", event_ids=[b"e" * 16]))

    assert outcome == Committed(await loaded(store))
    assert outcome.snapshot is not None
    assert outcome.snapshot.version == "b1"


async def test_a_writer_is_remembered_until_128_others_have_written_after_it(store: Store) -> None:
    await store.create(new_session())
    await store.commit(commit("v0", "v1", writer="00"))
    for n in range(1, 128):
        await store.commit(commit(f"v{n}", f"v{n + 1}", writer=f"{n:02x}"))
    still = await store.commit(commit("v0", "v1", writer="00"))
    await store.commit(commit("v128", "v129", writer="80"))
    forgotten = await store.commit(commit("v0", "v1", writer="00"))
    next_silent = await store.commit(commit("v1", "v2", writer="01"))

    assert isinstance(still, Committed)
    assert forgotten == Conflict(await loaded(store))
    assert isinstance(next_silent, Committed)


async def test_writing_again_renews_a_writers_place(store: Store) -> None:
    await store.create(new_session())
    await store.commit(commit("v0", "v1", writer="00"))
    await store.commit(commit("v1", "v2", writer="01"))
    await store.commit(commit("v2", "v3", writer="00"))
    for n in range(3, 130):
        await store.commit(commit(f"v{n}", f"v{n + 1}", writer=f"f{n:02x}"))

    assert isinstance(await store.commit(commit("v2", "v3", writer="00")), Committed)
    assert await store.commit(commit("v1", "v2", writer="01")) == Conflict(await loaded(store))


async def test_two_writers_in_turn_lose_nothing(store: Store) -> None:
    """Each adds its numbers to what it sees; after a conflict it goes on from the snapshot it got."""
    await store.create(new_session(state=b""))
    cached = {writer: await loaded(store) for writer in "ab"}
    for n in range(60):
        writer = "aab"[n % 3]
        while True:
            seen = cached[writer]
            state, version = seen.state + bytes([n]), f"{writer}{n}"
            outcome = await store.commit(commit(seen.version, version, writer=writer, state=state))
            if isinstance(outcome, Committed):
                cached[writer] = seen._replace(version=version, state=state)
                break
            assert isinstance(outcome, Conflict)
            cached[writer] = outcome.snapshot

    assert (await loaded(store)).state == bytes(range(60))


def by(writer: str, number: int, expected: str, **fields: Any) -> Commit:
    """A commit under a version that names its writer, as those of workers do."""
    return commit(expected, f"{writer}-{number:x}", writer=writer, **fields)


async def test_a_version_that_names_its_writer_is_found_after_others_have_committed(store: Store) -> None:
    await store.create(new_session(version="c-1"))
    mine = [by("a", n, "c-1" if n == 1 else f"a-{n - 1}") for n in range(1, 4)]
    for each in mine:
        assert await store.commit(each) == Committed()
        assert await store.commit(each) == Committed()
    await store.commit(by("b", 1, "a-3"))
    await store.commit(commit("b-1", "unnamed", writer="d"))

    found = Committed(await loaded(store))
    assert await store.commit(mine[-1]) == found
    assert await store.commit(by("b", 1, "a-3")) == found
    assert await store.commit(mine[0]) == Conflict(found.snapshot)
    assert await store.commit(by("a", 4, "a-3")) == Conflict(found.snapshot)


async def test_writers_whose_versions_name_them_are_remembered_as_long(store: Store) -> None:
    names, before = [f"{n:02x}" for n in range(129)], "c-1"
    await store.create(new_session(version=before))
    for name in names[:128]:
        assert await store.commit(by(name, 1, before)) == Committed()
        before = f"{name}-1"

    for name in names[:127]:
        assert await store.commit(by(name, 1, "gone")) == Committed(await loaded(store))
    await store.commit(by(names[0], 2, before))
    await store.commit(by(names[128], 1, f"{names[0]}-2"))
    assert await store.commit(by(names[1], 1, "gone")) == Conflict(await loaded(store))
    assert isinstance(await store.commit(by(names[2], 1, "gone")), Committed)
    assert isinstance(await store.commit(by(names[0], 2, "gone")), Committed)


async def test_who_created_a_session_is_no_writer_of_it(store: Store) -> None:
    """Its version is known by the creation, which finds it as long as nobody has committed."""
    await store.create(new_session(version="a-1"))
    await store.commit(by("a", 2, "a-1"))
    await store.commit(by("b", 1, "a-2"))

    assert isinstance(await store.commit(by("a", 2, "a-1")), Committed)
    assert await store.commit(by("a", 1, "v0")) == Conflict(await loaded(store))
