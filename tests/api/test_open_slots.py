"""What a session keeps of its open slots is bounded, whatever a client asks for."""

from __future__ import annotations

import pytest

RATE = {"learning_rate": 0.1}


@pytest.mark.parametrize(("n_arms", "slots"), [(3, 1000), (1000, 1000), (1001, 999), (10_000, 100), (100_000, 10)])
async def test_a_pool_is_as_large_as_its_arms_allow(client, create, n_arms, slots):
    path = await create(learner=RATE | {"kind": "bold", "n_arms": n_arms})

    assert (await client.get(path)).json()["learner"]["max_open_slots"] == slots
    for _ in range(2):
        assert (await client.post(f"{path}/acts", json={"count": 8})).status_code == 200
    assert (await client.get(path)).json()["outstanding"] == min(16, slots)


@pytest.mark.parametrize(
    "learner",
    [
        {"kind": "bold", "n_arms": 100_000, "max_open_slots": 11},
        {"kind": "bold", "n_arms": 2, "max_open_slots": 500_001},
        {"kind": "bold", "n_arms": 1, "max_open_slots": 10**12},
        {"kind": "bold", "arms": ["a", "b"], "max_open_slots": 500_001},
        {"kind": "exp3", "n_arms": 2, "max_open_slots": 1_000_001},
    ],
)
async def test_more_than_can_be_read_in_a_moment_is_refused(client, learner):
    answer = await client.post("/v1/sessions", json={"learner": learner | RATE})

    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_request")
    assert answer.json()["errors"][0]["field"] == "learner.max_open_slots"


@pytest.mark.parametrize(
    "learner",
    [
        {"kind": "bold", "n_arms": 2, "max_open_slots": 500_000},
        {"kind": "exp3", "n_arms": 100_000, "max_open_slots": 1_000_000},
    ],
)
async def test_as_much_as_allowed_is_taken(create, learner):
    assert await create(learner=learner | RATE)


async def test_arms_that_are_added_must_leave_room_for_the_pool(client, create):
    path = await create(learner=RATE | {"kind": "bold", "arms": ["a", "b", "c"], "max_open_slots": 250_000})

    assert (await client.patch(f"{path}/arms", json={"add": ["d"]})).status_code == 200
    refused = await client.patch(f"{path}/arms", json={"add": ["e"]})
    assert (refused.status_code, refused.json()["errors"][0]["field"]) == (422, "add")
    assert (await client.patch(f"{path}/arms", json={"remove": ["a"], "add": ["e"]})).status_code == 200
