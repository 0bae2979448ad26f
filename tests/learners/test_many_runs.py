"""Arrays with a leading axis step many runs at once, each as it would be alone, bit for bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from service.learners import REGISTRY
from service.learners.base import ArmLearner, Information, PointLearner, Slot, SlotLearner
from service.learners.base import many as many_runs
from tests.support import vectors

RUNS, SLOTS = 4, 60
ARMS = [spec for spec in vectors.specs() if "dim" not in spec.values[0]]
POINTS = [spec for spec in vectors.specs() if "dim" in spec.values[0]]
WIDE = [pytest.param({"kind": kind, "n_arms": 300}, id=f"{kind}-300") for kind in ("dexp3", "centred_tsallis")]


def settled(learner: ArmLearner[Any], state: Any, arm: Any, loss: Any) -> Any:
    """The loss comes back in its own slot, with the record where one is kept."""
    if isinstance(learner, SlotLearner):
        return learner.settle(state, arm, loss, record=learner.record(state, arm))
    return learner.settle(state, arm, loss)


@pytest.mark.parametrize("spec", ARMS + WIDE)
def test_arms(spec: dict[str, Any]) -> None:
    learner = REGISTRY[spec["kind"]].model_validate(spec).build()
    assert isinstance(learner, ArmLearner)
    rng = np.random.default_rng(1)
    u, v, losses = rng.random((SLOTS, RUNS)), rng.random((SLOTS, RUNS)), rng.random((SLOTS, RUNS))
    many, alone = many_runs(learner.start(), RUNS), [learner.start() for _ in range(RUNS)]

    for t in range(SLOTS):
        slot = Slot(t + 1, t % 3, u[t], v[t])
        many, arms = learner.draw(learner.open(many, slot), slot)
        many = settled(learner, many, arms, losses[t])
        for run in range(RUNS):
            slot = Slot(t + 1, t % 3, float(u[t, run]), float(v[t, run]))
            alone[run], arm = learner.draw(learner.open(alone[run], slot), slot)
            alone[run] = settled(learner, alone[run], arm, float(losses[t, run]))
            assert arm == arms[run]
            np.testing.assert_array_equal(learner.probabilities(many)[run], learner.probabilities(alone[run]))


@pytest.mark.parametrize("spec", POINTS)
def test_points(spec: dict[str, Any]) -> None:
    learner = REGISTRY[spec["kind"]].model_validate(spec).build()
    assert isinstance(learner, PointLearner)
    rng = np.random.default_rng(2)
    length = learner.dim + (learner.information is Information.LOSSES)
    v, values = rng.random((SLOTS, RUNS)), rng.normal(size=(SLOTS, RUNS, length))
    many, alone = many_runs(learner.start(), RUNS), [learner.start() for _ in range(RUNS)]

    for t in range(SLOTS):
        many = learner.settle(learner.open(many, Slot(t + 1, 0, 0.0, v[t])), values[t], t % 3)
        for run in range(RUNS):
            alone[run] = learner.open(alone[run], Slot(t + 1, 0, 0.0, float(v[t, run])))
            alone[run] = learner.settle(alone[run], values[t, run], t % 3)
            np.testing.assert_array_equal(learner.x(many)[run], learner.x(alone[run]))
