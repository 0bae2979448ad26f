"""Commits that wait for replicas, and how many of these there have to be."""

import asyncio
import time
from contextlib import ExitStack, closing, suppress

import pytest

from service.errors import StoreUnavailableError
from service.store import open_store
from service.store.base import Committed, Conflict, Known, StoreOptions
from service.store.redis.connection import LEFT_SECONDS, MISSED_SECONDS, ReplicaWatch, failed_in, replicas_in
from service.store.redis.store import RedisStore
from tests.support.cluster import Cluster, follows
from tests.support.key_leaks import leaks
from tests.support.real_redis import RedisServer
from tests.support.sentinel import Watched
from tests.support.sessions import commit, digest, new_session
from tests.support.waiting import wait_until

# -- BANDIT_MIN_REPLICAS: nothing is acknowledged that fewer replicas have.

OPTIONS = StoreOptions(min_replicas=1, replica_seconds=0.2)
"""For tests in which the replica does not answer."""
PATIENT = StoreOptions(min_replicas=1, replica_seconds=10, reply_seconds=20)
"""For tests in which the replica answers, if late on a busy machine."""


def in_step(master, replicas=1):
    """Whether something written after the first sync of so many replicas has arrived there."""
    master.client.eval("redis.call('SET', KEYS[1], '') redis.call('DEL', KEYS[1])", 1, "written{s}")
    return bool(master.client.wait(replicas, 100) == replicas)


@pytest.fixture
def redis_server(server_program, tmp_path):
    (tmp_path / "master").mkdir()
    with closing(RedisServer(tmp_path / "master", "--repl-diskless-sync-delay", "0")) as server:
        yield server.start()
        assert leaks(server.client) == []


@pytest.fixture
def replica(tmp_path, redis_server):
    with closing(RedisServer(tmp_path, "--replicaof", f"127.0.0.1 {redis_server.port}")) as server:
        server.start()
        wait_until(lambda: in_step(redis_server))
        yield server


@pytest.fixture
async def store(redis_server):
    return RedisStore(redis_server.url, PATIENT)


@pytest.fixture
async def hasty_store(redis_server):
    return RedisStore(redis_server.url, OPTIONS)


async def test_what_is_acknowledged_is_on_the_replica(store, replica):
    await store.ping()
    await store.create(new_session())
    for n in range(50):
        assert await store.commit(commit(f"a-{n}", f"a-{n + 1}")) == Committed()
        assert replica.client.hget("bandit:{s}", "version") == f"a-{n + 1}".encode()
    assert (await store.figures())["replicas"] == 1
    assert await store.delete("s")
    assert replica.client.dbsize() == 0


FIRST = commit("a-0", "a-1", event_ids=[digest(1)])
CALLS = (
    lambda store: store.ping(),
    lambda store: store.commit(FIRST),
    lambda store: store.commit(commit("a-1", None)),
    lambda store: store.read_log("s", 0, 9),
    lambda store: store.commit(commit("a-1", None, event_lookups=[digest(2)])),
    lambda store: store.recall("s", digest("k")),
    lambda store: store.recall("s", digest("unknown")),
    lambda store: store.create(new_session()),
    lambda store: store.create(new_session(version="w0")),
    lambda store: store.create(new_session("t")),
    lambda store: store.delete("t"),
)
"""All that waits for replicas, what changes nothing too."""


@pytest.mark.slow
async def test_nothing_is_acknowledged_while_the_replica_hangs(store, hasty_store, replica):
    """A commit that was refused counts once after all, and is acknowledged when it is on the replica."""
    await store.create(new_session(answer=(digest("k"), b"created")))
    replica.freeze()
    for call in CALLS:
        with pytest.raises(StoreUnavailableError, match="too few replicas"):
            await call(hasty_store)
    assert isinstance(await hasty_store.commit(commit("a-0", "w1", writer="b")), Conflict)
    assert isinstance(await hasty_store.commit(commit("a-1", "w2", event_ids=[digest(1)])), Known)

    replica.thaw()

    await store.ping()
    assert await store.commit(FIRST) == Committed()
    assert replica.client.hget("bandit:{s}", "version") == b"a-1"


