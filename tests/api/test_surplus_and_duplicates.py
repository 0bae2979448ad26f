"""Feedback that fits no decision any more: surplus events, and event ids that have counted."""

from tests.support.one_session import view


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
