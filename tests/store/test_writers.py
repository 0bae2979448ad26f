"""What every store promises to writers that lost a reply, or that write in turn."""

from __future__ import annotations

from service.store.base import Committed, Conflict, Store
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
