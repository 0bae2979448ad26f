"""A session that is created again is found, with or without a key, or refused where it would be another."""

import asyncio
from itertools import count

import pytest

from service.store.memory import MemoryStore
from tests.support.bodies import ARMS, BALL


async def test_posting_the_same_fields_again_finds_the_session(client):
    body = {"session_id": "s", "learner": ARMS, "seed": 5}
    first = await client.post("/v1/sessions", json=body)
    again = await client.post("/v1/sessions", json=body | {"loss_range": [0, 1.0], "normalize_losses": True})
    without_seed = await client.post("/v1/sessions", json={"session_id": "s", "learner": ARMS})

    assert (first.status_code, again.status_code, without_seed.status_code) == (201, 200, 200)
    assert again.json() == first.json() == without_seed.json()


THEOREM = {"kind": "dexp3", "n_arms": 3, "horizon": 100, "max_delay": 1, "total_delay": 9}
UNIT = {"kind": "ball", "radius": 1.0}
POINTS = {"kind": "dbgd", "dim": 2, "feasible_set": UNIT}
DEFAULTS = [
    (THEOREM, THEOREM | {"rate_scale": 1}),
    (POINTS, POINTS | {"feasible_set": UNIT | {"center": [0, 0]}}),
    (POINTS, POINTS | {"perturbation": 0.001}),
    ({"kind": "exp3", "n_arms": 2, "learning_rate": 1}, {"kind": "exp3", "n_arms": 2, "learning_rate": 1.0}),
]
SHOWN = {
    "dexp3": {"rate_scale": 1.0},
    "dbgd": {"feasible_set": UNIT | {"center": [0.0, 0.0]}, "perturbation": 0.001},
    "exp3": {"learning_rate": 1.0, "rate_scale": None},
}


@pytest.mark.parametrize(("short", "long"), [*DEFAULTS, *(pair[::-1] for pair in DEFAULTS)])
async def test_a_default_is_the_same_written_or_left_out(client, short, long):
    created = await client.post("/v1/sessions", json={"session_id": "s", "learner": short})
    again = await client.post("/v1/sessions", json={"session_id": "s", "learner": long})

    assert (created.status_code, again.status_code) == (201, 200)
    assert again.json() == created.json()
    assert created.json()["learner"].items() >= SHOWN[short["kind"]].items()


@pytest.mark.parametrize(
    "other",
    [
        {"seed": 6},
        {"loss_range": [1, 0]},
        {"normalize_losses": False},
        {"idle_ttl_seconds": 60.0},
        {"learner": BALL},
    ],
)
async def test_posting_other_fields_under_an_id_is_refused(client, other):
    body = {"session_id": "s", "learner": ARMS, "seed": 5}
    await client.post("/v1/sessions", json=body)

    response = await client.post("/v1/sessions", json=body | other)

    assert response.status_code == 409
    assert response.json()["code"] == "session_exists"


async def test_a_key_gives_the_answer_that_created_the_session(client):
    headers = {"Idempotency-Key": "k"}
    first = await client.post("/v1/sessions", json={"learner": ARMS}, headers=headers)
    path = f"/v1/sessions/{first.json()['session_id']}"
    await client.post(f"{path}/act")

    again = await client.post("/v1/sessions", json={"learner": ARMS}, headers=headers)
    other = await client.post("/v1/sessions", json={"learner": ARMS, "seed": 1}, headers=headers)

    assert (again.status_code, again.text) == (201, first.text)
    assert again.headers["Idempotent-Replayed"] == "true"
    assert (other.status_code, other.json()["code"]) == (422, "idempotency_conflict")


async def test_a_key_keeps_the_view_of_a_session_that_was_there(client):
    body = {"session_id": "s", "learner": ARMS, "idle_ttl_seconds": 3600}
    key = {"Idempotency-Key": "again"}
    await client.post("/v1/sessions", json=body)

    first = await client.post("/v1/sessions", json=body, headers=key)
    await client.post("/v1/sessions/s/act")
    again = await client.post("/v1/sessions", json=body, headers=key)
    other = await client.post("/v1/sessions", json=body | {"normalize_losses": False}, headers=key)

    assert (first.status_code, again.status_code, other.status_code) == (200, 200, 422)
    assert "Idempotent-Replayed" not in first.headers
    assert again.headers["Idempotent-Replayed"] == "true"
    assert again.content == first.content
    assert other.json()["code"] == "idempotency_conflict"
    assert (await client.get("/v1/sessions/s")).json()["slot"] == 1


async def test_finding_a_session_changes_nothing_of_it_but_the_version(make_client):
    client = await make_client(MemoryStore(clock=count(1_800_000_000).__next__))
    body = {"session_id": "s", "learner": ARMS, "idle_ttl_seconds": 3600}
    created = (await client.post("/v1/sessions", json=body)).json()

    found = (await client.post("/v1/sessions", json=body, headers={"Idempotency-Key": "again"})).json()

    assert found | {"version": None} == created | {"version": None}
    assert (await client.get("/v1/sessions/s")).json() == found


class Vanishing(MemoryStore):
    """A store in which somebody deletes every session before it can be read."""

    async def load(self, session_id):
        await self.delete(session_id)
        return await super().load(session_id)


async def test_a_creation_that_took_is_told_though_the_session_is_gone_again(make_client):
    client = await make_client(Vanishing())
    body = {"session_id": "s", "learner": ARMS, "idle_ttl_seconds": 60}

    first = await client.post("/v1/sessions", json=body)
    again = await client.post("/v1/sessions", json=body)

    assert (first.status_code, again.status_code) == (201, 201)
    assert first.json()["version"] != again.json()["version"]
    assert first.json()["probabilities"] == [0.25] * 4
    assert (await client.get("/v1/sessions/s")).status_code == 404


async def test_a_session_found_and_gone_before_it_is_shown_is_made(make_client):
    store = MemoryStore()
    client, other = await make_client(store), await make_client(store)
    body = {"session_id": "s", "learner": ARMS}

    async def churn():
        return [(await other.delete("/v1/sessions/s")).status_code for _ in range(200)]

    deleting = asyncio.create_task(churn())
    created = [(await client.post("/v1/sessions", json=body)).status_code for _ in range(200)]

    assert set(created) <= {200, 201}
    assert set(await deleting) <= {204, 404}
