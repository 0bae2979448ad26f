"""Decisions that were never shown are taken back; events that do not fit may be skipped."""

from __future__ import annotations

import pytest

from service.store.memory import MemoryStore

BALL = {"kind": "ball", "radius": 1.0}
POINTS = {"dbgd": "losses", "ogd": "gradient"}


async def counts(client, path):
    view = (await client.get(path)).json()
    names = ("feedbacks", "expired", "removed", "voided", "outstanding")
    assert view["slot"] == sum(view[name] for name in names)
    return tuple(view[name] for name in names)


async def test_a_void_ends_the_oldest_decision_of_its_arm_unlearned(client, create):
    path = await create(learner={"kind": "centred_tsallis", "n_arms": 1})
    await client.post(f"{path}/acts", json={"count": 3})
    events = [{"arm": 0, "loss": None, "event_id": "e"}, {"arm": 0, "loss": 0.5}, {"arm": 0, "loss": None}]

    settled = (await client.post(f"{path}/feedbacks", json={"events": events[:2]})).json()
    again = (await client.post(f"{path}/feedback", json=events[0])).json()
    await client.post(f"{path}/feedback", json=events[2])
    surplus = await client.post(f"{path}/feedback", json=events[2])

    assert settled == {"applied": 1, "duplicates": 0, "voided": 1, "slot": 3, "outstanding": 1}
    assert (again["duplicates"], again.get("voided")) == (1, None)
    assert (surplus.status_code, surplus.json()["code"]) == (409, "surplus_feedback")
    assert await counts(client, path) == (1, 0, 0, 2, 0)


async def test_a_void_leaves_what_was_learned_and_is_no_mean(client, create):
    path = await create(learner={"kind": "centred_tsallis", "n_arms": 2})
    for loss in (0.0, 1.0):
        arm = (await client.post(f"{path}/act")).json()["arm"]
        await client.post(f"{path}/feedback", json={"arm": arm, "loss": loss})
    arm = (await client.post(f"{path}/act")).json()["arm"]
    before = (await client.get(path)).json()

    await client.post(f"{path}/feedback", json={"arm": arm, "loss": None})

    after = (await client.get(path)).json()
    assert (after["mean_loss"], after["probabilities"]) == (before["mean_loss"], before["probabilities"])


async def test_where_slots_matter_a_void_ends_the_decision_of_its_slot(client, create):
    path = await create(learner={"kind": "exp3", "n_arms": 1, "learning_rate": 0.1})
    await client.post(f"{path}/acts", json={"count": 2})

    nameless = await client.post(f"{path}/feedback", json={"arm": 0, "loss": None})
    await client.post(f"{path}/feedback", json={"arm": 0, "loss": None, "slot": 2})
    again = await client.post(f"{path}/feedback", json={"arm": 0, "loss": 0.5, "slot": 2})
    other = await client.post(f"{path}/feedback", json={"arm": 0, "loss": 0.5, "slot": 1})

    assert (nameless.status_code, again.status_code, other.status_code) == (422, 409, 200)
    assert await counts(client, path) == (1, 0, 0, 1, 0)


@pytest.mark.parametrize("kind", POINTS)
async def test_points_take_voids(client, create, kind):
    rates = {"learning_rate": 0.1} | ({"perturbation": 0.1} if kind == "dbgd" else {})
    path = await create(learner={"kind": kind, "dim": 2, "feasible_set": BALL} | rates)
    x = (await client.post(f"{path}/act")).json()["x"]

    assert (await client.post(f"{path}/feedback", json={POINTS[kind]: None})).json()["voided"] == 1
    assert await counts(client, path) == (0, 0, 0, 1, 0)
    assert (await client.get(path)).json()["x"] == x


async def test_voids_and_expiry_share_the_decisions(make_client, clock, create):
    client = await make_client(MemoryStore(clock=clock))
    learner = {"kind": "centred_tsallis", "n_arms": 1}
    body = {"session_id": "s", "learner": learner, "expiry": {"after_seconds": 64, "default_loss": 1}}
    await client.post("/v1/sessions", json=body)
    await client.post("/v1/sessions/s/acts", json={"count": 3})
    await client.post("/v1/sessions/s/feedback", json={"arm": 0, "loss": None})

    clock.now += 70

    assert await counts(client, "/v1/sessions/s") == (0, 2, 0, 1, 0)


async def test_events_that_do_not_fit_are_skipped_on_request_and_can_be_sent_again(client, create):
    path = await create(learner={"kind": "dexp3", "arms": ["a"]})
    await client.post(f"{path}/acts", json={"count": 2})
    events = [
        {"label": "b", "loss": 0.5, "event_id": "1"},
        {"label": "a", "loss": 2, "event_id": "2"},
        {"label": "a", "loss": 0.5, "event_id": "3"},
        {"gradient": [1], "event_id": "4"},
    ]

    refused = await client.post(f"{path}/feedbacks", json={"events": events})
    skipped = await client.post(f"{path}/feedbacks?on_invalid=skip", json={"events": events})
    again = await client.post(f"{path}/feedback", json={"label": "a", "loss": 1, "event_id": "2"})
    none = await client.post(f"{path}/feedbacks?on_invalid=skip", json={"events": events[2:3]})
    wrong = await client.post(f"{path}/feedbacks?on_invalid=skip", json={"events": [{"label": 1, "loss": 1}]})
    misspelt = await client.post(f"{path}/feedbacks?on_invalid=ignore", json={"events": events})

    assert (refused.status_code, refused.json()["indexes"]) == (422, [0, 1, 3])
    expected = {"applied": 1, "duplicates": 0, "invalid": 3, "invalid_indexes": [0, 1, 3], "slot": 2}
    assert skipped.json() == expected | {"outstanding": 1}
    assert again.json()["applied"] == 1
    assert (none.json()["invalid"], none.json()["invalid_indexes"]) == (0, [])
    assert (wrong.status_code, misspelt.status_code) == (422, 422)


async def test_up_to_a_thousand_indexes_are_named_in_less_than_ten_kilobytes(client, create):
    path = await create()
    bad = {"arm": 0, "loss": 2, "event_id": "x" * 100}

    for events in ([bad] * 1500, [{"label": "\u00e9" * 500, "loss": 1}] * 1500, [{"loss": "x"}] * 1500):
        refused = await client.post(f"{path}/feedbacks", json={"events": events})
        assert refused.json()["indexes"] == list(range(1000))
        assert refused.json()["errors"]
        assert len(refused.content) < 10_000
    skipped = await client.post(f"{path}/feedbacks?on_invalid=skip", json={"events": [bad] * 1500})

    assert skipped.json()["invalid"] == 1500
    assert skipped.json()["invalid_indexes"] == list(range(1000))
