"""Changes of arms that make no sense or go beyond a limit, and sessions that have no arms to change."""

from __future__ import annotations

import pytest

from service.store.memory import MemoryStore
from tests.support.arm_changes import change, session
from tests.support.one_session import view


@pytest.mark.parametrize(
    "body",
    [
        {"remove": ["a", "b", "c"]},
        {"remove": ["a", "b", "c"], "add": ["x"]},
        {"add": [""]},
        {"add": ["tab\t"]},
        {"add": ["é" * 65]},
        {"add": [1]},
        {"add": "x"},
        {"remove": [True]},
        {"drop": ["a"]},
        {"add": ["one", "too", "many"]},
    ],
)
async def test_bad_changes_are_refused_whole(make_client, body):
    client = await make_client(max_arms=5)
    created = await session(client)

    problem = await change(client, 422, **body)

    assert problem["code"] == "invalid_request"
    assert await view(client) == created


async def test_limits_count_the_arms_there_are_and_in_the_end_those_there_were(make_client):
    client = await make_client(max_arms_centred=3)
    await session(client, kind="centred_tsallis")
    await change(client, 422, add=["x"])
    await change(client, add=["é" * 64], remove=["a"])

    for number in range(26):
        await change(client, add=[f"n{number + 1}"], remove=[f"n{number}" if number else "b"])
    problem = await change(client, 422, add=["last"], remove=["c"])

    assert "removed ones included" in problem["detail"]


@pytest.mark.parametrize("kind", ["dexp3", "centred_tsallis"])
async def test_what_adds_no_arm_is_refused_by_no_limit_however_large_the_session_is(make_client, kind):
    store = MemoryStore()
    large = await make_client(store)
    await session(large, kind=kind, arms=[*"abcdefgh"])
    for number in range(30):
        await change(large, add=[f"n{number}"], remove=[f"n{number - 1}"])
    small = await make_client(store, max_arms=3, max_arms_centred=3)

    assert (await change(small, add=["n29", "h"], remove=["a"]))["learner"]["n_arms"] == 8
    await change(small, remove=["b", "c", "d"])
    assert (await change(small, 422, add=["x"], remove=["h"]))["detail"] == "add: there may be at most 3 arms"
    assert (await change(small, remove=["e", "f", "g"]))["learner"]["n_arms"] == 2


@pytest.mark.parametrize(
    "learner",
    [{"kind": "dexp3", "n_arms": 3}, {"kind": "dbgd", "dim": 2, "feasible_set": {"kind": "ball", "radius": 1.0}}],
)
async def test_sessions_without_labels_keep_their_arms(client, learner):
    await client.post("/v1/sessions", json={"session_id": "s", "learner": learner})

    assert (await change(client, 409, add=["x"]))["code"] == "no_labels"
    assert (await change(client, 409))["code"] == "no_labels"
    assert (await change(client, 422, more=[]))["code"] == "invalid_request"


async def test_unknown_sessions_have_no_arms(client):
    assert (await change(client, 404, add=["x"]))["code"] == "unknown_session"
