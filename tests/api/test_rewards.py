"""Sessions that take rewards instead of losses learn the same, and say which word they use."""

from __future__ import annotations

import pytest

LEARNER = {"kind": "centred_tsallis", "arms": ["a", "b"]}


async def created(client, session_id, **fields):
    body = {"session_id": session_id, "learner": LEARNER, "seed": 3} | fields
    response = await client.post("/v1/sessions", json=body)
    assert response.status_code == 201, response.text
    return f"/v1/sessions/{session_id}"


async def test_rewards_are_learned_as_losses_with_the_range_turned_round(client):
    expiry = {"after_seconds": 60}
    reward = await created(client, "r", reward_range=[-10, 10], expiry=expiry | {"default_reward": 3.3})
    loss = await created(client, "l", loss_range=[10, -10], expiry=expiry | {"default_loss": 3.3})

    for number in (3.3, -7, 10, 0):
        arm = (await client.post(f"{reward}/act")).json()["arm"]
        assert (await client.post(f"{loss}/act")).json()["arm"] == arm
        assert (await client.post(f"{reward}/feedback", json={"arm": arm, "reward": number})).status_code == 200
        assert (await client.post(f"{loss}/feedback", json={"arm": arm, "loss": number})).status_code == 200

    of_rewards, of_losses = (await client.get(reward)).json(), (await client.get(loss)).json()
    assert of_rewards["probabilities"] == of_losses["probabilities"]
    assert (of_rewards["reward_range"], of_rewards["expiry"]["default_reward"]) == ([-10, 10], 3.3)
    assert of_rewards["mean_reward"] == of_losses["mean_loss"] == 1.575
    assert not {"loss_range", "mean_loss"} & of_rewards.keys()
    assert "default_loss" not in of_rewards["expiry"]
    assert not {"reward_range", "mean_reward"} & of_losses.keys()


async def test_the_other_word_is_refused_with_the_word_that_the_session_uses(client):
    reward = await created(client, "r", reward_range=[0, 1])
    loss = await created(client, "l")
    await client.post(f"{reward}/act")
    await client.post(f"{loss}/act")

    for path, field, other in ((reward, "loss", "reward"), (loss, "reward", "loss")):
        for value in (1, None):
            response = await client.post(f"{path}/feedback", json={"arm": 0, field: value})
            assert response.status_code == 422
            assert response.json()["errors"][0]["field"] == field
            assert f"post {other}, or create a session with {field}_range" in response.json()["detail"]
    outside = await client.post(f"{reward}/feedback", json={"label": "a", "reward": 2})
    assert outside.json()["errors"][0]["message"] == "reward must lie in [0.0, 1.0]"


@pytest.mark.parametrize(("first", "second"), [("loss", "reward"), ("reward", "loss")])
async def test_posting_a_session_again_with_the_other_word_names_it(client, first, second):
    ranges = {"loss": [1, 0], "reward": [0, 1]}
    await created(client, "s", **{f"{first}_range": ranges[first]})
    body = {"session_id": "s", "learner": LEARNER, "seed": 3}

    again = await client.post("/v1/sessions", json=body | {f"{first}_range": ranges[first]})
    other = await client.post("/v1/sessions", json=body | {f"{second}_range": ranges[second]})

    assert again.status_code == 200
    assert (other.status_code, other.json()["code"]) == (409, "session_exists")
    assert [error["field"] for error in other.json()["errors"]] == [f"{second}_range"]
    assert f"{first}_range" in other.json()["errors"][0]["message"]


async def test_posting_a_session_again_names_each_field_that_differs(client):
    await created(client, "s", idle_ttl_seconds=60)
    body = {"session_id": "s", "learner": LEARNER | {"tracking": True}, "seed": 4, "expiry": {"after_seconds": 1}}

    response = await client.post("/v1/sessions", json=body)

    differing = ["expiry", "idle_ttl_seconds", "learner", "seed"]
    assert sorted(error["field"] for error in response.json()["errors"]) == differing
    detail = response.json()["detail"]
    assert "it differs in idle_ttl_seconds, expiry, learner.tracking, seed. PATCH the session" in detail
    assert detail.endswith("or choose another session_id")
    assert "3" not in response.text.replace('"status": 409', "").split("seed")[-1]


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"reward_range": [1, 1]}, "reward_range"),
        ({"reward_range": [0, 1], "loss_range": [1, 0]}, "reward_range"),
        ({"reward_range": [0, 1], "loss_range": [0, 1]}, "reward_range"),
        ({"reward_range": [0, 1], "normalize_losses": False}, "reward_range"),
        ({"reward_range": [0, 1], "expiry": {"after_seconds": 1, "default_loss": 0}}, "default_loss"),
        ({"expiry": {"after_seconds": 1, "default_reward": 0}}, "default_reward"),
        ({"reward_range": [0, 1], "expiry": {"after_seconds": 1, "default_reward": 2}}, "default_reward"),
        ({"reward_range": [0, 1], "learner": {"kind": "ogd", "dim": 1, "learning_rate": 0.1}}, "learner"),
    ],
)
async def test_words_that_do_not_go_together_are_refused(client, fields, named):
    response = await client.post("/v1/sessions", json={"learner": LEARNER} | fields)

    assert response.status_code == 422
    assert named in response.json()["detail"]
