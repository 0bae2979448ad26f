"""Event ids, answers and records of open slots, on every store."""

from __future__ import annotations

import pytest

from service.store.base import Committed, Conflict, Known, Store
from tests.support.sessions import commit, digest, new_session


async def test_a_recorded_event_is_a_duplicate_for_every_writer(store: Store) -> None:
    await store.create(new_session())
    await store.commit(commit("v0", "v1", event_ids=[digest(1), digest(2)]))

    outcome = await store.commit(commit("v1", "b1", writer="b", event_ids=[digest(2), digest(3), digest(1)]))

    assert outcome == Known(frozenset([digest(1), digest(2)]), {})
    snapshot = await store.load("s")
    assert snapshot is not None
    assert snapshot.version == "v1"


async def test_what_was_refused_as_known_records_nothing(store: Store) -> None:
    await store.create(new_session())
    await store.commit(commit("v0", "v1", event_ids=[digest(1)]))
    await store.commit(
        commit("v1", "v2", event_ids=[digest(1), digest(2)], answers={digest("k"): b"no"}, records={b"1": b"no"})
    )

    assert await store.recall("s", digest("k")) is None
    assert await store.read_records("s") == {}
    assert await store.commit(commit("v1", "v2", event_ids=[digest(2)])) == Committed()


async def test_an_answer_is_replayed_and_recalled(store: Store) -> None:
    await store.create(new_session())
    await store.commit(commit("v0", "v1", answers={digest("k"): b"\x00answer\r\n", digest("empty"): b""}))

    lookups = [digest("other"), digest("k"), digest("empty")]
    outcome = await store.commit(commit("v1", "v2", lookups=lookups))

    assert outcome == Known(frozenset(), {digest("k"): b"\x00answer\r\n", digest("empty"): b""})
    assert await store.recall("s", digest("k")) == b"\x00answer\r\n"
    assert await store.recall("s", digest("empty")) == b""
    assert await store.recall("s", digest("other")) is None


async def test_an_event_and_a_key_of_one_digest_are_two_things(store: Store) -> None:
    await store.create(new_session())
    await store.commit(commit("v0", "v1", event_ids=[digest(1)], answers={digest(2): b"answer"}))

    assert await store.commit(commit("v1", "v2", event_ids=[digest(2)], lookups=[digest(1)])) == Committed()
    both = await store.commit(commit("v2", "v3", event_ids=[digest(1)], lookups=[digest(2)]))
    assert both == Known(frozenset([digest(1)]), {digest(2): b"answer"})


async def test_a_confirmation_tells_what_is_known(store: Store) -> None:
    await store.create(new_session(answer=(digest("k"), b"created")))
    await store.commit(commit("v0", "v1", event_ids=[digest(1)]))

    outcome = await store.commit(commit("v1", None, event_ids=[digest(1), digest(2)], lookups=[digest("k")]))

    assert outcome == Known(frozenset([digest(1)]), {digest("k"): b"created"})


async def test_a_conflict_comes_before_what_is_known(store: Store) -> None:
    await store.create(new_session())
    await store.commit(commit("v0", "v1", event_ids=[digest(1)]))

    assert isinstance(await store.commit(commit("v0", "b1", writer="b", event_ids=[digest(1)])), Conflict)


async def test_the_first_answer_of_a_creation_is_recalled_and_that_of_a_second_is_not(store: Store) -> None:
    await store.create(new_session(answer=(digest("k"), b"first")))
    await store.create(new_session(version="w0", answer=(digest("j"), b"second")))

    assert await store.recall("s", digest("k")) == b"first"
    assert await store.recall("s", digest("j")) is None


@pytest.mark.parametrize("count", [1, 499, 500, 501, 999, 1000, 1001, 7999, 8000, 10_000])
async def test_any_number_of_events_goes_in_one_commit(store: Store, count: int) -> None:
    await store.create(new_session())
    events = [digest(n) for n in range(count)]

    assert await store.commit(commit("v0", "v1", event_ids=events)) == Committed()

    again = await store.commit(commit("v1", "v2", event_ids=[*events, digest("new")]))
    assert again == Known(frozenset(events), {})
    assert await store.commit(commit("v1", "v2", event_ids=[digest("new")])) == Committed()


async def test_any_number_of_answers_goes_in_one_commit(store: Store) -> None:
    await store.create(new_session())
    answers = {digest(n): b"answer %d" % n for n in range(2501)}

    await store.commit(commit("v0", "v1", answers=answers))

    assert await store.commit(commit("v1", "v2", lookups=list(answers))) == Known(frozenset(), answers)


async def test_records_are_set_replaced_and_dropped_with_the_commit(store: Store) -> None:
    await store.create(new_session())
    await store.commit(commit("v0", "v1", records={b"1": b"one", b"2": b"two", b"3": b""}))
    await store.commit(commit("v1", "v2", records={b"1": None, b"2": b"zwei", b"9": None}))

    assert await store.read_records("s") == {b"2": b"zwei", b"3": b""}


async def test_records_of_a_conflict_are_not_written(store: Store) -> None:
    await store.create(new_session())
    await store.commit(commit("x", "v1", records={b"1": b"one"}))

    assert await store.read_records("s") == {}


async def test_ten_thousand_records_go_in_one_commit_and_out_in_the_next(store: Store) -> None:
    await store.create(new_session())
    records = {b"%d" % n: b"r%d" % n for n in range(10_001)}

    await store.commit(commit("v0", "v1", records=records, answers={digest("k"): b"1"}, event_ids=[digest("e")]))
    assert await store.read_records("s") == records

    await store.commit(commit("v1", "v2", records=dict.fromkeys(records)))
    assert await store.read_records("s") == {}
