"""What every store promises of a session: its commits, what it remembers, its history and its reminders."""

import asyncio
import os
import struct

import pytest

from service.store.base import Committed, Conflict, Known, NewSession, NotFound, Store
from service.store.redis.store import figures_of
from tests.support.sessions import commit, digest, loaded, new_session

# -- What every store promises: what is written is there, once and whole, and a stale commit is a conflict.


async def test_a_created_session_is_loaded_as_it_was_given(store: Store) -> None:
    created = await store.create(new_session())

    snapshot = await loaded(store)

    assert created == snapshot
    assert snapshot[:3] == ("a-0", b"spec", b"state0")
    assert abs(snapshot.created_at - store.now()) < 5
    assert snapshot.expires_at is None


async def test_a_second_creation_tells_what_is_there(store: Store, created) -> None:
    present = await store.create(new_session(version="w0", spec=b"other", state=b"other"))

    assert present == await loaded(store)
    assert present.version == "a-0"


async def test_a_creation_sent_again_finds_itself(store: Store) -> None:
    created = await store.create(new_session(idle_ttl_ms=60_000))

    assert await store.create(new_session(idle_ttl_ms=60_000)) == created == await loaded(store)
    assert created.expires_at == pytest.approx(created.created_at + 60, abs=0.01)


async def test_an_unknown_session_is_none_not_found_and_not_deleted(store: Store) -> None:
    assert await store.load("s") is None
    assert await store.commit(commit("a-0", "a-1")) == NotFound()
    assert await store.commit(commit("a-0", None)) == NotFound()
    assert await store.delete("s") is False
    assert await store.recall("s", b"k" * 16) is None
    assert await store.read_records("s") == {}


async def test_a_commit_replaces_version_and_state_and_nothing_else(store: Store, created) -> None:
    before = await loaded(store)

    assert await store.commit(commit("a-0", "a-1")) == Committed()

    assert await loaded(store) == before._replace(version="a-1", state=b"state of a-1")


async def test_every_byte_and_every_double_comes_back(store: Store) -> None:
    doubles = struct.pack("<6d", 0.1, 5e-324, 1.7976931348623157e308, -0.0, 1 / 3, 1e-18)
    state = bytes(range(256)) + doubles + b"\r\n$-1\r\n\x00" + os.urandom(100_000)
    await store.create(new_session(spec=bytes(range(255, -1, -1)), state=state))

    assert (await loaded(store))[1:3] == (bytes(range(255, -1, -1)), state)
    await store.commit(commit("a-0", "a-1", state=state[::-1], checksum=state[-16:]))
    assert (await loaded(store)).state == state[::-1]


async def test_an_empty_state_is_a_state(store: Store) -> None:
    await store.create(new_session(state=b"", spec=b""))

    assert (await loaded(store))[:3] == ("a-0", b"", b"")


async def test_a_commit_on_another_version_is_a_conflict_that_shows_the_session(store: Store, created) -> None:
    await store.commit(commit("a-0", "a-1"))

    outcome = await store.commit(commit("a-0", "b1", writer="b"))

    assert outcome == Conflict(await loaded(store))
    assert outcome.snapshot.version == "a-1"


async def test_the_same_commit_again_is_committed_once(store: Store, created) -> None:
    await store.commit(commit("a-0", "a-1"))
    after = await loaded(store)

    assert await store.commit(commit("a-0", "a-1")) == Committed()
    assert await loaded(store) == after


async def test_a_state_changed_by_hand_is_a_conflict_and_stays(store: Store) -> None:
    await store.create(new_session(state=b"bytes....tampered"))
    before = await loaded(store)

    outcome = await store.commit(commit("a-0", "a-1", checksum=b"checksum"))

    assert outcome == Conflict(before)
    assert await loaded(store) == before


async def test_a_state_that_ends_as_expected_is_replaced(store: Store) -> None:
    await store.create(new_session(state=b"bytes....checksum"))

    assert await store.commit(commit("a-0", "a-1", checksum=b"checksum")) == Committed()


