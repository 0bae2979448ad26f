"""The baselines: rates, schedules, numbers by hand, and that no number breaks them."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from service.engine.ledger import ArmAction, ArmFeedback, Params, PointFeedback
from service.engine.run import start_run
from service.learners import REGISTRY
from service.learners.base import Slot, SlotLearner
from service.learners.maths import Schedule
from service.learners.specs import ArmsSpec, RatedSpec
from service.learners.tsallis import joined, probabilities, without
from service.learners.tsallis_delayed import solve_hybrid
from tests.support.examples import examples
from tests.support.feasible_sets import contains

BALL = {"dim": 2, "feasible_set": {"kind": "ball", "radius": 1.0}}
ARMS = {"n_arms": 3}
RATES = {"learning_rate": 0.1}
THEOREM = {"horizon": 100, "max_delay": 3, "total_delay": 30}


def needs(spec):
    """Fields that a learner always has, those that give its rates, and those of its theorem."""
    rates = spec.rate_fields
    shape = ARMS if issubclass(spec, ArmsSpec) else BALL
    always = {name for name, field in spec.model_fields.items() if field.is_required()} & THEOREM.keys()
    given = {name: 0.01 if name == "perturbation" else 0.1 for name in rates.given}
    return shape | {name: THEOREM[name] for name in always}, given, {name: THEOREM[name] for name in rates.theorem}


RATED = {kind: spec for kind, spec in REGISTRY.items() if issubclass(spec, RatedSpec)}
NEEDS = {kind: needs(spec) for kind, spec in RATED.items() if not spec.rate_fields.anytime}
"""Learners whose sessions must say where the rates come from."""


def build(kind, fields):
    return REGISTRY[kind].model_validate(fields).build()


@pytest.mark.parametrize("kind", NEEDS)
def test_rates_are_given_or_the_theorems(kind):
    shape, given, theorem = NEEDS[kind]
    for fields, mode in ((given, "given"), (theorem, "theorem")):
        learner = build(kind, shape | fields)
        assert learner.rates(learner.start())["rates"] == mode
    learner = build(kind, shape | given)
    assert given.items() <= learner.rates(learner.start()).items()


@pytest.mark.parametrize("kind", NEEDS)
def test_mixtures_and_nothing_at_all_are_refused(kind):
    shape, given, theorem = NEEDS[kind]
    refused = [given | theorem, {}, given | {"rate_scale": 2.0}, {"rate_scale": 2.0}]
    refused += [{name: value} for name, value in theorem.items() if len(theorem) > 1]
    for fields in refused:
        with pytest.raises(ValidationError, match=r"or give |not both|multiplies"):
            REGISTRY[kind].model_validate(shape | fields)


@pytest.mark.parametrize("kind", NEEDS)
def test_rate_scale_multiplies_the_theorems_rates(kind):
    shape, _, theorem = NEEDS[kind]
    plain = build(kind, shape | theorem)
    scaled = build(kind, shape | theorem | {"rate_scale": 2.0})

    rates, doubled = plain.rates(plain.start()), scaled.rates(scaled.start())
    named = [name for name in ("learning_rate", "perturbation") if name in rates]
    assert named
    for name in named:
        assert doubled[name] == pytest.approx(2 * rates[name], rel=1e-15)


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        ("clw", ARMS | RATES),
        ("clw", ARMS | RATES | {"max_delay": 3, "schedule": "often"}),
        ("clw", ARMS | RATES | {"max_delay": 10_001, "schedule": "random"}),
        ("clw_mbco", BALL | RATES | {"perturbation": 0.01}),
        ("clw_mbco", BALL | RATES | {"perturbation": 1.0, "max_delay": 3}),
        ("mbco", BALL | RATES | {"perturbation": 1.0}),
        ("mbco", BALL | {"horizon": 1}),
        ("exp3", ARMS | RATES | {"max_open_slots": 0}),
        ("ogd", BALL | RATES | {"perturbation": 0.1}),
        ("centred_tsallis", ARMS | RATES),
        ("centred_tsallis", ARMS | {"tracking": 1}),
    ],
    ids=str,
)
def test_nonsense_is_refused(kind, fields):
    with pytest.raises(ValidationError):
        REGISTRY[kind].model_validate(fields)


def test_a_long_delay_costs_blocks_nothing():
    assert build("clw", ARMS | RATES | {"max_delay": 2**53 - 1}).start().sums.shape == (1, 1)


def test_blocks_hold_an_arm_and_learn_from_their_second_half():
    """By hand, d-bar = 2: of four slots only what arrives in slots 3 and 4 counts, (1 + 1 + 1)/2, over p = 1/2."""
    learner = build("clw", {"n_arms": 2, "learning_rate": 0.2, "max_delay": 2})
    state = learner.start()
    for t, (u, arrivals) in enumerate([(0.7, 5), (0.1, 5), (0.2, 1), (0.3, 2)], start=1):
        slot = Slot(t, 0, u)
        state, arm = learner.draw(learner.open(state, slot), slot)
        assert arm == 1
        assert learner.distribution(state).tolist() == [0.5, 0.5]
        for _ in range(arrivals):
            state = learner.settle(state, 0, 1.0)

    slot = Slot(5, 0, 0.0)
    state, arm = learner.draw(learner.open(state, slot), slot)

    weights = np.exp([0.0, -0.2 * 1.5 / 0.5])
    np.testing.assert_allclose(learner.distribution(state), weights / weights.sum(), rtol=1e-15)
    assert arm == 0


@pytest.mark.slow
def test_random_schedule_updates_as_often_as_expected():
    """200,000 slots; the count of updates lies within 5 standard errors of its mean (false alarm below 1e-6)."""
    schedule, slots = Schedule("random", 3, 1), 200_000
    clock, rng, count = schedule.start(), np.random.default_rng(1), 0
    for t in range(1, slots + 1):
        clock = schedule.open(clock, Slot(t, 0, 0.0, float(rng.random())))
        count += bool(clock.updating)

    expected = schedule.updates(slots)
    assert abs(count - expected) <= 5 * np.sqrt(expected)


@pytest.mark.parametrize("kind", [kind for kind, (shape, *_) in NEEDS.items() if "n_arms" in shape])
@pytest.mark.parametrize("n_arms", [1, 2, 1000])
@pytest.mark.parametrize("rate", [1e-12, 1.0, 1e12])
def test_weights_stay_finite_at_any_rate(kind, n_arms, rate):
    """Losses up to the largest raw one; the sum of p may err by 1e-12."""
    fields = NEEDS[kind][0] | {"kind": kind, "n_arms": n_arms, "learning_rate": rate}
    run = start_run(Params(REGISTRY[kind].model_validate(fields), seed=3))
    waiting = []
    for t in range(300):
        action = run.act()
        assert isinstance(action, ArmAction)
        assert action.probability > 0
        waiting.append(action)
        if t >= 5:
            late = waiting.pop(0)
            run.settle(ArmFeedback(late.arm, 1e100 if t % 50 == 0 else 1.0, late.slot))
        for part in run.state:
            assert np.isfinite(part).all()
        assert abs(run.probabilities.sum() - 1) <= 1e-12


@pytest.mark.parametrize("kind", ["ogd", "solid", "mbco", "clw_mbco"])
def test_points_stay_in_the_set_whatever_comes(kind):
    shape, given, _ = NEEDS[kind]
    run = start_run(Params(REGISTRY[kind].model_validate(shape | given), seed=3))
    length = 2 if kind in ("ogd", "solid") else 3
    rng = np.random.default_rng(8)
    for _ in range(200):
        action = run.act()
        assert contains(run.learner.feasible_set, action.x).all()
        if action.query_points is not None:
            assert contains(run.learner.feasible_set, action.query_points).all()
        run.settle(PointFeedback(rng.normal(size=length) * 10 ** rng.uniform(-5, 300)))


def test_clw_bco_moves_once_a_block():
    """By hand, d-bar = 1: the bundle (0, 1/4, 0) arriving in slot 2 gives g = (1, 0) and a step of 1/2."""
    fields = BALL | {"max_delay": 1, "learning_rate": 0.5, "perturbation": 0.25}
    learner = build("clw_mbco", fields)
    state = learner.open(learner.start(), Slot(1, 0, 0.0))
    state = learner.settle(state, np.array([0.0, 9.0, 9.0]), 0)
    state = learner.open(state, Slot(2, 0, 0.0))
    assert learner.x(state).tolist() == [0.0, 0.0]
    state = learner.settle(state, np.array([0.0, 0.25, 0.0]), 0)

    state = learner.open(state, Slot(3, 0, 0.0))

    assert learner.x(state).tolist() == [-0.5, 0.0]


@settings(max_examples=examples(100), deadline=None, derandomize=True)
@given(
    st.integers(0, 2**32 - 1),
    st.integers(1, 200),
    st.floats(1, 1e4),
    st.sampled_from([0.0, 1e-3, 1.0, 50.0, 1e4]),
    st.sampled_from([0.0, 1.0, 1e4, 1e9]),
)
def test_the_hybrid_minimiser_has_one_multiplier(seed, n_arms, a, b, size):
    """Where p is minimal L_k - A p^(-1/2) + B ln p is the same number for every arm."""
    rng = np.random.default_rng(seed)
    sums = size * rng.random(n_arms)
    sums -= sums.min()

    p = solve_hybrid(sums, a, b)

    multipliers = sums - a / np.sqrt(p) + b * np.log(p)
    assert p.sum() == pytest.approx(1, abs=1e-12)
    np.testing.assert_allclose(multipliers, multipliers[0], rtol=1e-8, atol=1e-8 * (a + b + size))


def test_delayed_tsallis_has_the_rates_of_its_paper():
    """Zimmert and Seldin 2020, simple tuning: sqrt(t), and sqrt(2 D/ln K) D adding up what is outstanding."""
    learner = REGISTRY["tsallis_delayed"].model_validate({"kind": "tsallis_delayed", "n_arms": 4}).build()
    state = learner.start()
    for t, outstanding in enumerate((0, 2, 5), start=1):
        state = learner.open(state, Slot(t, outstanding, 0.5, 0.5))
        state = learner.settle(state, t, 0.8, record=(0.25,))
    p = learner.open(state, Slot(4, 9, 0.5, 0.5)).p

    a, b = math.sqrt(4), math.sqrt(2 * (2 + 5 + 9) / math.log(4))
    multipliers = np.array([0, 3.2, 3.2, 3.2]) - a / np.sqrt(p) + b * np.log(p)
    np.testing.assert_allclose(multipliers, multipliers[0], rtol=1e-9)
    assert p[0] > p[1]


def test_arms_of_tsallis_weights_come_and_go_in_ratio():
    weights = np.array([0.0, -0.5, -3.0, -40.0])
    p = probabilities(weights)

    np.testing.assert_allclose(probabilities(joined(weights, 2)), [*(p * 4 / 6), 1 / 6, 1 / 6], rtol=1e-10)
    left = probabilities(without(weights, np.array([1])))
    np.testing.assert_allclose(left, p[[0, 2, 3]] / (1 - p[1]), rtol=1e-10)


def regret(spec, seed, slots=3000, delay=5):
    """Per slot, with losses 1 at chance .2 or .6 and a constant delay."""
    learner = REGISTRY[spec["kind"]].model_validate(spec | {"n_arms": 5}).build()
    rng, state, waiting, total = np.random.default_rng(seed), learner.start(), [], 0.0
    means = np.where(np.arange(5) == seed % 5, 0.2, 0.6)
    for t in range(1, slots + 1):
        slot = Slot(t, len(waiting), rng.random(), rng.random())
        state, arm = learner.draw(learner.open(state, slot), slot)
        total += float(means[arm] - 0.2)
        kept = {"record": learner.record(state, arm)} if isinstance(learner, SlotLearner) else {}
        waiting.append((arm, float(rng.random() < means[arm]), kept))
        if len(waiting) > delay:
            arm, loss, kept = waiting.pop(0)
            state = learner.settle(state, arm, loss, **kept)
    return total / slots


@pytest.mark.slow
@pytest.mark.parametrize(
    ("spec", "most"),
    [
        ({"kind": "batched_exp3", "max_delay": 5, "horizon": 3000}, 0.15),
        ({"kind": "tsallis_delayed"}, 0.09),
        ({"kind": "clw", "max_delay": 5, "horizon": 3000, "base": "tsallis"}, 0.2),
    ],
    ids=lambda value: value["kind"] if isinstance(value, dict) else "",
)
def test_they_find_the_best_arm(spec, most):
    """Uniform play has .32; three seeds."""
    assert np.mean([regret(spec, seed) for seed in range(3)]) < most


def test_the_rate_of_batched_exp3_is_the_theorems():
    learner = REGISTRY["batched_exp3"].model_validate(
        {"kind": "batched_exp3", "n_arms": 4, "max_delay": 7, "horizon": 100, "rate_scale": 2.0}
    )
    rates = learner.build().rates(learner.build().start())

    assert rates == {"rates": "theorem", "learning_rate": 2 * math.sqrt(2 * math.log(4) / (74 * 100))}