@pytest.mark.slow
async def test_another_worker_acknowledges_nothing_either(store, hasty_store, replica, redis_server):
    """Its connection wrote nothing: duplicates, replays, confirmations and sessions found wait all the same."""
    await store.create(new_session(answer=(digest("k"), b"created")))
    replica.freeze()
    for call in (hasty_store.commit(FIRST), hasty_store.delete("t")):
        with pytest.raises(StoreUnavailableError, match="too few replicas"):
            await call
    for call in CALLS:
        other = RedisStore(redis_server.url, OPTIONS)
        with pytest.raises(StoreUnavailableError, match="too few replicas"):
            await call(other)
        assert (await other.load("s")) is not None
        await other.close()
    replica.thaw()


async def test_a_full_server_still_confirms(store, replica, redis_server, created):
    """What an answer without changes writes for WAIT is let through where other writes are refused."""
    redis_server.client.config_set("maxmemory", 1)
    with pytest.raises(StoreUnavailableError, match="full"):
        await store.commit(commit("a-0", "a-1"))

    assert await store.commit(commit("a-0", None)) == Committed()
    assert redis_server.client.dbsize() == replica.client.dbsize() == 1


async def test_answers_without_changes_leave_no_key(store, replica, redis_server, created):
    await store.commit(commit("a-0", None))
    await store.ping()
    assert not await store.delete("t")

    assert redis_server.client.keys() == replica.client.keys() == [b"bandit:{s}"]


@pytest.mark.slow
async def test_without_replicas_it_refuses_in_time_and_heals(store, hasty_store, replica, redis_server, created):
    replica.kill()
    started = asyncio.get_running_loop().time()
    with pytest.raises(StoreUnavailableError, match="too few replicas"):
        await hasty_store.commit(commit("a-0", "a-1"))
    took = asyncio.get_running_loop().time() - started
    await asyncio.to_thread(replica.start)
    await asyncio.to_thread(wait_until, lambda: in_step(redis_server))

    assert took < 15
    assert await store.commit(commit("a-1", "a-2")) == Committed()
    assert replica.client.hget("bandit:{s}", "version") == b"a-2"


async def test_without_the_setting_nobody_waits(redis_server):
    store = RedisStore(redis_server.url)
    await store.create(new_session())

    assert await store.commit(commit("a-0", "a-1")) == Committed()


@pytest.mark.processes
async def test_a_failover_loses_nothing_acknowledged(watched):
    """The master dies while commits are under way, without a pause for the replica to catch up."""
    await asyncio.to_thread(wait_until, lambda: in_step(watched.master))
    store = RedisStore(watched.url, StoreOptions(min_replicas=1, reply_seconds=5, retry_seconds=0.5))
    await store.create(new_session())
    acknowledged = 0
    killing = None
    with suppress(StoreUnavailableError):
        while True:
            await store.commit(commit(f"a-{acknowledged}", f"a-{acknowledged + 1}"))
            acknowledged += 1
            if acknowledged == 100:
                killing = asyncio.create_task(asyncio.to_thread(watched.master.kill))
    assert killing is not None
    await killing

    await asyncio.to_thread(wait_until, lambda: watched.replica.client.role()[0] == b"master")
    kept = watched.replica.client.hget("bandit:{s}", "version")

    assert acknowledged >= 100
    assert kept in {f"a-{acknowledged}".encode(), f"a-{acknowledged + 1}".encode()}


def sees_one_down(sentinel):
    return any(each["is_sdown"] for each in sentinel.client.sentinel_slaves("main"))


@pytest.mark.processes
@pytest.mark.parametrize(("by", "how"), [("sentinels", "kill"), ("sentinels", "freeze"), ("redis", "kill")])
async def test_a_replica_that_is_gone_for_good_is_let_go_in_seconds(server_program, tmp_path, by, how):
    """With sentinels in 3 seconds from when most call it down; without them its master alone knows."""
    with ExitStack() as stack:
        watched = await asyncio.to_thread(Watched, tmp_path, stack, 2, 3)
        store = open_store(watched.url if by == "sentinels" else watched.master.url, options=OPTIONS)
        await store.create(new_session())
        getattr(watched.replica, how)()
        agreed = (lambda: all(map(sees_one_down, watched.sentinels))) if by == "sentinels" else lambda: True
        await commits_go_on(store, agreed)
        assert watched.replicas[1].client.hget("bandit:{s}", "version") == b"a-1"
        await store.ping()


