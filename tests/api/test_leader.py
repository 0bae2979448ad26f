"""The leader of a view: the most probable arm with its mean and interval so far, and whether its lead is clear."""

import pytest

from service.sessions import views
from tests.support.one_session import PATH, change, patch, session, view

WINDOW = {"after_seconds": 3600, "default_reward": 0}
REWARDS = {"kind": "multiscale_tsallis", "reward_range": [0, 1], "expiry": WINDOW}
LOSSES = {"kind": "multiscale_tsallis", "expiry": {"after_seconds": 3600, "default_loss": 1}}


async def played(client, count, good, **event):
    """Acts, with an event for each of one arm."""
    actions = (await client.post(f"{PATH}/acts", json={"count": count})).json()["actions"]
    events = [{"arm": each["arm"], **event} for each in actions if each["arm"] == good]
    assert (await client.post(f"{PATH}/feedbacks", json={"events": events})).status_code == 200


async def told_by_arms(client):
    """The leader as the list of arms tells it, a row at a time."""
    rows = (await client.get(f"{PATH}/arms?limit=1000")).json()["arms"]
    shown = await view(client)
    lead = max(rows, key=lambda row: (row["probability"], -row["arm"]))
    others = [row for row in rows if row is not lead]
    if "reward_range" in shown:
        clear = all(lead["low"] > row["high"] for row in others)
    else:
        clear = all(lead["high"] < row["low"] for row in others)
    fields = {name: lead[name] for name in ("arm", "label", "probability") if name in lead}
    return {**fields, "mean": lead["so_far"]["mean"], "low": lead["low"], "high": lead["high"], "clear": clear}


@pytest.mark.parametrize(("fields", "event"), [(REWARDS, {"reward": 1}), (LOSSES, {"loss": 0})])
async def test_the_leader_is_the_most_probable_arm_and_clear_if_no_interval_reaches_its_own(client, fields, event):
    created = await session(client, arms=["a", "b", "c"], **fields)
    assert created["leader"] == await told_by_arms(client)
    assert (created["leader"]["mean"], created["leader"]["clear"]) == (None, False)
    assert (created["leader"]["low"], created["leader"]["high"]) == (0.0, 1.0)
    was_clear = []
    for _ in range(12):
        await played(client, 20, 1, **event)
        shown = await view(client)
        assert shown["leader"] == await told_by_arms(client)
        was_clear.append(shown["leader"]["clear"])

    assert (was_clear[0], was_clear[-1], shown["leader"]["label"]) == (False, True, "b")
    assert (await patch(client, expiry=fields["expiry"] | {"after_seconds": 7200}))["leader"] == shown["leader"]
    assert not (await change(client, add=["new"]))["leader"]["clear"]
    lonely = await change(client, remove=["a", "c", "new"])
    assert lonely == await view(client)
    assert lonely["leader"]["clear"]


async def test_of_many_arms_without_labels_those_that_may_be_better_are_found(client, monkeypatch):
    monkeypatch.setattr(views, "ARMS_AT_ONCE", 5)
    fixed = {"kind": "fixed", "learner": {"probabilities": [*([0.04] * 21), 0.16]}}
    await session(client, arms=22, reward_range=[0, 1], expiry=WINDOW, **fixed)
    seen = []
    for _ in range(3):
        await played(client, 400, 21, reward=1)
        seen.append((await view(client))["leader"])
        assert seen[-1] == await told_by_arms(client)

    assert [each["clear"] for each in seen] == [False, True, True]
    assert seen[0]["arm"] == 21
    assert "label" not in seen[0]


async def test_expired_decisions_count_before_they_are_committed(client, clock):
    halves = WINDOW | {"default_reward": 0.5}
    await session(client, arms=["a", "b"], kind="fixed", reward_range=[0, 1], expiry=halves)
    await played(client, 30, 0, reward=1)
    before = (await view(client))["leader"]
    clock.now += 3700

    shown = (await view(client))["leader"]

    assert shown == await told_by_arms(client)
    assert shown["mean"] == before["mean"]
    assert (await patch(client, expiry=WINDOW | {"default_reward": 0.5, "after_seconds": 60}))["leader"] == shown


async def test_the_leader_is_of_the_whole_session_and_of_arms_alone(client):
    await session(client, **REWARDS, segments={"max": 3})
    await client.post(f"{PATH}/act", json={"segment": "x"})
    assert (await view(client))["leader"] == await told_by_arms(client)
    assert "leader" not in await view(client, f"{PATH}?segment=x")
    ball = {"kind": "dbgd", "dim": 2, "feasible_set": {"kind": "ball", "radius": 1.0}}
    made = await client.post("/v1/sessions", json={"learner": ball})
    assert made.status_code == 201, made.text
    assert "leader" not in made.json()


async def test_the_leader_counts_the_acts_of_both_groups(client):
    await session(client, arms=["a", "b"], **REWARDS, control={"share": 0.5})
    actions = (await client.post(f"{PATH}/acts", json={"count": 60})).json()["actions"]
    of_a = [each for each in actions if each["label"] == "a"]
    events = [{"label": "a", "reward": 1, **({"group": "control"} if "group" in each else {})} for each in of_a[:9]]
    assert (await client.post(f"{PATH}/feedbacks", json={"events": events})).json()["applied"] == 9

    row = (await client.get(f"{PATH}/arms")).json()["arms"][0]

    assert row["so_far"] == {"acts": len(of_a), "events": 9, "mean": pytest.approx(9 / len(of_a))}
    assert (await view(client))["leader"] == await told_by_arms(client)
