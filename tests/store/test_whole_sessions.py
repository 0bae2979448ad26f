"""Sessions listed and moved whole, on every store."""

import os

import pytest

from service.store.base import ArmCounts, Committed, Known, Listed, NewSession, Store, WholeSession, head_of
from service.store.memory import MemoryStore
from tests.support.sessions import commit, digest, loaded, new_session
from tests.support.waiting import until

# -- Sessions that are exported from one store and restored in another, on every store.


def restored(version: str = "r0", **fields: object) -> NewSession:
    return NewSession("s", version, b"", b"", **fields)  # type: ignore[arg-type]


async def filled(store: Store, records: int = 3) -> None:
    """A session with state, records, counts, event ids and a stored answer."""
    await store.create(new_session(spec=b"spec", answer=(digest("k"), b"answer")))
    fields = {
        "state": bytes(range(256)),
        "event_ids": [digest(n) for n in range(1200)],
        "records": {b"%d" % n: os.urandom(40) for n in range(records)},
        "counts": {0: ArmCounts(feedbacks=3, losses=0.1), 1: ArmCounts(feedbacks=2**53, voided=300)},
        "entries": [b"entry"],
        "max_entries": 9,
    }
    assert await store.commit(commit("a-0", "a-1", **fields)) == Committed()


async def taken(store: Store) -> WholeSession:
    """Such a session, exported and deleted."""
    await filled(store)
    whole = await store.export("s")
    assert whole is not None
    await store.delete("s")
    return whole


@pytest.mark.parametrize("records", [0, 2500])
async def test_a_session_is_restored_as_it_was_exported(store, records):
    """From each store to memory and back."""
    await filled(store, records)
    before = await store.load("s")
    whole = await store.export("s")
    assert whole.snapshot == before
    other = MemoryStore()
    assert await other.restore("s", whole, restored()) is None
    again = await other.export("s")
    assert again is not None
    await store.delete("s")
    assert await store.restore("s", again, restored("r1", about=b"about")) is None

    after = await loaded(store)
    assert after[:3] == ("r1", before.spec, before.state)
    assert after.created_at == pytest.approx(before.created_at, abs=1e-6)
    assert await store.read_records("s") == whole.records
    assert len(whole.records) == records
    assert await store.read_counts("s", [0, 1]) == ("r1", [ArmCounts(3, 0.1), ArmCounts(2**53, voided=300)])
    log = await store.read_log("s", 0, 9)
    assert (log.session.about, log.entries) == (b"about", [])
    assert await store.recall("s", digest("k")) is None
    (listed,) = (await store.list(None, 9)).sessions
    assert (listed.about, listed.head) == (b"about", head_of(before.state))


async def test_counts_of_many_arms_are_exported(store, created):
    counts = {arm: ArmCounts(feedbacks=arm + 1, losses=0.5) for arm in range(0, 3_000, 3)}
    await store.commit(commit("a-0", "a-1", counts=counts))

    whole = await store.export("s")

    assert whole.counts == counts


async def test_event_ids_count_in_the_restored_session(store):
    await store.restore("s", await taken(store), restored())

    outcome = await store.commit(commit("r0", "r1", event_ids=[digest(7), digest("new"), digest(1199)]))

    assert outcome == Known(dict.fromkeys([digest(7), digest(1199)], b""), {})
    assert await store.commit(commit("r0", "r1", event_ids=[digest("new")])) == Committed()


async def test_event_ids_of_several_hours_are_restored(store):
    whole = await taken(store)
    hours = [1, 8, 16, 23]
    events = [(store.now() + 3600 * hour, {digest(hour): b"%d" % hour}) for hour in hours]
    assert await store.restore("s", whole._replace(events=events), restored()) is None

    ids = [digest(hour) for hour in hours]
    assert await store.commit(commit("r0", None, event_ids=ids)) == Known(
        {digest(hour): b"%d" % hour for hour in hours}, {}
    )


