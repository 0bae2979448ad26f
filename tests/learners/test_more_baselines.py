"""batched_exp3, tsallis_delayed and clw around Tsallis: their rules, and that they learn."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.learners import REGISTRY
from service.learners.base import Slot, SlotLearner
from service.learners.tsallis import joined, probabilities, without
from service.learners.tsallis_delayed import solve_hybrid
from tests.support.examples import examples


@settings(max_examples=examples(100), deadline=None, derandomize=True)
@given(
    st.integers(0, 2**32 - 1),
    st.integers(1, 200),
    st.floats(1, 1e4),
    st.sampled_from([0.0, 1e-3, 1.0, 50.0, 1e4]),
    st.sampled_from([0.0, 1.0, 1e4, 1e9]),
)
def test_the_hybrid_minimiser_has_one_multiplier(seed: int, n_arms: int, a: float, b: float, size: float) -> None:
    """Where p is minimal L_k - A p^(-1/2) + B ln p is the same number for every arm."""
    rng = np.random.default_rng(seed)
    sums = size * rng.random(n_arms)
    sums -= sums.min()

    p = solve_hybrid(sums, a, b)

    multipliers = sums - a / np.sqrt(p) + b * np.log(p)
    assert p.sum() == pytest.approx(1, abs=1e-12)
    np.testing.assert_allclose(multipliers, multipliers[0], rtol=1e-8, atol=1e-8 * (a + b + size))


def test_delayed_tsallis_has_the_rates_of_its_paper() -> None:
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


def test_arms_of_tsallis_weights_come_and_go_in_ratio() -> None:
    weights = np.array([0.0, -0.5, -3.0, -40.0])
    p = probabilities(weights)

    np.testing.assert_allclose(probabilities(joined(weights, 2)), [*(p * 4 / 6), 1 / 6, 1 / 6], rtol=1e-10)
    np.testing.assert_allclose(
        probabilities(without(weights, np.array([1]))), p[[0, 2, 3]] / (1 - p[1]), rtol=1e-10
    )


def regret(spec: dict[str, Any], seed: int, slots: int = 3000, delay: int = 5) -> float:
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
def test_they_find_the_best_arm(spec: dict[str, Any], most: float) -> None:
    """Uniform play has .32; three seeds."""
    assert np.mean([regret(spec, seed) for seed in range(3)]) < most


def test_the_rate_of_batched_exp3_is_the_theorems() -> None:
    learner = REGISTRY["batched_exp3"].model_validate(
        {"kind": "batched_exp3", "n_arms": 4, "max_delay": 7, "horizon": 100, "rate_scale": 2.0}
    )
    rates = learner.build().rates(learner.build().start())

    assert rates == {"rates": "theorem", "learning_rate": 2 * math.sqrt(2 * math.log(4) / (74 * 100))}
