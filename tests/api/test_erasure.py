"""What the page on data protection says of erasure: a deleted session leaves nothing, in the store or its files."""

from service.store.base import StoreOptions
from service.store.redis.store import RedisStore
from tests.support.waiting import wait_until

SESSION, EVENT, SEGMENT, ARM = STORED = [f"{name}-of-ada" for name in ("session", "event", "segment", "arm")]
KEY, VISITOR = HASHED = ["key-of-ada", "visitor-of-ada"]
NAMES = {*STORED, *HASHED}
"""Which may say who somebody is."""
LOG = {"max_entries": 100}


def in_memory(server):
    """The names that a key or a value has."""
    held = [part for key in server.client.scan_iter() for part in (key, server.client.dump(key))]
    return {name for name in NAMES if any(name.encode() in part for part in held)}


def in_files(server):
    """The names that a file of the server has, once it has written its log anew."""
    server.client.bgrewriteaof()

    def is_rewritten():
        told = server.client.info("persistence")
        return not told["aof_rewrite_in_progress"] and not told["aof_rewrite_scheduled"]

    wait_until(is_rewritten)
    files = [path.read_bytes() for path in (server.folder / "appendonlydir").iterdir()]
    return {name for name in NAMES if any(name.encode() in each for each in files)}


async def test_a_deleted_session_leaves_nothing_in_memory_and_in_a_rewritten_log(make_client, own_redis_server):
    own_redis_server.client.config_set("rdbcompression", "no")
    store = RedisStore(own_redis_server.url, StoreOptions())
    client, path = await make_client(store), f"/v1/sessions/{SESSION}"
    learner = {"kind": "multiscale_tsallis", "arms": [ARM, "hat"]}
    window = {"after_seconds": 3600, "default_loss": 1}
    body = {"session_id": SESSION, "learner": learner, "expiry": window, "segments": {"max": 9}}
    body |= {"control": {"share": 0.5}, "decision_log": LOG}
    assert (await client.post("/v1/sessions", json=body)).status_code == 201
    asked = {"segment": SEGMENT, "eligible": [ARM], "visitor": VISITOR}
    action = (await client.post(f"{path}/act", json=asked, headers={"Idempotency-Key": KEY})).json()
    event = {"label": ARM, "segment": SEGMENT, "loss": 0, "event_id": EVENT, "group": action.get("group")}
    assert (await client.post(f"{path}/feedback", json=event)).json()["applied"] == 1
    assert len((await store.list(None, 10, SESSION)).sessions) == 1
    assert in_memory(own_redis_server) == in_files(own_redis_server) == set(STORED)

    assert (await client.delete(path)).status_code == 204
    assert 0 < own_redis_server.client.pttl("bandit:index") <= 600_000
    own_redis_server.client.delete("bandit:index")  # As its time does.
    assert in_memory(own_redis_server) == set()
    assert in_files(own_redis_server) == set()
