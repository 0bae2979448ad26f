"""multiscale_tsallis follows its rule and another implementation; symmetries, exact steps back, and its solver."""

from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.learners.base import InitialArm, Slot
from service.learners.centred_tsallis import CentredTsallis
from service.learners.multiscale_tsallis import MultiscaleTsallis
from service.learners.tsallis import distribution_over_few, solve, solve_rows
from tests.support import vectors
from tests.support.examples import examples


def applied(learner, state, op, default):
    """The state after an operation other than open, as the traces name it."""
    match op["op"]:
        case "event":
            return learner.settle(state, op["arm"], op["loss"], op["count"])
        case "charge":
            return learner.charge(state, op["arm"], default)
        case "correct":
            return learner.correct(state, op["arm"], op["loss"], default)
        case "update":
            return learner.correct(state, op["arm"], op["loss"], op["earlier"])
        case "void":
            arm = op["arm"]
            return learner.void(state, arm) if default is None else learner.uncharge(state, arm, default)
        case "add_arms":
            return learner.add_arms(state, op["count"])
        case "remove_arms":
            return learner.remove_arms(state, np.array(op["positions"]))
        case name:
            assert name in {"drop", "expire", "pause", "resume"}
            return learner.expire(state, op["count"]) if name == "drop" else state


TRACES = sorted(path.stem for path in vectors.VECTORS.glob("multiscale_[0-9]*.json"))


@pytest.mark.parametrize("name", TRACES)
def test_learner_follows_its_trace(name):
    trace = vectors.load(name)
    learner, default = MultiscaleTsallis(trace["n_arms"]), trace["provisional_default"]
    state, close = learner.start(), partial(np.testing.assert_allclose, rtol=0, atol=trace["tolerance"])
    if trace["initial"]:
        state = learner.warmed(state, [InitialArm(*arm.values()) for arm in trace["initial"]])

    for op in trace["ops"]:
        if op["op"] == "open":
            where = vectors.positions(op["eligible"])
            slot = Slot(op["t"], op["outstanding"], op["u"], 0.0, where, op["floor"], default is not None)
            state, arm = learner.draw(learner.open(state, slot), slot)
            assert (arm, state.dropped) == (op["arm"], op["dropped"])
            close(learner.distribution(state), op["p"])
            close(state.weights, op["w"])
            close(state.p, op["full_p"] or state.p)
            if "best_chance" in op:
                expected, found = op["best_chance"], learner.best_chance(state)
                assert (found is None) == (expected is None)
                close(0.0 if found is None else found, expected or 0.0)
            continue
        state = applied(learner, state, op, default)
        if "pool" in op:
            close(state.sums, [*op["S"], *op["N"], *op["L"]])
            close(state.lam, op["lam"])
            close(state.pools[-1], op["pool"])
        elif "S" in op:
            close(state.sums[:, op["arm"]], [*op["S"], *op["N"], *op["L"]])
            close(state.mixture_sums, op["W"])
            close([state.events, state.mean, state.variance_sum], [op["n"], op["mean"], op["V"]])


MOVED = "sums", "mixture_sums", "mean", "variance_sum", "deviation_sum"


LEARNERS = [CentredTsallis, partial(CentredTsallis, tracking=True), MultiscaleTsallis]


def play(learner, slots, seed, alpha, beta, default):
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


@settings(max_examples=examples(100), deadline=None, derandomize=True)
@given(
    st.sampled_from(LEARNERS),
    st.integers(0, 2**32 - 1),
    st.floats(-1, 1),
    st.floats(-1000, 1000),
    st.integers(2, 12),
    st.sampled_from([None, 0.0, 1.0]),
)
def test_shift_and_scale_of_losses_do_not_matter(make, seed, power, shift, n_arms, default):
    """beta + alpha l instead of l, |beta| <= 1000 alpha, changes p by 1e-9 at most."""
    learner = make(n_arms)
    default, alpha = (default, 30**power) if make is MultiscaleTsallis else (None, 1000**power)

    plain = play(learner, 50, seed, 1.0, 0.0, default)
    moved = play(learner, 50, seed, alpha, alpha * shift, default)

    np.testing.assert_allclose(plain, moved, rtol=0, atol=1e-9)


