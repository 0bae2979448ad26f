"""Act and feedback over HTTP: equal to the run in process, surplus, duplicates, keys."""

import asyncio
import random

import pytest

from service.engine.feedback import ArmFeedback
from service.engine.loss_range import LossRange
from service.engine.params import Params
from service.engine.run import start_run
from service.learners.dexp3 import Dexp3Spec


async def view(client, path):
    return (await client.get(path)).json()


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
    for _ in range(200):
        action = (await client.post(f"{path}/act")).json()
        assert action == dict(zip(("slot", "arm", "probability"), run.act(), strict=False))
        if rng.random() < 0.7:
            arm = action["arm"]
            rating = rng.uniform(-10, 10)
            await client.post(f"{path}/feedback", json={"arm": arm, "loss": rating})
            run.settle(ArmFeedback(arm, LossRange(10, -10).learned(rating)))

    seen = await view(client, path)
    assert seen["probabilities"] == run.probabilities.tolist()
    assert (seen["slot"], seen["feedbacks"]) == (200, run.ledger.feedbacks)
    assert (seen["outstanding"], seen["total_delay"]) == (run.ledger.outstanding, run.ledger.total_delay)


async def test_batches_equal_single_calls(client, create):
    one, many = await create(), await create()
    for _ in range(20):
        singles = [(await client.post(f"{one}/act")).json() for _ in range(5)]
        batch = (await client.post(f"{many}/acts", json={"count": 5})).json()["actions"]
        assert singles == batch
        events = [{"arm": action["arm"], "loss": 0.1 * (1 + action["arm"])} for action in batch[::-1]]
        for event in events:
            await client.post(f"{one}/feedback", json=event)
        settlement = (await client.post(f"{many}/feedbacks", json={"events": events})).json()
        assert settlement == {"applied": 5, "duplicates": 0, "slot": batch[-1]["slot"], "outstanding": 0}

    assert (await view(client, one))["probabilities"] == (await view(client, many))["probabilities"]


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


async def test_feedback_before_any_act_is_surplus(client, create):
    path = await create()

    response = await client.post(f"{path}/feedback", json={"arm": 0, "loss": 0.5})

    assert (response.status_code, response.json()["code"]) == (409, "surplus_feedback")
    assert response.json()["indexes"] == [0]


async def test_of_many_surplus_events_the_first_thousand_are_named_and_all_are_counted(client, create):
    path = await create()
    await client.post(f"{path}/act")

    response = await client.post(f"{path}/feedbacks", json={"events": [{"arm": 0, "loss": 0.5}] * 1030})

    assert response.status_code == 409
    assert len(response.json()["indexes"]) == 1000
    assert response.json()["indexes"] == sorted(response.json()["indexes"])
    detail = response.json()["detail"]
    assert detail.startswith("1030 events for 1 outstanding decision: 10")
    assert detail.endswith("act first, or leave such events out with ?on_surplus=skip")


async def test_a_thousand_wrong_events_are_named_however_much_is_wrong_in_each(client, create):
    path = await create()
    events = [{"arm": -1, "slot": 0, "kind": "click", "at": "now"}] * 1500
    refused = await client.post(f"{path}/feedbacks", json={"events": events})

    assert refused.json()["indexes"] == list(range(1000))


async def test_more_losses_than_acts_are_refused_whole(client, create):
    path = await create(learner={"kind": "dexp3", "n_arms": 1})
    await client.post(f"{path}/acts", json={"count": 3})
    before = await view(client, path)

    refused = await client.post(f"{path}/feedbacks", json={"events": [{"arm": 0, "loss": 0.5}] * 5})
    assert refused.status_code == 409
    assert refused.json()["indexes"] == [3, 4]
    assert "3 outstanding" in refused.json()["detail"]
    assert await view(client, path) == before
    accepted = await client.post(f"{path}/feedbacks", json={"events": [{"arm": 0, "loss": 0.5}] * 3})
    assert accepted.json() == {"applied": 3, "duplicates": 0, "slot": 3, "outstanding": 0}


async def test_surplus_can_be_skipped_and_sent_again(client, create):
    path = await create(learner={"kind": "dexp3", "n_arms": 1})
    await client.post(f"{path}/act")
    events = [{"arm": 0, "loss": 0.5, "event_id": str(number)} for number in range(3)]

    skipped = await client.post(f"{path}/feedbacks?on_surplus=skip", json={"events": events})
    await client.post(f"{path}/acts", json={"count": 2})
    again = await client.post(f"{path}/feedbacks?on_surplus=skip", json={"events": events})

    assert skipped.json() == {"applied": 1, "duplicates": 0, "slot": 1, "outstanding": 0, "surplus": 2}
    assert again.json() == {"applied": 2, "duplicates": 1, "slot": 3, "outstanding": 0, "surplus": 0}


