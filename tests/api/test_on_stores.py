"""The service on every store: several processes share it, restarts keep it, failures are told."""

from __future__ import annotations

import asyncio
import time

import pytest

from service.store import open_store
from service.store.base import StoreOptions
from tests.support.waiting import wait_until

SESSION = {"session_id": "s", "learner": {"kind": "dexp3", "n_arms": 4}, "seed": 3}
PATH = "/v1/sessions/s"


def shared(store_url, store, store_options):
    """What a second process would open; the memory store is one process's."""
    return store if store_url == "memory://" else open_store(store_url, options=store_options)


async def test_two_processes_on_one_session_lose_nothing_and_count_nothing_twice(
    make_client, store, store_url, store_options
):
    clients = [await make_client(store), await make_client(shared(store_url, store, store_options))]
    await clients[0].post("/v1/sessions", json=SESSION)

    async def visit(number):
        client = clients[number % 2]
        action = (await client.post(f"{PATH}/act")).json()
        event = {"arm": action["arm"], "loss": 0.25, "event_id": str(number)}
        answers = [await each.post(f"{PATH}/feedback", json=event) for each in (client, clients[1 - number % 2])]
        return action["slot"], [answer.json()["applied"] for answer in answers]

    visits = await asyncio.gather(*(visit(number) for number in range(100)))

    assert sorted(slot for slot, _ in visits) == list(range(1, 101))
    assert [applied for _, applied in visits] == [[1, 0]] * 100
    for client in clients:
        view = (await client.get(PATH)).json()
        assert (view["slot"], view["feedbacks"], view["outstanding"]) == (100, 100, 0)


async def test_one_key_on_two_processes_opens_one_slot(make_client, store, store_url, store_options):
    clients = [await make_client(store), await make_client(shared(store_url, store, store_options))]
    await clients[0].post("/v1/sessions", json=SESSION)

    answers = await asyncio.gather(
        *(client.post(f"{PATH}/act", headers={"Idempotency-Key": "k"}) for client in clients * 10)
    )

    assert len({answer.text for answer in answers}) == 1
    assert (await clients[1].get(PATH)).json()["slot"] == 1


async def test_a_stale_cache_refuses_nothing_that_the_store_would_take(
    make_client, store, store_url, store_options
):
    first, second = await make_client(store), await make_client(shared(store_url, store, store_options))
    await first.post("/v1/sessions", json=SESSION)
    await first.post(f"{PATH}/act")
    arm = (await second.post(f"{PATH}/act")).json()["arm"]

    assert (await first.post(f"{PATH}/feedback", json={"arm": arm, "loss": 0.5})).json()["applied"] == 1


async def test_a_session_made_anew_elsewhere_is_served_as_it_is_now(make_client, store, store_url, store_options):
    first, second = await make_client(store), await make_client(shared(store_url, store, store_options))
    await first.post("/v1/sessions", json=SESSION)
    await first.post(f"{PATH}/act")
    await second.delete(PATH)
    await second.post("/v1/sessions", json=SESSION | {"learner": {"kind": "dexp3", "n_arms": 9}})

    refused = await first.post(f"{PATH}/feedback", json={"arm": 8, "loss": 0.5})
    action = await first.post(f"{PATH}/act")

    assert (refused.status_code, refused.json()["code"]) == (409, "surplus_feedback")
    assert action.json()["probability"] == pytest.approx(1 / 9)


async def test_a_restart_changes_no_number(make_client, redis_server):
    store = open_store(redis_server.url)
    client, twin = await make_client(store), await make_client(open_store(redis_server.url))
    for session_id in ("s", "twin"):
        await client.post("/v1/sessions", json=SESSION | {"session_id": session_id, "idle_ttl_seconds": 60.0})
    seen = {}
    for session_id, after in (("s", client), ("twin", twin)):
        for caller in (client, after):
            for _ in range(10):
                action = (await caller.post(f"/v1/sessions/{session_id}/act")).json()
                event = {"arm": action["arm"], "loss": 0.5}
                await caller.post(f"/v1/sessions/{session_id}/feedback", json=event)
        seen[session_id] = (await client.get(f"/v1/sessions/{session_id}")).json()

    for name in ("slot", "probabilities", "feedbacks", "total_delay"):
        assert seen["s"][name] == seen["twin"][name]


async def test_an_idle_session_expires_and_acting_puts_it_off(make_client, redis_server):
    client = await make_client(open_store(redis_server.url))
    await client.post("/v1/sessions", json=SESSION | {"idle_ttl_seconds": 30.0})
    created = (await client.get(PATH)).json()

    await client.post(f"{PATH}/act")
    assert (await client.get(PATH)).json()["expires_at"] > created["expires_at"]
    keys = redis_server.client.keys("bandit:{s}*")
    for key in keys:
        redis_server.client.pexpire(key, 1)
    wait_until(lambda: not redis_server.client.exists(*keys))
    gone = await client.post(f"{PATH}/act")

    assert (gone.status_code, gone.json()["code"]) == (404, "unknown_session")
    assert redis_server.client.keys("bandit:{*") == []


async def test_a_store_that_is_down_is_told_and_heals_by_itself(make_client, own_redis_server):
    options = StoreOptions(retry_seconds=0.2, reply_seconds=0.5, connect_seconds=0.3)
    # With everysec a server may hold back what it has acknowledged for two seconds, while its disk is slow.
    own_redis_server.client.config_set("appendfsync", "always")
    client = await make_client(open_store(own_redis_server.url, options=options))
    await client.post("/v1/sessions", json=SESSION)
    await client.post(f"{PATH}/act")
    before = (await client.get(PATH)).json()
    registry = client._transport.app.state.runtime.metrics.registry

    def counted(name, call):
        return registry.get_sample_value(name, {"call": call})

    own_redis_server.kill()
    commits = counted("bandit_store_call_seconds_count", "commit")
    for request in (
        client.post(f"{PATH}/act"),
        client.get(PATH),
        client.get("/readyz"),
        client.get("/v1/sessions"),
    ):
        answer = await request
        assert (answer.status_code, answer.json()["code"]) == (503, "store_unavailable")
        assert answer.headers["Retry-After"] == "1"
    assert (await client.get("/livez")).status_code == 200
    assert [counted("bandit_store_failures_total", call) for call in ("commit", "load", "list")] == [1.0] * 3
    assert counted("bandit_store_failures_total", "ping") >= 1
    assert counted("bandit_store_call_seconds_count", "commit") == commits + 1
    own_redis_server.start()
    returned = time.monotonic()
    while (await client.get("/readyz")).status_code != 200:
        assert time.monotonic() < returned + 30

    assert (await client.get(PATH)).json() == before
    assert (await client.post(f"{PATH}/act")).json()["slot"] == 2