async def commits_go_on(store, agreed):
    with pytest.raises(StoreUnavailableError, match="too few replicas"):
        await store.commit(commit("a-0", "a-1"))
    await asyncio.to_thread(wait_until, agreed)
    died = time.monotonic()
    while time.monotonic() < died + 30:
        with suppress(StoreUnavailableError):
            await store.commit(commit("a-0", "a-1"))
            break
    assert time.monotonic() - died < 4  # 3, and what a commit that is refused takes.


@pytest.mark.processes
@pytest.mark.parametrize("how", ["kill", "freeze"])
async def test_a_clusters_replica_that_is_gone_for_good_is_let_go_in_seconds(server_program, tmp_path, how):
    """In 3 seconds from when most masters call it failed."""
    with ExitStack() as stack:
        cluster = await asyncio.to_thread(Cluster, tmp_path, stack)
        shard = cluster.master_of("s")
        master, lost = cluster.nodes[shard], cluster.nodes[3 + (shard + 1) % 3]
        name = master.client.execute_command("CLUSTER", "MYID").decode()
        await asyncio.to_thread(wait_until, lambda: follows(lost, name))
        store = open_store(cluster.url, options=OPTIONS)
        await asyncio.to_thread(wait_until, lambda: in_step(master, 2))
        await store.create(new_session())
        getattr(lost, how)()
        nodes, address = master.client.cluster, f"127.0.0.1:{lost.port}"
        await commits_go_on(store, lambda: nodes("nodes")[address]["flags"] == "slave,fail")


# -- How many replicas have to acknowledge, as they come and go.

LINE = "slave{0}:ip=127.0.0.1,port={0},state={1},offset=14,lag={2}\r\n"


def info(*replicas):
    """An INFO reply with replicas of these ports, states and lags."""
    lines = "".join(LINE.format(*each) for each in replicas)
    return f"# Replication\r\nrole:master\r\n{lines}master_replid:0\r\n".encode()


class WatchedServer:
    """A watch, its server, its clock, and what the sentinels say; the server counts synchronisations."""

    def __init__(self, has_sentinels=True):
        self.replicas = {1: (1, "online", 0), 2: (2, "online", 1)}
        self.now, self.syncs, self.asked, self.confirmed = 100.0, 7, 0, True
        self.down = list[tuple[str, int]]()
        self.watch = ReplicaWatch(self._down if has_sentinels else None, lambda: self.now)

    async def _down(self, _):
        return self.down if self.confirmed else None

    def send(self, command):
        self.asked += b"stats" in command
        stats = f"# Stats\r\nsync_full:2\r\nsync_partial_ok:{self.syncs}\r\nsync_partial_err:5\r\n"
        reply = asyncio.get_running_loop().create_future()
        reply.set_result(stats.encode() if b"stats" in command else info(*self.replicas.values()))
        return reply

    async def needed(self, after=0.0):
        self.now += after
        return await self.watch.needed(self)


def test_replicas_that_sync_or_are_silent_do_not_count():
    assert replicas_in(info()) == {}
    found = replicas_in(info((1, "online", 0), (2, "wait_bgsave", 0), (3, "online", 4), (4, "online", -1)))
    assert list(found.values()) == [0, float("inf"), 4, 0]


def test_what_most_masters_of_a_cluster_can_not_reach_is_down():
    line = "07c37 10.0.0.{0}:6379@16379{1} {2} 67ed2 1426238317239 1426238316232 4 connected 0-99\n"
    flags = ("slave", "slave,fail?", "slave,fail", "master,fail", "myself,slave", "slave,fail,nofailover")
    nodes = "".join(line.format(n, ",host" * (n % 2), each) for n, each in enumerate(flags))
    assert failed_in(nodes.encode()) == [("10.0.0.2", 6379), ("10.0.0.5", 6379)]