async def test_values_of_ids_are_restored_for_as_long_as_the_session_asks(store, created):
    values = {digest("v"): b"value"}
    asked = {"event_ids": [digest("v"), digest(1)], "values": values, "remember_seconds": 10**8}
    await store.commit(commit("a-0", "a-1", **asked))
    whole = await store.export("s")
    await store.delete("s")
    await store.restore("s", whole, restored(remember_seconds=10**8))

    assert await store.commit(commit("r0", None, event_ids=[digest("v"), digest(1)])) == Known(
        values | {digest(1): b""}, {}
    )
    ((until, ids),) = (await store.export("s")).events
    assert until == pytest.approx(whole.events[0][0], abs=1)
    assert ids == whole.events[0][1]


async def test_an_id_that_exists_is_not_written_over(store):
    await filled(store)
    whole = await store.export("s")

    present = await store.restore("s", whole, restored())

    assert present == await store.load("s")
    assert await store.export("s") == whole
    assert await store.export("nobody") is None


async def test_a_restoration_sent_again_finds_itself(store):
    whole = await taken(store)

    assert [await store.restore("s", whole, restored()) for _ in range(2)] == [None, None]


async def test_a_restored_session_has_the_deadline_of_its_idle_time(store):
    await store.restore("s", await taken(store), restored(idle_ttl_ms=60_000))

    assert (await loaded(store)).expires_at == pytest.approx(store.now() + 60, abs=5)


async def test_an_answer_is_restored_beside_the_event_ids(store):
    whole = await taken(store)

    assert await store.restore("s", whole, restored(answer=(digest("import"), b"view"))) is None

    assert await store.recall("s", digest("import")) == b"view"
    repeated = commit("r0", "r1", event_ids=[digest(7)], event_lookups=[digest(7)])
    assert (await store.commit(repeated)) == Known(dict.fromkeys([digest(7)], b""), {})
    again = await store.export("s")
    assert sum(len(digests) for _, digests in again.events) == 1200


# -- Pages of sessions, on every store.


async def pages(store: Store, limit: int, prefix: str = "") -> list[list[str]]:
    found: list[list[str]] = []
    cursor = None
    while True:
        page = await store.list(cursor, limit, prefix)
        found.append([each.session_id for each in page.sessions])
        cursor = page.next_cursor
        if cursor is None:
            return found


async def test_no_sessions_are_one_empty_page(store):
    assert await pages(store, 10) == [[]]


@pytest.mark.parametrize("limit", [1, 3, 50, 119, 120, 1000])
async def test_pages_hold_every_session_within_the_limit(store, limit):
    names = [f"s{n}.x-{n}_" for n in range(120)]
    for name in names:
        await store.create(new_session(name))
        fields = {"event_ids": [digest(1)], "records": {b"1": b"x"}, "answers": {digest(2): b"y"}}
        await store.commit(commit("a-0", "a-1", session_id=name, **fields))

    found = await pages(store, limit)

    assert max(map(len, found)) <= limit
    assert {name for page in found for name in page} == set(names)


@pytest.mark.parametrize("limit", [1, 4, 7, 8, 1000])
async def test_lists_by_prefix_have_these_sessions_alone_in_the_order_of_their_ids(store, limit):
    names = ["a", "shop", "shop-", *(f"shop-{n}" for n in range(6)), "shop.x", "shoq", "Shop-1", "zz"]
    for name in names:
        await store.create(new_session(name))

    found = await pages(store, limit, "shop-")

    assert [name for page in found for name in page] == sorted(name for name in names if name.startswith("shop-"))
    assert max(map(len, found)) <= limit
    assert await pages(store, limit, "nobody") == [[]]


async def test_lists_by_prefix_follow_what_is_created_and_deleted(store):
    await store.create(new_session("p1"))
    assert await pages(store, 9, "p") == [["p1"]]
    await store.create(new_session("p0"))
    await store.create(new_session("p2", idle_ttl_ms=30))
    await store.delete("p1")
    await until_gone(store, "p2")

    assert await pages(store, 9, "p") == [["p0"]]
    await store.create(new_session("p2"))
    await store.create(new_session("p1"))
    assert await pages(store, 2, "p") == [["p0", "p1"], ["p2"]]


