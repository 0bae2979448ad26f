"""multiscale_tsallis follows its rule: its traces, and another implementation, number by number."""

from __future__ import annotations

import numpy as np
import pytest

from service.learners.base import Slot
from service.learners.multiscale_tsallis import MultiscaleTsallis
from tests.support import vectors
from tests.support.multiscale_games import Course, Game, applied
from tests.support.plain_multiscale import PlainMultiscale

TRACES = sorted(path.stem for path in vectors.VECTORS.glob("multiscale_[0-9]*.json"))


@pytest.mark.parametrize("name", TRACES)
def test_learner_follows_its_trace(name: str) -> None:
    trace = vectors.load(name)
    learner, default = MultiscaleTsallis(trace["n_arms"]), trace["provisional_default"]
    state, tolerance = learner.start(), {"rtol": 0, "atol": trace["tolerance"]}

    for op in trace["ops"]:
        if op["op"] == "open":
            where = vectors.positions(op["eligible"])
            slot = Slot(op["t"], op["outstanding"], op["u"], 0.0, where, 0.0, default is not None)
            state, arm = learner.draw(learner.open(state, slot), slot)
            assert arm == op["arm"]
            np.testing.assert_allclose(learner.distribution(state), op["p"], **tolerance)
            np.testing.assert_allclose(state.weights, op["w"], **tolerance)
            if op["full_p"] is not None:
                np.testing.assert_allclose(state.p, op["full_p"], **tolerance)
            continue
        state = applied(learner, state, op, default)
        if "pool" in op:
            np.testing.assert_allclose(state.sums, op["S"], **tolerance)
            np.testing.assert_allclose(state.pools[-1], op["pool"], **tolerance)
        elif "S" in op:
            np.testing.assert_allclose(state.sums[:, op["arm"]], op["S"], **tolerance)
            np.testing.assert_allclose(state.mixture_sums, op["mS"], **tolerance)
            np.testing.assert_allclose([state.mean, state.variance_sum], [op["mean"], op["V"]], **tolerance)


@pytest.mark.parametrize(
    "game",
    [
        Game(3, None, 1, 120),
        Game(5, 1.0, 2, 120),
        pytest.param(Game(8, None, 3, 1500), marks=pytest.mark.slow),
        pytest.param(Game(8, 0.5, 4, 1500), marks=pytest.mark.slow),
        pytest.param(Game(2, 0.0, 5, 1500), marks=pytest.mark.slow),
        pytest.param(Game(1, 1.0, 6, 300), marks=pytest.mark.slow),
    ],
)
def test_it_does_what_the_rule_says_number_by_number(game: Game) -> None:
    learner, plain = MultiscaleTsallis(game.n_arms), PlainMultiscale(game.n_arms, game.default)
    course = Course(learner, game, np.random.default_rng(game.seed + 100))

    for name, args in course.steps():
        state = course.state
        if name == "open":
            np.testing.assert_allclose(learner.distribution(state), plain.open(*args), rtol=0, atol=1e-9)
            continue
        getattr(plain, name)(*args)
        np.testing.assert_allclose(state.sums, plain.s, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(state.mixture_sums, plain.w_sums, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(state.pools, [*plain.q, plain.pool], rtol=0, atol=1e-9)
