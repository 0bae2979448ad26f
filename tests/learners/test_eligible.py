"""Slots that name eligible arms, and floors: another implementation, what always holds, and what it pays."""

import math
from collections.abc import Callable

import numpy as np
import pytest

from service.engine.arm_run import ArmRun
from service.engine.ledger import ArmFeedback
from service.learners import REGISTRY
from service.learners.base import ArmLearner, FloatArray, IntArray, Slot
from tests.support import vectors
from tests.support.runs import start

KINDS = vectors.with_eligible_arms()
K = 7


class PlainCentred:
    """The rule of centred_tsallis over eligible arms, number by number, lambda found by bisection."""

    def __init__(self, n_arms: int) -> None:
        self.k = n_arms
        self.sums, self.pool, self.p = [0.0] * n_arms, [1 / n_arms] * n_arms, [1 / n_arms] * n_arms
        self.t = self.o = self.n = self.n0 = 0
        self.mean = self.v = self.m = self.a = self.b = 0.0

    @staticmethod
    def shares(sums: list[float], a: float) -> tuple[float, list[float]]:
        """lambda and x with sum 1, and no x below the floor's place."""
        low, high = min(sums) - a * math.sqrt(len(sums)) * 2, min(sums) - a
        for _ in range(200):
            lam = (low + high) / 2
            low, high = (lam, high) if sum((a / (s - lam)) ** 2 for s in sums) < 1 else (low, lam)
        return lam, [(a / (s - lam)) ** 2 for s in sums]

    def over(self, arms: list[int], floor: float) -> list[float]:
        drawn = [0.0] * self.k
        if len(arms) == self.k:
            drawn = list(self.p)
        else:
            x = [1.0] * len(arms)
            if self.a > 0:
                f = 0.25 / math.sqrt(self.t) / self.k
                x = [max(each, f) for each in self.shares([self.sums[arm] for arm in arms], self.a)[1]]
            for arm, each in zip(arms, x, strict=True):
                drawn[arm] = each / sum(x)
        return [(1 - floor) * p + (floor / len(arms) if arm in arms else 0) for arm, p in enumerate(drawn)]

    def open(self, arms: list[int], floor: float) -> list[float]:
        self.t, self.n0, self.b = self.t + 1, self.n, self.mean
        self.a = math.sqrt(max(self.t, self.n) * (self.v + self.m) / (self.n + 1)) if self.n else 0.0
        least = min(self.sums)
        self.sums = [s - least for s in self.sums]
        if self.a > 0:
            lam, x = self.shares(self.sums, self.a)
            f = 0.25 / math.sqrt(self.t) / self.k
            self.sums = [lam + self.a / math.sqrt(f) if y < f else s for s, y in zip(self.sums, x, strict=True)]
            x = [max(y, f) for y in x]
            self.p = [y / sum(x) for y in x]
        drawn = self.over(arms, floor)
        self.pool = [(q * self.o + p) / (self.o + 1) for q, p in zip(self.pool, drawn, strict=True)]
        self.o += 1
        return drawn

    def event(self, arm: int, loss: float) -> None:
        self.o = max(self.o - 1, 0)
        if self.a > 0 and self.pool[arm] > 0:
            z = self.a / math.sqrt(self.p[arm])
            self.sums[arm] += min(max((loss - self.b) / self.pool[arm], -z / 4), z / 2)
        if self.n0:
            r = (loss - self.b) ** 2
            self.v, self.m = self.v + r, max(self.m, r)
        self.n += 1
        self.mean += (loss - self.mean) / self.n


def subset(rng: np.random.Generator, n_arms: int) -> list[int]:
    return sorted(rng.choice(n_arms, int(rng.integers(1, n_arms + 1)), replace=False).tolist())


