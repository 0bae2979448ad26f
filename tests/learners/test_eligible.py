"""Slots that name eligible arms, and floors: what always holds, and what it pays."""

from collections.abc import Callable

import numpy as np
import pytest

from service.engine.arm_run import ArmRun
from service.engine.ledger import ArmFeedback
from service.learners.base import FloatArray, IntArray, Slot
from tests.support import vectors
from tests.support.runs import start

KINDS = vectors.with_eligible_arms()
K = 7


def subset(rng: np.random.Generator, n_arms: int) -> list[int]:
    return sorted(rng.choice(n_arms, int(rng.integers(1, n_arms + 1)), replace=False).tolist())


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
    for t in range(1, 120):
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
    seeds, ways = range(SEEDS), (with_eligible, drawing_again)
    named, again = (np.array([share_of_clicks(kind, show, seed) for seed in seeds]) for show in ways)

    gain = named - again
    error = gain.std(ddof=1) / np.sqrt(SEEDS)
    assert gain.mean() > 0.05 + 3 * error
    assert named.mean() > 0.85
