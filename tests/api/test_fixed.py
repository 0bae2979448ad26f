"""Sessions of fixed probabilities: how they are given, and that nothing is learned."""

from __future__ import annotations

import pytest

from tests.support.one_session import PATH, acts, session, view

GIVEN = {"a": 0.5, "b": 0.25, "c": 0.25, "d": 0}


async def create(client, learner, **fields):
    body = {"session_id": "s", "learner": {"kind": "fixed"} | learner, "seed": 7} | fields
    return await client.post("/v1/sessions", json=body)


async def test_losses_are_counted_and_not_learned(client):
    await session(client, kind="fixed", learner={"probabilities": GIVEN})
    actions = (await acts(client, count=40))["actions"]
    events = [{"label": action["label"], "loss": 1.0 if action["arm"] else 0.0} for action in actions[:30]]

    await client.post(f"{PATH}/feedbacks", json={"events": events})
    seen = await view(client)

    assert {action["probability"] for action in actions} == {0.5, 0.25}
    assert {action["label"] for action in actions} == {"a", "b", "c"}
    assert seen["probabilities"] == list(GIVEN.values())
    assert seen["learner"]["probabilities"] == list(GIVEN.values())
    assert (seen["slot"], seen["feedbacks"], seen["outstanding"]) == (40, 30, 10)
    assert seen["mean_loss"] == pytest.approx(sum(event["loss"] for event in events) / 30)


async def test_arms_come_and_go(client):
    await session(client, kind="fixed", learner={"probabilities": GIVEN})

    added = (await client.patch(f"{PATH}/arms", json={"add": ["x"]})).json()
    removed = (await client.patch(f"{PATH}/arms", json={"remove": ["a", "b", "c", "x"]})).json()

    assert added["probabilities"] == pytest.approx([0.4, 0.2, 0.2, 0, 0.2])
    assert removed["probabilities"] == [0, 0, 0, 1, 0]


async def test_the_same_probabilities_are_the_same_session_however_they_are_given(client):
    arms = {"arms": list(GIVEN)}

    by_label = await create(client, arms | {"probabilities": GIVEN})
    by_position = await create(client, arms | {"probabilities": list(GIVEN.values())})
    uniform = await create(client, arms)

    assert [answer.status_code for answer in (by_label, by_position, uniform)] == [201, 200, 409]
    assert by_label.json() == by_position.json()


@pytest.mark.parametrize(
    ("learner", "field"),
    [
        ({"probabilities": {"a": 1}}, "learner.probabilities"),
        ({"probabilities": {"a": 0.5, "b": 0.25, "c": 0.25, "x": 0}}, "learner.probabilities"),
        ({"probabilities": GIVEN | {"e": 0}}, "learner.probabilities"),
        ({"probabilities": GIVEN | {"d": 0.1}}, "learner.probabilities"),
        ({"probabilities": GIVEN | {"d": 2e-9}}, "learner.probabilities"),
        ({"probabilities": [0.5, 0.5]}, "learner.probabilities"),
        ({"probabilities": []}, "learner.probabilities"),
        ({"probabilities": GIVEN | {"a": "0.5"}}, "learner.probabilities"),
        ({"probabilities": GIVEN | {"a": True}}, "learner.probabilities"),
        ({"probabilities": {"a": 1.5, "b": -0.5, "c": 0, "d": 0}}, "learner.probabilities"),
        ({"probabilities": [0.5, 0.5, "0", 0]}, "learner.probabilities.2"),
        ({"probabilities": [1.5, -0.5, 0, 0]}, "learner.probabilities.0"),
        ({"probabilities": "a"}, "learner.probabilities"),
        ({"learning_rate": 0.1}, "learner.learning_rate"),
    ],
)
async def test_what_is_no_distribution_over_the_arms_is_refused(client, learner, field):
    answer = await create(client, {"arms": list(GIVEN)} | learner)

    assert answer.status_code == 422
    assert [error["field"] for error in answer.json()["errors"]] == [field]


async def test_labels_need_arms_with_labels_and_a_sum_may_be_rounded(client):
    by_label = await create(client, {"n_arms": 2, "probabilities": {"0": 0.5, "1": 0.5}})
    rounded = await create(client, {"n_arms": 3, "probabilities": [0.3333333333, 0.3333333333, 0.3333333333]})

    assert (by_label.status_code, rounded.status_code) == (422, 201)


async def test_as_many_probabilities_as_arms_may_be_named(client):
    """Other objects of a body have few fields."""
    labels = [f"item-{n}" for n in range(1000)]
    spread = dict.fromkeys(labels, 1 / 1000)

    answer = await create(client, {"arms": labels, "probabilities": spread})
    other_place = await client.post(f"{PATH}/feedback", json={"arm": 0, "loss": 0, "probabilities": spread})
    wrong = await create(client, {"arms": labels, "probabilities": dict.fromkeys(labels, "x")})

    assert answer.status_code == 201
    assert other_place.json()["detail"] == "An object has more than 100 fields"
    assert len(wrong.json()["errors"]) == 1
    assert (await acts(client, count=2, distinct=True))["actions"][0]["probability"] == pytest.approx(1 / 1000)
