"""What is told of events and sessions that do not fit: which event, which field, and what it should be."""

import pytest

from tests.support.one_session import view

ARMS = {"kind": "dexp3", "n_arms": 3}


BALL = {"kind": "dbgd", "dim": 2, "feasible_set": {"kind": "ball", "radius": 1.0}}


FLAT = {"kind": "box", "lower": [0, 0], "upper": [0, 1]}


FIXED = {"kind": "fixed", "n_arms": 2}


TSALLIS = {"kind": "multiscale_tsallis", "n_arms": 2}


OUTCOMES = "Field required: loss, reward in a session with reward_range, or goal; over points losses or gradient"


EXP3 = {"kind": "exp3", "n_arms": 2, "learning_rate": 0.1}


NO_RANGE = "a session with loss_range takes default_loss; for rewards give reward_range"


PAY = {"after_seconds": 60}
EXTRA = "Extra inputs are not permitted"
BESIDE = "stands beside another outcome: an event has one of losses, gradient, goal, reward, void, loss"
NO_INDEX = "Input should be a valid integer, the index of an arm; or use label"


async def refused(client, path, body):
    answer = await client.post(path, json=body)
    assert answer.status_code == 422, answer.text
    told = answer.json()
    return [(each["index"], each["field"], each["message"]) for each in told["errors"]], told["detail"]


@pytest.mark.parametrize(
    ("event", "field", "message"),
    [
        *((event, "events[1]", "must be a JSON object") for event in (1, None, [])),
        ({}, "loss", OUTCOMES),
        ({"loss": "x", "arm": 0}, "loss", "Input should be a valid number"),
        ({"loss": 0.5, "arm": "juice"}, "arm", NO_INDEX),
        ({"loss": 0.5, "arm": 0, "event_id": "é"}, "event_id", "must be printable ASCII"),
        ({"losses": [1, "x"]}, "losses.1", "Input should be a valid number"),
        ({"gradient": 1}, "gradient", "Input should be a valid list"),
        *(({"loss": 0.5, "arm": 0, field: 1}, field, EXTRA) for field in ("odd", "ArmEvent", "dexp3")),
        ({"losses": [1.0], "gradient": [1.0]}, "gradient", BESIDE),
        ({"arm": 0, "reward": 1, "goal": "sale"}, "reward", BESIDE),
        ({"arm": 0, "loss": 1, "void": True}, "loss", BESIDE),
    ],
)
async def test_a_wrong_event_is_told_by_its_place_and_its_field(client, create, event, field, message):
    path = await create()

    errors, detail = await refused(client, f"{path}/feedbacks", {"events": [{"arm": 0, "loss": 0.5}, event]})

    assert errors == [(1, field, message)]
    assert detail == f"{field if field == 'events[1]' else f'events[1].{field}'}: {message}"
    if isinstance(event, dict):
        assert await refused(client, f"{path}/feedback", event) == ([(None, field, message)], f"{field}: {message}")