@settings(max_examples=examples(100), deadline=None, derandomize=True)
@given(st.sampled_from(LEARNERS), st.integers(0, 2**32 - 1), st.integers(2, 20), st.sampled_from([None, 0, 0.5, 1]))
def test_order_within_a_slot_does_not_matter(make, seed, n_arms, default):
    """One slot's events, or corrections, in reverse change p of the next slot by 1e-14 at most."""
    learner, rng = make(n_arms), np.random.default_rng(seed)
    default = default if make is MultiscaleTsallis else None
    state = learner.start()

    def told(state, arm, loss):
        return learner.settle(state, arm, loss) if default is None else learner.correct(state, arm, loss, default)

    for t in range(1, 20):
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
@pytest.mark.parametrize(("make", "is_provisional"), [(make, False) for make in LEARNERS] + [(LEARNERS[-1], True)])
def test_equal_losses_leave_p_uniform(loss, make, is_provisional):
    learner = make(7)
    state = learner.start()
    assert learner.distribution(state).tolist() == [1 / 7] * 7
    for t in range(1, 300):
        state = learner.open(state, Slot(t, t % 50, 0.0, provisional=is_provisional))
        np.testing.assert_array_equal(learner.distribution(state), learner.distribution(learner.start()))
        state = learner.charge(state, t % 7, loss) if is_provisional else learner.settle(state, t % 7, loss)
    assert state.variance_sum == 0.0


def test_a_decision_charged_and_taken_back_leaves_what_was():
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


def test_the_only_charge_taken_back_leaves_the_start():
    learner = MultiscaleTsallis(3)
    before = learner.open(learner.start(), Slot(1, 0, 0.5, provisional=True))
    back = learner.uncharge(learner.charge(before, 1, 0.7), 1, 0.7)

    assert (back.events, back.mean, back.variance_sum) == (0, 0.0, 0.0)


def test_new_arms_start_at_their_share():
    """1/n each in the next slot of a Tsallis expert; one that knows of delays is off by what D grows then."""
    learner, rng = MultiscaleTsallis(10), np.random.default_rng(2)
    state = learner.start()
    for t in range(1, 300):
        slot = Slot(t, 5, rng.random())
        state, arm = learner.draw(learner.open(state, slot), slot)
        state = learner.settle(state, arm, float(rng.random() < 0.3 + 0.05 * arm))

    state = learner.add_arms(state, 2)
    now = learner.probabilities(state)
    following = learner.open(state, Slot(300, 5, 0.0))

    np.testing.assert_allclose(now[-2:], 1 / 12, rtol=1e-12)
    np.testing.assert_allclose(following.p[:3, -2:], 1 / 12, rtol=1e-9)
    np.testing.assert_allclose(following.p[3, -2:], 1 / 12, rtol=2e-3)
    # What is unknown may be the best.
    assert learner.distribution(following)[-1] > 0.1


def test_a_loss_corrected_twice_is_the_last_one():
    learner, rng = MultiscaleTsallis(4), np.random.default_rng(5)
    state = learner.start()
    for t in range(1, 100):
        slot = Slot(t, t % 9, rng.random(), provisional=True)
        state, arm = learner.draw(learner.open(state, slot), slot)
        charged = learner.charge(state, arm, 1.0)
        once = learner.correct(charged, arm, 0.3, 1.0)
        state = learner.correct(learner.correct(charged, arm, 0.8, 1.0), arm, 0.3, 0.8)
        np.testing.assert_allclose(state.sums[4:], once.sums[4:], rtol=1e-13)
        numbers = [[each.events, each.mean, each.variance_sum] for each in (state, once)]
        np.testing.assert_allclose(*numbers, rtol=1e-13, atol=1e-13)


