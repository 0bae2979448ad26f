"""Events that are refused: outside the range of losses, or with a field that is wrong."""

import pytest

from tests.support.one_session import view


async def test_a_thousand_wrong_events_are_named_however_much_is_wrong_in_each(client, create):
    path = await create()
    events = [{"arm": -1, "slot": 0, "kind": "click", "at": "now"}] * 1500
    refused = await client.post(f"{path}/feedbacks", json={"events": events})

    assert refused.json()["indexes"] == list(range(1000))


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