async def test_a_confirmation_holds_for_the_present_version_only_and_writes_nothing(store: Store, created) -> None:
    await store.commit(commit("a-0", "a-1"))
    before = await loaded(store)

    assert await store.commit(commit("a-1", None, event_ids=[b"e" * 16])) == Committed()
    assert await store.commit(commit("a-0", None)) == Conflict(before)
    assert await loaded(store) == before
    assert await store.commit(commit("a-1", None, event_ids=[b"e" * 16])) == Committed()


async def test_deleting_leaves_nothing_for_the_next_session_of_that_id(store: Store) -> None:
    await store.create(new_session(answer=(b"k" * 16, b"answer")))
    await store.commit(commit("a-0", "a-1", event_ids=[b"e" * 16], records={b"7": b"slot"}))

    assert await store.delete("s") is True

    assert await store.load("s") is None
    assert await store.commit(commit("a-1", "a-2")) == NotFound()
    assert await store.load("s") is None
    assert (await store.create(new_session(version="w0"))).version == "w0"
    assert await store.recall("s", b"k" * 16) is None
    assert await store.read_records("s") == {}
    assert await store.commit(commit("a-0", "a-1")) == Conflict(await loaded(store))
    assert await store.commit(commit("w0", "w1", event_ids=[b"e" * 16])) == Committed()


async def test_sessions_do_not_see_each_other(store: Store) -> None:
    for name in ("s", "s2", "S", "a.b-c_d"):
        await store.create(new_session(name, spec=name.encode(), answer=(b"k" * 16, name.encode())))
    await store.commit(commit("a-0", "a-1", event_ids=[b"e" * 16], records={b"1": b"x"}))

    for name in ("s2", "S", "a.b-c_d"):
        assert (await loaded(store, name))[:2] == ("a-0", name.encode())
        assert await store.recall(name, b"k" * 16) == name.encode()
        assert await store.read_records(name) == {}
        assert await store.commit(commit("a-0", "a-1", session_id=name, event_ids=[b"e" * 16])) == Committed()


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
    await store.create(NewSession("big", "a-0", b"spec", b"x" * size))

    await store.commit(commit("a-0", "a-1", session_id="big", state=b"y" * size))

    assert (await loaded(store, "big")).state == b"y" * size


# -- Event ids, answers and records of open slots, on every store.


async def test_a_recorded_event_is_a_duplicate_for_every_writer(store: Store, created) -> None:
    await store.commit(commit("a-0", "a-1", event_ids=[digest(1), digest(2)]))

    outcome = await store.commit(commit("a-1", "b1", writer="b", event_ids=[digest(2), digest(3), digest(1)]))

    assert outcome == Known(dict.fromkeys([digest(1), digest(2)], b""), {})
    assert (await loaded(store)).version == "a-1"


async def test_an_id_keeps_a_value_until_a_commit_replaces_it(store: Store, created) -> None:
    ids, first = [digest(n) for n in range(3)], {digest(1): b"one", digest(2): b"two"}
    await store.commit(commit("a-0", "a-1", event_ids=ids, values=first))

    assert await store.commit(commit("a-1", None, event_ids=ids)) == Known({digest(0): b"", **first}, {})
    again = commit("a-1", "a-2", event_ids=[digest(1)], values={digest(1): b"no"})
    assert await store.commit(again) == Known({digest(1): b"one"}, {})
    assert isinstance(await store.commit(commit("a-0", "b-1", writer="b", values={digest(1): b"no"})), Conflict)

    replaced = {digest(0): b"zero", digest(2): b"", digest(9): b"nine"}
    assert await store.commit(commit("a-1", "a-2", event_ids=[digest(9)], values=replaced)) == Committed()

    known = {digest(1): b"one"} | replaced
    assert await store.commit(commit("a-2", "a-3", event_lookups=list(known))) == Known(known, {})


async def test_many_values_are_replaced_in_one_commit(store: Store, created) -> None:
    ids = [digest(n) for n in range(1501)]
    await store.commit(commit("a-0", "a-1", event_ids=ids))

    values = {each: b"%d" % n for n, each in enumerate(ids)}
    assert await store.commit(commit("a-1", "a-2", values=values)) == Committed()

    assert await store.commit(commit("a-2", None, event_ids=ids)) == Known(values, {})


