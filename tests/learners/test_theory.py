"""docs/theory.md by exact enumeration: Theorem R, batched EXP3, each inequality of their proofs, wrong steps."""

import itertools
import math
from typing import NamedTuple

import numpy as np
import pytest

from service.learners.base import FloatArray, Slot, many
from service.learners.dexp3 import Dexp3, Dexp3Spec
from service.learners.exp3 import BatchedExp3, BatchedExp3Spec

ROUNDING = 1e-12
HUNDREDS = [3, pytest.param(200, marks=pytest.mark.slow)]


class Game(NamedTuple):
    """Losses, shape (T, K), and for each slot the slots whose events arrive in it, in order."""

    losses: FloatArray
    arriving: list[list[int]]

    @property
    def delays(self):
        return [u - s for u, slots in sorted(enumerate(self.arriving)) for s in slots]

    @property
    def max_delay(self):
        return max(1, *self.delays)


def game(seed):
    """K 2-3, T 4-8; delays at random, in one burst, or in reversed order; all events arrive by the last slot."""
    rng = np.random.default_rng(seed)
    k = int(rng.integers(2, 4))
    t = int(rng.integers(4, 9 if k == 2 else 7))
    delays = [
        rng.integers(0, t, t),
        np.full(t, 2),
        np.where(np.arange(t) < t // 2, t // 2 - np.arange(t), 0),
        np.maximum(t - 2 - 2 * np.arange(t), 0),
    ][seed % 4]
    arriving: list[list[int]] = [[] for _ in range(t)]
    for s in range(t):
        arriving[min(t - 1, s + int(delays[s]))].append(s)
    for slots in arriving:
        rng.shuffle(slots)
    losses = rng.random((t, k)) if seed % 3 else rng.integers(0, 2, (t, k)).astype(float)
    return Game(losses, arriving)


def actions(played):
    t, k = played.losses.shape
    return np.array(list(itertools.product(range(k), repeat=t)))


def expected(chance, values):
    return float((chance * values).sum())


class Course(NamedTuple):
    """A game in all its courses at once; the courses' axis comes first."""

    chance: FloatArray
    """Of each course, shape (K^T,)."""
    p: list[FloatArray]
    """p_t of each slot, shape (K^T, K)."""
    events: list[tuple[int, int, FloatArray, FloatArray, FloatArray]]
    """Slot s, slot of arrival u, and before, c, after: the distributions around the event and what it adds."""


def play_dexp3(played, spec):
    """c is the clipped estimate of the event, shape (K^T, K)."""
    learner, arms = spec.build(), actions(played)
    assert isinstance(learner, Dexp3)
    clip = learner.rates(learner.start())["loss_clip"]
    rows, state = np.arange(len(arms)), many(learner.start(), len(arms))
    chance, p, events = np.ones(len(arms)), [], []
    for u, slots in enumerate(played.arriving):
        state = learner.open(state, Slot(u + 1, 0, 0.0))
        p.append(learner.distribution(state))
        chance = chance * p[u][rows, arms[:, u]]
        for s in slots:
            before, c, arm = learner.probabilities(state), np.zeros_like(p[u]), arms[:, s]
            loss = played.losses[s][arm]
            c[rows, arm] = np.minimum(clip, loss / p[u][rows, arm])
            state = learner.settle(state, arm, loss)
            events.append((s, u, before, c, learner.probabilities(state)))
    return Course(chance, p, events)


def regret(played, course):
    """Against the best arm in hindsight."""
    total = sum(expected(course.chance, p @ row) for p, row in zip(course.p, played.losses, strict=True))
    return total - float(played.losses.sum(axis=0).min())


def theorem_r(k, t, d, total, rates):
    eta, clip, floor = rates
    return (
        (math.log(k) + t * floor) / eta
        + 2.72 * eta * k * t
        + 1.85 * k * t / clip
        + 12.1 * eta * total
        + 5.44 * floor * total
    )


def safe_rates(d, seed):
    """Rates with eta delta_1 + delta_2 <= 1/(2 d)."""
    rng = np.random.default_rng(seed)
    eta, floor = float(rng.uniform(0.02, 0.5)), float(rng.uniform(0.0, 0.2)) / (2 * d) + 1e-9
    return eta, (1 / (2 * d) - floor) / eta, floor


@pytest.mark.parametrize("games", HUNDREDS)
def test_theorem_r_and_every_inequality_of_its_proof(games):
    for seed in range(games):
        played = game(seed)
        (t, k), d = played.losses.shape, played.max_delay
        eta, clip, floor = rates = safe_rates(d, seed)
        spec = Dexp3Spec(n_arms=k, learning_rate=eta, loss_clip=clip, probability_floor=floor)
        course = play_dexp3(played, spec)
        hedge, number = np.zeros((len(course.chance), k)), 0
        opened = np.cumsum([0, *map(len, played.arriving)])
        for s, u, before, c, after in course.events:
            p_s, p_u, loss = course.p[s], course.p[u], played.losses[s]
            between, number = number - int(opened[s]), number + 1
            kept = p_s * np.minimum(clip, loss / p_u)
            # Lemmas 1 and 2, over the events between slot s and the end of slot u.
            assert (p_s / p_u < math.e).all()
            assert (before / p_u <= 2 + ROUNDING).all()
            # E c given all but a_s; P and p_u are of courses that differ in a_s alike.
            for arm in range(k):
                assert expected(course.chance, c[:, arm]) == pytest.approx(expected(course.chance, kept[:, arm]))
            # Drift, bias, clip, comparator.
            drift = np.maximum(p_s - before, 0).sum(axis=1)
            bias = (p_s * np.maximum(1 - p_s / p_u, 0) * loss).sum(axis=1)
            assert (bias <= np.maximum(p_u - p_s, 0).sum(axis=1) + ROUNDING).all()
            for value in (drift, np.maximum(p_u - p_s, 0).sum(axis=1)):
                assert expected(course.chance, value) <= (floor + 2 * eta) * between + ROUNDING
            assert ((p_s / p_u) * loss * p_s - kept * p_s <= math.e**2 / (4 * clip) + ROUNDING).all()
            # Hedge's second moment.
            assert expected(course.chance, (before * c * c).sum(axis=1)) <= 2 * math.e * k + ROUNDING
            hedge += (before * c).sum(axis=1, keepdims=True) - c
            hedge -= eta / 2 * (before * c * c).sum(axis=1, keepdims=True)
            assert (before / after <= 1 / (1 - floor - eta * clip) + ROUNDING).all()
        assert (hedge <= (math.log(k) + t * floor) / eta + ROUNDING).all()
        assert regret(played, course) <= theorem_r(k, t, d, sum(played.delays), rates)


def test_taking_the_largest_ratio_out_of_the_sum_is_wrong():
    p_t, p_u, loss, arm = np.array([0.5, 0.5]), np.array([0.25, 0.75]), np.array([1.0, 1.0]), np.array([1.0, 0.0])

    left = ((p_t - arm) * loss).sum()
    right = (p_u / p_t).max() * ((p_t - arm) * (p_t / p_u) * loss).sum()

    assert (left, right) == (0.0, pytest.approx(-1.0))


def test_so_is_it_in_sum_in_the_papers_own_example():
    """T = 3, delays 2, 0, 0: slot 2 settles itself, slot 3 the first and itself."""
    losses = np.array([[1.0, 1.0], [0.9, 0.0], [0.0, 1.0]])
    found = []
    for last in ([0, 2], [2, 0]):
        played = Game(losses, [[], [1], last])
        course = play_dexp3(played, Dexp3Spec(n_arms=2, horizon=3, max_delay=2, total_delay=2))
        for arm in range(2):
            right = left = 0.0
            for s, u, *_ in course.events:
                p_s, p_u = course.p[s], course.p[u]
                gap = p_s - np.eye(2)[arm]
                left += expected(course.chance, (gap * losses[s]).sum(axis=1))
                factor = (p_u / p_s).max(axis=1)
                right += expected(course.chance, factor * (gap * p_s / p_u * losses[s]).sum(axis=1))
            found.append((round(left, 5), round(right, 5)))

    assert (0.05625, 0.04343) in found


class Blocks(NamedTuple):
    """All courses of batched EXP3; ``c[s]`` is what decision s adds to the sums, shape (K^T, K)."""

    chance: FloatArray
    p: list[FloatArray]
    c: dict[int, FloatArray]
    q: dict[int, FloatArray]
    block: dict[int, int]


def play_batched(played, spec):
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
def test_batched_exp3_and_every_inequality_of_its_proof(games):
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
        pairs = zip(course.p, played.losses, strict=True)
        played_regret = sum(expected(course.chance, p @ row) for p, row in pairs)
        assert played_regret - played.losses.sum(axis=0).min() <= math.sqrt(2 * (k + 10 * w) * t * math.log(k))


@pytest.mark.parametrize("seed", range(5))
def test_where_delays_depend_on_the_arm_the_estimate_is_biased(seed):
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
