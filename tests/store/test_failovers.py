"""Masters that change, of sentinels and of a cluster."""

import asyncio
import time
from contextlib import ExitStack, contextmanager
from urllib.parse import quote

import pytest
import redis
from redis.crc import key_slot
from redis.exceptions import ResponseError

from loadtest.chaos.audit import audit
from loadtest.chaos.load import LEARNERS, Load, connection, open_sessions
from service.errors import StoreUnavailableError
from service.store import open_store
from service.store.base import Committed, Conflict, Known, StoreOptions
from service.store.redis.store import RedisStore
from service.store.redis.url import plain_url
from tests.support.cluster import Cluster
from tests.support.key_leaks import leaks
from tests.support.running import RunningService
from tests.support.sentinel import Watched
from tests.support.sessions import commit, digest, loaded, new_session
from tests.support.waiting import wait_until

# -- Masters that die, and slots that move, under load from clients who send again: audited, nothing lost or twice.

PROCESSES = pytest.mark.processes

PATIENCE = 60.0
WORTH = 30
"""Acknowledged acts of a session that are worth a fault."""
SAFE = ("--min-replicas", "1", "--workers", "2", "--store-timeout-seconds", "1")


@pytest.fixture
def stack(server_program):
    with ExitStack() as stack:
        yield stack


@contextmanager
def load(folder, url, name, *flags):
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


def more(ledgers):
    """Wait until each session has made good progress from now."""
    goals = [len(ledger.acts) + WORTH for ledger in ledgers]
    wait_until(lambda: all(len(ledger.acts) >= goal for ledger, goal in zip(ledgers, goals, strict=True)), PATIENCE)


def named(fits):
    """A name all of whose sessions fit."""
    return next(f"n{n}" for n in range(10_000) if all(fits(f"n{n}-{kind}") for kind in LEARNERS))


@PROCESSES
def test_a_sentinels_master_that_dies_under_load_loses_nothing_acknowledged(stack, tmp_path):
    """The new master has no replica, and acknowledges nothing, until the old one follows it."""
    watched = Watched(tmp_path, stack)
    with load(tmp_path, watched.url, "s", *SAFE):
        watched.master.kill()
        wait_until(lambda: watched.replica.client.role()[0] == b"master")
        watched.master.start()
        watched.master.client.replicaof("127.0.0.1", watched.replica.port)

    assert leaks(watched.replica.client) == []


@PROCESSES
@pytest.mark.parametrize("replicas", [1, pytest.param(2, marks=pytest.mark.recipes)])
def test_a_planned_failover_under_load_loses_nothing_acknowledged(stack, tmp_path, replicas):
    """The old master lives on; with two replicas the other one still acknowledges what it accepts."""
    watched = Watched(tmp_path, stack, replicas)
    with load(tmp_path, watched.url, "s", *SAFE) as ledgers:
        watched.sentinel.client.execute_command("SENTINEL FAILOVER main")
        wait_until(lambda: any(each.client.role()[0] == b"master" for each in watched.replicas))
        wait_until(lambda: watched.master.client.role()[0] == b"slave", PATIENCE)
        more(ledgers)


@PROCESSES
@pytest.mark.recipes
def test_replicas_restarted_promoted_and_taken_out_on_purpose_lose_nothing_acknowledged(stack, tmp_path):
    """As docs/deployment.md says it; the one that is promoted has just returned."""
    watched = Watched(tmp_path, stack, 2, 3)
    with load(tmp_path, watched.url, "s", *SAFE) as ledgers:
        for replica in reversed(watched.replicas):
            replica.stop()
            more(ledgers)
            replica.start()
            wait_until(lambda: watched.replicas_confirm(2))
        wait_until(lambda: swapping(watched.sentinel))
        wait_until(lambda: watched.replica.client.role()[0] == b"master", PATIENCE)
        wait_until(lambda: watched.master.client.role()[0] == b"slave", PATIENCE)
        watched.replicas[1].stop()
        more(ledgers)
        for sentinel in watched.sentinels:
            sentinel.client.sentinel_reset("main")
        wait_until(lambda: watched.sentinel.client.sentinel_masters()["main"]["num-slaves"] == 1, PATIENCE)


