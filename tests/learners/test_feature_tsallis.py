"""multiscale_tsallis with features follows its traces, another implementation, and labelled least squares."""

from __future__ import annotations

import struct
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pytest

from service.learners import feature_tsallis
from service.learners.base import FloatArray, InitialArm, Rows, Slot, Visit
from service.learners.feature_tsallis import FeatureTsallis, Log, Regressions
from service.learners.features import UNIT, of_int16
from service.learners.multiscale_state import State
from service.learners.multiscale_tsallis import MultiscaleTsallis
from tests.support import vectors
from tests.support.plain_features import PlainFeatures

TRACES = [1, 2, 3]


def visit_of(op: dict[str, Any]) -> Visit:
    x, ratio = op.get("columns"), op.get("ratio")
    return Visit(None if x is None else np.array(x), None if ratio is None else tuple(ratio))


def applied(learner: FeatureTsallis, state: State, op: dict[str, Any], default: float, act: Visit) -> State:
    """The state after an operation other than open, as the traces name it."""
    visit = visit_of(op)
    match op["op"]:
        case "charge":
            return learner.heard(state, op["arm"], act, default)
        case "event":
            return learner.heard(state, op["arm"], visit, op["loss"])
        case "correct" | "update":
            return learner.heard(state, op["arm"], visit, op["loss"], op.get("was", default))
        case "void":
            return learner.heard(state, op["arm"], visit, None, default)
        case "add_arms":
            return learner.add_arms(state, op["count"])
        case "remove_arms":
            return learner.remove_arms(state, np.array(op["positions"]))
        case name:
            assert name in {"drop", "expire"}
            return learner.expire(state, 1) if name == "drop" else state


@pytest.mark.parametrize("number", TRACES)
def test_learner_follows_its_trace(number: int) -> None:
    trace = vectors.load(f"features_{number}")
    learner, default = FeatureTsallis(trace["n_arms"], trace["columns"]), trace["provisional_default"]
    state, close = learner.start(), partial(np.testing.assert_allclose, rtol=0, atol=trace["tolerance"])
    act = Visit()
    for op in trace["ops"]:
        if op["op"] == "initial":
            means = zip(op["acts"], op["mean_loss"], strict=True)
            initial = [InitialArm(k, *each) for k, each in enumerate(means) if each[0]]
            learner = FeatureTsallis(trace["n_arms"], trace["columns"], initial)
            state = learner.warmed(learner.start(), initial)
            close(state.sums, [*op["S"], *op["N"], *op["L"]])
        elif op["op"] == "open":
            where = vectors.positions(op["eligible"])
            floor, x = trace["floor"], np.array(op["columns"])
            slot = Slot(op["t"], op["outstanding"], op["u"], 0.0, where, floor, default is not None, x)
            state, arm = learner.draw(learner.open(state, slot), slot)
            act = Visit(x, learner.ratios(state, arm))
            kept = state.regressions
            assert kept is not None
            assert kept.advice is not None
            assert (state.t, arm) == (op["t"], op["arm"])
            close(kept.predictions(x[None], state.shift)[0], op["predictions"])
            close(kept.advice[7:], op["advice"])
            close(learner.distribution(state), op["p"])
            close(state.weights, op["w"])
            close(state.shown, op["pool"])
            close(act.ratios, op["ratio"])
        else:
            state = applied(learner, state, op, default, act)
            arm, kept = op.get("arm", 0), state.regressions
            assert kept is not None
            if "pool" in op:
                close(state.sums, [*op["S"], *op["N"], *op["L"]])
                close(state.shown, op["pool"])
            elif "S" in op:
                close(state.sums[:, arm], [*op["S"], *op["N"], *op["L"]])
                close(state.mixture_sums, op["W"])
                numbers = [state.mean, state.variance_sum, state.deviation_sum, state.variance_max]
                close(numbers, [op[name] for name in ("mean", "V", "A", "M")])
                fresh = kept.fresh[arm]
                assert fresh[0] == op["fresh"][0]
                close(fresh[-3 * trace["columns"] : -2 * trace["columns"]], op["fresh"][1])
    end = state.regressions
    assert end is not None
    close(sums(end)[..., :-1], trace["end"]["gram"])
    close(sums(end)[..., -1], trace["end"]["cross"])


class Act(NamedTuple):
    arm: int
    visit: Visit


