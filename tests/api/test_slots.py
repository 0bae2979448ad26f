"""Acts and feedback over HTTP: equal to the run in process, one by one, in batches and all at once."""

import asyncio
import random

import pytest

from service.engine.ledger import ArmFeedback, LossRange, Params
from service.engine.run import start_run
from service.learners.dexp3 import Dexp3Spec
from tests.support.one_session import view


@pytest.mark.parametrize(
    "request_", [{}, {"content": b"{}"}, {"content": b"{}", "headers": {"content-type": "application/json"}}]
)
async def test_act_needs_no_body(client, create, request_):
    path = await create()

    response = await client.post(f"{path}/act", **request_)

    assert response.status_code == 200
    assert response.json().keys() == {"slot", "arm", "probability"}
    assert response.json()["slot"] == 1


async def test_http_gives_the_numbers_of_the_run_in_process(client, create):
    path = await create(learner={"kind": "dexp3", "n_arms": 5}, loss_range=[10, -10], seed=11)
    run = start_run(Params(Dexp3Spec(n_arms=5), 11, LossRange(10, -10)))
    rng = random.Random(1)
    for _ in range(60):
        action = (await client.post(f"{path}/act")).json()
        assert action == dict(zip(("slot", "arm", "probability"), run.act(), strict=False))
        if rng.random() < 0.7:
            arm = action["arm"]
            rating = rng.uniform(-10, 10)
            await client.post(f"{path}/feedback", json={"arm": arm, "loss": rating})
            run.settle(ArmFeedback(arm, LossRange(10, -10).learned(rating)))

    seen = await view(client, path)
    assert seen["probabilities"] == run.probabilities.tolist()
    assert (seen["slot"], seen["feedbacks"]) == (60, run.ledger.feedbacks)
    assert (seen["outstanding"], seen["total_delay"]) == (run.ledger.outstanding, run.ledger.total_delay)


async def test_points_are_played_with_their_query_points(client, create):
    ball = {"kind": "ball", "radius": 1.0}
    path = await create(
        learner={"kind": "dbgd", "dim": 2, "feasible_set": ball, "learning_rate": 0.1, "perturbation": 0.25}
    )

    action = (await client.post(f"{path}/act")).json()
    settlement = await client.post(f"{path}/feedback", json={"losses": [0.0, 0.75, 1.0]})

    assert action == {"slot": 1, "x": [0.0, 0.0], "query_points": [[0.25, 0.0], [0.0, 0.25]]}
    assert settlement.json() == {"applied": 1, "duplicates": 0, "slot": 1, "outstanding": 0}
    assert (await view(client, path))["x"] == pytest.approx([-0.3, -0.4], abs=1e-12)


async def test_labels_stand_for_arms(client, create):
    path = await create(learner={"kind": "dexp3", "arms": ["a", "b"]})
    action = (await client.post(f"{path}/act")).json()

    assert action["label"] == "ab"[action["arm"]]
    settlement = await client.post(f"{path}/feedback", json={"label": action["label"], "loss": 0.5})
    assert settlement.json()["applied"] == 1
    seen = await view(client, path)
    assert (seen["learner"]["arms"], seen["learner"]["n_arms"]) == (["a", "b"], 2)


@pytest.mark.parametrize(("count", "status"), [(0, 422), (1001, 422), ("2", 422), (True, 422), (1000, 200)])
async def test_counts_have_limits(client, create, count, status):
    path = await create()

    assert (await client.post(f"{path}/acts", json={"count": count})).status_code == status


async def test_many_acts_of_many_arms_are_refused(client, create):
    path = await create(learner={"kind": "dexp3", "n_arms": 10_000})

    assert (await client.post(f"{path}/acts", json={"count": 101})).status_code == 422
    assert (await client.post(f"{path}/acts", json={"count": 100})).status_code == 200


async def test_requests_folded_together_are_each_counted_once(client, create):
    path = await create()

    actions = await asyncio.gather(*(client.post(f"{path}/act") for _ in range(200)))
    arms = [action.json()["arm"] for action in actions]
    answers = await asyncio.gather(
        *(client.post(f"{path}/feedback", json={"arm": arm, "loss": 0.5}) for arm in arms),
        *(client.post(f"{path}/feedback", json={"arm": arm, "loss": 1.5}) for arm in arms[:20]),
    )

    assert sorted(action.json()["slot"] for action in actions) == list(range(1, 201))
    assert [answer.status_code for answer in answers] == [200] * 200 + [422] * 20
    seen = await view(client, path)
    assert (seen["slot"], seen["feedbacks"], seen["outstanding"]) == (200, 200, 0)


async def test_reading_changes_nothing(client, create):
    path = await create()
    await client.post(f"{path}/act")
    first = await view(client, path)

    assert [await view(client, path) for _ in range(20)] == [first] * 20


@pytest.mark.parametrize(("limit", "sessions"), [({"max_queue": 5}, 1), ({"max_waiting": 5}, 50)])
async def test_more_requests_than_may_wait_are_turned_away(make_client, limit, sessions):
    client = await make_client(**limit)
    paths = [f"/v1/sessions/s{number}" for number in range(sessions)]
    for path in paths:
        await client.post("/v1/sessions", json={"session_id": path[13:], "learner": {"kind": "dexp3", "n_arms": 2}})

    answers = await asyncio.gather(*(client.post(f"{path}/act") for path in paths for _ in range(50 // sessions)))

    refused = [answer for answer in answers if answer.status_code == 503]
    assert refused
    assert all(answer.json()["code"] == "overloaded" and answer.headers["Retry-After"] == "1" for answer in refused)
    assert sum([(await view(client, path))["slot"] for path in paths]) == len(answers) - len(refused) > 0
    assert (await client.post(f"{paths[0]}/act")).status_code == 200