async def test_all_attached_replicas_are_needed_and_one_that_left_is_missed_for_a_time():
    seen = WatchedServer()
    assert await seen.needed() == 2
    del seen.replicas[2]
    assert await seen.needed(1.5) == 2
    assert await seen.needed(MISSED_SECONDS - 1) == 2
    assert await seen.needed(1.5) == 1
    seen.replicas[2] = (2, "send_bulk", 0)
    seen.syncs += 1
    assert await seen.needed() == 1
    seen.replicas[2] = (2, "online", 0)
    assert await seen.needed() == 2
    del seen.replicas[2]
    assert await seen.needed(3600) == 2


async def test_it_is_missed_as_long_as_the_sentinels_do_not_name_this_master():
    seen = WatchedServer()
    await seen.needed()
    del seen.replicas[2]
    seen.down.append(("127.0.0.1", 2))
    seen.confirmed = False
    await seen.needed(2)
    assert await seen.needed(10 * MISSED_SECONDS) == 2
    seen.confirmed = True
    assert await seen.needed(2) == 1


@pytest.mark.parametrize("how", ["leaves", "freezes"])
async def test_one_that_sentinels_call_down_is_let_go_soon_and_no_other(how):
    seen = WatchedServer()
    await seen.needed()
    del seen.replicas[2]
    seen.replicas |= {} if how == "leaves" else {2: (2, "online", 2)}
    seen.down.append(("127.0.0.1", 1))
    assert await seen.needed(1) == 2
    assert await seen.needed(LEFT_SECONDS) == 2
    seen.down.append(("127.0.0.1", 2))
    assert [await seen.needed(1), await seen.needed(1)] == [1, 1]
    seen.replicas[2] = (2, "online", 1)
    assert await seen.needed() == 2


async def test_without_sentinels_one_that_is_not_listed_is_let_go_soon_and_a_silent_one_late():
    seen = WatchedServer(has_sentinels=False)
    await seen.needed()
    seen.replicas[2] = (2, "online", 4)
    assert await seen.needed(1) == 2
    assert await seen.needed(LEFT_SECONDS + 1) == 2
    del seen.replicas[2]
    assert await seen.needed(1) == 2
    assert await seen.needed(LEFT_SECONDS) == 1


@pytest.mark.parametrize("was", ["missed", "let go"])
async def test_one_that_returned_and_left_again_between_two_looks_is_missed_anew(was):
    """It may have been promoted; the master has counted one more synchronisation."""
    seen = WatchedServer(has_sentinels=False)
    await seen.needed()
    del seen.replicas[2]
    await seen.needed(1)
    if was == "let go":
        assert await seen.needed(LEFT_SECONDS) == 1
    seen.syncs += 1
    assert await seen.needed(LEFT_SECONDS) == 2
    assert await seen.needed(LEFT_SECONDS - 0.5) == 2
    assert await seen.needed(0.5) == 1


async def test_it_looks_once_a_second_and_at_each_call_while_one_is_away():
    seen = WatchedServer()
    for _ in range(5):
        await seen.needed(0.1)
    assert seen.asked == 1
    await seen.needed(1)
    del seen.replicas[2]
    await seen.needed(1)
    await seen.needed()
    await seen.needed(MISSED_SECONDS)
    await seen.needed()
    assert seen.asked == 6


async def test_a_new_one_counts_as_soon_as_it_is_there_and_is_missed_if_it_leaves_at_once():
    """Behind a failover the old master synchronises, and may be ordered to take over again within a second."""
    seen = WatchedServer(has_sentinels=False)
    del seen.replicas[2]
    assert await seen.needed() == 1
    seen.replicas[2] = (2, "wait_bgsave", 0)
    assert await seen.needed(1) == 1
    seen.replicas[2] = (2, "online", 0)
    assert await seen.needed(0.1) == 2

    seen.replicas[3] = (3, "send_bulk", 0)
    assert await seen.needed(1) == 2
    del seen.replicas[3]
    assert await seen.needed(0.1) == 3
    assert await seen.needed(LEFT_SECONDS) == 2