async def test_what_was_refused_as_known_records_nothing(store: Store, created) -> None:
    await store.commit(commit("a-0", "a-1", event_ids=[digest(1)]))
    await store.commit(
        commit("a-1", "a-2", event_ids=[digest(1), digest(2)], answers={digest("k"): b"no"}, records={b"1": b"no"})
    )

    assert await store.recall("s", digest("k")) is None
    assert await store.read_records("s") == {}
    assert await store.commit(commit("a-1", "a-2", event_ids=[digest(2)])) == Committed()


async def test_an_answer_is_replayed_and_recalled(store: Store, created) -> None:
    await store.commit(commit("a-0", "a-1", answers={digest("k"): b"\x00answer\r\n", digest("empty"): b""}))

    outcome = await store.commit(commit("a-1", "a-2", lookups=[digest("other"), digest("k"), digest("empty")]))

    assert outcome == Known({}, {digest("k"): b"\x00answer\r\n", digest("empty"): b""})
    assert await store.recall("s", digest("k")) == b"\x00answer\r\n"
    assert await store.recall("s", digest("empty")) == b""
    assert await store.recall("s", digest("other")) is None


async def test_an_event_and_a_key_of_one_digest_are_two_things(store: Store, created) -> None:
    await store.commit(commit("a-0", "a-1", event_ids=[digest(1)], answers={digest(2): b"answer"}))

    assert await store.commit(commit("a-1", "a-2", event_ids=[digest(2)], lookups=[digest(1)])) == Committed()
    both = await store.commit(commit("a-2", "a-3", event_ids=[digest(1)], lookups=[digest(2)]))
    assert both == Known(dict.fromkeys([digest(1)], b""), {digest(2): b"answer"})


async def test_a_confirmation_tells_what_is_known(store: Store) -> None:
    await store.create(new_session(answer=(digest("k"), b"created")))
    await store.commit(commit("a-0", "a-1", event_ids=[digest(1)]))

    outcome = await store.commit(commit("a-1", None, event_ids=[digest(1), digest(2)], lookups=[digest("k")]))

    assert outcome == Known(dict.fromkeys([digest(1)], b""), {digest("k"): b"created"})


async def test_a_conflict_comes_before_what_is_known(store: Store, created) -> None:
    await store.commit(commit("a-0", "a-1", event_ids=[digest(1)]))

    assert isinstance(await store.commit(commit("a-0", "b1", writer="b", event_ids=[digest(1)])), Conflict)


async def test_the_first_answer_of_a_creation_is_recalled_and_that_of_a_second_is_not(store: Store) -> None:
    await store.create(new_session(answer=(digest("k"), b"first")))
    await store.create(new_session(version="w0", answer=(digest("j"), b"second")))

    assert await store.recall("s", digest("k")) == b"first"
    assert await store.recall("s", digest("j")) is None


