"""Three masters with a replica each: sessions spread over them, and a master that dies under load."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from redis.crc import key_slot
from redis.exceptions import ResponseError

from service.store import open_store
from service.store.base import Committed, Conflict, Known, Store, StoreUnavailableError
from service.store.options import StoreOptions
from tests.support.real_redis import RedisServer, free_port
from tests.support.sessions import commit, digest, new_session
from tests.support.waiting import wait_until

PATIENT = StoreOptions(reply_seconds=0.5, resend_seconds=30)
SLOTS = 16384
TIMES = "--cluster-node-timeout 1000 --repl-diskless-sync-delay 0 --cluster-replica-validity-factor 0"


class Cluster:
    """Nodes 0-2 are masters of a third of the slots each, 3-5 their replicas."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self.nodes = [self._node(stack, folder / str(n)) for n in range(6)]
        first = self.nodes[0].client
        for n, node in enumerate(self.nodes):
            node.client.execute_command("CLUSTER", "SET-CONFIG-EPOCH", n + 1)
        for node in self.nodes[1:]:
            first.execute_command("CLUSTER", "MEET", "127.0.0.1", node.port, node.bus_port)
        for n in range(3):
            ends = SLOTS * n // 3, SLOTS * (n + 1) // 3 - 1
            self.nodes[n].client.execute_command("CLUSTER", "ADDSLOTSRANGE", *ends)
        wait_until(lambda: all(state(node)["cluster_known_nodes"] == "6" for node in self.nodes))
        for n in range(3):
            name = self.nodes[n].client.execute_command("CLUSTER", "MYID").decode()
            wait_until(lambda n=n, name=name: follows(self.nodes[n + 3], name))
        wait_until(lambda: all(state(node)["cluster_state"] == "ok" for node in self.nodes))
        wait_until(lambda: all(map(self.in_step, range(3))))

    @staticmethod
    def _node(stack: ExitStack, folder: Path) -> RedisServer:
        folder.mkdir()
        bus_port = free_port()
        server = RedisServer(folder, "--cluster-enabled", "yes", "--cluster-port", str(bus_port), *TIMES.split())
        server.bus_port = bus_port
        stack.callback(server.close)
        return server.start()

    def in_step(self, n: int) -> bool:
        """Whether a master's replica has all that it has."""
        here, there = (self.nodes[at].client.info("replication") for at in (n, n + 3))
        linked = there.get("master_link_status") == "up"
        return bool(linked and here["master_repl_offset"] == there["slave_repl_offset"])

    def master_of(self, session_id: str) -> int:
        return key_slot(session_id.encode()) * 3 // SLOTS

    @property
    def url(self) -> str:
        return f"redis+cluster://127.0.0.1:1,127.0.0.1:{self.nodes[0].port},127.0.0.1:{self.nodes[1].port}"


def state(node: RedisServer) -> dict[str, str]:
    found: dict[str, str] = node.client.execute_command("CLUSTER INFO")
    return found


def follows(node: RedisServer, master: str) -> bool:
    """Make a node a replica, which it refuses until it has heard of the master."""
    try:
        return bool(node.client.execute_command("CLUSTER", "REPLICATE", master))
    except ResponseError:
        return False


@pytest.fixture
def cluster(server_program: str, tmp_path: Path) -> Iterator[Cluster]:
    with ExitStack() as stack:
        yield Cluster(tmp_path, stack)


async def everything(store: Store, names: list[str]) -> None:
    for name in names:
        fields = {"events": [digest(1)], "answers": {digest("k"): b"y"}, "records": {b"1": b"x"}}
        assert await store.create(new_session(name, idle_ttl_ms=600_000)) is None
        assert await store.commit(commit("v0", "v1", session_id=name, **fields)) == Committed()
        assert await store.commit(commit("v0", "v1", session_id=name, **fields)) == Committed()
        again = await store.commit(commit("v1", "v2", session_id=name, events=[digest(1)], lookups=[digest("k")]))
        assert again == Known(frozenset([digest(1)]), {digest("k"): b"y"})
        assert isinstance(await store.commit(commit("v0", "b1", session_id=name, writer="b")), Conflict)
        assert await store.read_records(name) == {b"1": b"x"}
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
            grown = commit(f"v{n}", f"v{n + 1}", session_id=name, state=snapshot.state + b"x", events=[digest(n)])
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
    store = open_store("redis+cluster://:hunter2@127.0.0.1:1", options=StoreOptions(resend_seconds=0.1))
    with pytest.raises(StoreUnavailableError) as caught:
        await store.ping()
    assert "hunter2" not in str(caught.value)
    await store.close()


def test_a_cluster_has_no_numbered_databases() -> None:
    with pytest.raises(ValueError, match="store URL"):
        open_store("redis+cluster://host:1/3")
