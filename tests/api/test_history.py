"""The history of a session over HTTP."""

from __future__ import annotations

import pytest

from service.serialization.summary import MAX_ARMS

DBGD = {"kind": "dbgd", "dim": 12, "feasible_set": {"kind": "ball", "radius": 1.0}}


async def sampled(client) -> None:
    await client._transport.app.state.runtime.sessions.sampler.sample()


async def test_a_new_session_has_no_history(client, create):
    answer = await client.get(f"{await create()}/history")

    assert answer.json() == {"period_seconds": 5.0, "samples": []}


async def test_a_history_shows_counts_and_shares(client, create):
    path = await create(learner={"kind": "multiscale_tsallis", "n_arms": 30}, reward_range=[0, 10])
    arm = (await client.post(f"{path}/act")).json()["arm"]
    await client.post(f"{path}/feedback", json={"arm": arm, "reward": 7.5})
    await client.post(f"{path}/act")
    await sampled(client)

    (sample,) = (await client.get(f"{path}/history")).json()["samples"]

    assert (sample["slot"], sample["feedbacks"], sample["outstanding"], sample["counted"]) == (2, 1, 1, 1)
    assert sample["mean_reward"] == 7.5
    assert 0 < sample["effective_arms"] <= 30
    shares = [share["probability"] for share in sample["arms"]]
    assert len(shares) == MAX_ARMS
    assert shares == sorted(shares, reverse=True)


async def test_a_history_of_points_shows_coordinates(client, create):
    path = await create(learner=DBGD)
    x = (await client.post(f"{path}/act")).json()["x"]
    await sampled(client)

    (sample,) = (await client.get(f"{path}/history")).json()["samples"]

    assert sample["x"] == x[:10]
    assert "arms" not in sample
    assert sample["mean_loss"] is None


@pytest.mark.parametrize("method", ["GET", "HEAD"])
async def test_an_unknown_session_has_none(client, method):
    assert (await client.request(method, "/v1/sessions/other/history")).status_code == 404


async def test_a_history_ends_with_its_session(client, create):
    path = await create(session_id="s")
    await client.post(f"{path}/act")
    await sampled(client)
    await client.delete(path)
    await create(session_id="s")

    assert (await client.get(f"{path}/history")).json()["samples"] == []


async def test_it_can_be_turned_off(make_client):
    client = await make_client(history=False)
    await client.post("/v1/sessions", json={"session_id": "s", "learner": {"kind": "dexp3", "n_arms": 2}})

    assert (await client.get("/v1/sessions/s/history")).json()["samples"] == []
