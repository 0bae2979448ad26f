"""What the paper proves of one DEXP3 update, with its constants: Lemmas 1 and 2 and eq. (ineq4)."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.learners.base import FloatArray, Slot
from service.learners.dexp3 import Dexp3, Rates
from tests.support.examples import examples

ROUNDING = 1 + 1e-12
UPDATES = 1_000_000


@st.composite
def chains(draw: st.DrawFn) -> tuple[Dexp3, Rates, list[list[tuple[int, float]]]]:
    """A learner with 1 - delta_2 - eta delta_1 > 0, and the events of some slots."""
    n_arms = draw(st.integers(1, 8))
    floor = draw(st.floats(1e-9, 0.5))
    exponent = draw(st.floats(1e-6, 0.999)) * (1 - floor)
    eta = draw(st.floats(1e-4, 10.0))
    event = st.tuples(st.integers(0, n_arms - 1), st.floats(0, 1))
    slots = draw(st.lists(st.lists(event, max_size=6), min_size=1, max_size=12))
    rates = Rates(eta, exponent / eta, floor)
    return Dexp3(n_arms, rates), rates, slots


def updates(learner: Dexp3, slots: list[list[tuple[int, float]]]) -> list[FloatArray]:
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
def test_no_probability_shrinks_by_more_than_lemma_1_allows(case) -> None:
    learner, (eta, clip, floor), slots = case
    chain = updates(learner, slots)

    bound = ROUNDING / (1 - floor - eta * clip)

    for before, after in pairwise(chain):
        assert (before / after <= bound).all()


@settings(max_examples=examples(300), deadline=None, derandomize=True)
@given(chains())
def test_no_probability_grows_by_more_than_lemma_2_allows(case) -> None:
    learner, (eta, clip, floor), slots = case
    chain = updates(learner, slots)

    bound = ROUNDING * max(1 + floor, 1 / (1 - eta * clip))

    for before, after in pairwise(chain):
        assert (after / before <= bound).all()


@settings(max_examples=examples(300), deadline=None, derandomize=True)
@given(chains())
def test_every_probability_keeps_the_floor_of_ineq4(case) -> None:
    learner, (_, _, floor), slots = case

    for p in updates(learner, slots):
        assert (p * ROUNDING >= floor / (learner.n_arms * (1 + floor))).all()
        assert abs(p.sum() - 1) <= 1e-12


def adversary(p: FloatArray, phase: int, step: int) -> int:
    """Arm to hit: the likeliest, the least likely, or one after the other."""
    if phase == 0:
        return int(p.argmax())
    if phase == 1:
        return int(p.argmin())
    return step % p.size


@pytest.mark.slow
@pytest.mark.parametrize("n_arms", [2, 5, 1000])
def test_probabilities_stay_sound_through_a_million_adversarial_updates(n_arms: int) -> None:
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
