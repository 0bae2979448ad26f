"""Sessions that make no sense are refused with the field."""

import pytest

from tests.support.bodies import ARMS, BALL


@pytest.mark.parametrize(
    "session_id",
    ["", " s", "s ", "-s", "caf\u00e9", "a/b", "s\n", "s\u0000", "\u202es", "x" * 129, "\U0001f600", 5, True],
)
async def test_ids_outside_the_pattern_are_refused(client, session_id):
    response = await client.post("/v1/sessions", json={"session_id": session_id, "learner": ARMS})

    assert (response.status_code, response.json()["code"]) == (422, "invalid_request")
    assert response.json()["errors"][0]["field"] == "session_id"


@pytest.mark.parametrize(
    ("learner", "field"),
    [
        ({"kind": "dexp3"}, "learner"),
        ({"kind": "dexp3", "n_arms": 0}, "n_arms"),
        ({"kind": "dexp3", "n_arms": -3}, "n_arms"),
        ({"kind": "dexp3", "n_arms": 100_001}, "n_arms"),
        ({"kind": "dexp3", "n_arms": 10**30}, "n_arms"),
        ({"kind": "dexp3", "n_arms": "3"}, "n_arms"),
        ({"kind": "dexp3", "n_arms": True}, "n_arms"),
        ({"kind": "dexp3", "n_arms": 3.5}, "n_arms"),
        ({"kind": "dexp3", "n_arms": 3, "arms": ["a"]}, "learner"),
        ({"kind": "dexp3", "arms": []}, "arms"),
        ({"kind": "dexp3", "arms": ["a", "a"]}, "learner"),
        ({"kind": "dexp3", "arms": ["1", 1]}, "arms"),
        ({"kind": "dexp3", "arms": ["x" * 129]}, "arms"),
        ({"kind": "dexp3", "arms": ["a\u0000"]}, "learner"),
        ({"kind": "dexp3", "n_arms": 3, "gama": 0.5}, "gama"),
        ({"kind": "dexp3", "n_arms": 3, "learning_rate": 0.1}, "learner"),
        ({"kind": "dexp3", "n_arms": 3, "horizon": 100}, "learner"),
        ({"kind": "dexp3", "n_arms": 3, "horizon": 0, "max_delay": 1, "total_delay": 1}, "horizon"),
        ({"kind": "dexp3", "n_arms": 3, "horizon": 2, "max_delay": 3, "total_delay": 4}, "learner"),
        (
            {"kind": "dexp3", "n_arms": 3, "learning_rate": 0, "loss_clip": 1, "probability_floor": 0.1},
            "learning_rate",
        ),
        (
            {"kind": "dexp3", "n_arms": 3, "learning_rate": -1, "loss_clip": 1, "probability_floor": 0.1},
            "learning_rate",
        ),
        (
            {"kind": "dexp3", "n_arms": 3, "learning_rate": 1e308, "loss_clip": 1, "probability_floor": 0.1},
            "learning_rate",
        ),
        (
            {"kind": "dexp3", "n_arms": 3, "learning_rate": 0.1, "loss_clip": 1, "probability_floor": 1.5},
            "probability_floor",
        ),
        (BALL | {"dim": 1001}, "dim"),
        (BALL | {"feasible_set": {"kind": "ball", "radius": 0}}, "radius"),
        (BALL | {"learning_rate": 0.1, "perturbation": 1.0}, "learner"),
        ({"kind": "nonsense", "n_arms": 3}, "learner"),
        (5, "learner"),
    ],
)
async def test_learners_that_make_no_sense_are_refused_with_the_field(client, learner, field):
    response = await client.post("/v1/sessions", json={"learner": learner})

    body = response.json()
    assert (response.status_code, body["code"]) == (422, "invalid_request")
    assert field in " ".join(error["field"] for error in body["errors"]) + body["detail"]


@pytest.mark.parametrize(
    "fields",
    [
        {"loss_range": [0, 0]},
        {"loss_range": [0]},
        {"loss_range": [0, 1, 2]},
        {"loss_range": ["0", 1]},
        {"loss_range": [-1.7e308, 1.7e308]},
        {"seed": -1},
        {"seed": 2**63},
        {"seed": 1.5},
        {"idle_ttl_seconds": 0},
        {"normalize_losses": 1},
        {"unknown": 1},
    ],
)
async def test_session_fields_that_make_no_sense_are_refused(client, fields):
    response = await client.post("/v1/sessions", json={"learner": ARMS} | fields)

    assert (response.status_code, response.json()["code"]) == (422, "invalid_request")