def sums(kept: Regressions) -> FloatArray:
    """G and c of both regressions, all that is new merged, shape (2, arms, d, d + 1)."""
    return kept.opened().squares(range(len(kept.arms))).swapaxes(0, 1)


def columns(rng: np.random.Generator, d: int) -> FloatArray:
    """A visitor's."""
    return of_int16(rng.integers(-UNIT, UNIT, d - 1, endpoint=True))


def known(state: State) -> Regressions:
    assert state.regressions is not None
    return state.regressions


class Play:
    """A random session: sets of arms, tokens or columns or nothing, voids, updates, arms that come and go.

    With ``plain`` the same is told to another implementation.
    """

    def __init__(self, d: int, default: float | None, seed: int, plain: PlainFeatures | None = None) -> None:
        self.learner, self.default, self.plain = FeatureTsallis(4, d), default, plain
        self.state, self.rng, self.t = self.learner.start(), np.random.default_rng(seed), 0
        self.acts = list[Act]()

    def open(self, among: list[int] | None = None) -> None:
        n, rng, self.t = len(known(self.state).arms), self.rng, self.t + 1
        among = sorted(rng.choice(n, rng.integers(1, n + 1), replace=False).tolist()) if among is None else among
        x, default = columns(rng, self.learner.begun.d), self.default
        slot = Slot(self.t, len(self.acts), rng.random(), 0.0, np.array(among), 0.1, default is not None, x)
        self.state, arm = self.learner.draw(self.learner.open(self.state, slot), slot)
        visit = Visit(x, self.learner.ratios(self.state, arm))
        self.acts.append(Act(arm, visit))
        p = self.learner.distribution(self.state)
        assert p.sum() == pytest.approx(1, abs=1e-12)
        assert set(np.flatnonzero(p)) <= set(among)
        if self.plain is not None:
            np.testing.assert_allclose(p, self.plain.open_for(x, slot.outstanding, among), rtol=0, atol=1e-9)
            np.testing.assert_allclose(visit.ratios, self.plain.act_ratio(arm), rtol=1e-3)
            elsewhere = columns(rng, len(x))
            there = self.learner.for_visitor(self.state, elsewhere)
            np.testing.assert_allclose(there, self.plain.visit(elsewhere, list(range(n))), rtol=0, atol=1e-9)
        if default is not None:
            self.tell("told", arm, visit, default)

    def tell(self, what: str, arm: int, visit: Visit, *losses: float) -> None:
        named = (None, self.default) if what == "voided" else losses
        self.state = self.learner.heard(self.state, arm, visit, *named)
        if self.plain is not None:
            getattr(self.plain, what)(arm, *losses, *visit)

    def event(self) -> None:
        """Something becomes of an act; it may also be of another arm, or come once too often."""
        rng, d = self.rng, self.learner.begun.d
        act = self.acts.pop(rng.integers(len(self.acts))) if self.acts and rng.random() < 0.9 else None
        arm, visit = act or Act(0, Visit(columns(rng, d)))
        said = (visit, Visit(visit.x), Visit(), Visit(columns(rng, d)))[rng.integers(4)]
        loss = float(rng.integers(0, 33)) / 32
        if rng.random() < 0.2 and act is not None:
            self.tell("voided", arm, said)
        elif self.default is None:
            self.tell("told", arm, said, loss)
        else:
            self.tell("corrected", arm, said, loss, self.default)
            if loss > 0.5:
                self.tell("corrected", arm, said, loss / 2, loss)

    def change_arms(self) -> None:
        state, gone = self.state, int(self.rng.integers(len(known(self.state).arms)))
        self.state = self.learner.add_arms(self.learner.remove_arms(state, np.array([gone])), 2)
        if self.plain is not None:
            self.plain.remove([gone])
            self.plain.add(2)
        self.acts = [Act(arm - (arm > gone), visit) for arm, visit in self.acts if arm != gone]

    def step(self) -> None:
        self.open()
        for _ in range(self.rng.integers(0, 3)):
            self.event()
        if self.t % 40 == 0 and self.t < 120:
            self.change_arms()


