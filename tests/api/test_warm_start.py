"""Sessions that begin with means of arms."""

from __future__ import annotations

import numpy as np
import pytest

from service.learners.base import InitialArm
from service.learners.centred_tsallis import CentredTsallisSpec
from service.learners.multiscale_tsallis import MultiscaleTsallisSpec

LEARNER = {"kind": "centred_tsallis", "arms": ["a", "b", "c", "d"]}
INITIAL = [{"label": "b", "acts": 30, "mean_loss": 0.2}, {"arm": 0, "acts": 10, "mean_loss": 0.6}]
ARMS = [InitialArm(1, 30, 0.2), InitialArm(0, 10, 0.6)]


def test_the_state_is_that_of_the_formulas_by_hand():
    """N = 40, b = (6 + 6)/40 = 0.3, N/K = 10; S before its least: 40 (.3) 10/20 = 6, 40 (-.1) 30/40 = -3, 0, 0."""
    learner = CentredTsallisSpec(n_arms=4).build()
    state = learner.warmed(learner.start(), ARMS)

    assert (state.t, state.events) == (40, 40)
    numbers = (state.mean, state.variance_sum, state.variance_max)
    assert numbers == pytest.approx((0.3, 8.4, 0.49))
    np.testing.assert_allclose(state.sums, [9, 0, 3, 3])


def test_experts_with_a_short_memory_remember_so_many_acts():
    learner = MultiscaleTsallisSpec(n_arms=4).build()
    state = learner.warmed(learner.start(), [InitialArm(1, 3000, 0.2), InitialArm(0, 1000, 0.6)])

    assert state.deviation_sum == pytest.approx(2 * 4000 * 0.3 * 0.7)
    for sums, memory in zip(state.sums, (4000, 4000, 4000, 1000, 4000), strict=True):
        np.testing.assert_allclose(sums, np.array([9, 0, 3, 3]) * memory / 40)


@pytest.mark.parametrize("kind", ["centred_tsallis", "multiscale_tsallis"])
async def test_the_first_act_knows_and_no_count_does(client, kind):
    body = {"session_id": "s", "learner": LEARNER | {"kind": kind}, "seed": 1, "initial": INITIAL}
    assert (await client.post("/v1/sessions", json=body)).status_code == 201
    await client.post("/v1/sessions/s/act")
    view = (await client.get("/v1/sessions/s")).json()

    assert np.argmax(view["probabilities"]) == 1
    assert np.argmin(view["probabilities"]) == 0
    assert (view["slot"], view["feedbacks"], view["mean_loss"]) == (1, 0, None)
    assert (await client.post("/v1/sessions", json=body)).status_code == 200
    assert (await client.post("/v1/sessions", json=body | {"initial": None})).status_code == 409


async def test_rewards_begin_with_mean_rewards(client):
    initial = [{"arm": 1, "acts": 30, "mean_reward": 0.8}, {"arm": 0, "acts": 10, "mean_reward": 0.4}]
    for name, fields in (("r", {"reward_range": [0, 1], "initial": initial}), ("l", {"initial": INITIAL})):
        body = {"session_id": name, "learner": LEARNER, "seed": 1} | fields
        assert (await client.post("/v1/sessions", json=body)).status_code == 201
    actions = [(await client.post(f"/v1/sessions/{name}/act")).json() for name in "rl"]

    assert actions[0]["probability"] == pytest.approx(actions[1]["probability"])


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"initial": [INITIAL[0], {"arm": 1, "acts": 1, "mean_loss": 0}]}, "each arm once"),
        ({"initial": [{"arm": 1, "acts": 0, "mean_loss": 0}]}, "acts"),
        ({"initial": [{"arm": 1, "acts": 1, "mean_reward": 0}]}, "mean_loss"),
        ({"initial": [{"arm": 1, "acts": 1}]}, "mean_loss"),
        ({"initial": [{"arm": 4, "acts": 1, "mean_loss": 0}]}, "no such arm"),
        ({"initial": [{"label": "x", "acts": 1, "mean_loss": 0}]}, "no such arm"),
        ({"initial": [{"arm": 1, "label": "b", "acts": 1, "mean_loss": 0}]}, "either arm or label"),
        ({"initial": [{"arm": 1, "acts": 1, "mean_loss": 2}]}, "loss must lie"),
        ({"initial": [{"arm": k, "acts": 6e8, "mean_loss": 0} for k in (0, 1)]}, "1000000000 acts"),
        ({"initial": []}, "initial"),
        ({"initial": INITIAL, "normalize_losses": False}, "normalize_losses"),
        ({"initial": INITIAL, "learner": {"kind": "dexp3", "arms": ["a", "b"]}}, "Tsallis"),
    ],
)
async def test_what_does_not_fit_is_refused(client, fields, named):
    response = await client.post("/v1/sessions", json={"learner": LEARNER} | fields)

    assert response.status_code == 422
    assert named in response.json()["detail"]
