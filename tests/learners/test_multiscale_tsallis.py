"""What always holds of multiscale_tsallis: symmetries, exact steps back, and that nothing breaks it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.learners.base import FloatArray, Slot, many
from service.learners.multiscale_state import State
from service.learners.multiscale_tsallis import MultiscaleTsallis
from tests.support.examples import examples
from tests.support.multiscale_games import Course, Game

MOVED = "sums", "mixture_sums", "mean", "variance_sum", "deviation_sum"


def play(
    learner: MultiscaleTsallis, slots: int, seed: int, alpha: float, beta: float, default: float | None
) -> Any:
    """p of every slot: fixed arms, losses alpha l + beta; charged and corrected where there is a default."""
    rng = np.random.default_rng(seed)
    state, history = learner.start(), []
    for t in range(1, slots + 1):
        state = learner.open(state, Slot(t, int(rng.integers(0, 9)), 0.0, provisional=default is not None))
        history.append(learner.distribution(state))
        if default is not None:
            state = learner.charge(state, int(rng.integers(learner.n_arms)), alpha * default + beta)
        for arm in rng.integers(0, learner.n_arms, int(rng.integers(0, 3 if default is None else 2))).tolist():
            loss = alpha * rng.random() + beta
            if default is None:
                state = learner.settle(state, arm, loss)
            else:
                state = learner.correct(state, arm, loss, alpha * default + beta)
    return history


@settings(max_examples=examples(20), deadline=None, derandomize=True)
@given(
    st.integers(0, 2**32 - 1),
    st.floats(0.1, 30),
    st.floats(-1000, 1000),
    st.integers(2, 12),
    st.sampled_from([None, 0.0, 1.0]),
)
def test_shift_and_scale_of_losses_do_not_matter(
    seed: int, alpha: float, shift: float, n_arms: int, default: float | None
) -> None:
    learner = MultiscaleTsallis(n_arms)

    plain = play(learner, 60, seed, 1.0, 0.0, default)
    moved = play(learner, 60, seed, alpha, alpha * shift, default)

    np.testing.assert_allclose(plain, moved, rtol=0, atol=1e-9)


@settings(max_examples=examples(20), deadline=None, derandomize=True)
@given(st.integers(0, 2**32 - 1), st.integers(2, 20), st.sampled_from([None, 0.0, 0.5, 1.0]))
def test_order_within_a_slot_does_not_matter(seed: int, n_arms: int, default: float | None) -> None:
    """One slot's events, or corrections, in reverse change p of the next slot by 1e-14 at most."""
    learner, rng = MultiscaleTsallis(n_arms), np.random.default_rng(seed)
    state = learner.start()

    def told(state: State, arm: int, loss: float) -> State:
        return learner.settle(state, arm, loss) if default is None else learner.correct(state, arm, loss, default)

    for t in range(1, 40):
        state = learner.open(state, Slot(t, min(t, 9), 0.0, provisional=default is not None))
        for arm in rng.integers(0, n_arms, 4).tolist() if default is not None else ():
            state = learner.charge(state, arm, default)
        events = list(zip(rng.integers(0, n_arms, 3).tolist(), rng.random(3).tolist(), strict=True))
        forth, back = state, state
        for arm, loss in events:
            forth = told(forth, arm, loss)
        for arm, loss in reversed(events):
            back = told(back, arm, loss)
        after = [learner.distribution(learner.open(each, Slot(t + 1, 3, 0.0))) for each in (forth, back)]
        np.testing.assert_allclose(after[0], after[1], rtol=0, atol=1e-14)
        state = forth


@pytest.mark.parametrize("loss", [0.0, 1.0, 0.1, 1 / 3, 1e-300, 1e100])
@pytest.mark.parametrize("is_provisional", [False, True])
def test_equal_losses_leave_p_uniform(loss: float, is_provisional: bool) -> None:
    learner = MultiscaleTsallis(7)
    state = learner.start()
    for t in range(1, 200):
        state = learner.open(state, Slot(t, t % 50, 0.0, provisional=is_provisional))
        np.testing.assert_array_equal(learner.distribution(state), learner.distribution(learner.start()))
        state = learner.charge(state, t % 7, loss) if is_provisional else learner.settle(state, t % 7, loss)
    assert state.variance_sum == 0.0


