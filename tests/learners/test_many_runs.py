"""Arrays with a leading axis step many runs at once, each as it would be alone, bit for bit."""

import numpy as np
import pytest

from service.learners import REGISTRY
from service.learners.base import ArmLearner, Information, PointLearner, Slot
from service.learners.base import many as many_runs
from tests.support import vectors

RUNS, SLOTS = 4, 80
FIELDS, ELIGIBLE = vectors.over_arms(), vectors.with_eligible_arms()
ARMS = [spec for spec in vectors.specs() if "dim" not in spec.values[0]]
POINTS = [spec for spec in vectors.specs() if "dim" in spec.values[0]]
WIDE = [pytest.param({"kind": kind, "n_arms": 300}, id=f"{kind}-300") for kind in ("dexp3", "centred_tsallis")]


@pytest.mark.parametrize(
    ("spec", "floor"),
    [pytest.param(*each.values, None, id=each.id) for each in ARMS + WIDE]
    + [({"kind": kind, "n_arms": 7} | FIELDS[kind], floor) for kind in ELIGIBLE for floor in (0.0, 0.25)],
)
def test_arms(spec, floor):
    """With a floor, slots have eligible arms, the same in all runs, and one run learns nothing for long."""
    learner = REGISTRY[spec["kind"]].model_validate(spec).build()
    assert isinstance(learner, ArmLearner)
    rng, eligible = np.random.default_rng(1), None
    u, v, losses = rng.random((SLOTS, RUNS)), rng.random((SLOTS, RUNS)), rng.random((SLOTS, RUNS))
    losses[:, 0] = losses[:, 0] if floor is None else 0.5
    many, alone = many_runs(learner.start(), RUNS), [learner.start() for _ in range(RUNS)]

    for t in range(SLOTS):
        if floor is not None:
            eligible = np.sort(rng.choice(7, int(rng.integers(1, 8)), replace=False))
        slot = Slot(t + 1, t % 3, u[t], v[t], eligible, floor or 0.0)
        many, arms = learner.draw(learner.open(many, slot), slot)
        drawn = learner.distribution(many)
        many = vectors.settled(learner, many, arms, losses[t])
        shown = learner.probabilities(many, eligible, floor or 0.0)
        for run in range(RUNS):
            slot = slot._replace(u=float(u[t, run]), v=float(v[t, run]))
            alone[run], arm = learner.draw(learner.open(alone[run], slot), slot)
            assert arm == arms[run]
            np.testing.assert_array_equal(drawn[run], learner.distribution(alone[run]))
            alone[run] = vectors.settled(learner, alone[run], arm, float(losses[t, run]))
            np.testing.assert_array_equal(shown[run], learner.probabilities(alone[run], eligible, floor or 0.0))


@pytest.mark.parametrize("spec", POINTS)
def test_points(spec):
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