async def test_an_event_id_counts_once_also_with_another_loss_or_after_its_decision_is_settled(client, create):
    path = await create()
    arm = (await client.post(f"{path}/act")).json()["arm"]
    event = {"arm": arm, "loss": 0.5, "event_id": "e"}

    first = await client.post(f"{path}/feedback", json=event)
    counted = await view(client, path)
    again = [await client.post(f"{path}/feedback", json=event | {"loss": loss}) for loss in (0.5, 0.9)]

    assert first.json()["applied"] == 1
    assert [answer.json() for answer in again] == [{"applied": 0, "duplicates": 1, "slot": 1, "outstanding": 0}] * 2
    assert await view(client, path) == counted


async def test_an_event_id_twice_in_a_batch_counts_once(client, create):
    path = await create(learner={"kind": "dexp3", "n_arms": 1})
    await client.post(f"{path}/acts", json={"count": 2})
    events = [{"arm": 0, "loss": 0.5, "event_id": "e"}] * 2

    settlement = await client.post(f"{path}/feedbacks", json={"events": events})

    assert settlement.json() == {"applied": 1, "duplicates": 1, "slot": 2, "outstanding": 1}


async def test_an_id_whose_first_event_is_skipped_counts_with_its_second(client, create):
    path = await create(learner={"kind": "dexp3", "n_arms": 2})
    acted = (await client.post(f"{path}/act")).json()["arm"]
    events = [{"arm": arm, "loss": 0.3, "event_id": "click"} for arm in (1 - acted, acted, acted)]

    first = await client.post(f"{path}/feedbacks?on_surplus=skip", json={"events": events})
    again = await client.post(f"{path}/feedbacks?on_surplus=skip", json={"events": events})

    assert first.json() == {"applied": 1, "duplicates": 1, "surplus": 1, "slot": 1, "outstanding": 0}
    assert again.json() == {"applied": 0, "duplicates": 3, "surplus": 0, "slot": 1, "outstanding": 0}


async def test_a_refused_batch_applies_nothing_and_names_the_event(client, create):
    path = await create(learner={"kind": "dexp3", "n_arms": 1})
    await client.post(f"{path}/acts", json={"count": 100})
    events = [{"arm": 0, "loss": 0.5, "event_id": str(number)} for number in range(100)]
    bad = [*events[:57], events[57] | {"loss": 1.7}, *events[58:]]

    refused = await client.post(f"{path}/feedbacks", json={"events": bad})
    assert refused.status_code == 422
    assert refused.json()["indexes"] == [57]
    assert refused.json()["errors"] == [{"index": 57, "field": "loss", "message": "loss must lie in [0.0, 1.0]"}]
    assert (await view(client, path))["feedbacks"] == 0
    accepted = await client.post(f"{path}/feedbacks", json={"events": events})
    assert accepted.json() == {"applied": 100, "duplicates": 0, "slot": 100, "outstanding": 0}


@pytest.mark.parametrize("loss", [-0.1, -1e-12, 1.0000000000000002, 1.0001, 5, 99, -10])
async def test_losses_outside_the_range_are_refused(client, create, loss):
    path = await create()
    arm = (await client.post(f"{path}/act")).json()["arm"]

    response = await client.post(f"{path}/feedback", json={"arm": arm, "loss": loss})

    assert response.status_code == 422
    assert "[0.0, 1.0]" in response.json()["detail"]


