"""Feedback in flight of an arm that has been removed: a success that changes nothing."""

from __future__ import annotations

import pytest

from tests.support.arm_changes import balanced, change, session
from tests.support.one_session import PATH, view


async def test_feedback_in_flight_of_a_removed_arm_is_a_success_that_changes_nothing(client):
    await session(client)
    await client.post(f"{PATH}/acts", json={"count": 9})
    await change(client, remove=["a"])
    before = await view(client)
    late = {"label": "a", "loss": 0.5, "event_id": "late"}

    first = (await client.post(f"{PATH}/feedback", json=late)).json()
    again = (await client.post(f"{PATH}/feedback", json=late)).json()
    nameless = (await client.post(f"{PATH}/feedback", json={"arm": 0, "loss": 1})).json()
    batch = {
        "events": [
            late,
            {"arm": 0, "loss": 0.1},
            {"arm": 1, "loss": 0.5, "event_id": "b"},
            {"label": "a", "loss": 0},
        ]
    }
    mixed = (await client.post(f"{PATH}/feedbacks", json=batch)).json()
    after = await view(client)

    counts = {"slot": 9, "outstanding": before["outstanding"]}
    assert first == {"applied": 0, "duplicates": 0, "removed": 1} | counts
    assert again == {"applied": 0, "duplicates": 1} | counts
    assert nameless == {"applied": 0, "duplicates": 0, "removed": 1} | counts
    assert mixed == {
        "applied": 1,
        "duplicates": 1,
        "removed": 2,
        "slot": 9,
        "outstanding": counts["outstanding"] - 1,
    }
    assert (after["removed"], after["feedbacks"]) == (before["removed"], 1)
    assert balanced(after)


async def test_a_refused_batch_records_nothing_of_removed_arms(client):
    await session(client)
    await client.post(f"{PATH}/act")
    await change(client, remove=["a"])
    late = {"label": "a", "loss": 0.5, "event_id": "late"}

    refused = await client.post(f"{PATH}/feedbacks", json={"events": [late] + [{"arm": 1, "loss": 0}] * 9})
    skipped = await client.post(
        f"{PATH}/feedbacks?on_surplus=skip", json={"events": [late] + [{"arm": 1, "loss": 0}] * 9}
    )
    wrong = await client.post(f"{PATH}/feedback", json={"label": "a", "loss": 7})

    assert refused.status_code == 409
    assert 0 not in refused.json()["indexes"]
    assert (skipped.json()["removed"], skipped.json()["duplicates"]) == (1, 0)
    assert wrong.status_code == 422


@pytest.mark.parametrize("kind", ["exp3", "bold"])
async def test_open_slots_of_removed_arms_are_closed(client, kind):
    await session(client, kind=kind)
    actions = (await client.post(f"{PATH}/acts", json={"count": 12})).json()["actions"]
    await change(client, remove=["a"])

    for action in actions:
        event = {"arm": action["arm"], "loss": 0.5, "slot": action["slot"]}
        answer = (await client.post(f"{PATH}/feedback", json=event)).json()
        assert (answer["applied"], answer.get("removed", 0)) == ((0, 1) if action["label"] == "a" else (1, 0))
    seen = await view(client)

    assert (seen["outstanding"], seen["feedbacks"] + seen["removed"]) == (0, 12)
