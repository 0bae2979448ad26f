"""Many records are read in parts, and other workers commit between two of them."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx
import pytest

from service.store.redis import scripts
from service.store.redis.store import RECORDS_AT_ONCE, RedisStore
from tests.support.real_redis import RedisServer
from tests.support.sessions import commit, new_session

PATH = "/v1/sessions/s"
OPEN = 2000
assert OPEN > 3 * RECORDS_AT_ONCE


@pytest.fixture
async def store(redis_server: RedisServer) -> AsyncIterator[RedisStore]:
    opened = RedisStore(redis_server.url)
    yield opened
    await opened.close()


async def test_no_call_reads_many_records(store: RedisStore, redis_server: RedisServer) -> None:
    """A million take redis-py longer than a call may take, and the server can do nothing else meanwhile."""
    records = {b"%d" % n: b"r%d" % n for n in range(10_001)}
    await store.create(new_session())
    await store.commit(commit("v0", "v1", records=records))
    redis_server.client.config_resetstat()

    assert await store.read_records("s") == records

    calls = redis_server.client.info("commandstats")
    assert calls["cmdstat_hscan"]["calls"] >= len(records) // RECORDS_AT_ONCE
    assert "cmdstat_hgetall" not in calls


async def test_what_is_committed_between_two_parts_counts_once(
    make_client, store: RedisStore, redis_server: RedisServer, monkeypatch
) -> None:
    other = RedisStore(redis_server.url)
    reader, writer = await make_client(store), await make_client(other)
    body = {"session_id": "s", "learner": {"kind": "exp3", "n_arms": 3, "learning_rate": 0.1}, "seed": 1}
    assert (await writer.post("/v1/sessions", json=body)).status_code == 201
    actions = []
    for _ in range(OPEN // 1000):
        actions += (await writer.post(f"{PATH}/acts", json={"count": 1000})).json()["actions"]
    parts, run = 0, store._run

    async def with_commits_between(script, *args, **options):
        nonlocal parts
        reply = await run(script, *args, **options)
        parts += script is scripts.RECORDS
        if script is scripts.RECORDS and parts == 2:
            assert (await settle(writer, actions[0])).status_code == 200
            assert (await settle(writer, actions[-1])).status_code == 200
            assert (await writer.post(f"{PATH}/act")).json()["slot"] == OPEN + 1
        return reply

    monkeypatch.setattr(store, "_run", with_commits_between)

    assert (await settle(reader, actions[OPEN // 2])).status_code == 200
    assert parts > OPEN // RECORDS_AT_ONCE
    refusals = [await settle(client, actions[0]) for client in (reader, writer)]
    assert [answer.status_code for answer in refusals] == [409, 409]
    assert (await reader.post(f"{PATH}/act")).json()["slot"] == OPEN + 2

    view = (await writer.get(PATH)).json()
    assert (view["slot"], view["feedbacks"], view["outstanding"]) == (OPEN + 2, 3, OPEN - 1)
    await other.close()


async def settle(client: httpx.AsyncClient, action: dict) -> httpx.Response:
    event = {"arm": action["arm"], "slot": action["slot"], "loss": 0.5}
    return await client.post(f"{PATH}/feedback", json=event)
