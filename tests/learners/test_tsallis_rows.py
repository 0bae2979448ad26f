"""Several Tsallis distributions at once are each what one alone is."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.learners.tsallis import distribution_over_few, solve, solve_rows
from tests.support.examples import examples


@settings(max_examples=examples(200), deadline=None, derandomize=True)
@given(
    st.integers(0, 2**32 - 1),
    st.integers(1, 300),
    st.sampled_from([1e-6, 1.0, 1e3, 1e9, 1e12]),
    st.floats(1e-6, 1e6),
    st.floats(-1e6, 0),
)
def test_rows_sum_to_one_and_are_those_of_one_alone(
    seed: int, n_arms: int, size: float, scale: float, start: float
) -> None:
    rng = np.random.default_rng(seed)
    sums = size * rng.random((5, n_arms)) ** 4
    sums -= sums.min(axis=-1, keepdims=True)
    scales = scale * (0.5 + rng.random(5))

    lam, x = solve_rows(sums, scales, np.full(5, start))
    together = solve_rows(np.stack([sums, sums[::-1]]), np.stack([scales, scales[::-1]]), np.full((2, 5), start))

    assert (lam <= -scales).all()
    np.testing.assert_allclose(x.sum(axis=-1), 1.0, rtol=0, atol=1e-13)
    np.testing.assert_array_equal(together[1], [x, x[::-1]])
    for row in range(5):
        np.testing.assert_allclose(solve(sums[row], scales[row], -scales[row])[1], x[row], rtol=1e-9, atol=1e-15)


@pytest.mark.parametrize("scale", [0.0, 1e-3, 1.0, 50.0])
def test_a_few_entries_are_solved_for_alike_in_one_run_and_in_many(scale: float) -> None:
    rng = np.random.default_rng(3)
    sums, before = 9 * rng.random((6, 5)), rng.dirichlet(np.ones(5), 6)

    many = distribution_over_few(sums, np.full(6, scale), before, 0.01)
    alone = [distribution_over_few(*each, 0.01) for each in zip(sums, [scale] * 6, before, strict=True)]

    for name in many._fields:
        np.testing.assert_array_equal(getattr(many, name), [getattr(each, name) for each in alone])
    np.testing.assert_allclose(many.p.sum(axis=-1), 1.0, rtol=0, atol=1e-14)