def test_a_decision_charged_and_taken_back_leaves_what_was() -> None:
    learner, rng = MultiscaleTsallis(5), np.random.default_rng(1)
    state = learner.start()
    for t in range(1, 200):
        slot = Slot(t, t % 9, rng.random(), provisional=True)
        before, arm = learner.draw(learner.open(state, slot), slot)
        state = learner.charge(before, arm, 1.0)
        back = learner.uncharge(state, arm, 1.0)
        assert back.events == before.events
        for name in MOVED:
            np.testing.assert_allclose(getattr(back, name), getattr(before, name), rtol=0, atol=1e-13)
        if rng.random() < 0.3:
            state = learner.correct(state, arm, 0.0, 1.0)


def test_the_only_charge_taken_back_leaves_the_start() -> None:
    learner = MultiscaleTsallis(3)
    before = learner.open(learner.start(), Slot(1, 0, 0.5, provisional=True))
    back = learner.uncharge(learner.charge(before, 1, 0.7), 1, 0.7)

    assert (back.events, back.mean, back.variance_sum) == (0, 0.0, 0.0)


@pytest.mark.parametrize("slots", [60, pytest.param(12_000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("default", [0.0, 0.5, 1.0])
def test_nothing_breaks_it(default: float, slots: int) -> None:
    """Surplus corrections, sets of eligible arms, floors, arms that come and go."""
    learner, rng = MultiscaleTsallis(4), np.random.default_rng(8)
    course = Course(learner, Game(4, default, 7, slots), rng)

    for name, args in course.steps():
        if name == "open":
            p = learner.distribution(course.state)
            assert abs(p.sum() - 1) < 1e-12
            assert args[1] is None or np.delete(p, args[1]).sum() == 0
        if rng.random() < 0.1:
            arm, loss = int(rng.integers(course.state.sums.shape[-1])), float(rng.integers(2))
            course.state = learner.correct(course.state, arm, loss, default)
    assert all(np.isfinite(part).all() for part in course.state)


def test_new_arms_start_at_their_share() -> None:
    """1/n each in the next slot; in the expert that knows of delays D grows then, so it is off by that."""
    learner, rng = MultiscaleTsallis(10), np.random.default_rng(2)
    state = learner.start()
    for t in range(1, 300):
        slot = Slot(t, 5, rng.random())
        state, arm = learner.draw(learner.open(state, slot), slot)
        state = learner.settle(state, arm, float(rng.random() < 0.3 + 0.05 * arm))

    state = learner.add_arms(state, 2)
    now = learner.probabilities(state)
    following = learner.distribution(learner.open(state, Slot(300, 5, 0.0)))

    np.testing.assert_allclose(now[-2:], 1 / 12, rtol=1e-12)
    np.testing.assert_allclose(following[-2:], 1 / 12, rtol=1e-3)


def rows(runs: int, learner: MultiscaleTsallis, slots: int, default: float | None) -> tuple[State, list[State]]:
    """Runs stepped at once, and the same runs one by one, with eligible arms, floors and changes of arms."""
    rng = np.random.default_rng(5)
    together, alone = many(learner.start(), runs), [learner.start() for _ in range(runs)]
    for t in range(1, slots + 1):
        u, losses = rng.random(runs), rng.random(runs)
        where = np.sort(rng.choice(6, 4, replace=False)) if t % 3 == 0 else None
        slot = Slot(t, t % 4, u, 0.0, where, 0.1 * (t % 5 == 0), default is not None)
        together, arms = learner.draw(learner.open(together, slot), slot)
        together = _told(learner, together, arms, losses, default)
        for run in range(runs):
            slot = slot._replace(u=float(u[run]))
            alone[run], arm = learner.draw(learner.open(alone[run], slot), slot)
            alone[run] = _told(learner, alone[run], arm, float(losses[run]), default)
        if t == 20:
            together = learner.add_arms(learner.remove_arms(together, np.array([1, 3])), 2)
            alone = [learner.add_arms(learner.remove_arms(each, np.array([1, 3])), 2) for each in alone]
    return together, alone


def _told(learner: MultiscaleTsallis, state: State, arm: Any, loss: Any, default: float | None) -> State:
    if default is None:
        return learner.settle(state, arm, loss, 2)
    state = learner.correct(learner.charge(state, arm, default), arm, loss, default)
    return learner.uncharge(learner.charge(state, arm, default), arm, default)


@pytest.mark.parametrize("default", [None, 1.0])
def test_many_runs_at_once_are_as_each_alone(default: float | None) -> None:
    together, alone = rows(4, MultiscaleTsallis(6), 40, default)

    for run, state in enumerate(alone):
        for all_runs, part in zip(together, state, strict=True):
            one: FloatArray = all_runs[run] if np.ndim(all_runs) else all_runs
            np.testing.assert_array_equal(one, part)
