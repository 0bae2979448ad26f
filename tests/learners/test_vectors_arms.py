"""Learners over arms reproduce their hand-derived and recorded traces."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from service.learners import REGISTRY
from service.learners.base import ArmLearner, Slot, draw
from tests.support import vectors

THEOREMS = [
    pytest.param(case, id=f"{kind}-{index}")
    for kind in vectors.kinds()
    for index, case in enumerate(vectors.load(kind).get("theorem", []))
]


NEXT = Slot(10_000, 0, 0.5)


def check_fields(expected: dict[str, Any], state: Any, tolerance: float) -> None:
    for name, value in expected.items():
        close(value, getattr(state, name), tolerance)


def close(expected: Any, actual: Any, tolerance: float) -> None:
    np.testing.assert_allclose(actual, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("trace", vectors.all_traces("n_arms"))
def test_learner_follows_its_trace(trace: dict[str, Any]) -> None:
    learner = vectors.build(trace)
    assert isinstance(learner, ArmLearner)
    tolerance, state = trace["tolerance"], None

    for what, row, state, arm in vectors.arm_moments(learner, trace):
        if what == "open":
            close(vectors.numbers(row["p"]), learner.distribution(state), tolerance)
            assert arm == row.get("arm", arm)
            for name, rate in row.get("rates", {}).items():
                close(rate, learner.rates(state)[name], tolerance)
            check_fields(row.get("state", {}), state, tolerance)
        elif what == "event" and "p" in row:
            close(vectors.numbers(row["p"]), learner.probabilities(state), tolerance)
        elif what == "end":
            check_fields(row.get("end", {}), state, tolerance)

    if "p_end" in trace:
        close(vectors.numbers(trace["p_end"]), learner.probabilities(state), tolerance)
    if "p_next" in trace:
        close(trace["p_next"], learner.distribution(learner.open(state, NEXT)), tolerance)


@pytest.mark.parametrize("case", THEOREMS)
def test_theorem_rates(case: dict[str, Any]) -> None:
    learner = REGISTRY[case["spec"]["kind"]].model_validate(case["spec"]).build()

    rates = learner.rates(learner.start())

    assert rates["rates"] == "theorem"
    for name, rate in case["rates"].items():
        close(rate, rates[name], 1e-12)


@pytest.mark.parametrize("case", vectors.load("draw")["cases"], ids=str)
def test_draw_is_the_inverse_of_the_cumulative_sum(case: dict[str, Any]) -> None:
    p = np.array(case["p"])

    assert draw(p, case["u"]) == case["arm"]
    assert draw(np.stack([p, p]), np.full(2, case["u"])).tolist() == [case["arm"]] * 2


def test_draw_takes_the_last_live_arm_where_rounding_leaves_none() -> None:
    p = np.array([0.1] * 10 + [0.0])
    u = 1 - 2**-53
    assert p.cumsum()[-1] <= u

    assert draw(p, u) == 9
    assert draw(p[None], np.array([u])).tolist() == [9]