@pytest.mark.parametrize(
    ("event", "field"),
    [
        ({}, "loss"),
        ({"arm": 3, "loss": 0.5}, "arm"),
        ({"arm": -1, "loss": 0.5}, "arm"),
        ({"arm": 0.5, "loss": 0.5}, "arm"),
        ({"arm": "1", "loss": 0.5}, "arm"),
        ({"arm": True, "loss": 0.5}, "arm"),
        ({"loss": 0.5}, "arm"),
        ({"arm": 0}, "loss"),
        ({"arm": 0, "loss": "0.5"}, "loss"),
        ({"arm": 0, "loss": True}, "loss"),
        ({"arm": 0, "loss": {"loss": 0.5}}, "loss"),
        ({"arm": 0, "reward": 0.5}, "reward"),
        ({"arm": 0, "loss": 0.5, "los": 1}, "los"),
        ({"arm": 0, "loss": 0.5, "sentAt": 0}, "sentAt"),
        ({"arm": 0, "label": "a", "loss": 0.5}, "label"),
        ({"label": "a", "loss": 0.5}, "label"),
        ({"arm": 0, "loss": 0.5, "slot": 0}, "slot"),
        ({"arm": 0, "loss": 0.5, "slot": 2**53}, "slot"),
        ({"arm": 0, "loss": 0.5, "slot": 10**30}, "slot"),
        ({"arm": 0, "loss": 0.5, "event_id": ""}, "event_id"),
        ({"arm": 0, "loss": 0.5, "event_id": "x" * 129}, "event_id"),
        ({"arm": 0, "loss": 0.5, "event_id": "\u00e9"}, "event_id"),
        ({"losses": [0.5, 0.5]}, "loss"),
        ({"gradient": [0.5]}, "loss"),
    ],
)
async def test_events_that_fit_no_decision_name_the_field(client, create, event, field):
    path = await create()
    await client.post(f"{path}/acts", json={"count": 50})
    before = await view(client, path)

    single = await client.post(f"{path}/feedback", json=event)
    batch = await client.post(f"{path}/feedbacks", json={"events": [event]})

    for response, index in ((single, None), (batch, 0)):
        assert (response.status_code, response.json()["code"]) == (422, "invalid_request")
        assert {"index": index, "field": field} in [
            {name: error[name] for name in ("index", "field")} for error in response.json()["errors"]
        ]
    assert await view(client, path) == before


@pytest.mark.parametrize("losses", [[0.5], [0.5] * 4, [0.5, "x", 0.5], []])
async def test_bundles_have_one_loss_more_than_the_dimension(client, create, losses):
    path = await create(learner={"kind": "dbgd", "dim": 2, "feasible_set": {"kind": "ball", "radius": 1.0}})
    await client.post(f"{path}/act")

    response = await client.post(f"{path}/feedback", json={"losses": losses})

    assert response.status_code == 422
    assert "losses" in response.json()["detail"]


@pytest.mark.parametrize(("count", "status"), [(0, 422), (1001, 422), ("2", 422), (True, 422), (1000, 200)])
async def test_counts_have_limits(client, create, count, status):
    path = await create()

    assert (await client.post(f"{path}/acts", json={"count": count})).status_code == status


async def test_many_acts_of_many_arms_are_refused(client, create):
    path = await create(learner={"kind": "dexp3", "n_arms": 10_000})

    assert (await client.post(f"{path}/acts", json={"count": 101})).status_code == 422
    assert (await client.post(f"{path}/acts", json={"count": 100})).status_code == 200


async def test_a_key_gives_the_first_answer_again(client, create):
    path, other = await create(), await create()
    headers = {"Idempotency-Key": "k"}

    first = await client.post(f"{path}/act", headers=headers)
    again = await client.post(f"{path}/act", headers=headers, json={})
    elsewhere = await client.post(f"{other}/act", headers=headers)
    feedback = await client.post(
        f"{path}/feedback", headers=headers, json={"arm": first.json()["arm"], "loss": 0.2}
    )
    changed = await client.post(f"{path}/feedback", headers=headers, json={"arm": first.json()["arm"], "loss": 0.9})

    assert (again.text, again.headers["Idempotent-Replayed"]) == (first.text, "true")
    assert "Idempotent-Replayed" not in elsewhere.headers
    assert feedback.json()["applied"] == 1
    assert (changed.status_code, changed.json()["code"]) == (422, "idempotency_conflict")
    assert (await view(client, path))["slot"] == 1
    assert (await view(client, path))["feedbacks"] == 1


async def test_concurrent_callers_with_one_key_get_one_answer(client, create):
    path = await create()

    answers = await asyncio.gather(
        *(client.post(f"{path}/act", headers={"Idempotency-Key": "k"}) for _ in range(20))
    )

    assert len({answer.text for answer in answers}) == 1
    assert sum("Idempotent-Replayed" not in answer.headers for answer in answers) == 1
    assert (await view(client, path))["slot"] == 1


@pytest.mark.parametrize("key", ["", "x" * 256, "\u00e9"])
async def test_keys_are_short_printable_ascii(client, create, key):
    path = await create()

    response = await client.post(f"{path}/act", headers={"Idempotency-Key": key.encode("utf-8")})

    assert response.status_code == 422


async def test_a_refusal_is_not_kept_under_its_key(client, create):
    path = await create(learner={"kind": "dexp3", "n_arms": 1})
    request = {"headers": {"Idempotency-Key": "k"}, "json": {"arm": 0, "loss": 0.5}}

    assert (await client.post(f"{path}/feedback", **request)).status_code == 409
    await client.post(f"{path}/act")
    assert (await client.post(f"{path}/feedback", **request)).json()["applied"] == 1


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
