"""What a real server says when it can't or won't: one error, a short reason, nothing written, and it heals."""

import asyncio

import pytest
import redis

from loadtest.processes import free_port
from service.errors import StoreUnavailableError
from service.store.base import Committed, StoreOptions
from service.store.redis.store import RedisStore
from tests.support.real_redis import RedisServer
from tests.support.sessions import commit, digest, new_session
from tests.support.waiting import wait_until

HASTY = StoreOptions(retry_seconds=0.1)


@pytest.fixture
async def store(redis_server):
    opened = RedisStore(redis_server.url, HASTY)
    await opened.create(new_session())
    return opened


async def refused(store: RedisStore, reason: str) -> None:
    """Readiness and commits tell the reason."""
    with pytest.raises(StoreUnavailableError, match=reason):
        await store.ping()
    with pytest.raises(StoreUnavailableError, match=reason):
        await store.commit(commit("a-0", "a-1", event_ids=[digest(1)], idle_ttl_ms=60_000))
    with pytest.raises(StoreUnavailableError, match=reason):
        await store.create(new_session("t", answer=(digest("k"), b"answer")))


async def healed(store: RedisStore) -> None:
    """Nothing of what was refused is there, and everything works."""
    await store.ping()
    assert await store.load("t") is None
    assert await store.commit(commit("a-0", "a-1", event_ids=[digest(1)])) == Committed()


async def test_a_full_server_refuses_writes_and_still_reads(store, redis_server):
    redis_server.client.config_set("maxmemory", 1)
    try:
        await refused(store, "full")
        snapshot = await store.load("s")
        assert await store.commit(commit("a-0", None)) == Committed()
    finally:
        redis_server.client.config_set("maxmemory", 0)

    assert snapshot.version == "a-0"
    await healed(store)


async def test_a_replica_answers_nothing(own_redis_server):
    """It may be behind, or empty while it syncs: even that a session is unknown can be wrong there."""
    store = RedisStore(own_redis_server.url, HASTY)
    await store.create(new_session())
    own_redis_server.client.execute_command("REPLICAOF", "127.0.0.1", 1)

    await refused(store, "READONLY")
    calls = [
        store.commit(commit("a-0", None)),
        store.commit(commit("a-0", "a-1", session_id="unknown")),
        store.commit(commit("x", "a-1")),
        store.create(new_session()),
        store.load("s"),
        store.load("unknown"),
        store.recall("s", digest("k")),
        store.read_records("s"),
        store.list(None, 10),
        store.delete("s"),
    ]
    for call in calls:
        with pytest.raises(StoreUnavailableError, match="READONLY"):
            await call

    own_redis_server.client.execute_command("REPLICAOF", "NO", "ONE")
    await healed(store)


async def test_a_server_that_cannot_save_is_unavailable(server_program, tmp_path):
    """The name of the snapshot is taken by a folder."""
    (tmp_path / "dump.rdb" / "in the way").mkdir(parents=True)
    server = RedisServer(tmp_path).start()
    store = RedisStore(server.url, HASTY)
    await store.create(new_session())
    server.client.config_set("save", "3600 1000000")
    server.client.bgsave()
    wait_until(lambda: server.client.info("persistence")["rdb_last_bgsave_status"] == "err")

    await refused(store, "MISCONF")

    server.client.config_set("save", "")
    await healed(store)
    server.close()


async def test_a_server_busy_with_a_script_is_unavailable(store, redis_server):
    redis_server.client.config_set("lua-time-limit", 50)
    endless = asyncio.create_task(asyncio.to_thread(run_forever, redis_server.port))
    await asyncio.to_thread(wait_until, lambda: is_busy(redis_server.client))
    try:
        await refused(store, "BUSY")
    finally:
        redis_server.client.script_kill()
        await endless

    await healed(store)


async def test_what_a_busy_server_has_answered_is_sent_again(store, redis_server):
    """Its answer says that nothing was carried out, so even a deletion may be sent again."""
    patient = RedisStore(redis_server.url, StoreOptions(retry_seconds=20))
    redis_server.client.config_set("lua-time-limit", 50)
    endless = asyncio.create_task(asyncio.to_thread(run_forever, redis_server.port))
    await asyncio.to_thread(wait_until, lambda: is_busy(redis_server.client))
    deletion = asyncio.create_task(patient.delete("s"))
    await asyncio.to_thread(wait_until, lambda: patient._client._down_since is not None)
    redis_server.client.script_kill()

    assert await deletion is True
    await endless
    assert await store.load("s") is None


def run_forever(port: int) -> None:
    with (
        redis.Redis(port=port, protocol=2) as client,
        pytest.raises(redis.exceptions.ResponseError, match="killed"),
    ):
        client.eval("while true do end", 0)


def is_busy(client: redis.Redis) -> bool:
    try:
        return not client.get("x") and False
    except redis.exceptions.ResponseError as error:
        return str(error).startswith("BUSY")


@pytest.mark.slow
async def test_a_server_that_loads_its_data_is_unavailable_until_it_has(server_program, tmp_path):
    """12,000 commands in the append-only file take 0.2 ms each."""
    slow = ("--key-load-delay", "200", "--loading-process-events-interval-bytes", "1024")
    server = RedisServer(tmp_path, *slow).start()
    store = RedisStore(server.url, HASTY)
    await store.create(new_session())
    pipe = server.client.pipeline()
    for n in range(12_000):
        pipe.set(f"k{n}", "x", ex=1000)
    pipe.execute()
    server.stop()
    starting = asyncio.create_task(asyncio.to_thread(server.start))

    reasons = set()
    while not starting.done():
        try:
            await store.ping()
        except StoreUnavailableError as error:
            reasons.add(str(error))

    assert any("LOADING" in reason for reason in reasons)
    await starting
    await healed(store)
    server.close()


@pytest.fixture
def cluster_node(server_program, tmp_path):
    """A cluster of one node that serves no key yet."""
    server = RedisServer(tmp_path, "--cluster-enabled", "yes", "--cluster-port", str(free_port())).start()
    yield server
    server.close()


@pytest.mark.slow
async def test_a_cluster_node_is_down_without_slots_and_runs_every_script_with_them(cluster_node):
    store = RedisStore(cluster_node.url, HASTY)
    with pytest.raises(StoreUnavailableError, match="CLUSTERDOWN"):
        await store.create(new_session())
    cluster_node.client.execute_command("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
    wait_until(lambda: cluster_node.client.execute_command("CLUSTER INFO")["cluster_state"] == "ok")

    await store.create(new_session(idle_ttl_ms=60_000, answer=(digest("k"), b"answer")))
    grown = commit("a-0", "a-1", event_ids=[digest(1)], records={b"1": b"x"}, idle_ttl_ms=60_000)

    assert await store.commit(grown) == Committed()
    assert await store.recall("s", digest("k")) == b"answer"
    assert await store.read_records("s") == {b"1": b"x"}
    assert [each.session_id for each in (await store.list(None, 10)).sessions] == ["s"]
    assert await store.delete("s") is True
    await store.ping()


async def test_a_policy_that_evicts_and_a_missing_file_are_warned_about(own_redis_server, caplog):
    store = RedisStore(own_redis_server.url)
    before = await store.warnings()
    own_redis_server.client.config_set("maxmemory-policy", "allkeys-lru")
    own_redis_server.client.config_set("appendonly", "no")
    after = await store.warnings()
    for _ in range(3):
        await store.ping()

    assert before == []
    assert [record.getMessage() for record in caplog.records] == after
    assert [warning.split(" ")[0] for warning in after] == ["maxmemory-policy", "appendonly"]
