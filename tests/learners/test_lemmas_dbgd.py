"""What the paper proves of DBGD's estimator and of one update: Lemmas Gbound and descent."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.learners.base import FloatArray
from service.learners.dbgd import DbgdSpec
from service.learners.maths import forward_difference
from tests.support.examples import examples
from tests.support.feasible_sets import contains

ROUNDING = 1e-9
"""Relative slack: a difference of losses near 1 over a perturbation of 1e-4 or more loses this much at most."""


def quadratic(rng: np.random.Generator, dim: int) -> tuple[FloatArray, FloatArray]:
    """A and b of the convex loss x'Ax/2 + b'x."""
    root = rng.normal(size=(dim, dim))
    return root @ root.T, rng.normal(size=dim)


def bundle(a: FloatArray, b: FloatArray, x: FloatArray, delta: float) -> FloatArray:
    points = np.vstack([x, x + delta * np.eye(x.size)])
    return 0.5 * np.einsum("ij,jk,ik->i", points, a, points) + points @ b


cases = given(st.integers(0, 2**32 - 1), st.integers(1, 8), st.floats(1e-4, 0.5))


@settings(max_examples=examples(300), deadline=None, derandomize=True)
@cases
def test_gradient_estimate_keeps_the_bounds_of_lemma_gbound(seed: int, dim: int, delta: float) -> None:
    """|g| <= sqrt(K) L and |g - grad f| <= beta delta sqrt(K)/2, for f on the unit ball."""
    rng = np.random.default_rng(seed)
    a, b = quadratic(rng, dim)
    smoothness = float(np.linalg.eigvalsh(a)[-1])
    lipschitz = smoothness + float(np.linalg.norm(b))
    x = rng.normal(size=dim)
    x *= (1 - delta) * rng.uniform() / np.linalg.norm(x)

    g = forward_difference(bundle(a, b, x, delta), delta)

    assert np.linalg.norm(g) <= np.sqrt(dim) * lipschitz * (1 + ROUNDING)
    slack = ROUNDING * lipschitz
    assert np.linalg.norm(g - (a @ x + b)) <= smoothness * delta * np.sqrt(dim) / 2 + slack


@settings(max_examples=examples(300), deadline=None, derandomize=True)
@cases
def test_one_update_descends_as_lemma_descent_says(seed: int, dim: int, delta: float) -> None:
    """g'(x_tau - x) <= eta K L^2/2 + (|x_tau - x|^2 - |x_tau+1 - x|^2)/(2 eta) for every x in the shrunk ball."""
    rng = np.random.default_rng(seed)
    a, b = quadratic(rng, dim)
    lipschitz = float(np.linalg.eigvalsh(a)[-1] + np.linalg.norm(b))
    eta = 10 ** rng.uniform(-3, 1)
    spec = {
        "dim": dim,
        "feasible_set": {"kind": "ball", "radius": 1.0},
        "learning_rate": eta,
        "perturbation": delta,
    }
    learner = DbgdSpec.model_validate(spec).build()
    state = learner.start()
    other = rng.normal(size=dim)
    other *= (1 - delta) * rng.uniform() / np.linalg.norm(other)

    for _ in range(5):
        x, losses = state.x, bundle(a, b, state.x, delta)
        state = learner.settle(state, losses, 0)
        distances = np.square(x - other).sum() - np.square(state.x - other).sum()
        bound = eta / 2 * dim * lipschitz**2 + distances / (2 * eta)
        assert forward_difference(losses, delta) @ (x - other) <= bound + ROUNDING * (lipschitz + 1 / eta)


def test_linear_losses_are_estimated_without_bias() -> None:
    """By hand: f(x) = 3 x_1 - x_2 at (1/2, 1/4) with delta = 1/8."""
    losses = np.array([1.25, 1.625, 1.125])

    assert forward_difference(losses, 0.125).tolist() == [3.0, -1.0]


@pytest.mark.parametrize("size", [1e300, 1.7e308])
def test_absurd_losses_leave_the_state_finite(size: float) -> None:
    for rates in ({"learning_rate": 1e12, "perturbation": 1e-9}, {}):
        spec = {"dim": 2, "feasible_set": {"kind": "simplex"}, **rates}
        learner = DbgdSpec.model_validate(spec).build()
        state = learner.start()
        for losses in ([size, -size, 0.0], [-size, size, size], [1.0, 2.0, 3.0]):
            state = learner.settle(state, np.array(losses), 2**53)
            assert np.isfinite(state.x).all()
            assert np.isfinite(state.gradient_sum)
            assert contains(learner.feasible_set, learner.query_points(state)).all()