async def until_gone(store: Store, session_id: str) -> None:
    async def gone() -> bool:
        return await store.load(session_id) is None

    await until(gone)


async def test_sessions_are_counted_by_prefix_up_to_a_number(store):
    for n in range(5):
        await store.create(new_session(f"p{n}", idle_ttl_ms=30 if n == 0 else None))
    await store.create(new_session("q"))
    await until_gone(store, "p0")

    assert [await store.count("p", most) for most in (1, 3, 4, 5, 100)] == [1, 3, 4, 4, 4]
    await store.delete("p1")
    assert await store.count("p", 4) == 3
    assert await store.count("nobody", 1) == 0
    assert await store.count("", 100) == 4


async def test_a_page_shows_what_commits_wrote_for_it(store):
    await store.create(new_session(about=b"about", state=b"\x01\x04\x00headbody", idle_ttl_ms=60_000))
    await store.create(new_session("plain", state=b""))
    await store.commit(commit("a-0", "a-1", state=(long := b"\x01\x02\x01" + bytes(255)) + b"body"))
    for prefix in ("", "s"):
        (shown,) = [each for each in (await store.list(None, 9, prefix)).sessions if each.session_id == "s"]
        snapshot = await loaded(store)
        assert shown == Listed("s", "a-1", snapshot.created_at, snapshot.expires_at, b"about", long)
    await store.commit(commit("a-1", "a-2", state=b"\x01\x05\x002\x003", about=b"other"))
    (shown, plain) = sorted((await store.list(None, 9)).sessions, reverse=True)
    assert (shown.version, shown.about, shown.head) == ("a-2", b"other", b"\x01\x05\x002\x00")
    assert (plain.about, plain.expires_at) == (b"", None)


@pytest.mark.parametrize("cursor", ["", "0", "after~", "after~q", "after~p x", "x~p"])
async def test_a_cursor_of_another_prefix_is_refused(store, cursor):
    with pytest.raises(ValueError, match="cursor"):
        await store.list(cursor, 10, "p")


@pytest.mark.slow
async def test_sessions_present_all_along_are_listed_while_others_come_and_go(store):
    """Growing and shrinking the store between pages moves its keys about, and loses none."""
    staying = {f"stay{n}" for n in range(200)}
    passing = [f"pass{n}" for n in range(1500)]
    for name in [*staying, *passing[:1000]]:
        await store.create(new_session(name))
    seen: set[str] = set()
    cursor, turn = None, 0
    while True:
        page = await store.list(cursor, 7)
        seen |= {each.session_id for each in page.sessions}
        for name in passing[10 * turn : 10 * turn + 10]:
            await store.delete(name)
        await store.create(new_session(passing[1000 + turn % 500]))
        cursor, turn = page.next_cursor, turn + 1
        if cursor is None:
            break

    assert staying <= seen


@pytest.mark.parametrize(
    "cursor", ["", "end", "0", "x y", "~", "-1", "0x10", "1~", "1~a b", "99999999999999999999", "1~a~", "é"]
)
async def test_a_foreign_cursor_is_refused(store, cursor):
    with pytest.raises(ValueError, match="cursor"):
        await store.list(cursor, 10)


async def test_a_cursor_stays_short_whatever_else_is_among_the_keys(store):
    """It is part of an address, of which proxies take 8 kB; it carries the ids that were scanned and not shown."""
    names = [f"{n:036}" for n in range(700)]
    for name in names:
        await store.create(new_session(name))
        if name.endswith("0"):
            await store.commit(commit("a-0", "a-1", session_id=name, records={b"1": b"x"}))
    found, lengths, cursor = [], [], None
    while True:
        page = await store.list(cursor, 300)
        found += [each.session_id for each in page.sessions]
        if (cursor := page.next_cursor) is None:
            break
        lengths.append(len(cursor))

    assert sorted(found) == names
    assert max(lengths) < 2_000
