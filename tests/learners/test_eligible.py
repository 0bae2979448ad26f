"""Slots that name their eligible arms, and floors: traces by hand, another implementation, what always holds."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from service.learners import REGISTRY
from service.learners.base import ArmLearner, Record, Slot, SlotLearner, many
from tests.support import vectors

KINDS = vectors.with_eligible_arms()
K = 7


@pytest.mark.parametrize("trace", vectors.traces_of("eligible"))
def test_learner_follows_its_trace(trace: dict[str, Any]) -> None:
    learner = vectors.build(trace)
    assert isinstance(learner, ArmLearner)
    state, records = vectors.start_of(learner, trace), dict[int, Record]()

    for step in trace["steps"]:
        floor = step.get("floor", 0.0)
        if "open" in step:
            slot = Slot(step["open"], 0, step.get("u", 0.0), 0.0, vectors.positions(step.get("eligible")), floor)
            state, arm = learner.draw(learner.open(state, slot), slot)
            assert arm == step.get("arm", arm)
            records[slot.t] = learner.record(state, arm) if isinstance(learner, SlotLearner) else ()
            shown = learner.distribution(state)
        elif "event" in step:
            kept = {"record": records[step["slot"]]} if "slot" in step else {}
            state = learner.settle(state, step["event"], vectors.number(step["loss"]), **kept)
        else:
            shown = learner.probabilities(state, vectors.positions(step["show"]), floor)
        if "p" in step:
            np.testing.assert_allclose(shown, vectors.numbers(step["p"]), rtol=trace["tolerance"])
        for name, expected in step.get("state", {}).items():
            values = vectors.numbers(expected) if isinstance(expected, list) else expected
            np.testing.assert_allclose(getattr(state, name), values, rtol=trace["tolerance"], atol=1e-15)


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
def test_centred_tsallis_gives_the_numbers_of_another_implementation(floor: float) -> None:
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


def learner_of(kind: str) -> ArmLearner[Any]:
    return vectors.learner_over_arms(kind, K)


def settled(learner: ArmLearner[Any], state: Any, arm: Any, loss: Any) -> Any:
    if isinstance(learner, SlotLearner):
        return learner.settle(state, arm, loss, record=learner.record(state, arm))
    return learner.settle(state, arm, loss)


@pytest.mark.parametrize("kind", KINDS)
def test_all_arms_named_are_no_arms_named_bit_for_bit(kind: str) -> None:
    learner, rng = learner_of(kind), np.random.default_rng(4)
    named = plain = learner.start()
    for t in range(1, 100):
        u, loss = float(rng.random()), float(rng.random())
        one, two = Slot(t, 0, u), Slot(t, 0, u, 0.0, np.arange(K))
        plain, arm = learner.draw(learner.open(plain, one), one)
        named, again = learner.draw(learner.open(named, two), two)
        assert arm == again
        assert learner.distribution(plain).tolist() == learner.distribution(named).tolist()
        plain, named = settled(learner, plain, arm, loss), settled(learner, named, arm, loss)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("floor", [0.0, 0.25])
def test_many_runs_are_as_each_alone(kind: str, floor: float) -> None:
    """The eligible arms of a slot are the same in all runs; one run learns nothing for long."""
    learner, rng, runs = learner_of(kind), np.random.default_rng(5), 3
    together, alone = many(learner.start(), runs), [learner.start() for _ in range(runs)]
    for t in range(1, 80):
        arms, u, losses = vectors.positions(subset(rng, K)), rng.random(runs), rng.random(runs)
        losses[0] = 0.5
        slot = Slot(t, 0, u, 0.0, arms, floor)
        together, drawn = learner.draw(learner.open(together, slot), slot)
        for run in range(runs):
            one = slot._replace(u=float(u[run]))
            alone[run], arm = learner.draw(learner.open(alone[run], one), one)
            assert arm == drawn[run]
            np.testing.assert_array_equal(learner.distribution(together)[run], learner.distribution(alone[run]))
            alone[run] = settled(learner, alone[run], arm, float(losses[run]))
        together = settled(learner, together, drawn, losses)
        shown = learner.probabilities(together, arms, floor)
        for run in range(runs):
            np.testing.assert_array_equal(shown[run], learner.probabilities(alone[run], arms, floor))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("floor", [0.0, 0.1])
def test_what_is_drawn_from_is_a_distribution_over_the_eligible_arms_with_the_floor(
    kind: str, floor: float
) -> None:
    learner, rng = learner_of(kind), np.random.default_rng(6)
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
        state = settled(learner, state, arm, float(rng.random() < 0.2 + 0.1 * arm))
