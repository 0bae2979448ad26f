"""Learners reproduce their hand-derived and recorded traces, theorems' rates, and draws."""

import numpy as np
import pytest

from service.learners import REGISTRY
from service.learners.base import ArmLearner, PointLearner, Record, Slot, SlotLearner, draw
from tests.support import vectors

STORED = [(kind, enumerate(vectors.load(kind).get("theorem", []))) for kind in vectors.kinds()]
THEOREMS = [pytest.param(case, id=f"{kind}-{index}") for kind, cases in STORED for index, case in cases]


NEXT = Slot(10_000, 0, 0.5)


def close(expected, actual, tolerance):
    np.testing.assert_allclose(actual, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("trace", vectors.all_traces("n_arms"))
def test_learner_follows_its_trace(trace):
    learner = vectors.build(trace)
    assert isinstance(learner, ArmLearner)
    tolerance, state = trace["tolerance"], None

    for what, row, state, arm in vectors.arm_moments(learner, trace):
        if what == "open":
            close(vectors.numbers(row["p"]), learner.distribution(state), tolerance)
            assert arm == row.get("arm", arm)
            for name, rate in row.get("rates", {}).items():
                close(rate, learner.rates(state)[name], tolerance)
        elif what == "event" and "p" in row:
            close(vectors.numbers(row["p"]), learner.probabilities(state), tolerance)
        for name, value in row.get({"open": "state"}.get(what, what), {}).items() if what != "event" else ():
            close(value, getattr(state, name), tolerance)

    if "p_end" in trace:
        close(vectors.numbers(trace["p_end"]), learner.probabilities(state), tolerance)
    if "p_next" in trace:
        close(trace["p_next"], learner.distribution(learner.open(state, NEXT)), tolerance)


@pytest.mark.parametrize("trace", vectors.traces_of("arms") + vectors.traces_of("eligible"))
def test_learner_follows_its_trace_of_changed_or_eligible_arms(trace):
    learner = vectors.build(trace)
    assert isinstance(learner, ArmLearner)
    state, records, where = vectors.start_of(learner, trace), dict[int, Record](), vectors.positions

    for step in trace["steps"]:
        floor = step.get("floor", 0.0)
        if "open" in step:
            now = step["open"], step.get("outstanding", 0), step.get("u", 0.0), 0.0
            slot = Slot(*now, where(step.get("eligible")), floor)
            state, arm = learner.draw(learner.open(state, slot), slot)
            assert arm == step.get("arm", arm)
            records[slot.t] = learner.record(state, arm) if isinstance(learner, SlotLearner) else ()
        elif "event" in step:
            kept = {"record": records[step["slot"]]} if "slot" in step else {}
            state = learner.settle(state, step["event"], vectors.number(step["loss"]), **kept)
        elif "add" in step:
            state = learner.add_arms(state, step["add"])
        elif "remove" in step:
            state = learner.remove_arms(state, np.array(step["remove"]))
        if "p" in step:
            shown = learner.probabilities(state, where(step.get("show")), floor)
            p = learner.distribution(state) if "open" in step else shown
            np.testing.assert_allclose(p, vectors.numbers(step["p"]), rtol=trace["tolerance"])
        for name, expected in step.get("state", {}).items():
            values = vectors.numbers(expected) if isinstance(expected, list) else expected
            np.testing.assert_allclose(getattr(state, name), values, rtol=trace["tolerance"], atol=1e-15)


@pytest.mark.parametrize("case", THEOREMS)
def test_theorem_rates(case):
    learner = REGISTRY[case["spec"]["kind"]].model_validate(case["spec"]).build()

    rates = learner.rates(learner.start())

    assert rates["rates"] == "theorem"
    for name, rate in case["rates"].items():
        close(rate, rates[name], 1e-12)


@pytest.mark.parametrize("case", vectors.load("draw")["cases"], ids=str)
def test_draw_is_the_inverse_of_the_cumulative_sum(case):
    p = np.array(case["p"])

    assert draw(p, case["u"]) == case["arm"]
    assert draw(np.stack([p, p]), np.full(2, case["u"])).tolist() == [case["arm"]] * 2


def test_draw_takes_the_last_live_arm_where_rounding_leaves_none():
    p = np.array([0.1] * 10 + [0.0])
    u = 1 - 2**-53
    assert p.cumsum()[-1] <= u

    assert (draw(p, u), draw(p[None], np.array([u])).tolist()) == (9, [9])


@pytest.mark.parametrize("trace", vectors.all_traces("dim"))
def test_learner_over_points_follows_its_trace(trace):
    learner = vectors.build(trace)
    assert isinstance(learner, PointLearner)
    tolerance, state = trace["tolerance"], None

    for what, row, state, _ in vectors.point_moments(learner, trace):
        if what != "end" and "x" in row:
            np.testing.assert_allclose(learner.x(state), row["x"], rtol=0, atol=tolerance)
        for name, value in row.get("state", {}).items() if what == "event" else ():
            assert getattr(state, name) == pytest.approx(value, rel=tolerance)

    np.testing.assert_allclose(learner.x(state), trace["x_end"], rtol=0, atol=tolerance)
