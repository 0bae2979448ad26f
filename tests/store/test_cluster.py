"""Three masters with a replica each: sessions spread over them, and a master that dies under load."""

from __future__ import annotations

import asyncio

import pytest

from service.errors import StoreUnavailableError
from service.store import open_store
from service.store.base import Committed, Conflict, Known, Store, StoreOptions
from tests.support.cluster import Cluster
from tests.support.sessions import commit, digest, new_session
from tests.support.waiting import wait_until

PATIENT = StoreOptions(reply_seconds=0.5, retry_seconds=30)


async def everything(store: Store, names: list[str]) -> None:
    for name in names:
        fields = {"event_ids": [digest(1)], "answers": {digest("k"): b"y"}, "records": {b"1": b"x"}}
        fields["segments"] = {b"a": (7, b"y"), b"b": (3, b"z")}
        assert (await store.create(new_session(name, idle_ttl_ms=600_000))).version == "v0"
        assert await store.commit(commit("v0", "v1", session_id=name, **fields)) == Committed()
        assert await store.commit(commit("v0", "v1", session_id=name, **fields)) == Committed()
        again = await store.commit(
            commit("v1", "v2", session_id=name, event_ids=[digest(1)], lookups=[digest("k")])
        )
        assert again == Known(frozenset([digest(1)]), {digest("k"): b"y"})
        assert isinstance(await store.commit(commit("v0", "b1", session_id=name, writer="b")), Conflict)
        assert await store.read_records(name) == {b"1": b"x"}
        assert await store.read_segments(name, [b"b"], 1) == ("v1", [b"z"], [(3, b"b")])
        assert await store.segment_names(name, b"a", 9) == [b"b"]
        assert await store.recall(name, digest("k")) == b"y"


async def listed(store: Store, limit: int) -> list[str]:
    found: list[str] = []
    cursor = None
    while True:
        page = await store.list(cursor, limit)
        assert len(page.session_ids) <= limit
        found += page.session_ids
        cursor = page.next_cursor
        if cursor is None:
            return found


@pytest.mark.processes
@pytest.mark.quick
async def test_sessions_on_every_master_keep_the_contract(cluster: Cluster) -> None:
    store = open_store(cluster.url, options=PATIENT)
    names = [f"s{n}" for n in range(60)]
    await store.ping()
    await everything(store, names)

    assert {cluster.master_of(name) for name in names} == {0, 1, 2}
    assert set(await listed(store, 7)) == set(names)
    for foreign in ("0", "12", "0-1x", "99999999999999999999-0"):
        with pytest.raises(ValueError, match="cursor"):
            await store.list(foreign, 7)
    by_prefix = [await store.list(None, 4, "s1"), await store.list("after~s12", 40, "s1")]
    assert [list(page.session_ids) for page in by_prefix] == [
        ["s1", "s10", "s11", "s12"],
        [f"s1{n}" for n in range(3, 10)],
    ]
    assert await store.count("s1", 100) == 11
    cluster.nodes[cluster.master_of("bandit:index")].client.delete("bandit:index")
    for name in names:
        assert await store.delete(name) is True
    assert [node.client.dbsize() for node in cluster.nodes[:3]] == [0, 0, 0]
    await store.close()


@pytest.mark.processes
async def test_a_master_that_dies_under_load_costs_no_event_and_doubles_none(cluster: Cluster) -> None:
    """Each session's events are counted in its state; only what was replicated before the kill is asked for."""
    store = open_store(cluster.url, options=PATIENT)
    names = [f"s{n}" for n in range(12)]
    for name in names:
        await store.create(new_session(name, state=b""))
    made = dict.fromkeys(names, 0)
    done = asyncio.Event()

    async def keep_committing(name: str) -> None:
        while not done.is_set():
            snapshot = await store.load(name)
            assert snapshot is not None
            n = len(snapshot.state)
            grown = commit(
                f"v{n}", f"v{n + 1}", session_id=name, state=snapshot.state + b"x", event_ids=[digest(n)]
            )
            assert await store.commit(grown) == Committed()
            made[name] = n + 1

    committing = [asyncio.create_task(keep_committing(name)) for name in names if cluster.master_of(name) != 0]
    await asyncio.to_thread(wait_until, lambda: cluster.in_step(0))
    await asyncio.to_thread(cluster.nodes[0].kill)
    killed = [name for name in names if cluster.master_of(name) == 0]
    assert killed
    for name in killed:
        assert await store.commit(commit("v0", "v1", session_id=name, state=b"x")) == Committed()
    done.set()
    await asyncio.gather(*committing)

    for name in names:
        snapshot = await store.load(name)
        assert snapshot is not None
        assert len(snapshot.state) == (1 if name in killed else made[name])
    assert set(await listed(store, 5)) == set(names)
    await store.close()


async def test_a_cluster_that_is_not_there_is_unavailable() -> None:
    store = open_store("redis+cluster://:hunter2@127.0.0.1:1", options=StoreOptions(retry_seconds=0.1))
    with pytest.raises(StoreUnavailableError) as caught:
        await store.ping()
    assert "hunter2" not in str(caught.value)
    await store.close()


def test_a_cluster_has_no_numbered_databases() -> None:
    with pytest.raises(ValueError, match="store URL"):
        open_store("redis+cluster://host:1/3")