@PROCESSES
@pytest.mark.recipes
def test_a_replica_promoted_by_hand_under_load_loses_nothing_acknowledged_until_the_old_one_goes(stack, tmp_path):
    """Sentinels set a replica that somebody promoted back to their master; nobody else is asked."""
    watched = Watched(tmp_path, stack, 2)
    with load(tmp_path, watched.url, "s", *SAFE) as ledgers:
        watched.replica.client.replicaof("NO", "ONE")
        wait_until(lambda: watched.replica.client.role()[0] == b"slave", PATIENCE)
        more(ledgers)


@PROCESSES
@pytest.mark.recipes
def test_a_clusters_master_that_dies_under_load_loses_nothing_acknowledged(stack, tmp_path):
    cluster = Cluster(tmp_path, stack)
    with load(tmp_path, cluster.url, named(lambda name: cluster.master_of(name) == 0), *SAFE):
        cluster.nodes[0].kill()
        wait_until(lambda: cluster.nodes[3].client.role()[0] == b"master")
        cluster.nodes[0].start()

    assert cluster.nodes[3].client.dbsize() > 0
    assert [leaks(cluster.nodes[n].client) for n in (1, 2, 3)] == [[], [], []]


@PROCESSES
@pytest.mark.recipes
@pytest.mark.parametrize("how", [("FORCE",), ("TAKEOVER",), ()], ids=["force", "takeover", "agreed"])
def test_a_clusters_ordered_failover_under_load_loses_nothing_acknowledged(stack, tmp_path, how):
    cluster = Cluster(tmp_path, stack)
    with load(tmp_path, cluster.url, named(lambda name: cluster.master_of(name) == 0), *SAFE) as ledgers:
        cluster.nodes[3].client.execute_command("CLUSTER FAILOVER", *how)
        wait_until(lambda: cluster.nodes[3].client.role()[0] == b"master", PATIENCE)
        wait_until(lambda: cluster.nodes[0].client.role()[0] == b"slave", PATIENCE)
        more(ledgers)


@PROCESSES
@pytest.mark.recipes
def test_slots_that_move_under_load_lose_nothing_and_double_nothing(stack, tmp_path):
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


def move(slot, source, target, masters):
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


def name_of(node):
    name: bytes = node.client.execute_command("CLUSTER", "MYID")
    return name.decode()


def met(node, what):
    before = errors(node, what)
    wait_until(lambda: errors(node, what) > before)


def errors(node, what):
    """How often a node has answered with this error."""
    try:
        found = node.client.info("errorstats").get(f"errorstat_{what}", {"count": 0})
    except redis.exceptions.ConnectionError:
        return 0
    return int(found["count"])


# -- A master, a replica and a sentinel: the master dies, the store follows, nothing counts twice.

SECRET = "p@s:s/w%rd#?,"
PATIENT = StoreOptions(reply_seconds=0.5, retry_seconds=20)


@pytest.mark.processes
@pytest.mark.quick
async def test_a_store_follows_the_master_through_a_failover(watched):
    store = open_store(watched.url, options=PATIENT)
    await store.create(new_session())
    for n in range(20):
        assert await store.commit(commit(f"a-{n}", f"a-{n + 1}", event_ids=[digest(n)])) == Committed()
    await asyncio.to_thread(wait_until, watched.in_step)
    watched.master.kill()

    outcome = await store.commit(commit("a-20", "a-21", event_ids=[digest(20)]))

    assert outcome == Committed()
    assert (await loaded(store)).version == "a-21"
    assert watched.replica.client.hget("bandit:{s}", "version") == b"a-21"
    await store.ping()


