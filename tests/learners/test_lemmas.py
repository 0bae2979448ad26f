"""What the paper proves of one update of DEXP3 (Lemmas 1 and 2, eq. (ineq4)) and of DBGD (Gbound, descent)."""

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.learners.base import Slot
from service.learners.descent import DbgdSpec
from service.learners.dexp3 import Dexp3, Rates
from service.learners.maths import forward_difference
from tests.support.examples import examples
from tests.support.feasible_sets import contains
from tests.support.runs import bits_of

ROUNDING = 1 + 1e-12
UPDATES = 1_000_000


@st.composite
def chains(draw):
    """A learner with 1 - delta_2 - eta delta_1 > 0, and the events of some slots."""
    n_arms = draw(st.integers(1, 8))
    floor = draw(st.floats(1e-9, 0.5))
    exponent = draw(st.floats(1e-6, 0.999)) * (1 - floor)
    eta = draw(st.floats(1e-4, 10.0))
    event = st.tuples(st.integers(0, n_arms - 1), st.floats(0, 1))
    slots = draw(st.lists(st.lists(event, max_size=6), min_size=1, max_size=12))
    rates = Rates(eta, exponent / eta, floor)
    return Dexp3(n_arms, rates), rates, slots


def updates(learner, slots):
    """The distributions of all virtual slots, first to last."""
    state, chain = learner.start(), [learner.start().p]
    for t, events in enumerate(slots, start=1):
        state = learner.open(state, Slot(t, 0, 0.0))
        for arm, loss in events:
            state = learner.settle(state, arm, loss)
            chain.append(state.p)
    return chain


@settings(max_examples=examples(300), deadline=None, derandomize=True)
@given(chains())
def test_no_probability_moves_by_more_than_lemmas_1_and_2_allow(case):
    learner, (eta, clip, floor), slots = case
    shrinks = ROUNDING / (1 - floor - eta * clip)
    grows = ROUNDING * max(1 + floor, 1 / (1 - eta * clip))

    for before, after in pairwise(updates(learner, slots)):
        assert (before / after <= shrinks).all()
        assert (after / before <= grows).all()


@settings(max_examples=examples(300), deadline=None, derandomize=True)
@given(chains())
def test_every_probability_keeps_the_floor_of_ineq4(case):
    learner, (_, _, floor), slots = case

    for p in updates(learner, slots):
        assert (p * ROUNDING >= floor / (learner.n_arms * (1 + floor))).all()
        assert abs(p.sum() - 1) <= 1e-12


def test_estimates_are_biased_exactly_as_the_paper_says():
    """Eq. (expectedloss): E[l^(k)] = l(k) p_s(k)/p_t(k), over all arms that may have been drawn in slot s."""
    eta, p_s, p_t, losses = 0.01, np.array([0.5, 0.3, 0.2]), np.array([0.2, 0.3, 0.5]), np.array([0.9, 0.5, 0.7])
    learner = Dexp3(3, Rates(learning_rate=eta, loss_clip=1e6, probability_floor=1e-12))
    after = np.array([learner.settle(learner.start().at(p_t, p_t), arm, losses[arm]).p for arm in range(3)])
    change = np.log(after / p_t)
    estimates = (change.max(axis=1, keepdims=True) - change) / eta

    np.testing.assert_allclose(p_s @ estimates, losses * p_s / p_t, rtol=1e-12)


def as_the_paper_writes_it(p, p_open, event, rates):
    """Eqs. (estloss), (tildew1), (w1) and (tildep1) of long doubles."""
    arm, loss = event
    w = p.copy()
    w[arm] *= np.exp(-np.longdouble(rates.learning_rate) * min(np.longdouble(loss) / p_open[arm], rates.loss_clip))
    w = np.maximum(w / w.sum(), np.longdouble(rates.probability_floor) / w.size)
    return w / w.sum()


@pytest.mark.parametrize("rates", [None, Rates(0.2, 4.0, 0.5), Rates(1.0, 4.0, 0.2)])
@pytest.mark.parametrize("n_arms", [2, 3, 10, 60, 1200])
def test_probabilities_are_those_of_the_formulas(n_arms, rates):
    """After each of 600 slots with late events, each to 1e-13 of it: through slots the game makes differences grow.

    The running sum is that of the weights to 1.5e-14 of it.
    """
    rng, learner, late, trims = np.random.default_rng(n_arms), Dexp3(n_arms, rates), list[int](), 0
    state, means = learner.start(), rng.random(n_arms)
    for t in range(1, 601):
        state = learner.open(state, Slot(t, len(late), 0.0))
        p = p_open = state.weights / np.longdouble(state.total)
        now = Rates(state.learning_rate, state.loss_clip, state.probability_floor)
        late.append(int(rng.choice(n_arms, p=state.p_open)))
        rng.shuffle(late)
        arms, late = (late[:-3], late[-3:]) if t % 7 else (late, [])
        losses = [float(rng.choice([0.0, 1e-9, means[arm], rng.random()])) for arm in arms]
        state, unknown = (learner.settle_all(each, arms, losses) for each in (state, state._replace(least=0.0)))
        assert bits_of(state[:9]) == bits_of(unknown[:9])
        for event in zip(arms, losses, strict=True):
            p = as_the_paper_writes_it(p, p_open, event, now)
            trims += bool((p < now.probability_floor / n_arms).any())

        np.testing.assert_allclose(state.p, p.astype(float), rtol=1e-13)
        assert abs(math.fsum(state.weights) / state.total - 1) <= 1.5e-14
    assert trims or rates is None


