"""Masters that die, and slots that move, under load from clients who send again: audited, nothing lost or twice."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
import redis
from redis.crc import key_slot

from loadtest.chaos.audit import Ledger, audit
from loadtest.chaos.load import LEARNERS, Load, connection, open_sessions
from tests.support.cluster import Cluster
from tests.support.key_leaks import leaks
from tests.support.real_redis import RedisServer
from tests.support.running import RunningService
from tests.support.sentinel import Watched
from tests.support.waiting import wait_until

pytestmark = pytest.mark.processes

PATIENCE = 60.0
WORTH = 30
"""Acknowledged acts of a session that are worth a fault."""
SAFE = ("--min-replicas", "1", "--workers", "2", "--store-timeout-seconds", "1")


@pytest.fixture
def stack(server_program: str) -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


@contextmanager
def load(folder: Path, url: str, name: str, *flags: str) -> Iterator[list[Ledger]]:
    """Clients on two new sessions of a service on this store; at the end, the audit."""
    with RunningService(folder, "--store-url", url, *flags) as service, ExitStack() as stack:
        service.wait_ready()
        auditor, *clients = (stack.enter_context(connection(service.url, PATIENCE)) for _ in range(5))
        ledgers = list(open_sessions(auditor, name))
        with Load(clients, ledgers).running():
            more(ledgers)
            yield ledgers
            more(ledgers)
        assert [problem for ledger in ledgers for problem in audit(auditor, ledger)] == []


def more(ledgers: list[Ledger]) -> None:
    """Wait until each session has made good progress from now."""
    goals = [len(ledger.acts) + WORTH for ledger in ledgers]
    wait_until(lambda: all(len(ledger.acts) >= goal for ledger, goal in zip(ledgers, goals, strict=True)), PATIENCE)


def named(fits: Callable[[str], object]) -> str:
    """A name all of whose sessions fit."""
    return next(f"n{n}" for n in range(10_000) if all(fits(f"n{n}-{kind}") for kind in LEARNERS))


def test_a_sentinels_master_that_dies_under_load_loses_nothing_acknowledged(
    stack: ExitStack, tmp_path: Path
) -> None:
    """The new master has no replica, and acknowledges nothing, until the old one follows it."""
    watched = Watched(tmp_path, stack)
    with load(tmp_path, watched.url, "s", *SAFE):
        watched.master.kill()
        wait_until(lambda: watched.replica.client.role()[0] == b"master")
        watched.master.start()
        watched.master.client.replicaof("127.0.0.1", watched.replica.port)

    assert leaks(watched.replica.client) == []


@pytest.mark.parametrize("replicas", [1, pytest.param(2, marks=pytest.mark.recipes)])
def test_a_planned_failover_under_load_loses_nothing_acknowledged(
    stack: ExitStack, tmp_path: Path, replicas: int
) -> None:
    """The old master lives on; with two replicas the other one still acknowledges what it accepts."""
    watched = Watched(tmp_path, stack, replicas)
    with load(tmp_path, watched.url, "s", *SAFE) as ledgers:
        watched.sentinel.client.execute_command("SENTINEL FAILOVER main")
        wait_until(lambda: any(each.client.role()[0] == b"master" for each in watched.replicas))
        wait_until(lambda: watched.master.client.role()[0] == b"slave", PATIENCE)
        more(ledgers)


@pytest.mark.recipes
def test_a_replica_promoted_by_hand_under_load_loses_nothing_acknowledged_until_the_old_master_goes(
    stack: ExitStack, tmp_path: Path
) -> None:
    """Sentinels set a replica that somebody promoted back to their master; nobody else is asked."""
    watched = Watched(tmp_path, stack, 2)
    with load(tmp_path, watched.url, "s", *SAFE) as ledgers:
        watched.replica.client.replicaof("NO", "ONE")
        wait_until(lambda: watched.replica.client.role()[0] == b"slave", PATIENCE)
        more(ledgers)


@pytest.mark.recipes
def test_a_clusters_master_that_dies_under_load_loses_nothing_acknowledged(
    stack: ExitStack, tmp_path: Path
) -> None:
    cluster = Cluster(tmp_path, stack)
    with load(tmp_path, cluster.url, named(lambda name: cluster.master_of(name) == 0), *SAFE):
        cluster.nodes[0].kill()
        wait_until(lambda: cluster.nodes[3].client.role()[0] == b"master")
        cluster.nodes[0].start()

    assert cluster.nodes[3].client.dbsize() > 0
    assert [leaks(cluster.nodes[n].client) for n in (1, 2, 3)] == [[], [], []]


@pytest.mark.recipes
@pytest.mark.parametrize("how", [("FORCE",), ("TAKEOVER",), ()], ids=["force", "takeover", "agreed"])
def test_a_clusters_ordered_failover_under_load_loses_nothing_acknowledged(
    stack: ExitStack, tmp_path: Path, how: tuple[str, ...]
) -> None:
    cluster = Cluster(tmp_path, stack)
    with load(tmp_path, cluster.url, named(lambda name: cluster.master_of(name) == 0), *SAFE) as ledgers:
        cluster.nodes[3].client.execute_command("CLUSTER FAILOVER", *how)
        wait_until(lambda: cluster.nodes[3].client.role()[0] == b"master", PATIENCE)
        wait_until(lambda: cluster.nodes[0].client.role()[0] == b"slave", PATIENCE)
        more(ledgers)


@pytest.mark.recipes
def test_slots_that_move_under_load_lose_nothing_and_double_nothing(stack: ExitStack, tmp_path: Path) -> None:
    """The session's slot goes to each of the others in turn, key by key, with calls at every stage of it."""
    cluster = Cluster(tmp_path, stack)
    first, second, third = cluster.nodes[:3]
    name = named(lambda name: cluster.master_of(name) == 0)
    slot = key_slot(f"{name}-{next(iter(LEARNERS))}".encode())
    with load(tmp_path, cluster.url, name, "--workers", "2") as ledgers:
        for source, target in ((first, second), (second, third), (third, first)):
            move(slot, source, target, cluster.nodes[:3])
            more(ledgers)

    assert [leaks(node.client) for node in (first, second, third)] == [[], [], []]


def move(slot: int, source: RedisServer, target: RedisServer, masters: list[RedisServer]) -> None:
    """Hand a slot over, waiting at every stage until a call has met it."""
    target.client.execute_command("CLUSTER", "SETSLOT", slot, "IMPORTING", name_of(source))
    source.client.execute_command("CLUSTER", "SETSLOT", slot, "MIGRATING", name_of(target))
    met(source, "TRYAGAIN")
    while keys := source.client.execute_command("CLUSTER", "GETKEYSINSLOT", slot, 1):
        source.client.execute_command("MIGRATE", "127.0.0.1", target.port, keys[0], 0, 5000)
    met(source, "ASK")
    met(target, "TRYAGAIN")
    for node in (target, source, *masters):
        node.client.execute_command("CLUSTER", "SETSLOT", slot, "NODE", name_of(target))
    wait_until(lambda: errors(source, "MOVED"))


def name_of(node: RedisServer) -> str:
    name: bytes = node.client.execute_command("CLUSTER", "MYID")
    return name.decode()


def met(node: RedisServer, what: str) -> None:
    before = errors(node, what)
    wait_until(lambda: errors(node, what) > before)


def errors(node: RedisServer, what: str) -> int:
    """How often a node has answered with this error."""
    try:
        found = node.client.info("errorstats").get(f"errorstat_{what}", {"count": 0})
    except redis.exceptions.ConnectionError:
        return 0
    return int(found["count"])