@pytest.mark.processes
async def test_commits_go_on_at_the_new_master_soon_after_an_ordered_failover(watched):
    """The old master stays up and takes commits for ten more seconds; the store has left it long before."""
    store = RedisStore(watched.url, PATIENT)
    await store.create(new_session(state=b""))
    await asyncio.to_thread(wait_until, watched.in_step)
    made = [0]
    done = asyncio.Event()

    async def keep_committing():
        while not done.is_set():
            snapshot = await loaded(store)
            n = made[0]
            outcome = await store.commit(commit(snapshot.version, f"a-{n + 1}", event_ids=[digest(n)]))
            made[0] = n + isinstance(outcome, Committed)
            await asyncio.sleep(0.005)

    committing = asyncio.create_task(keep_committing())
    await asyncio.to_thread(wait_until, lambda: swapping(watched.sentinel))
    await asyncio.to_thread(wait_until, lambda: watched.replica.client.info("replication")["role"] == "master")
    swapped, started = made[0], time.monotonic()
    replica = watched.replica.client
    await asyncio.to_thread(wait_until, lambda: int(replica.hget("bandit:{s}", "version")[2:]) > swapped)
    left = time.monotonic() - started
    done.set()
    await committing

    snapshot = await loaded(store)
    assert snapshot.version == f"a-{made[0]}"
    assert left < 30


def swapping(sentinel):
    """Ask for a failover; the sentinel refuses until it has seen the replica well."""
    try:
        return bool(sentinel.client.execute_command("SENTINEL", "FAILOVER", "main"))
    except ResponseError:
        return False


@pytest.mark.processes
async def test_without_a_master_the_store_is_unavailable_and_says_so(watched):
    store = open_store(watched.url.replace("/main", "/other"), options=StoreOptions(retry_seconds=0.1))
    started = time.monotonic()
    with pytest.raises(StoreUnavailableError, match="sentinels are out of reach"):
        await store.load("s")

    assert time.monotonic() - started < 10


def test_an_url_names_sentinels_service_database_and_options():
    password = quote(SECRET, safe="")
    plain, sentinels, service = plain_url(f"redis+sentinel://u:{password}@a,b:1,[::1]:2/main/3?client_name=x")

    assert plain == f"redis://u:{password}@hosts/3?client_name=x"
    assert sentinels == [("a", 26379), ("b", 1), ("::1", 2)]
    assert service == "main"


@pytest.mark.parametrize("bad", ["host:1", "/main", ":hunter#2@h/main", "h:hunter2/main"])
def test_an_url_without_sentinels_or_service_is_refused(bad):
    with pytest.raises(ValueError, match="store URL") as caught:
        open_store(f"redis+sentinel://{bad}")
    assert "hunter" not in str(caught.value)


# -- Three masters with a replica each: sessions spread over them, and a master that dies under load.

PATIENT_CLUSTER = StoreOptions(reply_seconds=0.5, retry_seconds=30)


async def everything(store, names):
    for name in names:
        fields = {"event_ids": [digest(1)], "answers": {digest("k"): b"y"}, "records": {b"1": b"x"}}
        fields["segments"] = {b"a": (7, b"y"), b"b": (3, b"z")}
        assert (await store.create(new_session(name, idle_ttl_ms=600_000))).version == "a-0"
        assert await store.commit(commit("a-0", "a-1", session_id=name, **fields)) == Committed()
        assert await store.commit(commit("a-0", "a-1", session_id=name, **fields)) == Committed()
        asked = {"session_id": name, "event_ids": [digest(1)], "lookups": [digest("k")]}
        again = await store.commit(commit("a-1", "a-2", **asked))
        assert again == Known(dict.fromkeys([digest(1)], b""), {digest("k"): b"y"})
        assert isinstance(await store.commit(commit("a-0", "b1", session_id=name, writer="b")), Conflict)
        assert await store.read_records(name) == {b"1": b"x"}
        assert await store.read_segments(name, [b"b"], 1) == ("a-1", [b"z"], [(3, b"b")])
        assert await store.segment_names(name, b"a", 9) == [b"b"]
        assert await store.recall(name, digest("k")) == b"y"


