"""multiscale_tsallis: its traces, another implementation of its rule, and what always holds."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.learners.base import FloatArray, IntArray, Slot, many
from service.learners.multiscale_tsallis import MultiscaleTsallis, State
from tests.support import vectors
from tests.support.examples import examples
from tests.support.plain_multiscale import PlainMultiscale

TRACES = sorted(path.stem for path in vectors.VECTORS.glob("multiscale_[0-9]*.json"))
MOVED = "sums", "mixture_sums", "mean", "variance_sum", "deviation_sum"


def positions(arms: list[int] | None) -> IntArray | None:
    return None if arms is None else np.array(arms, dtype=np.int64)


def applied(learner: MultiscaleTsallis, state: State, op: dict[str, Any], default: float | None) -> State:
    """The state after an operation other than open, as the traces name it."""
    match op["op"]:
        case "event":
            return learner.settle(state, op["arm"], op["loss"], op["count"])
        case "charge":
            return learner.charge(state, op["arm"], default)
        case "correct":
            return learner.correct(state, op["arm"], op["loss"], default)
        case "void" if default is not None:
            return learner.uncharge(state, op["arm"], default)
        case "add_arms":
            return learner.add_arms(state, op["count"])
        case "remove_arms":
            return learner.remove_arms(state, np.array(op["positions"]))
        case name:
            assert name in {"void", "expire"}
            return learner.give_up(state, op.get("count", 1)) if default is None else state


@pytest.mark.parametrize("name", TRACES)
def test_learner_follows_its_trace(name: str) -> None:
    trace = vectors.load(name)
    learner, default = MultiscaleTsallis(trace["n_arms"]), trace["provisional_default"]
    state, tolerance = learner.start(), {"rtol": 0, "atol": trace["tolerance"]}

    for op in trace["ops"]:
        if op["op"] == "open":
            where = positions(op["eligible"])
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


class Game(NamedTuple):
    """Slots with random feedback, in which anything may happen that a session allows."""

    n_arms: int
    default: float | None
    seed: int
    slots: int


def operations(game: Game) -> Any:
    """Yields ("open", outstanding, eligible, floor) and is sent the arm, or another operation and its arguments."""
    rng, waiting, k = np.random.default_rng(game.seed), [], game.n_arms
    losses = rng.random(16)
    for _ in range(game.slots):
        eligible = (
            sorted(rng.choice(k, rng.integers(1, k + 1), replace=False).tolist()) if rng.random() < 0.4 else None
        )
        arm = yield "open", len(waiting) + 20_000 * (rng.random() < 0.02), eligible, 0.2 * (rng.random() < 0.3)
        waiting.append(arm)
        if game.default is not None:
            yield "charge", arm
        while waiting and rng.random() < 0.45:
            arm, loss = waiting.pop(rng.integers(len(waiting))), float(losses[arm] < rng.random())
            if rng.random() < 0.1:
                yield "void", arm
            elif game.default is None:
                yield "event", arm, loss, int(rng.integers(1, 4))
            else:
                yield "correct", arm, loss
        if rng.random() < 0.03 and k < 12:
            k += 2
            yield "add_arms", 2
        elif rng.random() < 0.03 and k > 3:
            gone, k = sorted(rng.choice(k, 2, replace=False).tolist()), k - 2
            waiting = [arm - sum(each < arm for each in gone) for arm in waiting if arm not in gone]
            yield "remove_arms", gone


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
    state, steps, sent, t = learner.start(), operations(game), None, 0
    rng = np.random.default_rng(game.seed + 100)

    while True:
        try:
            name, *args = steps.send(sent)
        except StopIteration:
            break
        if name == "open":
            t += 1
            outstanding, eligible, floor = args
            slot = Slot(t, outstanding, rng.random(), 0.0, positions(eligible), floor, game.default is not None)
            state, sent = learner.draw(learner.open(state, slot), slot)
            np.testing.assert_allclose(learner.distribution(state), plain.open(*args), rtol=0, atol=1e-9)
            continue
        getattr(plain, name)(*args)
        fields = {"arm": args[0], "loss": args[1] if len(args) > 1 else None, "count": (args[2:] or args)[0]}
        state = applied(learner, state, {"op": name, "positions": args[0], **fields}, game.default)
        np.testing.assert_allclose(state.sums, plain.s, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(state.mixture_sums, plain.w_sums, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(state.pools, [*plain.q, plain.pool], rtol=0, atol=1e-9)


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
    game, learner = Game(4, default, 7, slots), MultiscaleTsallis(4)
    state, steps, sent, t = learner.start(), operations(game), None, 0
    rng = np.random.default_rng(8)
    while True:
        try:
            name, *args = steps.send(sent)
        except StopIteration:
            break
        if name == "open":
            t += 1
            slot = Slot(t, args[0], rng.random(), 0.0, positions(args[1]), args[2], provisional=True)
            state, sent = learner.draw(learner.open(state, slot), slot)
            p = learner.distribution(state)
            assert abs(p.sum() - 1) < 1e-12
            assert args[1] is None or np.delete(p, args[1]).sum() == 0
        else:
            loss = args[1] if len(args) > 1 else None
            op = {"op": name, "arm": args[0], "loss": loss, "count": args[0], "positions": args[0]}
            state = applied(learner, state, op, default)
        if rng.random() < 0.1:
            state = learner.correct(state, int(rng.integers(state.sums.shape[-1])), float(rng.integers(2)), default)
    assert all(np.isfinite(part).all() for part in state)


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
