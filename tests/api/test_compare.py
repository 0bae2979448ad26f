"""Two sessions are compared as the groups of a learner and its control."""

import json

import pytest

from service.engine.control import Sums, verdict
from service.engine.ledger import LossRange
from service.settings import SecretText
from tests.support.api_keys import ADMIN, CLIENT, KEYS, SHOP, bearer
from tests.support.one_session import answered, made

EXPIRY = {"after_seconds": 60, "default_reward": 0}
REWARDS = {"learner": {"kind": "multiscale_tsallis", "arms": ["a", "b"]}, "reward_range": [0, 2], "expiry": EXPIRY}
FIXED = {"learner": {"kind": "fixed", "arms": ["a", "b"]}, "reward_range": [0, 2], "expiry": EXPIRY}
POINTS = {"learner": {"kind": "dbgd", "dim": 2, "feasible_set": {"kind": "ball", "radius": 1}}}


async def played(client, session_id, acts, clicks):
    actions = (await client.post(f"/v1/sessions/{session_id}/acts", json={"count": acts})).json()["actions"]
    events = [{"arm": each["arm"], "reward": 2} for each in actions[:clicks]]
    await client.post(f"/v1/sessions/{session_id}/feedbacks", json={"events": events})


async def compare(client, learner, control, status=200, **more):
    both = {"learner": learner, "control": control}
    return await answered(client, "GET", "/v1/compare", status, params=both, **more)


async def test_two_sessions_are_compared_as_two_groups(client, clock):
    """Due decisions are settled first, which changes no mean: they counted as the default before."""
    for name, fields in (("new", REWARDS), ("old", FIXED)):
        await made(client, session_id=name, **fields)
    none = (await compare(client, "new", "old"))["groups"]["control"]
    assert none == {"acts": 0, "outstanding": 0, "events": 0, "mean_reward": None}
    await played(client, "new", 150, 120)
    await played(client, "old", 49, 5)
    early = await compare(client, "new", "old")
    await played(client, "old", 1, 0)
    open_ones = await compare(client, "new", "old")
    clock.now += 100

    found = await compare(client, "new", "old")

    assert early.keys() == {"groups"}
    assert found["groups"] == {
        "learner": {"acts": 150, "outstanding": 0, "events": 120, "mean_reward": 1.6},
        "control": {"acts": 50, "outstanding": 0, "events": 5, "mean_reward": 0.2},
    }
    expected = verdict(Sums(150, 120.0, 120.0), Sums(50, 5.0, 5.0), LossRange(2.0, 0.0, word="reward"))
    assert found["verdict"] == pytest.approx(expected)
    assert (found["verdict"]["is"], found["verdict"]["lift"]) == ("better", 7.0)
    assert open_ones["verdict"] == found["verdict"]
    turned = await compare(client, "old", "new")
    assert (turned["verdict"]["is"], turned["verdict"]["high"]) == ("worse", -found["verdict"]["low"])


@pytest.mark.parametrize(
    ("control", "status", "told"),
    [
        ({"learner": FIXED["learner"], "reward_range": [0, 1]}, 422, "control"),
        ({"learner": FIXED["learner"], "loss_range": [2, 0]}, 422, "control"),
        (POINTS, 422, "control"),
        (None, 404, None),
    ],
)
async def test_sessions_that_can_not_be_compared_are_refused(client, control, status, told):
    await made(client, session_id="new", **REWARDS)
    if control is not None:
        await made(client, session_id="old", **control)

    refused = [await compare(client, "new", "old", status)]
    if control in (None, POINTS):
        refused.append(await compare(client, "old", "new", status))

    for answer, field in zip(refused, (told, "learner"), strict=False):
        assert answer["code"] == ("unknown_session" if told is None else "invalid_request")
        assert told is None or answer["errors"][0]["field"] == field
    assert (await client.get("/v1/compare?learner=new")).status_code == 422


async def test_a_key_with_a_prefix_compares_its_own_sessions_alone(make_client):
    client = await make_client(api_keys=SecretText(json.dumps(KEYS)))
    for session_id in ("shop-1", "shop-2", "other"):
        await made(client, bearer(ADMIN), session_id=session_id, **FIXED)

    for key in (SHOP, CLIENT, ADMIN):
        await compare(client, "shop-1", "shop-2", headers=bearer(key))
    for pair in (("shop-1", "other"), ("other", "shop-1")):
        await compare(client, *pair, 404, headers=bearer(SHOP))
        await compare(client, *pair, headers=bearer(CLIENT))
    assert (await client.get("/v1/compare?learner=shop-1&control=shop-2")).status_code == 401