@pytest.mark.parametrize(("d", "default"), [(3, 1.0), (6, None), (2, 0.5)])
def test_it_does_what_the_rule_says_number_by_number(d: int, default: float | None) -> None:
    play = Play(d, default, d, PlainFeatures(4, d, default, 0.1))
    plain = play.plain
    assert plain is not None
    for _ in range(100):
        play.step()
        state = play.state
        np.testing.assert_allclose(state.sums, [*plain.s, *plain.counts, *plain.totals], rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(state.mixture_sums, plain.w_sums, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(state.shown, plain.pool, rtol=0, atol=1e-9)
        kept = known(state)
        arms = kept.squares(range(len(kept.arms)))
        for place, new in kept.fresh.items():
            arms[place, ..., -1] += new[-2 * d :].reshape(2, d)
        expected = np.concatenate((plain.gram, plain.cross[..., None]), -1)
        np.testing.assert_allclose(arms.swapaxes(0, 1), expected, atol=1e-9)


@pytest.mark.parametrize(("d", "default", "row_bytes"), [(3, 1.0, 64), (6, None, 64), (5, 0.5, 2_048)])
def test_a_log_leads_to_the_same_regressions_to_the_bit(
    d: int, default: float | None, row_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At any moment, also right after voids, with snapshots in the middle of a slot, after arms have changed."""
    monkeypatch.setattr(feature_tsallis, "ROW_BYTES", row_bytes)
    play, snapshots = Play(d, default, d), set[int]()
    earlier = play.learner.begun
    for _ in range(100):
        play.open()
        for _ in range(3):
            play.event()
            kept = known(play.state)
            snapshots |= {id(kept.log.rows[0])} if kept.log.rows else set()
            for at_hand in (play.learner.begun, earlier):
                unread = at_hand.read(kept.encoded(), len(kept.arms))
                read = unread.replayed(tuple(row.copy() for row in kept.log.rows), play.learner.begun)
                assert (list(read.fresh), read.log.size) == (list(kept.fresh), kept.log.size)
                np.testing.assert_array_equal(read.solved, kept.solved)
                both = ((*each.arms, *each.fresh.values()) for each in (read, kept))
                for one, other in zip(*both, strict=True):
                    np.testing.assert_array_equal(one, other)
            earlier = kept if play.rng.random() < 0.5 else earlier
            assert kept.is_sound()
        if play.t % 40 == 0:
            play.change_arms()
    assert len(snapshots) > (2 if row_bytes == 64 else 0)


def test_what_is_no_log_is_refused() -> None:
    play = Play(3, 1.0, 3)
    for _ in range(30):
        play.step()
    kept, start = known(play.state), play.learner.begun

    def replayed(tail: bytes, size: int, rows: Rows = ()) -> Regressions:
        log = Log() if not rows else Log().with_row(*rows)
        return start.read(start._replace(log=Log(rows, tail, size, log.mark)).encoded(), 4).replayed(rows, start)

    a_play = feature_tsallis._HEAD.pack(feature_tsallis.PLAY, 0, 0.5) + bytes(4)
    assert replayed(a_play, 1).fresh[0][0] == 1
    assert replayed(kept.log.tail, kept.log.size).arms
    wrong_columns = a_play[:-2] + (20_000).to_bytes(2, "little")
    wrong_loss = feature_tsallis._HEAD.pack(feature_tsallis.PLAY, 0, 1e300) + bytes(4)
    infinite = feature_tsallis._HEAD.pack(feature_tsallis.VOID, 0, 0.0) + np.full(6, np.inf).tobytes()
    beyond = feature_tsallis._HEAD.pack(feature_tsallis.VOID, 4, 0.0) + bytes(48)
    for tail in (a_play + a_play, a_play[:-1], bytes([7]) + a_play, wrong_columns, wrong_loss, infinite, beyond):
        with pytest.raises((ValueError, IndexError, struct.error)):
            replayed(tail, 1)
    with pytest.raises(ValueError, match="rows"):
        start.read(kept.encoded(), 4)._replace(log=kept.log._replace(mark=b"")).replayed((), start)
    negative = known(play.learner.heard(play.state, 0, Visit(), 0.5)).snapshot()
    assert replayed(b"", 0, (negative.copy(),)).fresh
    negative[-(1 + 9 + 6)] = -1.0  # Plays of the last fresh arm, then its sums, and what voids added.
    for row in (negative, np.array([1.0, 0.0]), kept.snapshot()[:-1], np.full(20, 3.0), np.full(3, np.nan)):
        with pytest.raises((ValueError, IndexError)):
            replayed(b"", 0, (row,))
    assert kept.is_sound()
    indefinite = 100 * np.array([1, 0.9, 1, -0.9, 0.9, 1])
    for places, numbers in [(0, -1.0), (0, 2.0**60), (2, 1e6), (slice(6), indefinite)]:
        odd = kept.arms[0].copy()
        odd[0, places] = numbers
        assert not kept._replace(arms=(odd, *kept.arms[1:]), fresh={}).is_sound()


def test_unlabelled_events_teach_the_labelled_least_squares_to_the_bit() -> None:
    """Whatever the order and the delays: each default is replaced, by an event and by an update of it."""
    play, labelled, waiting = Play(5, 1.0, 8), np.zeros((4, 5, 6)), list[tuple[Act, float]]()
    for _ in range(300):
        play.open([0, 1, 2, 3])
        act, loss = play.acts.pop(), float(play.rng.integers(0, 33)) / 32
        waiting.append((act, loss))
        x = act.visit.x
        assert x is not None
        labelled[act.arm] += np.outer(x, [*x, loss])
        while len(waiting) > 40 or (play.t == 300 and waiting):
            late, last = waiting.pop(play.rng.integers(len(waiting)))
            for after, before in [(last / 2, 1.0), (last, last / 2)]:
                play.tell("corrected", late.arm, Visit(late.visit.x), after, before)
    np.testing.assert_array_equal(sums(known(play.state))[0], labelled)


def test_shift_and_scale_of_losses_do_not_matter() -> None:
    plays = [Play(4, 1.0, 5), Play(4, 1.0, 5)]
    plays[1].default = -1000 + 3 * 1.0
    for t in range(150):
        for play in plays:
            play.open([0, 1, 2, 3])
            act, loss = play.acts[-1], float(play.rng.random())
            if t % 2:
                loss = loss if play is plays[0] else -1000 + 3 * loss
                play.tell("corrected", act.arm, Visit(act.visit.x) if t % 3 else act.visit, loss, play.default)
        one, other = (play.learner.distribution(play.state) for play in plays)
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-9)


@pytest.mark.parametrize(("default", "most"), [(1.0, 1e-14), (None, 1e-13)])
def test_order_within_a_slot_does_not_matter(default: float | None, most: float) -> None:
    play = Play(4, default, 6)
    for _ in range(60):
        play.open([0, 1, 2, 3])
        rng, states = play.rng, []
        events = [(int(rng.integers(4)), rng.random(), Visit(columns(rng, 4))) for _ in range(3)]
        before = play.state
        for order in (events, events[::-1]):
            play.state = before
            for arm, loss, visit in order:
                known_loss = () if default is None else (default,)
                play.tell("told" if default is None else "corrected", arm, visit, loss, *known_loss)
            slot = Slot(play.t + 1, 3, 0.0, provisional=True, x=events[0][2].x)
            states.append(play.learner.distribution(play.learner.open(play.state, slot)))
        np.testing.assert_allclose(*states, rtol=0, atol=most)


def test_a_default_that_is_never_corrected_leaves_p_uniform() -> None:
    play = Play(4, 0.5, 7)
    for _ in range(60):
        play.open([0, 1, 2, 3])
        np.testing.assert_array_equal(play.learner.distribution(play.state), [0.25] * 4)


def test_a_decision_charged_and_taken_back_leaves_what_was() -> None:
    play = Play(4, 1.0, 9)
    for _ in range(100):
        before, x = play.state, columns(play.rng, 4)
        slot = Slot(play.t + 1, 3, play.rng.random(), provisional=True, x=x)
        opened, arm = play.learner.draw(play.learner.open(before, slot), slot)
        visit = Visit(x, play.learner.ratios(opened, arm))
        back = play.learner.heard(play.learner.heard(opened, arm, visit, 1.0), arm, visit, None, 1.0)
        for name in ("sums", "mixture_sums", "mean", "variance_sum"):
            np.testing.assert_allclose(getattr(back, name), getattr(opened, name), rtol=0, atol=1e-12)
        reopened = play.learner.open(back, slot)
        expected, solved = (known(each).predictions(x[None], opened.shift)[0] for each in (opened, reopened))
        np.testing.assert_allclose(solved[0], expected[0], rtol=0, atol=1e-12)
        np.testing.assert_allclose(solved[1], expected[1], rtol=0, atol=1e-3)
        play.step()


def test_it_refuses_what_belongs_to_other_states() -> None:
    learner = FeatureTsallis(2, 2)
    with pytest.raises(ValueError, match="drawn"):
        learner.ratios(learner.start(), 0)
    with pytest.raises(ValueError, match="without"):
        learner.open(MultiscaleTsallis(2).start(), Slot(1, 0, 0.0))