@pytest.mark.parametrize("floor", [0.0, 0.2])
def test_centred_tsallis_gives_the_numbers_of_another_implementation(floor):
    learner = REGISTRY["centred_tsallis"].model_validate({"kind": "centred_tsallis", "n_arms": K}).build()
    assert isinstance(learner, ArmLearner)
    state, plain, rng = learner.start(), PlainCentred(K), np.random.default_rng(3)
    waiting: list[int] = []
    for t in range(1, 200):
        arms = subset(rng, K)
        slot = Slot(t, 0, float(rng.random()), 0.0, vectors.positions(arms), floor)
        state, arm = learner.draw(learner.open(state, slot), slot)
        np.testing.assert_allclose(learner.distribution(state), plain.open(arms, floor), rtol=1e-9, atol=1e-12)
        waiting.append(arm)
        while len(waiting) > t % 6:
            settled, loss = waiting.pop(0), float(rng.random() < 0.1 + 0.1 * arm)
            state = learner.settle(state, settled, loss)
            plain.event(settled, loss)
        others = subset(rng, K - 1)
        shown = learner.probabilities(state, vectors.positions(others), floor)
        np.testing.assert_allclose(shown, plain.over(others, floor), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_all_arms_named_are_no_arms_named_bit_for_bit(kind):
    learner, rng = vectors.learner_over_arms(kind, K), np.random.default_rng(4)
    named = plain = learner.start()
    for t in range(1, 100):
        u, loss = float(rng.random()), float(rng.random())
        one, two = Slot(t, 0, u), Slot(t, 0, u, 0.0, np.arange(K))
        plain, arm = learner.draw(learner.open(plain, one), one)
        named, again = learner.draw(learner.open(named, two), two)
        assert arm == again
        assert learner.distribution(plain).tolist() == learner.distribution(named).tolist()
        plain, named = vectors.settled(learner, plain, arm, loss), vectors.settled(learner, named, arm, loss)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("floor", [0.0, 0.1])
def test_what_is_drawn_from_is_a_distribution_over_the_eligible_arms_with_the_floor(kind, floor):
    learner, rng = vectors.learner_over_arms(kind, K), np.random.default_rng(6)
    state = learner.start()
    for t in range(1, 300):
        arms = subset(rng, K)
        slot = Slot(t, 0, float(rng.random()), 0.0, vectors.positions(arms), floor)
        state, arm = learner.draw(learner.open(state, slot), slot)
        assert arm in arms
        barred = [each for each in range(K) if each not in arms]
        for p in (learner.distribution(state), learner.probabilities(state, vectors.positions(arms), floor)):
            assert p.sum() == pytest.approx(1, abs=1e-12)
            assert not p[barred].any()
            assert (p[arms] >= floor / len(arms)).all()
        state = vectors.settled(learner, state, arm, float(rng.random() < 0.2 + 0.1 * arm))


ITEMS, VISITORS, SEEDS = 20, 5_000, 5
BARRED = 0.7
"""Share of visitors who must not see the best item."""
Show = Callable[[ArmRun, IntArray], int]
"""Choose the item that a visitor sees, of those that may be shown."""


def with_eligible(run: ArmRun, allowed: IntArray) -> int:
    return run.act(allowed).arm


def drawing_again(run: ArmRun, allowed: IntArray) -> int:
    """Without eligible sets: items that don't fit are drawn, never shown and so never clicked."""
    while (arm := run.act().arm) not in allowed:
        run.settle(ArmFeedback(arm, 1.0))
    return arm


def share_of_clicks(kind: str, show: Show, seed: int) -> float:
    """Clicks that are expected of what was shown, of those that the best allowed items would have got."""
    run, rng = start({"kind": kind, "n_arms": ITEMS}, seed), np.random.default_rng(seed)
    assert isinstance(run, ArmRun)
    rates: FloatArray = rng.beta(5, 20, ITEMS)
    rates[rates.argmax()] += 0.25
    best, everything = int(rates.argmax()), np.arange(ITEMS)
    got = possible = 0.0
    for _ in range(VISITORS):
        allowed = everything if rng.random() >= BARRED else np.delete(everything, best)
        arm = show(run, allowed)
        got, possible = got + rates[arm], possible + rates[allowed].max()
        run.settle(ArmFeedback(arm, float(rng.random() >= rates[arm])))
    return float(got / possible)


@pytest.mark.recipes
@pytest.mark.parametrize("kind", ["centred_tsallis", "multiscale_tsallis"])
def test_naming_what_fits_gets_more_clicks_than_drawing_until_it_fits(kind):
    named, again = (
        np.array([share_of_clicks(kind, show, seed) for seed in range(SEEDS)])
        for show in (with_eligible, drawing_again)
    )

    gain = named - again
    error = gain.std(ddof=1) / np.sqrt(SEEDS)
    assert gain.mean() > 0.05 + 3 * error
    assert named.mean() > 0.85