@pytest.mark.parametrize(
    ("body", "field", "message"),
    [
        ({}, "learner", "Field required"),
        ({"learner": 1}, "learner", "must be a JSON object"),
        ({"learner": {}}, "learner.kind", "Field required"),
        ({"learner": ARMS, "session_id": "hunter2 "}, "session_id", "must be 1 to 128 letters (A-Z, a-z), digits"),
        ({"learner": ARMS | {"kind": "hunter2"}}, "learner.kind", "must be one of 'dexp3', 'dbgd', "),
        ({"learner": ARMS | {"n_arms": 0}}, "learner.n_arms", "Input should be greater than or equal to 1"),
        ({"learner": ARMS | {"dexp3": 0}}, "learner.dexp3", EXTRA),
        *(({"learner": ARMS, field: 0}, field, EXTRA) for field in ("dexp3", "ArmEvent")),
        ({"learner": ARMS, "loss_range": [0, "x"]}, "loss_range.1", "Input should be a valid number"),
        ({"learner": ARMS, "loss_range": [0, 0]}, "loss_range", "loss_range needs two different numbers"),
        ({"learner": ARMS | {"arms": ["a"]}}, "learner.arms", "give either n_arms or arms"),
        ({"learner": ARMS | {"horizon": 5}}, "learner.horizon", "give learning_rate, loss_clip"),
        ({"learner": EXP3 | {"horizon": 5}}, "learner.learning_rate", "give learning_rate, or horizon, not both"),
        ({"learner": ARMS | {"rate_scale": 2}}, "learner.rate_scale", "rate_scale multiplies"),
        ({"learner": BALL | {"feasible_set": FLAT}}, "learner.feasible_set.upper.0", "lower must be below upper"),
        ({"learner": BALL | {"perturbation": 2}}, "learner.perturbation", "perturbation must be smaller"),
        ({"learner": FIXED | {"probabilities": [1, 1]}}, "learner.probabilities", "probabilities must sum to 1"),
        ({"learner": ARMS, "reward_range": [0, 1], "loss_range": [0, 2]}, "loss_range", "give either loss_range"),
        ({"learner": ARMS, "expiry": PAY | {"default_reward": 1}}, "expiry.default_reward", NO_RANGE),
        ({"learner": ARMS, "expiry": PAY | {"default_loss": 2}}, "expiry.default_loss", "loss must lie in"),
        ({"learner": TSALLIS, "initial": [{"acts": 1, "mean_loss": 0.2}]}, "initial.0.arm", "give either arm"),
        ({"learner": TSALLIS, "initial": [{"arm": 1, "acts": 1}]}, "initial.0.mean_loss", "give mean_loss"),
        ({"learner": BALL | {"feasible_set": 1}}, "learner.feasible_set", "must be a JSON object"),
        ({"learner": BALL | {"feasible_set": {}}}, "learner.feasible_set.kind", "Field required"),
        *(
            (
                {"learner": BALL | {"feasible_set": BALL["feasible_set"] | more}},
                f"learner.feasible_set.{field}",
                told,
            )
            for more, field, told in (
                ({"kind": "cube"}, "kind", "must be one of 'ball', 'box', 'simplex'"),
                ({"radius": "x"}, "radius", "Input should be a valid number"),
                ({"ball": 1}, "ball", EXTRA),
            )
        ),
    ],
)
async def test_a_wrong_session_is_told_by_its_field(client, body, field, message):
    ((index, named, told),), detail = await refused(client, "/v1/sessions", body)

    assert (index, named) == (None, field)
    assert told.startswith(message)
    assert detail.startswith(f"{field}: {message}")
    assert "hunter2" not in detail + told


async def test_an_event_with_a_misspelt_outcome_is_told_both_words_and_its_own(client, create):
    errors, detail = await refused(client, f"{await create()}/feedback", {"arm": 0, "rewards": 1})

    assert errors == [(None, "loss", OUTCOMES), (None, "rewards", EXTRA)]
    assert detail == f"loss: {OUTCOMES}"


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("{'hunter2': 1}", "not valid JSON: line 1, column 2; names and texts stand in double quotes"),
        ('{"arm":\n hunter2}', "not valid JSON: line 2, column 2; names and texts stand in double quotes"),
        (b'{"hunter2": "\xff"}', "not valid JSON: byte 13 is not UTF-8"),
        ('[{"arm": 0, "loss": 0.5}]', 'a JSON object; post a list of events to /feedbacks as {"events": [...]}'),
        ("[1]", "a JSON object"),
    ],
)
async def test_what_is_no_json_object_is_told_by_its_place_without_its_text(client, create, content, says):
    headers = {"Content-Type": "application/json"}
    answer = await client.post(f"{await create()}/feedbacks", content=content, headers=headers)

    assert answer.status_code == 422
    assert answer.json()["detail"].endswith(says)
    assert "hunter2" not in answer.text


async def test_a_refused_batch_applies_nothing_and_names_the_event(client, create):
    path = await create(learner={"kind": "dexp3", "n_arms": 1})
    await client.post(f"{path}/acts", json={"count": 100})
    events = [{"arm": 0, "loss": 0.5, "event_id": str(number)} for number in range(100)]
    bad = [*events[:57], events[57] | {"loss": 1.7}, *events[58:]]

    refused = await client.post(f"{path}/feedbacks", json={"events": bad})
    assert (refused.status_code, refused.json()["indexes"]) == (422, [57])
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
        *(({"arm": arm, "loss": 0.5}, "arm") for arm in (3, -1, 0.5, "1", True)),
        ({"loss": 0.5}, "arm"),
        ({"arm": 0}, "loss"),
        *(({"arm": 0, "loss": loss}, "loss") for loss in ("0.5", True, {"loss": 0.5})),
        ({"arm": 0, "reward": 0.5}, "reward"),
        *(({"arm": 0, "loss": 0.5, field: 0}, field) for field in ("los", "sentAt")),
        ({"arm": 0, "label": "a", "loss": 0.5}, "label"),
        ({"label": "a", "loss": 0.5}, "label"),
        *(({"arm": 0, "loss": 0.5, "slot": slot}, "slot") for slot in (0, 2**53, 10**30)),
        *(({"arm": 0, "loss": 0.5, "event_id": event_id}, "event_id") for event_id in ("", "x" * 129, "\u00e9")),
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
