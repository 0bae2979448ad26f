"""Sessions that are exported from one store and restored in another, on every store."""

from __future__ import annotations

import os
import threading
from typing import Any

import pytest

from service.store.base import ArmCounts, Committed, Known, NewSession, Store
from service.store.memory import MemoryStore
from service.store.redis import transfer
from service.store.redis.store import RedisStore
from tests.support.real_redis import RedisServer
from tests.support.sessions import commit, digest, new_session


def restored(version: str = "r0", **fields: object) -> NewSession:
    return NewSession("s", version, b"", b"", **fields)  # type: ignore[arg-type]


async def filled(store: Store, records: int = 3, *, joined: bool = False) -> None:
    """A session with state, records, counts, event ids and a stored answer."""
    await store.create(new_session(spec=b"spec", answer=(digest("k"), b"answer")))
    fields = {
        "state": bytes(range(256)),
        "event_ids": [digest(n) for n in range(1200)],
        "records": {b"%d" % n: os.urandom(40) for n in range(records)},
        "counts": {0: ArmCounts(feedbacks=3, losses=0.1), 1: ArmCounts(feedbacks=2**53, voided=300)},
        "joins_counts": joined,
        "entries": [b"entry"],
        "max_entries": 9,
    }
    assert await store.commit(commit("v0", "v1", **fields)) == Committed()


@pytest.mark.parametrize(("records", "joined"), [(0, True), (2500, False)])
async def test_a_session_is_restored_as_it_was_exported(store: Store, records: int, joined: bool) -> None:
    """From each store to memory and back."""
    await filled(store, records, joined=joined)
    before = await store.load("s")
    whole = await store.export("s")
    assert whole is not None
    assert whole.snapshot == before
    other = MemoryStore()
    assert await other.restore("s", whole, restored()) is None
    again = await other.export("s")
    assert again is not None
    await store.delete("s")
    assert await store.restore("s", again, restored("r1", about=b"about", summary=b"summary")) is None

    after = await store.load("s")
    assert after is not None
    assert before is not None
    assert after[:3] == ("r1", before.spec, before.state)
    assert after.created_at == pytest.approx(before.created_at, abs=1e-6)
    assert await store.read_records("s") == whole.records
    assert len(whole.records) == records
    found = await store.read_counts("s", [0, 1])
    assert found == ("r1", [ArmCounts(3, 0.1), ArmCounts(2**53, voided=300)])
    log = await store.read_log("s", None, 9)
    assert log == (b"about", [])
    assert await store.recall("s", digest("k")) is None
    (listed,) = (await store.list(None, 9)).sessions
    assert (listed.about, listed.summary) == (b"about", b"summary")


async def test_counts_of_many_arms_are_read_in_a_thread(
    redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, threads = transfer.read_fields, []

    def noted(fields: Any) -> Any:
        threads.append(threading.get_ident())
        return read(fields)

    monkeypatch.setattr(transfer, "read_fields", noted)
    store = RedisStore(redis_server.url)
    await store.create(new_session())
    counts = {arm: ArmCounts(feedbacks=arm + 1, losses=0.5) for arm in range(3_000)}
    await store.commit(commit("v0", "v1", counts=counts))

    whole = await store.export("s")

    assert whole is not None
    assert {arm: ArmCounts(*row) for arm, row in whole.counts.items()} == counts
    assert len(threads) == 1
    assert threads != [threading.get_ident()]
    await store.close()


async def test_event_ids_count_in_the_restored_session(store: Store) -> None:
    await filled(store)
    whole = await store.export("s")
    assert whole is not None
    await store.delete("s")
    await store.restore("s", whole, restored())

    outcome = await store.commit(commit("r0", "r1", event_ids=[digest(7), digest("new"), digest(1199)]))

    assert outcome == Known(frozenset([digest(7), digest(1199)]), {})
    assert await store.commit(commit("r0", "r1", event_ids=[digest("new")])) == Committed()


async def test_an_id_that_exists_is_not_written_over(store: Store) -> None:
    await filled(store)
    whole = await store.export("s")
    assert whole is not None

    present = await store.restore("s", whole, restored())

    assert present == await store.load("s")
    assert await store.export("s") == whole
    assert await store.export("nobody") is None


async def test_a_restoration_sent_again_finds_itself(store: Store) -> None:
    await filled(store)
    whole = await store.export("s")
    assert whole is not None
    await store.delete("s")

    assert [await store.restore("s", whole, restored()) for _ in range(2)] == [None, None]


async def test_a_restored_session_has_the_deadline_of_its_idle_time(store: Store) -> None:
    await filled(store)
    whole = await store.export("s")
    assert whole is not None
    await store.delete("s")
    await store.restore("s", whole, restored(idle_ttl_ms=60_000))

    snapshot = await store.load("s")

    assert snapshot is not None
    assert snapshot.expires_at == pytest.approx(store.now() + 60, abs=5)


async def test_an_answer_is_restored_beside_the_event_ids(store: Store) -> None:
    await filled(store)
    whole = await store.export("s")
    assert whole is not None
    await store.delete("s")

    assert await store.restore("s", whole, restored(answer=(digest("import"), b"view"))) is None

    assert await store.recall("s", digest("import")) == b"view"
    repeated = commit("r0", "r1", event_ids=[digest(7)], event_lookups=[digest(7)])
    assert (await store.commit(repeated)) == Known(frozenset([digest(7)]), {})
    again = await store.export("s")
    assert again is not None
    assert sum(len(digests) for _, digests in again.events) == 1200
