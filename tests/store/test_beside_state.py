"""What moves with a session's state, on every store: records, counts, logs and segments."""

import pytest

from service.store.base import ArmCounts, Committed, Conflict, Counts, Known, ReadSegments
from service.store.memory import MemoryStore
from tests.support.sessions import commit, digest, new_session
from tests.support.waiting import until

# -- Counts, summaries and the log beside a session's state, on every store.


async def entries(store, session_id="s"):
    log = await store.read_log(session_id, 0, 1000)
    return [entry.data for entry in log.entries]


ONE = {0: ArmCounts(feedbacks=1, losses=0.5)}


async def counts(store, arm=0):
    return (await store.read_counts("s", [arm])).rows[0]


async def test_counts_add_up_over_commits_and_say_their_version(store):
    """Also those of large numbers."""
    more = [
        {0: ArmCounts(1, 0.1), 1: ArmCounts(300, 70_000.0)},
        {0: ArmCounts(2, 0.2, 4, 4), 9: ArmCounts(2**53, -1e-9), 2: ArmCounts(removed=2**33)},
        {0: ArmCounts(1, 0.7, 0, 0, 1, 2), 1: ArmCounts(0, 0.0)},
    ]
    await store.create(new_session())
    for n, added in enumerate(more):
        await store.commit(commit(f"a-{n}", f"a-{n + 1}", counts=added))

    found = await store.read_counts("s", [0, 1, 9, 2, 7])

    first = ArmCounts(4, 0.1 + 0.2 + 0.7, 4, 4, 1, 2)
    others = [ArmCounts(300, 70_000), ArmCounts(2**53, -1e-9), ArmCounts(removed=2**33), ArmCounts()]
    assert found == Counts("a-3", [first, *others])
    assert await store.read_counts("s", []) == Counts("a-3", [])


async def test_the_log_has_the_entries_of_commits_in_their_order(store):
    await store.create(new_session(about=b"about"))
    await store.commit(commit("a-0", "a-1", entries=[b"1", b"\x00\xff", b""], max_entries=100))
    await store.commit(commit("a-1", "a-2"))
    await store.commit(commit("a-2", "a-3", entries=[b"4"], max_entries=100, position=4))

    log = await store.read_log("s", 0, 1000)

    assert log.session.about == b"about"
    assert [entry.data for entry in log.entries] == [b"1", b"\x00\xff", b"", b"4"]
    assert [entry.position for entry in log.entries] == [1, 2, 3, 4]
    times = [entry.at for entry in log.entries]
    assert times == sorted(times)
    assert abs(times[-1] - store.now()) < 5


@pytest.mark.parametrize("limit", [1, 2, 3, 100])
async def test_pages_of_the_log_follow_each_other(store, created, limit):
    for n in range(3):
        fields = {"entries": [b"%d" % (3 * n + k) for k in range(3)], "max_entries": 100, "position": 3 * n + 1}
        await store.commit(commit(f"a-{n}", f"a-{n + 1}", **fields))
    found, after = [], 0
    while log := await store.read_log("s", after, limit):
        if not log.entries:
            break
        found += [entry.data for entry in log.entries]
        assert len(log.entries) <= limit
        after = log.entries[-1].position

    assert found == [b"%d" % n for n in range(9)]


async def test_a_full_log_drops_the_oldest(store, created):
    """By approximation: at most a block of a hundred more."""
    for n in range(10):
        fields = {"entries": [b"%d" % (50 * n + k) for k in range(50)], "max_entries": 60, "position": 50 * n + 1}
        await store.commit(commit(f"a-{n}", f"a-{n + 1}", **fields))

    found = await entries(store)

    assert 60 <= len(found) <= 160
    assert found == [b"%d" % n for n in range(500 - len(found), 500)]


async def test_a_commit_sent_again_adds_nothing(store):
    """Also after another has committed in between."""
    first = commit("a-0", "a1", counts=ONE, entries=[b"one"], max_entries=9)
    await store.create(new_session())
    for _ in range(2):
        assert await store.commit(first) == Committed()
    await store.commit(commit("a1", "b1", writer="b", counts=ONE, entries=[b"two"], max_entries=9, position=2))
    assert isinstance(await store.commit(first), Committed)

    assert await counts(store) == ArmCounts(feedbacks=2, losses=1)
    assert await entries(store) == [b"one", b"two"]


async def test_what_is_not_committed_is_not_counted(store):
    fields = {"counts": ONE, "entries": [b"x"], "max_entries": 9}
    await store.create(new_session())
    await store.commit(commit("a-0", "a-1", event_ids=[digest(1)]))

    assert isinstance(await store.commit(commit("a-0", "b1", writer="b", **fields)), Conflict)
    assert isinstance(await store.commit(commit("a-1", "a-2", event_ids=[digest(1)], **fields)), Known)
    assert await counts(store) == ArmCounts()
    assert await entries(store) == []


async def test_an_unknown_session_has_neither_counts_nor_log(store):
    assert await store.read_counts("s", [0]) is None
    assert await store.read_log("s", 0, 10) is None


