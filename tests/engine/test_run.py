"""A run opens slots, draws by slot, tells surplus and never changes an earlier moment."""

from copy import deepcopy

import numpy as np
import pytest

from service.engine.ledger import ArmFeedback, Draws, PointAction, PointFeedback
from tests.support.runs import act, start

ARMS = {"kind": "dexp3", "n_arms": 3}
POINTS = {"kind": "dbgd", "dim": 2, "feasible_set": {"kind": "ball", "radius": 1.0}}


def test_the_arm_of_a_slot_depends_on_seed_and_slot_alone() -> None:
    run = start({"kind": "dexp3", "n_arms": 4}, seed=42)

    for t in range(1, 600):
        assert act(run)[:4] == (t, int(Draws(42).uniform(t) * 4), 0.25, 4)


def test_acts_in_one_call_are_acts_in_a_row() -> None:
    """Whatever is done with copies between them, the numbers stay the same."""
    together, one_by_one = start(ARMS), start(ARMS)
    actions = [act(together) for _ in range(20)]

    for action in actions:
        one_by_one = one_by_one.copy()
        assert act(one_by_one) == action
        one_by_one.copy().settle(ArmFeedback(action.arm, 1.0))

    for action in actions:
        together.settle(ArmFeedback(action.arm, 0.7))
        one_by_one.settle(ArmFeedback(action.arm, 0.7))
    np.testing.assert_array_equal(together.probabilities, one_by_one.probabilities)


def test_copies_leave_the_run_as_it_was() -> None:
    run = start(ARMS)
    arm = act(run).arm
    before = run.probabilities.copy(), deepcopy(run.ledger)

    copy = run.copy()
    copy.settle(ArmFeedback(arm, 1.0))
    copy.act()

    np.testing.assert_array_equal(run.probabilities, before[0])
    assert run.ledger.by_arm.tolist() == before[1].by_arm.tolist()
    assert (run.ledger.slot, run.ledger.outstanding) == (before[1].slot, before[1].outstanding)
    assert not np.array_equal(copy.probabilities, before[0])


@pytest.mark.parametrize("rates", [{}, {"learning_rate": 1e12, "loss_clip": 1e12, "probability_floor": 1e-12}])
def test_one_arm_is_always_played(rates: dict[str, float]) -> None:
    run = start({"kind": "dexp3", "n_arms": 1} | rates)

    for t in range(1, 101):
        assert act(run)[:4] == (t, 0, 1.0, 1)
        run.settle(ArmFeedback(0, 1.0))
        assert run.probabilities.tolist() == [1.0]


@pytest.mark.parametrize("rate", [1e-12, 1.0, 1e12])
def test_extreme_rates_keep_probabilities_sound(rate: float) -> None:
    """The sum may err by 1e-12; a step of 1e-12 is lost in rounding only below 1e-16 of a probability."""
    rates = {"learning_rate": rate, "loss_clip": rate, "probability_floor": min(rate, 1.0)}
    run = start({"kind": "dexp3", "n_arms": 5} | rates)

    for _ in range(200):
        run.settle(ArmFeedback(act(run).arm, 1.0))
        assert np.isfinite(run.probabilities).all()
        assert (run.probabilities > 0).all()
        assert abs(run.probabilities.sum() - 1) <= 1e-12


def test_one_dimension_has_one_query_point() -> None:
    run = start(POINTS | {"dim": 1})
    for _ in range(50):
        action = run.act()
        assert isinstance(action, PointAction)
        assert action.query_points is not None
        run.settle(PointFeedback(np.square(np.vstack([action.x, action.query_points])[:, 0] - 0.3)))

    assert run.act().x == pytest.approx([0.3], abs=0.05)  # type: ignore[union-attr]
