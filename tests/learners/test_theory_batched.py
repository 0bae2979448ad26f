"""docs/theory.md by exact enumeration: batched EXP3, and delays that depend on the arm."""

from __future__ import annotations

import itertools
import math
from typing import NamedTuple

import numpy as np
import pytest

from service.learners.base import FloatArray, Slot, many
from service.learners.batched_exp3 import BatchedExp3, BatchedExp3Spec
from tests.support.exact_games import HUNDREDS, ROUNDING, Game, actions, expected, game


class Blocks(NamedTuple):
    """All courses of batched EXP3; ``c[s]`` is what decision s adds to the sums, shape (K^T, K)."""

    chance: FloatArray
    p: list[FloatArray]
    c: dict[int, FloatArray]
    q: dict[int, FloatArray]
    block: dict[int, int]


def play_batched(played: Game, spec: BatchedExp3Spec) -> Blocks:
    learner, arms, w = spec.build(), actions(played), max(1, spec.max_delay)
    assert isinstance(learner, BatchedExp3)
    rows, state = np.arange(len(arms)), many(learner.start(), len(arms))
    found = Blocks(np.ones(len(arms)), [], {}, {}, {})
    for u, slots in enumerate(played.arriving):
        state = learner.open(state, Slot(u + 1, 0, 0.0))
        p = learner.distribution(state)
        found.p.append(p)
        found = found._replace(chance=found.chance * p[rows, arms[:, u]])
        for s in slots:
            before = state.losses
            state = learner.settle(state, arms[:, s], played.losses[s][arms[:, s]])
            found.c[s], found.q[s], found.block[s] = state.losses - before, np.maximum(p, state.before), u // w
    return found


@pytest.mark.parametrize("games", HUNDREDS)
def test_batched_exp3_and_every_inequality_of_its_proof(games: int) -> None:
    for seed in range(games):
        played = game(seed)
        (t, k), w = played.losses.shape, played.max_delay
        course = play_batched(played, BatchedExp3Spec(n_arms=k, max_delay=w, horizon=t))
        eta = math.sqrt(2 * math.log(k) / ((k + 10 * w) * t))
        of_block = {b: course.p[min(b * w, t - 1)] for b in range(t // w + 1)}
        sums = {b: sum(c for s, c in course.c.items() if course.block[s] == b) for b in set(course.block.values())}
        counts = {b: sum(each == b for each in course.block.values()) for b in sums}
        costs = 0.0
        for s, c in course.c.items():
            own, b, q, loss = course.p[s], course.block[s], course.q[s], played.losses[s]
            assert b - s // w in {0, 1}
            assert (own <= q).all()
            for arm in range(k):
                exact = expected(course.chance, (own / q * loss)[:, arm])
                assert expected(course.chance, c[:, arm]) == pytest.approx(exact, abs=1e-12)
            one_sided = np.maximum(own - of_block[b], 0).sum(axis=1) + (q - own).sum(axis=1)
            assert (one_sided <= 4 * eta * w + ROUNDING).all()
            costs += expected(course.chance, one_sided)
        hedge = np.zeros((len(course.chance), k))
        for b, total in sums.items():
            assert counts[b] <= 2 * w
            p, n = of_block[b], counts[b]
            moment = (p * total * total).sum(axis=1)
            assert expected(course.chance, moment) <= n * (k + n) + ROUNDING
            if (b + 1) * w < t:
                moved = np.maximum(p - of_block[b + 1], 0).sum(axis=1)
                assert (moved <= eta * (p * total).sum(axis=1) + ROUNDING).all()
            hedge += (p * total).sum(axis=1, keepdims=True) - total - eta / 2 * moment[:, None]
        assert (hedge <= math.log(k) / eta + ROUNDING).all()
        played_regret = sum(
            expected(course.chance, p @ row) for p, row in zip(course.p, played.losses, strict=True)
        )
        assert played_regret - played.losses.sum(axis=0).min() <= math.sqrt(2 * (k + 10 * w) * t * math.log(k))


@pytest.mark.parametrize("seed", range(5))
def test_where_delays_depend_on_the_arm_the_estimate_is_biased(seed: int) -> None:
    """Arm 0 answers at once, arm 1 a block later: then P_b knows which arm was drawn."""
    rng = np.random.default_rng(seed)
    t, eta = 5, 0.5
    losses = 0.5 + rng.random((t, 2)) / 2
    learner, worst = BatchedExp3(2, eta, "given", 1), 0.0
    arms = np.array(list(itertools.product(range(2), repeat=t)))
    sums = {s: np.zeros(2) for s in range(t)}
    exact = {s: np.zeros(2) for s in range(t)}
    for course in arms.tolist():
        state, chance, added = learner.start(), 1.0, {}
        for u in range(t):
            state = learner.open(state, Slot(u + 1, 0, 0.0))
            own = learner.distribution(state)
            chance *= own[course[u]]
            for s in (u - 1, u):
                if s >= 0 and s + course[s] == u:
                    q = np.maximum(state.p, state.before)
                    before = state.losses
                    state = learner.settle(state, course[s], losses[s, course[s]])
                    added[s] = (state.losses - before, (own if s == u else state.before) / q * losses[s])
        for s, (c, kept) in added.items():
            sums[s] += chance * c
            exact[s] += chance * kept
    for s in range(t - 1):
        worst = max(worst, float(abs(sums[s] - exact[s]).max()))

    assert worst > 1e-3