@pytest.mark.parametrize("idle_ttl_ms", [None, 200])
async def test_what_stands_beside_goes_with_a_deleted_and_an_idle_session(store, idle_ttl_ms):
    fields = {"counts": ONE, "entries": [b"x"], "max_entries": 9, "segments": {b"a": (1, b"one")}}
    await store.create(new_session(about=b"about", idle_ttl_ms=idle_ttl_ms))
    await store.commit(commit("a-0", "a-1", **fields))
    assert idle_ttl_ms or await store.delete("s")

    async def gone():
        return await store.read_counts("s", []) is None and await store.segment_names("s", None, 1) == []

    await until(gone)
    await store.create(new_session(version="w0"))
    log = await store.read_log("s", 0, 10)
    assert (log.session.version, log.session.about, log.entries) == ("w0", b"", [])
    assert await counts(store) == ArmCounts()
    assert await store.read_segments("s", [b"a"], 5) == ReadSegments("w0", [None], [])


async def test_sessions_have_counts_and_logs_of_their_own(store):
    for name in ("s", "s2"):
        await store.create(new_session(name))
    fields = {"counts": ONE, "entries": [b"x"], "max_entries": 9}
    await store.commit(commit("a-0", "a-1", session_id="s2", **fields))

    assert await counts(store) == ArmCounts()
    assert await entries(store) == []
    assert await entries(store, "s2") == [b"x"]


async def test_any_number_of_counts_is_added_at_once(store, created):
    for n in range(2):
        counts = {arm: ArmCounts(feedbacks=arm, losses=arm / 3) for arm in range(2500)}
        await store.commit(commit(f"a-{n}", f"a-{n + 1}", counts=counts))

    found = await store.read_counts("s", range(2500))

    assert found == Counts("a-2", [ArmCounts(feedbacks=2 * arm, losses=arm / 3 + arm / 3) for arm in range(2500)])


# -- Segments beside a session's state, on every store.


async def test_segments_are_read_by_name_and_by_when_they_were_played(store, created):
    await store.commit(commit("a-0", "a-1", segments={b"a": (5, b"one"), b"": (2, b"\x00"), b"b c": (9, b"three")}))
    await store.commit(commit("a-1", "a-2", segments={b"a": (11, b"four"), b"": None, b"d": (3, b"five")}))

    found = await store.read_segments("s", [b"a", b"", b"none", b"b c"], 2)

    assert found == ReadSegments("a-2", [b"four", None, None, b"three"], [(3, b"d"), (9, b"b c")])
    assert list((await store.read_segments("s", [], 100)).oldest) == [(3, b"d"), (9, b"b c"), (11, b"a")]
    assert await store.read_segments("nobody", [b"a"]) is None


async def test_what_is_not_committed_changes_no_segment(store, created):
    await store.commit(commit("a-0", "a-1", segments={b"a": (1, b"one")}))

    assert isinstance(await store.commit(commit("a-0", "a-2", segments={b"a": None})), Conflict)
    assert await store.commit(commit("a-0", "a-1", segments={b"a": None})) == Committed()

    assert (await store.read_segments("s", [b"a"])).records == [b"one"]


async def test_names_are_listed_in_the_order_of_their_bytes(store, created):
    names = [b"%d" % n for n in range(1500)]
    await store.commit(commit("a-0", "a-1", segments={name: (n, b"x") for n, name in enumerate(names)}))

    assert await store.segment_names("s", None, 3) == sorted(names)[:3]
    assert await store.segment_names("s", sorted(names)[700], 2) == sorted(names)[701:703]
    assert await store.segment_names("s", None, 2, backwards=True) == sorted(names)[:-3:-1]
    assert await store.segment_names("s", sorted(names)[1], 9, backwards=True) == [sorted(names)[0]]
    assert await store.segment_names("nobody", None, 3) == []


async def test_segments_kept_all_along_are_listed_whatever_begins_or_goes(store, created):
    await store.commit(commit("a-0", "a-1", segments={b"%d" % n: (n, b"x") for n in range(1, 9, 2)}))
    first = await store.segment_names("s", None, 2)
    changes = {b"2": (9, b"x"), b"6": (9, b"x"), b"1": None}
    await store.commit(commit("a-1", "a-2", segments=changes))

    following = await store.segment_names("s", b"3", 9)
    assert [name for name in [*first, *following] if name not in changes] == [b"3", b"5", b"7"]
    assert await store.segment_names("s", None, 9) == [b"2", b"3", b"5", b"6", b"7"]


@pytest.mark.parametrize("count", [0, 3, 1200])
async def test_segments_move_with_an_exported_session(store, created, count):
    segments = {b"s%d" % n: (n + 1, b"record %d" % n) for n in range(count)}
    await store.commit(commit("a-0", "a-1", segments=segments))
    whole = await store.export("s")
    assert whole.segments == segments
    other = MemoryStore()
    await other.restore("s", whole, new_session(version="r0"))
    again = await other.export("s")
    assert again is not None
    await store.delete("s")
    await store.restore("s", again, new_session(version="r1"))

    found = await store.read_segments("s", list(segments), 2)
    assert found.records == [record for _, record in segments.values()]
    assert list(found.oldest) == [(n + 1, b"s%d" % n) for n in range(min(count, 2))]
