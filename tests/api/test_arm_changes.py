"""Arms added and removed by HTTP: the answer, new indexes, numbers, keys and other processes."""

from __future__ import annotations

import random

import pytest

from service.engine.ledger import ArmFeedback, Params
from service.engine.run import start_run
from service.learners import REGISTRY
from service.store import open_store
from tests.support.arm_changes import balanced, change, session
from tests.support.one_session import KINDS, PATH, view


@pytest.mark.parametrize("kind", KINDS)
async def test_a_change_answers_with_the_view_it_makes(client, kind):
    created = await session(client, kind=kind)
    actions = (await client.post(f"{PATH}/acts", json={"count": 9})).json()["actions"]

    changed = await change(client, add=["x", "y"], remove=["b"])

    assert changed == await view(client)
    assert changed["version"] != created["version"]
    assert changed["learner"]["n_arms"] == 4
    assert changed["learner"]["arms"] == ["a", None, "c", "x", "y"]
    assert changed["probabilities"] == pytest.approx([0.25, 0, 0.25, 0.25, 0.25])
    assert changed["removed"] == sum(action["label"] == "b" for action in actions)
    assert balanced(changed)


async def test_the_idle_deadline_is_put_off(client):
    created = await session(client, idle_ttl_seconds=100.0)

    unchanged = await change(client, remove=["zz"])
    changed = await change(client, add=["x"])

    assert unchanged["expires_at"] == created["expires_at"]
    assert changed["expires_at"] >= created["expires_at"]


@pytest.mark.parametrize(
    "body", [{}, {"add": []}, {"add": ["a"]}, {"remove": ["zz", ""]}, {"add": ["a"], "remove": []}]
)
async def test_what_changes_nothing_is_no_commit(client, body):
    created = await session(client)

    assert await change(client, **body) == created == await view(client)


async def test_a_label_that_comes_back_is_a_new_arm(client):
    await session(client)
    actions = (await client.post(f"{PATH}/acts", json={"count": 9})).json()["actions"]
    assert {action["label"] for action in actions} == {"a", "b", "c"}
    old = sum(action["label"] == "b" for action in actions)

    changed = await change(client, add=["b"], remove=["b"])
    assert (changed["removed"], changed["learner"]["arms"]) == (old, ["a", None, "c", "b"])
    by_index = (await client.post(f"{PATH}/feedback", json={"arm": 1, "loss": 0.5})).json()
    by_label = await client.post(f"{PATH}/feedback", json={"label": "b", "loss": 0.5})
    drawn = set()
    while "b" not in drawn:
        action = (await client.post(f"{PATH}/act")).json()
        drawn.add(action["label"])
        assert action["arm"] == (3 if action["label"] == "b" else "abc".index(action["label"]))
    applied = (await client.post(f"{PATH}/feedback", json={"label": "b", "loss": 0.5})).json()

    assert (by_index["applied"], by_index["removed"]) == (0, 1)
    assert (by_label.status_code, by_label.json()["code"]) == (409, "surplus_feedback")
    assert (applied["applied"], "removed" in applied) == (1, False)


async def test_posting_the_session_again_finds_it_with_its_arms_changed(client):
    await session(client)
    changed = await change(client, add=["x"], remove=["a"])

    body = {"session_id": "s", "learner": {"kind": "dexp3", "arms": ["a", "b", "c"]}, "seed": 7}
    again = await client.post("/v1/sessions", json=body)

    assert (again.status_code, again.json()) == (200, changed)


async def test_an_idempotency_key_changes_arms_once_also_where_they_change_in_between_or_nothing_does(client):
    await session(client)
    key = {"Idempotency-Key": "k"}

    first = await change(client, add=["x"], headers=key)
    await change(client, remove=["x"])
    again = await change(client, add=["x"], headers=key)
    nothing = [await change(client, add=["a"], headers={"Idempotency-Key": "n"}) for _ in range(2)]

    assert again == first
    assert nothing == [await view(client)] * 2
    assert nothing[0]["learner"]["arms"] == ["a", "b", "c", None]


async def test_a_fresh_process_finds_the_arms_as_they_are(make_client, redis_server):
    first = await make_client(open_store(redis_server.url))
    twin = await make_client(open_store(redis_server.url))
    await session(first, kind="centred_tsallis")
    await first.post(f"{PATH}/acts", json={"count": 9})
    await first.post(f"{PATH}/feedback", json={"label": "c", "loss": 0.2})
    changed = await change(first, add=["x", "ü"], remove=["b"])

    assert await view(twin) == changed
    answer = await twin.post(f"{PATH}/feedback", json={"label": "b", "loss": 0.2})
    labels = {action["label"] for action in (await twin.post(f"{PATH}/acts", json={"count": 60})).json()["actions"]}

    assert answer.json()["removed"] == 1
    assert labels == {"a", "c", "x", "ü"}
    await first.delete(PATH)


@pytest.mark.parametrize("kind", KINDS)
async def test_a_session_gives_the_numbers_of_the_learner_driven_in_process(client, kind):
    await session(client, kind=kind)
    spec = REGISTRY[kind].model_validate({"kind": kind, "arms": ["a", "b", "c"]} | KINDS[kind])
    run, rng = start_run(Params(spec, 7)), random.Random(3)

    for number in range(60):
        action = (await client.post(f"{PATH}/act")).json()
        own = run.act()
        assert (action["slot"], action["arm"], action["probability"]) == own[:3]
        if rng.random() < 0.7:
            loss = rng.random()
            event = {"arm": action["arm"], "loss": loss, "slot": action["slot"]}
            await client.post(f"{PATH}/feedback", json=event)
            run.settle(ArmFeedback(own.arm, loss, own.slot))
        if number % 9 == 8:
            await change(client, add=[f"n{number}"], remove=[f"n{number - 18}", "b"])
            run.change_arms(run.arms.change([f"n{number}"], [f"n{number - 18}", "b"]))
        assert (await view(client))["probabilities"] == run.probabilities.tolist()
