"""Sessions that end, by their idle deadline or by deletion, while they are used: gone everywhere, nothing left."""

from __future__ import annotations

import asyncio
import itertools

import pytest

from service.store import open_store
from service.store.base import StoreOptions
from tests.support.waiting import wait_until

SHARED = {b"bandit:sweeper"}
ENDED = 500
PATIENT = StoreOptions(pool_wait_seconds=60, reply_seconds=60, retry_seconds=60)
"""So many callers at once may wait long for one of the connections on a busy machine."""


def fields(number, **more):
    return {"session_id": f"s{number}", "learner": {"kind": "exp3", "n_arms": 3, "learning_rate": 0.1}} | more


async def answered(client, method, path, **sent):
    """The answer of a store that is not too busy."""
    while (answer := await client.request(method, path, **sent)).status_code == 503:
        pass
    return answer


async def use_until_gone(client, number):
    """Act and report with ids and keys until the session is unknown, then once more each."""
    path = f"/v1/sessions/s{number}"
    for turn in itertools.count():
        action = await answered(client, "POST", f"{path}/act", headers={"Idempotency-Key": f"act-{turn}"})
        if action.status_code != 200:
            break
        drawn = {name: action.json()[name] for name in ("arm", "slot")}
        event = drawn | {"loss": 0.5, "event_id": f"event-{turn}"}
        answer = await answered(client, "POST", f"{path}/feedback", json=event)
        if answer.status_code != 200:
            break
        if turn > 2:  # let the deadline come
            await until_unknown(client, path)
    for what, body in (("act", {}), ("feedback", {"arm": 0, "slot": 1, "loss": 0.5, "event_id": "late"})):
        late = await answered(client, "POST", f"{path}/{what}", json=body, headers={"Idempotency-Key": "late"})
        assert (late.status_code, late.json()["code"]) == (404, "unknown_session")


async def until_unknown(client, path):
    while (await answered(client, "GET", path)).status_code == 200:
        pass


def left(redis_server):
    """Keys of sessions, and reminders of them."""
    return [key for key in redis_server.client.scan_iter() if key not in SHARED]


@pytest.mark.parametrize("extra", [{}, {"expiry": {"after_seconds": 3600, "default_loss": 1.0}}])
@pytest.mark.slow
async def test_deleting_under_load_leaves_nothing(make_client, redis_server, extra):
    clients = [await make_client(open_store(redis_server.url)) for _ in range(2)]
    for number in range(20):
        assert (await clients[0].post("/v1/sessions", json=fields(number, **extra))).status_code == 201
    using = [asyncio.create_task(use_until_gone(clients[n % 2], n // 2)) for n in range(40)]
    for number in range(20):
        assert (await clients[1].delete(f"/v1/sessions/s{number}")).status_code == 204
    await asyncio.gather(*using)

    assert left(redis_server) == []


@pytest.mark.slow
async def test_sessions_that_expire_while_they_are_used_leave_nothing(make_client, redis_server):
    client = await make_client(open_store(redis_server.url, options=PATIENT))
    for number in range(ENDED):
        answer = await client.post("/v1/sessions", json=fields(number, idle_ttl_seconds=1.0))
        assert answer.status_code == 201
    await asyncio.gather(*(use_until_gone(client, number) for number in range(ENDED)))

    wait_until(lambda: left(redis_server) == [])