def adversary(p, phase, step):
    """Arm to hit: the likeliest, the least likely, or one after the other."""
    if phase == 0:
        return int(p.argmax())
    if phase == 1:
        return int(p.argmin())
    return step % p.size


@pytest.mark.recipes
@pytest.mark.parametrize("n_arms", [2, 5, 1000])
def test_probabilities_stay_sound_through_a_million_adversarial_updates(n_arms):
    """One unbroken chain; every distribution of it is checked. Exponents reach 700, the floor is 1e-9."""
    learner = Dexp3(n_arms, Rates(learning_rate=0.7, loss_clip=1e3, probability_floor=1e-9))
    lowest = 1e-9 / (n_arms * (1 + 1e-9)) / ROUNDING
    state, block = learner.start(), np.empty((1000, n_arms))

    for step in range(UPDATES):
        if step % 3 == 0:
            state = learner.open(state, Slot(1 + step // 3, 0, 0.0))
        arm = adversary(state.p, step // 1000 % 3, step)
        state = learner.settle(state, arm, 1.0 if step % 7 else 0.0)
        block[step % 1000] = state.p
        if step % 1000 == 999:
            assert np.isfinite(block).all()
            assert (block >= lowest).all()
            assert (abs(block.sum(axis=-1) - 1) <= 1e-12).all()


OF_DIFFERENCES = 1e-9
"""Relative slack: a difference of losses near 1 over a perturbation of 1e-4 or more loses this much at most."""


def quadratic(rng, dim):
    """A and b of the convex loss x'Ax/2 + b'x."""
    root = rng.normal(size=(dim, dim))
    return root @ root.T, rng.normal(size=dim)


def bundle(a, b, x, delta):
    points = np.vstack([x, x + delta * np.eye(x.size)])
    return 0.5 * np.einsum("ij,jk,ik->i", points, a, points) + points @ b


cases = given(st.integers(0, 2**32 - 1), st.integers(1, 8), st.floats(1e-4, 0.5))


@settings(max_examples=examples(300), deadline=None, derandomize=True)
@cases
def test_gradient_estimate_keeps_the_bounds_of_lemma_gbound(seed, dim, delta):
    """|g| <= sqrt(K) L and |g - grad f| <= beta delta sqrt(K)/2, for f on the unit ball."""
    rng = np.random.default_rng(seed)
    a, b = quadratic(rng, dim)
    smoothness = float(np.linalg.eigvalsh(a)[-1])
    lipschitz = smoothness + float(np.linalg.norm(b))
    x = rng.normal(size=dim)
    x *= (1 - delta) * rng.uniform() / np.linalg.norm(x)

    g = forward_difference(bundle(a, b, x, delta), delta)

    assert np.linalg.norm(g) <= np.sqrt(dim) * lipschitz * (1 + OF_DIFFERENCES)
    slack = OF_DIFFERENCES * lipschitz
    assert np.linalg.norm(g - (a @ x + b)) <= smoothness * delta * np.sqrt(dim) / 2 + slack


@settings(max_examples=examples(300), deadline=None, derandomize=True)
@cases
def test_one_update_descends_as_lemma_descent_says(seed, dim, delta):
    """g'(x_tau - x) <= eta K L^2/2 + (|x_tau - x|^2 - |x_tau+1 - x|^2)/(2 eta) for every x in the shrunk ball."""
    rng = np.random.default_rng(seed)
    a, b = quadratic(rng, dim)
    lipschitz = float(np.linalg.eigvalsh(a)[-1] + np.linalg.norm(b))
    eta = 10 ** rng.uniform(-3, 1)
    spec = {"dim": dim, "feasible_set": {"kind": "ball", "radius": 1.0}}
    spec |= {"learning_rate": eta, "perturbation": delta}
    learner = DbgdSpec.model_validate(spec).build()
    state = learner.start()
    other = rng.normal(size=dim)
    other *= (1 - delta) * rng.uniform() / np.linalg.norm(other)

    for _ in range(5):
        x, losses = state.x, bundle(a, b, state.x, delta)
        state = learner.settle(state, losses, 0)
        distances = np.square(x - other).sum() - np.square(state.x - other).sum()
        bound = eta / 2 * dim * lipschitz**2 + distances / (2 * eta)
        assert forward_difference(losses, delta) @ (x - other) <= bound + OF_DIFFERENCES * (lipschitz + 1 / eta)


def test_linear_losses_are_estimated_without_bias():
    """By hand: f(x) = 3 x_1 - x_2 at (1/2, 1/4) with delta = 1/8."""
    losses = np.array([1.25, 1.625, 1.125])

    assert forward_difference(losses, 0.125).tolist() == [3.0, -1.0]


@pytest.mark.parametrize("size", [1e300, 1.7e308])
def test_absurd_losses_leave_the_state_finite(size):
    for rates in ({"learning_rate": 1e12, "perturbation": 1e-9}, {}):
        spec = {"dim": 2, "feasible_set": {"kind": "simplex"}, **rates}
        learner = DbgdSpec.model_validate(spec).build()
        state = learner.start()
        for losses in ([size, -size, 0.0], [-size, size, size], [1.0, 2.0, 3.0]):
            state = learner.settle(state, np.array(losses), 2**53)
            assert np.isfinite(state.x).all()
            assert np.isfinite(state.gradient_sum)
            assert contains(learner.feasible_set, learner.query_points(state)).all()