@pytest.mark.parametrize("count", [1, 499, 500, 501, 999, 1000, 1001, 7999, 8000, 10_000])
async def test_any_number_of_events_and_answers_goes_in_one_commit(store: Store, created, count: int) -> None:
    events, answers = [digest(n) for n in range(count)], {digest(-n): b"answer %d" % n for n in range(count // 4)}

    assert await store.commit(commit("a-0", "a-1", event_ids=events, answers=answers)) == Committed()

    fields = {"event_ids": [*events, digest("new")], "lookups": list(answers)}
    assert await store.commit(commit("a-1", "a-2", **fields)) == Known(dict.fromkeys(events, b""), answers)
    assert await store.commit(commit("a-1", "a-2", event_ids=[digest("new")])) == Committed()


async def test_records_are_set_replaced_and_dropped_with_the_commit(store: Store, created) -> None:
    await store.commit(commit("a-0", "a-1", records={b"1": b"one", b"2": b"two", b"3": b""}))
    await store.commit(commit("a-1", "a-2", records={b"1": None, b"2": b"zwei", b"9": None}))

    assert await store.read_records("s") == {b"2": b"zwei", b"3": b""}


async def test_records_of_a_conflict_are_not_written(store: Store, created) -> None:
    await store.commit(commit("x", "a-1", records={b"1": b"one"}))

    assert await store.read_records("s") == {}


async def test_ten_thousand_records_go_in_one_commit_and_out_in_the_next(store: Store, created) -> None:
    records = {b"%d" % n: b"r%d" % n for n in range(10_001)}

    await store.commit(commit("a-0", "a-1", records=records, answers={digest("k"): b"1"}, event_ids=[digest("e")]))
    assert await store.read_records("s") == records

    await store.commit(commit("a-1", "a-2", records=dict.fromkeys(records)))
    assert await store.read_records("s") == {}


# -- Samples of sessions over time, on each kind of store.


async def created(store: Store, version: str = "1") -> float:
    """Create session ``s``, and return when the store says that was."""
    await store.create(NewSession("s", version, b"spec", b"state"))
    return (await loaded(store)).created_at


async def test_a_sample_is_read_at_its_place(store):
    at = await created(store)

    assert [await store.record_sample("s", at, place, b"\0%d" % place) for place in (7, 9, 7)] == [1, 2, 2]
    assert await store.read_samples("s") == {7: b"\x007", 9: b"\x009"}


async def test_a_session_without_samples_has_none(store):
    await created(store)

    assert await store.read_samples("s") == {}
    assert await store.read_samples("other") is None


async def test_what_is_dropped_is_gone(store):
    at = await created(store)
    for place in range(600):
        await store.record_sample("s", at, place, b"sample")

    await store.thin_samples("s", range(500), 100)
    await store.thin_samples("other", [1], 0)

    assert sorted(await store.read_samples("s")) == list(range(500, 600))
    assert await store.record_sample("s", at, 600, b"sample") == 101
    assert await store.load("other") is None


@pytest.mark.parametrize("made_again", [True, False])
async def test_a_deleted_session_gets_no_sample(store, made_again):
    at = await created(store)
    await store.record_sample("s", at, 1, b"sample")
    await store.delete("s")
    if made_again:
        await created(store, "2")

    assert await store.record_sample("s", at, 2, b"sample") is None
    assert await store.read_samples("s") == ({} if made_again else None)


async def test_an_export_leaves_it_out(store):
    await store.record_sample("s", await created(store), 1, b"sample")

    whole = await store.export("s")

    assert b"sample" not in repr(whole).encode()


# -- Reminders that a store keeps of due decisions, and the lease of the worker that looks at them.


async def test_reminders_come_when_it_is_time(store):
    now = store.now()
    await store.remind("late", now + 3600)
    await store.remind("soon", now + 3600)
    await store.remind("soon", now - 2)
    await store.remind("soon", now + 1800)

    assert await store.due(10) == ["soon"]
    await store.reschedule("soon", None)
    await store.reschedule("late", None)
    assert await store.due(10) == []
    await store.remind("late", now - 1)
    assert await store.due(10) == ["late"]
    await store.reschedule("late", now - 0.5)
    assert await store.due(10) == ["late"]
    await store.reschedule("late", None)


@pytest.mark.parametrize("store_url", ["redis", "embedded"], indirect=True)
async def test_one_worker_leads_until_its_lease_ends(store):
    assert await store.acquire_lease("a", 0.3)
    assert not await store.acquire_lease("b", 0.3)
    assert await store.acquire_lease("a", 0.01)
    while not await store.acquire_lease("b", 0.3):  # noqa: ASYNC110 - a condition in the server
        await asyncio.sleep(0)


# -- How full it is, as metrics tell it.


async def test_a_server_tells_how_full_it_is(store):
    told = await store.figures()

    assert told == {} or told["memory_bytes"] > 100_000
    assert told == {} or (told["memory_limit_bytes"], told["replicas"], told["replica_lag_seconds"]) == (0, 0, 0)


def test_of_a_cluster_the_fullest_server_counts_and_the_replica_that_is_farthest():
    def server(used, most, *replicas):
        lines = (f"ip=10.0.0.1,port={number},{each}" for number, each in enumerate(replicas))
        listed = {f"slave{number}": line for number, line in enumerate(lines)}
        return {"used_memory": used, "maxmemory": most, "connected_slaves": "9", **listed}

    near, far, new = (f"state={each},lag={lag}" for each, lag in (("online", 0), ("online", 4), ("wait_bgsave", 0)))
    told = figures_of([server("900", "1000", near, far), server("950", "2000", near, new), server("99", "0", near)])

    assert told == {"memory_bytes": 900, "memory_limit_bytes": 1000, "replicas": 1, "replica_lag_seconds": 4}
