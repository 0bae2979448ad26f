"""What always holds of centred_tsallis, through late and lost losses; its symmetries: test_multiscale_tsallis."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.learners.base import Slot, many
from service.learners.centred_tsallis import CentredTsallis
from service.learners.tsallis import solve
from tests.support.examples import examples


def sound(state, n_arms):
    for part in state:
        assert part is None or np.isfinite(part).all()
    assert (state.p > 0).all()
    assert (np.abs(state.p.sum(axis=-1) - 1.0) <= 1e-12).all()
    assert state.p.shape[-1] == n_arms


@pytest.mark.slow
@pytest.mark.parametrize(("n_arms", "runs", "slots"), [(2, 400, 1000), (5, 400, 1000), (100, 50, 4000)])
def test_a_million_slots_with_lost_repeated_and_late_feedback(n_arms, runs, slots):
    """400,000 + 400,000 + 200,000 slots in many runs: 30 % lost, 20 % repeated, delays up to 50, losses 0 or 1."""
    learner = CentredTsallis(n_arms, tracking=n_arms == 5)
    rng = np.random.default_rng(n_arms)
    best = rng.integers(0, n_arms, runs)
    state, late = many(learner.start(), runs), {}

    for t in range(1, slots + 1):
        slot = Slot(t, 0, rng.random(runs))
        state, arms = learner.draw(learner.open(state, slot), slot)
        losses = (rng.random(runs) < np.where(arms == best, 0.9, 0.999)).astype(float)
        for copies in range(1 + (rng.random() < 0.2)):
            if rng.random() > 0.3:
                late.setdefault(t + copies + int(rng.integers(0, 50)), []).append((arms, losses))
        for arrived in late.pop(t, []):
            state = learner.settle(state, *arrived)
        if t % 50 == 0:
            sound(state, n_arms)
    sound(state, n_arms)


@pytest.mark.slow
@pytest.mark.parametrize("n_arms", [1, 2, 10_000])
def test_one_long_run_stays_sound(n_arms):
    learner = CentredTsallis(n_arms)
    rng = np.random.default_rng(5)
    state = learner.start()
    for t in range(1, 5_000 if n_arms < 10 else 500):
        slot = Slot(t, 0, float(rng.random()))
        state, arm = learner.draw(learner.open(state, slot), slot)
        state = learner.settle(state, arm, float(arm % 2 if t % 3 else rng.random() * 1e50))
        sound(state, n_arms)


@settings(max_examples=examples(200), deadline=None, derandomize=True)
@given(st.lists(st.floats(0, 1e12), min_size=1, max_size=200), st.floats(1e-6, 1e6), st.floats(-1e6, 0))
def test_the_multiplier_solves_its_equation(values, scale, start):
    sums = np.array(values) - min(values)

    lam, x = solve(sums, scale, start)

    assert lam <= -scale
    assert x.sum() == pytest.approx(1.0, abs=1e-13)


@pytest.mark.slow
def test_it_finds_the_better_arm_at_click_rates():
    """Clicks 2 % against 1 %, delays of 10: after 20,000 slots the better arm leads in at least 9 of 10 runs."""
    learner, runs = CentredTsallis(2), 10
    rng = np.random.default_rng(0)
    state, late = many(learner.start(), runs), []
    for t in range(1, 20_001):
        slot = Slot(t, 0, rng.random(runs))
        state, arms = learner.draw(learner.open(state, slot), slot)
        late.append((arms, 1.0 - (rng.random(runs) < np.where(arms == 1, 0.02, 0.01))))
        if t > 10:
            state = learner.settle(state, *late.pop(0))

    assert int((state.p[:, 1] > 0.5).sum()) >= 9


def test_an_outstanding_count_of_its_own_never_falls_below_0():
    learner = CentredTsallis(3)
    state = learner.open(learner.start(), Slot(1, 0, 0.0))
    for _ in range(5):
        state = learner.settle(state, 1, 0.5)
    assert (state.outstanding, state.events) == (0, 5)


@pytest.mark.parametrize("far", [0.0, 30.0])
def test_a_better_loss_is_corrected_as_the_rule_of_defaults_says(far):
    """On S, V, M and the pool of this learner; far from the mean the step ends at its bound."""
    learner, rng = CentredTsallis(3), np.random.default_rng(4)
    state = learner.start()
    for t in range(1, 50):
        state = learner.open(state, Slot(t, 0, 0.5))
        state = learner.settle(state, int(rng.integers(3)), float(rng.random()))
    loss, before, bound = 0.2 - far, 0.7, state.scale / np.sqrt(state.p[1])

    after = learner.correct(state, 1, loss, before)

    step = min(max((loss - before) / state.pool[1], -bound), bound / 2)
    assert after.sums.tolist() == [state.sums[0], pytest.approx(state.sums[1] + step), state.sums[2]]
    assert after.mean == pytest.approx(state.mean + (loss - before) / state.events)
    squares = [(each - state.shift) ** 2 for each in (loss, before)]
    assert after.variance_sum == pytest.approx(max(state.variance_sum + squares[0] - squares[1], 0))
    assert (after.variance_max, after[1:4]) == (max(state.variance_max, squares[0]), state[1:4])
    first = learner.settle(learner.open(learner.start(), Slot(1, 0, 0.5)), 1, before)
    assert learner.correct(first, 1, loss, before).mean == pytest.approx(loss)
    assert learner.correct(first, 1, loss, before).variance_sum == 0
