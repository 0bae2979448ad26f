"""Sessions of many arms, of which commits store what they did, answer as if all of the state were stored."""

from __future__ import annotations

import asyncio
import random

import pytest

from service.learners import dexp3 as dexp3_log
from service.serialization import state as schemas
from service.store import open_store
from service.store.memory import MemoryStore

PATH = "/v1/sessions/s"
ARMS = [f"arm {n}" for n in range(6)]
SESSION = {"session_id": "s", "learner": {"kind": "dexp3", "arms": ARMS}, "seed": 3}


def shared(store_url, store, store_options):
    """What a second process would open; the memory store is one process's."""
    return store if store_url == "memory://" else open_store(store_url, options=store_options)


def patch(monkeypatch):
    """Let logs begin with few arms, and end after few events."""
    monkeypatch.setattr(dexp3_log, "LOGGED_ARMS", 4)
    monkeypatch.setattr(dexp3_log, "ARMS_PER_STEP", 1)
    monkeypatch.setattr(schemas, "LOGGED_ARMS_3", 4)
    monkeypatch.setattr(dexp3_log, "KEPT_STEPS", 5)


def timeless(answer):
    """An answer without versions and times, which differ from run to run."""
    if isinstance(answer, dict):
        return {name: timeless(value) for name, value in answer.items() if name not in UNSTEADY}
    return [timeless(each) for each in answer] if isinstance(answer, list) else answer


UNSTEADY = ("version", "created_at", "expires_at", "last_act_at", "last_event_at", "effective_arms")


async def used(clients):
    """The answers to a lot of calls, each by one of the clients."""
    chance, answers, waiting = random.Random(1), [], []

    async def call(method, path, **fields):
        answer = await chance.choice(clients).request(method, f"{PATH}{path}", **fields)
        assert answer.status_code < 300, answer.text
        answers.append(timeless(answer.json()))
        return answer.json()

    for n in range(24):
        acted = await call("POST", "/acts", json={"count": chance.choice([1, 1, 3])})
        waiting += [action["arm"] for action in acted["actions"]]
        while len(waiting) > n % 4:
            event = {"arm": waiting.pop(), "loss": chance.random(), "event_id": str(len(answers))}
            await call("POST", "/feedback", json=event)
            assert (await call("POST", "/feedback", json=event))["duplicates"] == 1
        if n % 8 == 7:
            events = [{"arm": arm, "loss": chance.random()} for arm in waiting]
            await call("POST", "/feedbacks", json={"events": events})
            waiting = []
            await call("PATCH", "/arms", json={"add": [f"new {n}"], "remove": [f"arm {n // 8}"]})
        await call("GET", "")
        await call("GET", "/arms")
        answers.append(timeless((await chance.choice(clients).get("/v1/sessions")).json()))
    return answers


async def test_two_processes_answer_as_one_that_stores_all(
    make_client, store, store_url, store_options, monkeypatch
):
    whole = await make_client(MemoryStore())
    await whole.post("/v1/sessions", json=SESSION)
    expected = await used([whole])
    patch(monkeypatch)
    clients = [await make_client(store), await make_client(shared(store_url, store, store_options))]
    await clients[0].post("/v1/sessions", json=SESSION)

    assert await used(clients) == expected
    await clients[1].post(f"{PATH}/act")
    assert any(key.startswith(b"r") for key in await store.read_records("s"))


async def test_two_processes_at_once_lose_nothing_and_a_third_reads_what_they_wrote(
    make_client, store, store_url, store_options, monkeypatch
):
    patch(monkeypatch)
    clients = [await make_client(store), await make_client(shared(store_url, store, store_options))]
    await clients[0].post("/v1/sessions", json=SESSION)

    async def visit(number):
        action = (await clients[number % 2].post(f"{PATH}/act")).json()
        event = {"arm": action["arm"], "loss": 0.25, "event_id": str(number)}
        return (await clients[1 - number % 2].post(f"{PATH}/feedback", json=event)).json()["applied"]

    assert sum(await asyncio.gather(*(visit(number) for number in range(30)))) == 30
    third = await make_client(shared(store_url, store, store_options))
    views = [(await client.get(PATH)).json() for client in (*clients, third)]

    assert (views[0]["slot"], views[0]["feedbacks"], views[0]["outstanding"]) == (30, 30, 0)
    assert views[0] == views[1] == views[2]


async def test_it_moves_and_goes_on_to_the_bit(make_client, store, monkeypatch):
    patch(monkeypatch)
    here, there = await make_client(store), await make_client(MemoryStore())
    await here.post("/v1/sessions", json=SESSION)
    await used([here])
    document = (await here.get(f"{PATH}/export")).json()
    assert (await there.post("/v1/sessions/import", json=document)).status_code == 201

    assert timeless((await there.get(PATH)).json()) == timeless((await here.get(PATH)).json())
    assert (await there.post(f"{PATH}/act")).json() == (await here.post(f"{PATH}/act")).json()


@pytest.mark.parametrize("schema", [2, 3])
async def test_the_schema_that_is_allowed_is_written(make_client, schema, monkeypatch):
    patch(monkeypatch)
    store = MemoryStore()
    newest, client = [await make_client(store, write_schema=each) for each in (3, schema)]
    await newest.post("/v1/sessions", json=SESSION)
    for _ in range(3):
        await newest.post(f"{PATH}/act")
    before = (await newest.get(PATH)).json()["probabilities"]
    await client.post(f"{PATH}/act")

    assert (await store.load("s")).state[0] == schema
    assert bool(await store.read_records("s")) == (schema == 3)
    assert (await client.get(PATH)).json()["probabilities"] == before