async def listed(store, limit):
    found: list[str] = []
    cursor = None
    while True:
        page = await store.list(cursor, limit)
        assert len(page.sessions) <= limit
        found += [each.session_id for each in page.sessions]
        cursor = page.next_cursor
        if cursor is None:
            return found


@pytest.mark.processes
@pytest.mark.quick
async def test_sessions_on_every_master_keep_the_contract(cluster):
    store = open_store(cluster.url, options=PATIENT_CLUSTER)
    names = [f"s{n}" for n in range(60)]
    await store.ping()
    await everything(store, names)

    assert {cluster.master_of(name) for name in names} == {0, 1, 2}
    assert set(await listed(store, 7)) == set(names)
    for foreign in ("0", "12", "0-1x", "99999999999999999999-0"):
        with pytest.raises(ValueError, match="cursor"):
            await store.list(foreign, 7)
    by_prefix = [await store.list(None, 4, "s1"), await store.list("after~s12", 40, "s1")]
    found = [[each.session_id for each in page.sessions] for page in by_prefix]
    assert found == [["s1", "s10", "s11", "s12"], [f"s1{n}" for n in range(3, 10)]]
    assert await store.count("s1", 100) == 11
    cluster.nodes[cluster.master_of("bandit:index")].client.delete("bandit:index")
    for name in names:
        assert await store.delete(name) is True
    assert [node.client.dbsize() for node in cluster.nodes[:3]] == [0, 0, 0]


@pytest.mark.processes
async def test_a_master_that_dies_under_load_costs_no_event_and_doubles_none(cluster):
    """Each session's events are counted in its state; only what was replicated before the kill is asked for."""
    store = open_store(cluster.url, options=PATIENT_CLUSTER)
    names = [f"s{n}" for n in range(12)]
    for name in names:
        await store.create(new_session(name, state=b""))
    made = dict.fromkeys(names, 0)
    done = asyncio.Event()

    async def keep_committing(name):
        while not done.is_set():
            snapshot = await loaded(store, name)
            n = len(snapshot.state)
            grown = commit(
                f"a-{n}", f"a-{n + 1}", session_id=name, state=snapshot.state + b"x", event_ids=[digest(n)]
            )
            assert await store.commit(grown) == Committed()
            made[name] = n + 1

    committing = [asyncio.create_task(keep_committing(name)) for name in names if cluster.master_of(name) != 0]
    await asyncio.to_thread(wait_until, lambda: cluster.in_step(0))
    await asyncio.to_thread(cluster.nodes[0].kill)
    killed = [name for name in names if cluster.master_of(name) == 0]
    assert killed
    for name in killed:
        assert await store.commit(commit("a-0", "a-1", session_id=name, state=b"x")) == Committed()
    done.set()
    await asyncio.gather(*committing)

    for name in names:
        snapshot = await loaded(store, name)
        assert len(snapshot.state) == (1 if name in killed else made[name])
    assert set(await listed(store, 5)) == set(names)


async def test_a_cluster_that_is_not_there_is_unavailable():
    store = open_store("redis+cluster://:hunter2@127.0.0.1:1", options=StoreOptions(retry_seconds=0.1))
    with pytest.raises(StoreUnavailableError) as caught:
        await store.ping()
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("url", ["redis+sentinel://a:1", "rediss+sentinel://u:p@a,b:1/", "REDIS+Sentinel://a?db=1"])
def test_an_url_of_sentinels_without_the_name_of_the_master_is_told(url):
    with pytest.raises(ValueError, match="lacks the sentinels' name of the master"):
        open_store(url)


@pytest.mark.parametrize("path", ["/0", "/3", "/x", "/0?client_name=a"])
def test_a_cluster_has_no_numbered_databases(path):
    with pytest.raises(ValueError, match="a cluster has no numbered databases"):
        open_store(f"redis+cluster://host:1{path}")
