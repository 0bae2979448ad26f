"""Counts, summaries and the log beside a session's state, on every store."""

from __future__ import annotations

import pytest

from service.store.base import Committed, Conflict, Counts, Known, Store
from tests.support.sessions import commit, digest, new_session
from tests.support.waiting import until


async def entries(store: Store, session_id: str = "s") -> list[bytes]:
    log = await store.read_log(session_id, None, 1000)
    assert log is not None
    return [entry.data for entry in log.entries]


async def counts(store: Store, *fields: bytes) -> list[float]:
    found = await store.read_counts("s", fields)
    assert found is not None
    return list(found.values)


async def test_counts_add_up_over_commits_and_say_their_version(store: Store) -> None:
    await store.create(new_session())
    await store.commit(commit("v0", "v1", counts={b"a0": 2, b"s0": 0.1, b"a1": 1}))
    await store.commit(commit("v1", "v2", counts={b"a0": 3, b"s0": 0.2, b"big": 2**53, b"s9": -1e-9}))

    found = await store.read_counts("s", [b"a0", b"s0", b"a1", b"big", b"s9", b"none"])

    assert found == Counts("v2", [5, pytest.approx(0.3), 1, 2**53, pytest.approx(-1e-9), 0])
    assert await store.read_counts("s", []) == Counts("v2", [])


async def test_the_log_has_the_entries_of_commits_in_their_order(store: Store) -> None:
    await store.create(new_session(about=b"about"))
    await store.commit(commit("v0", "v1", entries=[b"1", b"\x00\xff", b""], max_entries=100))
    await store.commit(commit("v1", "v2"))
    await store.commit(commit("v2", "v3", entries=[b"4"], max_entries=100))

    log = await store.read_log("s", None, 1000)

    assert log is not None
    assert log.about == b"about"
    assert [entry.data for entry in log.entries] == [b"1", b"\x00\xff", b"", b"4"]
    times = [tuple(map(int, entry.position.split("-"))) for entry in log.entries]
    assert times == sorted(set(times))
    assert abs(times[-1][0] / 1000 - store.now()) < 5


@pytest.mark.parametrize("limit", [1, 2, 3, 100])
async def test_pages_of_the_log_follow_each_other(store: Store, limit: int) -> None:
    await store.create(new_session())
    for n in range(3):
        fields = {"entries": [b"%d" % (3 * n + k) for k in range(3)], "max_entries": 100}
        await store.commit(commit(f"v{n}", f"v{n + 1}", **fields))
    found, after = [], None
    while log := await store.read_log("s", after, limit):
        if not log.entries:
            break
        found += [entry.data for entry in log.entries]
        assert len(log.entries) <= limit
        after = log.entries[-1].position

    assert found == [b"%d" % n for n in range(9)]


async def test_a_full_log_drops_the_oldest(store: Store) -> None:
    """By approximation: at most a block of a hundred more."""
    await store.create(new_session())
    for n in range(10):
        fields = {"entries": [b"%d" % (50 * n + k) for k in range(50)], "max_entries": 60}
        await store.commit(commit(f"v{n}", f"v{n + 1}", **fields))

    found = await entries(store)

    assert 60 <= len(found) <= 160
    assert found == [b"%d" % n for n in range(500 - len(found), 500)]


async def test_a_commit_sent_again_adds_nothing(store: Store) -> None:
    """Also after another has committed in between."""
    first = commit("v0", "a1", counts={b"a0": 1, b"s0": 0.5}, entries=[b"one"], max_entries=9)
    await store.create(new_session())
    for _ in range(2):
        assert await store.commit(first) == Committed()
    await store.commit(commit("a1", "b1", writer="b", counts={b"a0": 1}, entries=[b"two"], max_entries=9))
    assert isinstance(await store.commit(first), Committed)

    assert await counts(store, b"a0", b"s0") == [2, 0.5]
    assert await entries(store) == [b"one", b"two"]


async def test_what_is_not_committed_is_not_counted(store: Store) -> None:
    fields = {"counts": {b"a0": 1}, "entries": [b"x"], "max_entries": 9}
    await store.create(new_session())
    await store.commit(commit("v0", "v1", events=[digest(1)]))

    assert isinstance(await store.commit(commit("v0", "b1", writer="b", **fields)), Conflict)
    assert isinstance(await store.commit(commit("v1", "v2", events=[digest(1)], **fields)), Known)
    assert isinstance(await store.commit(commit("v1", None, **fields)), Committed)
    assert await counts(store, b"a0") == [0]
    assert await entries(store) == []


async def test_an_unknown_session_has_neither_counts_nor_log(store: Store) -> None:
    assert await store.read_counts("s", [b"a0"]) is None
    assert await store.read_log("s", None, 10) is None


async def test_deleting_takes_counts_and_log_with_it(store: Store) -> None:
    fields = {"counts": {b"a0": 1, b"s0": 0.5}, "entries": [b"x"], "max_entries": 9}
    await store.create(new_session(about=b"about"))
    await store.commit(commit("v0", "v1", **fields))
    await store.delete("s")
    await store.create(new_session(version="w0"))

    assert await counts(store, b"a0", b"s0") == [0, 0]
    log = await store.read_log("s", None, 10)
    assert log is not None
    assert log == (b"", [])


async def test_counts_and_log_go_with_an_idle_session(store: Store) -> None:
    fields = {"counts": {b"a0": 1, b"s0": 0.5}, "entries": [b"x"], "max_entries": 9}
    await store.create(new_session(idle_ttl_ms=200))
    await store.commit(commit("v0", "v1", **fields))

    async def gone() -> bool:
        return await store.read_counts("s", []) is None

    await until(gone)
    await store.create(new_session(version="w0"))
    assert await counts(store, b"a0") == [0]
    assert await entries(store) == []


async def test_sessions_have_counts_and_logs_of_their_own(store: Store) -> None:
    for name in ("s", "s2"):
        await store.create(new_session(name))
    fields = {"counts": {b"a0": 1}, "entries": [b"x"], "max_entries": 9}
    await store.commit(commit("v0", "v1", session_id="s2", **fields))

    assert await counts(store, b"a0") == [0]
    assert await entries(store) == []
    assert await entries(store, "s2") == [b"x"]


async def test_any_number_of_counts_is_added_at_once(store: Store) -> None:
    await store.create(new_session())
    for n in range(2):
        counts = {b"a%d" % arm: arm for arm in range(2500)} | {b"s%d" % arm: arm / 3 for arm in range(1500)}
        await store.commit(commit(f"v{n}", f"v{n + 1}", counts=counts))

    found = await store.read_counts("s", [b"a2499", b"s1499", b"s0", b"a1000"])

    assert found == Counts("v2", [2 * 2499, 1499 / 3 + 1499 / 3, 0, 2000])