def test_of_an_arm_that_no_decision_can_be_of_losses_are_counted_alone():
    learner = MultiscaleTsallis(3)
    state = learner.settle(learner.open(learner.start(), Slot(1, 0, 0.0)), 0, 1.0)
    state = learner.open(learner.settle(state, 1, 0.0), Slot(2, 0, 0.0, eligible=np.array([0, 1])))
    after = learner.settle(state, 2, 0.5)

    assert state.pools[-1, 2] == 0
    np.testing.assert_array_equal(after.sums[:4], state.sums[:4])
    np.testing.assert_array_equal(after.mixture_sums, state.mixture_sums)
    assert after.sums[4:, 2].tolist() == [1, 1, 0.5, 0.5]


@pytest.mark.parametrize(("n_arms", "count"), [(1, 500), (3, 1_000_000), (10_000, 1)])
def test_few_and_very_many_arms_and_losses(n_arms, count):
    learner, state = MultiscaleTsallis(n_arms), MultiscaleTsallis(n_arms).start()
    for t in range(1, 40):
        state = learner.open(state, Slot(t, 2, 0.5))
        p = learner.distribution(state)
        assert p.sum() == pytest.approx(1, abs=1e-12)
        assert p.min() > 0
        state = learner.settle(state, t % min(n_arms, 2), float(t > 3 and t % 3 == 0), count)
    assert learner.best_chance(state).sum() == pytest.approx(1, abs=1e-12)


def test_equal_losses_are_uniform_over_the_eligible_arms():
    learner, state = MultiscaleTsallis(5), MultiscaleTsallis(5).start()
    for t in range(1, 50):
        state = learner.open(state, Slot(t, t % 7, 0.0, eligible=np.array([0, 2, 3]), provisional=True))
        assert learner.distribution(state).tolist() == [1 / 3, 0, 1 / 3, 1 / 3, 0]
        state = learner.charge(state, t % 5, 0.4)
    assert learner.best_chance(state) is None


@settings(max_examples=examples(200), deadline=None, derandomize=True)
@given(
    st.integers(0, 2**32 - 1),
    st.integers(1, 300),
    st.sampled_from([1e-6, 1.0, 1e3, 1e9, 1e12]),
    st.floats(1e-6, 1e6),
    st.floats(-1e6, 0),
)
def test_rows_sum_to_one_and_are_those_of_one_alone(seed, n_arms, size, scale, start):
    rng = np.random.default_rng(seed)
    sums = size * rng.random((5, n_arms)) ** 4
    sums -= sums.min(axis=-1, keepdims=True)
    scales = scale * (0.5 + rng.random(5))

    lam, x = solve_rows(sums, scales, np.full(5, start))
    together = solve_rows(np.stack([sums, sums[::-1]]), np.stack([scales, scales[::-1]]), np.full((2, 5), start))

    assert (lam <= -scales).all()
    np.testing.assert_allclose(x.sum(axis=-1), 1.0, rtol=0, atol=1e-13)
    np.testing.assert_array_equal(together[1], [x, x[::-1]])
    for row in range(5):
        np.testing.assert_allclose(solve(sums[row], scales[row], -scales[row])[1], x[row], rtol=1e-9, atol=1e-15)


@pytest.mark.parametrize("scale", [0.0, 1e-3, 1.0, 50.0])
def test_a_few_entries_are_solved_for_alike_in_one_run_and_in_many(scale):
    rng = np.random.default_rng(3)
    sums, before, costs = 9 * rng.random((6, 5)), rng.dirichlet(np.ones(5), 6), (0.0, 1.0, 1.0, 2.0, 0.5)

    together = distribution_over_few(sums, np.full(6, scale), before, 0.01, costs)
    alone = [distribution_over_few(*each, 0.01, costs) for each in zip(sums, [scale] * 6, before, strict=True)]

    for name in together._fields:
        np.testing.assert_array_equal(getattr(together, name), [getattr(each, name) for each in alone])
    np.testing.assert_allclose(together.p.sum(axis=-1), 1.0, rtol=0, atol=1e-14)
