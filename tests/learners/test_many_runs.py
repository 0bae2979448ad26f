"""Arrays with a leading axis step many runs at once, each as it would be alone, bit for bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from service.learners import REGISTRY
from service.learners.base import ArmLearner, PointLearner, Slot

RUNS, SLOTS = 4, 40
ARMS: list[dict[str, Any]] = [
    {"kind": "dexp3", "n_arms": 3},
    {"kind": "dexp3", "n_arms": 130, "learning_rate": 0.3, "loss_clip": 5.0, "probability_floor": 0.01},
]
POINTS: list[dict[str, Any]] = [
    {"kind": "dbgd", "dim": 3, "feasible_set": {"kind": "simplex"}},
    {"kind": "dbgd", "dim": 20, "feasible_set": {"kind": "ball", "radius": 1.0}, "horizon": 50, "total_delay": 9},
]


def stacked(state: Any) -> Any:
    """The state of many runs at their start: arrays gain a leading axis, numbers are shared."""
    arrays = [np.repeat(part[None], RUNS, axis=0) if isinstance(part, np.ndarray) else part for part in state]
    return type(state)(*arrays)


@pytest.mark.parametrize("spec", ARMS, ids=str)
def test_arms(spec: dict[str, Any]) -> None:
    learner = REGISTRY[spec["kind"]].model_validate(spec).build()
    assert isinstance(learner, ArmLearner)
    rng = np.random.default_rng(1)
    u, v, losses = rng.random((SLOTS, RUNS)), rng.random((SLOTS, RUNS)), rng.random((SLOTS, RUNS))
    many, alone = stacked(learner.start()), [learner.start() for _ in range(RUNS)]

    for t in range(SLOTS):
        slot = Slot(t + 1, t % 3, u[t], v[t])
        many, arms = learner.draw(learner.open(many, slot), slot)
        many = learner.settle(many, arms, losses[t])
        for run in range(RUNS):
            slot = Slot(t + 1, t % 3, float(u[t, run]), float(v[t, run]))
            alone[run], arm = learner.draw(learner.open(alone[run], slot), slot)
            alone[run] = learner.settle(alone[run], arm, float(losses[t, run]))
            assert arm == arms[run]
            np.testing.assert_array_equal(learner.probabilities(many)[run], learner.probabilities(alone[run]))


@pytest.mark.parametrize("spec", POINTS, ids=str)
def test_points(spec: dict[str, Any]) -> None:
    learner = REGISTRY[spec["kind"]].model_validate(spec).build()
    assert isinstance(learner, PointLearner)
    rng = np.random.default_rng(2)
    values = rng.normal(size=(SLOTS, RUNS, learner.dim + 1))
    many, alone = stacked(learner.start()), [learner.start() for _ in range(RUNS)]

    for t in range(SLOTS):
        many = learner.settle(learner.open(many, Slot(t + 1, 0, 0.0)), values[t], t % 3)
        for run in range(RUNS):
            alone[run] = learner.open(alone[run], Slot(t + 1, 0, 0.0))
            alone[run] = learner.settle(alone[run], values[t, run], t % 3)
            np.testing.assert_array_equal(learner.x(many)[run], learner.x(alone[run]))
