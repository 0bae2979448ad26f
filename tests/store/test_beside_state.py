"""Counts, summaries and the log beside a session's state, on every store."""

from __future__ import annotations

import pytest

from service.store.base import ArmCounts, Committed, Conflict, Counts, Known, Store
from tests.support.sessions import commit, digest, new_session
from tests.support.waiting import until


async def entries(store: Store, session_id: str = "s") -> list[bytes]:
    log = await store.read_log(session_id, None, 1000)
    assert log is not None
    return [entry.data for entry in log.entries]


ONE = {0: ArmCounts(feedbacks=1, losses=0.5)}


async def counts(store: Store, arm: int = 0) -> ArmCounts:
    found = await store.read_counts("s", [arm])
    assert found is not None
    return found.rows[0]


@pytest.mark.parametrize("joined", [(), (0, 1, 2), (0, 2), (1,)])
async def test_counts_add_up_over_commits_and_say_their_version(store: Store, joined: tuple[int, ...]) -> None:
    """Also those of large numbers, and where some commits keep them as one value."""
    more = [
        {0: ArmCounts(1, 0.1), 1: ArmCounts(300, 70_000.0)},
        {0: ArmCounts(2, 0.2, 4, 4), 9: ArmCounts(2**53, -1e-9), 2: ArmCounts(removed=2**33)},
        {0: ArmCounts(1, 0.7, 0, 0, 1, 2), 1: ArmCounts(0, 0.0)},
    ]
    await store.create(new_session())
    for n, added in enumerate(more):
        await store.commit(commit(f"v{n}", f"v{n + 1}", counts=added, joins_counts=n in joined))

    found = await store.read_counts("s", [0, 1, 9, 2, 7])

    first = ArmCounts(4, 0.1 + 0.2 + 0.7, 4, 4, 1, 2)
    others = [ArmCounts(300, 70_000), ArmCounts(2**53, -1e-9), ArmCounts(removed=2**33), ArmCounts()]
    assert found == Counts("v3", [first, *others])
    assert await store.read_counts("s", []) == Counts("v3", [])


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
    first = commit("v0", "a1", counts=ONE, entries=[b"one"], max_entries=9)
    await store.create(new_session())
    for _ in range(2):
        assert await store.commit(first) == Committed()
    await store.commit(commit("a1", "b1", writer="b", counts=ONE, entries=[b"two"], max_entries=9))
    assert isinstance(await store.commit(first), Committed)

    assert await counts(store) == ArmCounts(feedbacks=2, losses=1)
    assert await entries(store) == [b"one", b"two"]


async def test_what_is_not_committed_is_not_counted(store: Store) -> None:
    fields = {"counts": ONE, "entries": [b"x"], "max_entries": 9}
    await store.create(new_session())
    await store.commit(commit("v0", "v1", event_ids=[digest(1)]))

    assert isinstance(await store.commit(commit("v0", "b1", writer="b", **fields)), Conflict)
    assert isinstance(await store.commit(commit("v1", "v2", event_ids=[digest(1)], **fields)), Known)
    assert await counts(store) == ArmCounts()
    assert await entries(store) == []


async def test_an_unknown_session_has_neither_counts_nor_log(store: Store) -> None:
    assert await store.read_counts("s", [0]) is None
    assert await store.read_log("s", None, 10) is None


async def test_deleting_takes_counts_and_log_with_it(store: Store) -> None:
    fields = {"counts": ONE, "entries": [b"x"], "max_entries": 9}
    await store.create(new_session(about=b"about"))
    await store.commit(commit("v0", "v1", **fields))
    await store.delete("s")
    await store.create(new_session(version="w0"))

    assert await counts(store) == ArmCounts()
    log = await store.read_log("s", None, 10)
    assert log is not None
    assert log == (b"", [])


async def test_counts_and_log_go_with_an_idle_session(store: Store) -> None:
    fields = {"counts": ONE, "entries": [b"x"], "max_entries": 9}
    await store.create(new_session(idle_ttl_ms=200))
    await store.commit(commit("v0", "v1", **fields))

    async def gone() -> bool:
        return await store.read_counts("s", []) is None

    await until(gone)
    await store.create(new_session(version="w0"))
    assert await counts(store) == ArmCounts()
    assert await entries(store) == []


async def test_sessions_have_counts_and_logs_of_their_own(store: Store) -> None:
    for name in ("s", "s2"):
        await store.create(new_session(name))
    fields = {"counts": ONE, "entries": [b"x"], "max_entries": 9}
    await store.commit(commit("v0", "v1", session_id="s2", **fields))

    assert await counts(store) == ArmCounts()
    assert await entries(store) == []
    assert await entries(store, "s2") == [b"x"]


async def test_any_number_of_counts_is_added_at_once(store: Store) -> None:
    await store.create(new_session())
    for n in range(2):
        counts = {arm: ArmCounts(feedbacks=arm, losses=arm / 3) for arm in range(2500)}
        await store.commit(commit(f"v{n}", f"v{n + 1}", counts=counts))

    found = await store.read_counts("s", range(2500))

    assert found == Counts("v2", [ArmCounts(feedbacks=2 * arm, losses=arm / 3 + arm / 3) for arm in range(2500)])
