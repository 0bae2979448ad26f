"""Segments follow their rule; order and unit of losses do not matter, nothing breaks them, and they pay."""

import numpy as np
import pytest

from service.learners.base import Slot, draw
from service.learners.centred_tsallis import CentredTsallis
from service.learners.multiscale_tsallis import MultiscaleTsallis
from service.learners.segments import Moment, Segments, given_up, start_segment, start_shared, with_fewer, with_more
from tests.support import vectors


class Player:
    """Segments with their global part, and no more of either kept than the rule keeps."""

    def __init__(self, part, default=None):
        self.layer, self.n_arms, self.default = Segments(part), part.n_arms, default
        self.part, self.shared = part.start(), start_shared()
        self.segments = {}
        self.t = self.outstanding = 0

    def moment(self, name):
        return Moment(self.part, self.shared, self.segments.get(name))

    def keep(self, name, moment):
        self.part, self.shared = moment.part, moment.shared
        if moment.segment is not None:
            self.segments[name] = moment.segment

    def open(self, name, eligible=None, floor=0.0):
        self.t += 1
        places = None if eligible is None else np.array(eligible)
        slot = Slot(self.t, self.outstanding, 0.0, 0.0, places, floor, self.default is not None)
        segment = self.segments.get(name) or start_segment(self.n_arms)
        moment, p = self.layer.open(self.part, self.shared, segment, slot)
        self.keep(name, moment)
        self.outstanding += 1
        return p

    def charge(self, name, arm):
        self.keep(name, self.layer.settle(self.moment(name), arm, self.default or 0.0, ends=0))

    def settle(self, name, arm, loss):
        self.outstanding = max(self.outstanding - 1, 0)
        if self.default is None:
            self.keep(name, self.layer.settle(self.moment(name), arm, loss))
        else:
            self.keep(name, self.layer.correct(self.moment(name), arm, loss, self.default))

    def void(self, name, arm):
        self.outstanding = max(self.outstanding - 1, 0)
        if self.default is None:
            self.keep(name, self.layer.void(self.moment(name), arm))
        else:
            self.keep(name, self.layer.uncharge(self.moment(name), arm, self.default))


def test_segments_follow_their_trace():
    trace = vectors.load("segments_K3_T60")
    player = Player(CentredTsallis(trace["n_arms"]))

    for row in trace["slots"]:
        p = player.open(row["segment"])
        np.testing.assert_allclose(p, row["p"], rtol=0, atol=1e-13)
        assert draw(p, row["u"]) == row["arm"]
        for name, arm, loss in row["events"]:
            player.settle(name, arm, loss)

    end, shared = trace["end"], player.shared
    numbers = [shared.t, shared.events, shared.mean, shared.variance_sum, shared.variance_max, shared.scale]
    np.testing.assert_allclose(numbers, [end[name] for name in ("t", "n", "mean", "V", "M", "A")], rtol=1e-12)
    np.testing.assert_allclose(shared.mixture_sums, end["R"], rtol=0, atol=1e-12)
    np.testing.assert_allclose(shared.weights, end["w"], rtol=0, atol=1e-12)
    assert player.segments.keys() == end["segments"].keys()
    for name, expected in end["segments"].items():
        found = player.segments[name]
        np.testing.assert_allclose(found.sums, expected["S"], rtol=0, atol=1e-11)
        np.testing.assert_allclose(found.pool, expected["q"], rtol=0, atol=1e-12)
        numbers = [found.slots, found.events, found.outstanding, found.scale, found.mean, found.shift]
        np.testing.assert_allclose(numbers, [expected[each] for each in ("t", "n", "o", "a", "mean", "b")])


def test_a_charge_that_is_taken_back_in_its_slot_leaves_no_trace():
    player, rng = Player(MultiscaleTsallis(3), 1.0), np.random.default_rng(3)
    for _ in range(60):
        player.open("a")
        player.charge("a", arm := int(rng.integers(3)))
        if rng.random() < 0.5:
            player.settle("a", arm, 0.0)
    player.open("a")
    before, segment = player.shared, player.segments["a"]
    player.charge("a", 1)
    player.void("a", 1)

    after, now = player.shared, player.segments["a"]
    np.testing.assert_allclose(after.mixture_sums, before.mixture_sums, atol=1e-12)
    np.testing.assert_allclose(now.sums, segment.sums, atol=1e-12)
    np.testing.assert_allclose([after.mean, after.variance_sum], [before.mean, before.variance_sum], atol=1e-12)
    assert (now.events, now.outstanding) == (segment.events, segment.outstanding - 1)
    assert now.mean == pytest.approx(segment.mean)


def expected_step(player, name, arm, d, fall, count):
    """R, and S of the arm, after a step, as the rule has them: e of the slot, z of S from e_1 over all arms."""
    shared, segment = player.shared, player.segments[name]
    sums, share = shared.mixture_sums.copy(), segment.pool[arm]
    for j in range(3):
        z = shared.scale / np.sqrt(shared.weights[j])
        sums[j] += count * min(max(d * segment.drawn[j, arm] / share, -fall * z), z / 2)
    z = segment.scale / np.sqrt(segment.full[1, arm])
    return sums, segment.sums[arm] + count * min(max(d / share, -fall * z), z / 2)


@pytest.mark.parametrize("far", [0.0, 30.0])
@pytest.mark.parametrize("event", ["charge", "correct", "void"])
def test_a_default_is_charged_corrected_and_taken_back_by_the_rule(event, far):
    """CHARGE keeps the segment's o, CORRECT and VOID lower it; far from the mean, steps end at their bounds."""
    player, rng = Player(MultiscaleTsallis(3), 1.0), np.random.default_rng(4)
    for _ in range(80):
        player.open("a")
        player.charge("a", arm := int(rng.integers(3)))
        if rng.random() < 0.3:
            player.settle("a", arm, float(0.2 * rng.random()))
    player.open("a", [0, 2])
    before, segment = player.shared, player.segments["a"]
    loss, default = 0.1 - far, 1.0 if event == "correct" else 1.0 + far
    moved, n = (loss - default, 0) if event == "correct" else (default, 1) if event == "charge" else (-default, -1)
    d, fall = (moved, 1.0) if event == "correct" else (default - segment.shift, 0.25)
    mixture_sums, own = expected_step(player, "a", 0, d, fall, n or 1)

    player.default = default
    {"charge": player.charge, "correct": lambda *at: player.settle(*at, loss), "void": player.void}[event]("a", 0)

    now, after = player.segments["a"], player.shared
    np.testing.assert_allclose(after.mixture_sums, mixture_sums, rtol=0, atol=1e-12)
    np.testing.assert_allclose(now.sums, [own, *segment.sums[1:]], rtol=0, atol=1e-12)
    assert (now.events, after.events) == (segment.events + n, before.events + n)
    assert now.outstanding == segment.outstanding - (event != "charge")
    assert now.mean * now.events == pytest.approx(segment.mean * segment.events + moved)
    assert after.mean * after.events == pytest.approx(before.mean * before.events + moved)
    squares = [(each - before.shift) ** 2 for each in (loss, default)]
    change = squares[0] - squares[1] if event == "correct" else n * squares[1]
    assert after.variance_sum == pytest.approx(max(before.variance_sum + change, 0.0))


@pytest.mark.parametrize("far", [0.0, 30.0])
@pytest.mark.parametrize("learner", [CentredTsallis(3), MultiscaleTsallis(3)])
def test_a_better_loss_is_corrected_by_the_rule_and_ends_no_decision(learner, far):
    player, rng = Player(learner), np.random.default_rng(4)
    for _ in range(80):
        player.open("a")
        player.settle("a", int(rng.integers(3)), float(rng.random()))
    player.open("a")
    before, segment, loss = player.shared, player.segments["a"], 0.1 - far
    mixture_sums, own = expected_step(player, "a", 1, loss - 0.6, 1.0, 1)
    part = learner.correct(player.part, 1, loss, 0.6, segment.pool[1])

    for name in ("a", "never kept"):
        moment = player.layer.correct(player.moment(name), 1, loss, 0.6, ends=0)
        p = learner.distribution(player.part)[1] if name != "a" else None
        expected = part if p is None else learner.correct(player.part, 1, loss, 0.6, p)
        np.testing.assert_array_equal(moment.part.sums, expected.sums)
        assert moment.shared.mean == pytest.approx(before.mean + (loss - 0.6) / before.events)
        assert (moment.shared.events, moment.part.events) == (before.events, player.part.events)
        if moment.segment is not None:
            np.testing.assert_allclose(moment.shared.mixture_sums, mixture_sums, rtol=0, atol=1e-12)
            assert moment.segment.sums[1] == pytest.approx(own)
            assert (moment.segment.outstanding, moment.segment.events) == (segment.outstanding, segment.events)
            assert moment.segment.mean == pytest.approx(segment.mean + (loss - 0.6) / segment.events)


def test_what_readers_see_of_a_segment():
    player = Player(CentredTsallis(4))
    for turn in range(80):
        player.open("a", [0, 1] if turn % 2 else None)
        player.settle("a", turn % 4, float(turn % 4 == 1))
    p = player.open("a", floor=0.2)
    segment, read = player.segments["a"], player.layer.probabilities
    np.testing.assert_allclose(read(player.moment("a"), segment, floor=0.2), p, rtol=0, atol=1e-15)

    some = read(player.moment("a"), segment, np.array([0, 2]))
    assert (some[[1, 3]].tolist(), some.sum()) == ([0, 0], pytest.approx(1))
    assert read(player.moment("a"), segment, floor=0.2).min() >= 0.05


@pytest.mark.parametrize(("part", "lost"), [(MultiscaleTsallis(3), 1), (CentredTsallis(3), 0)])
def test_decisions_of_which_nothing_will_be_known_leave_the_scales_of_multiscale(part, lost):
    player, rng = Player(part), np.random.default_rng(6)
    for turn in range(90):
        name = "ab"[turn % 3 == 0]
        player.open(name)
        if turn % 9 == 1:
            player.settle(name, arm := int(rng.integers(3)), float(arm))
        elif turn % 9 < 5:
            player.void(name, int(rng.integers(3)))
        elif turn % 9 == 8:  # Two of "a" expire.
            player.part = player.layer.part.expire(player.part, 2)
            player.segments["a"] = given_up(player.segments["a"], 2, dropped=True)
    player.open("a")
    shared, segment = player.shared, player.segments["a"]
    v = (shared.variance_sum + shared.variance_max) / (shared.events + 1)
    # Of 91 slots 40 were void and 20 expired; of the 61 of "a" 20 and 20.
    dropped, own = (40 + 20) * lost, (20 + 20) * lost
    assert shared.scale == pytest.approx(np.sqrt(max(91 - dropped, shared.events) * v))
    assert segment.scale == pytest.approx(np.sqrt((max(61 - own, segment.events) + 91) * v))


PARTS = [CentredTsallis, MultiscaleTsallis]


def play(part, slots, seed, change=float, default=None, order=1):
    """p of every slot; arms come from a stream of their own, and the events of a slot in one order or the other."""
    player, rng, waiting = Player(part, default), np.random.default_rng(seed), []
    rates, shown = rng.random((3, part.n_arms)), []
    for _ in range(slots):
        segment = int(rng.integers(3))
        shown.append(player.open(f"s{segment}"))
        arm = int(rng.integers(part.n_arms))
        if default is not None:
            player.charge(f"s{segment}", arm)
        waiting.append((f"s{segment}", arm, change(float(rng.random() < rates[segment, arm]))))
        due = [waiting.pop(rng.integers(len(waiting))) for _ in range(min(len(waiting), rng.integers(3)))]
        for event in due[::order]:
            player.settle(*event)
    return np.array(shown)


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("default", [None, 1.0])
def test_the_order_of_events_within_a_slot_does_not_matter(part, default):
    if default is not None and part is CentredTsallis:
        return
    one, other = (play(part(4), 80, 5, default=default, order=order) for order in (1, -1))

    np.testing.assert_allclose(one, other, rtol=0, atol=1e-13)
    single = [play(part(4), 40, 6, order=order) for order in (1, -1)]
    np.testing.assert_allclose(*single, rtol=0, atol=1e-14)


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize(("alpha", "beta"), [(3.0, -1000.0), (0.5, 0.25)])
def test_the_unit_of_losses_does_not_matter(part, alpha, beta):
    plain, changed = play(part(4), 150, 7), play(part(4), 150, 7, lambda loss: beta + alpha * loss)

    np.testing.assert_allclose(plain, changed, rtol=0, atol=1e-9)


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("n_arms", [1, 3, 10])
def test_equal_losses_leave_p_exactly_uniform(part, n_arms):
    shown = play(part(n_arms), 60, 8, lambda _: 0.3)

    assert (shown == shown[0, 0]).all()
    assert shown[0, 0] == pytest.approx(1 / n_arms, rel=1e-15)
    if part is MultiscaleTsallis:
        assert (play(part(n_arms), 60, 8, lambda _: 0.7, default=0.7) == shown[0, 0]).all()


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("slots", [100, pytest.param(4_000, marks=pytest.mark.slow)])
def test_nothing_breaks_with_dropped_segments_and_lost_or_doubled_feedback(part, slots):
    """Eligible sets, floors, changes of arms, voids and unknown segments, as a session mixes them."""
    default = 1.0 if part is MultiscaleTsallis else None
    player, rng, k = Player(part(5), default), np.random.default_rng(11), 5
    for _ in range(slots):
        name, floor = f"s{rng.integers(8)}", 0.1 * (rng.random() < 0.2)
        some = sorted(rng.choice(k, rng.integers(1, k), replace=False).tolist()) if rng.random() < 0.4 else None
        p = player.open(name, some, floor)
        assert p.min() >= 0
        assert p.sum() == pytest.approx(1, abs=1e-12)
        assert not np.delete(p, some or range(k)).any()
        arm = draw(p, rng.random())
        if default is not None:
            player.charge(name, arm)
        for _ in range(rng.integers(3)):
            player.settle(f"s{rng.integers(12)}", int(rng.integers(k)), float(rng.random() < 0.4))
        if rng.random() < 0.1:
            player.void(f"s{rng.integers(12)}", int(rng.integers(k)))
        if rng.random() < 0.1:
            player.segments.pop(f"s{rng.integers(8)}", None)
        if rng.random() < 0.05 and player.segments:
            name = next(iter(player.segments))
            player.segments[name] = given_up(player.segments[name], 3)
        if rng.random() < 0.05:
            k = change_arms(player, k, rng)
    assert np.isfinite(player.shared.mixture_sums).all()


def change_arms(player, k, rng):
    """Add two arms, or remove two, everywhere; how many there are then."""
    learner = player.layer.part
    if k < 9:
        player.part, then = learner.add_arms(player.part, 2), k + 2
        player.segments = {name: with_more(each, 2) for name, each in player.segments.items()}
    else:
        gone = np.sort(rng.choice(k, 2, replace=False))
        player.part, then = learner.remove_arms(player.part, gone), k - 2
        player.segments = {name: with_fewer(each, gone) for name, each in player.segments.items()}
    player.n_arms = then
    return then


def clicks(mode, seed, segments, slots, *, differ):
    """Clicks an act: one session for all, one for each segment, or the rule; losses come about 50 acts late."""
    rng, k = np.random.default_rng(seed), 8
    rates = rng.choice([0.05, 0.1, 0.3], (segments if differ else 1, k))
    plain = {s: CentredTsallis(k) for s in (range(segments) if mode == "each" else [0])}
    states = {s: learner.start() for s, learner in plain.items()}
    player, late, found = Player(CentredTsallis(k)), [], 0.0
    for t in range(1, slots + 1):
        s = int(rng.integers(segments))
        own = s if mode == "each" else 0
        if mode == "rule":
            p = player.open(f"s{s}")
        else:
            states[own] = plain[own].open(states[own], Slot(t, 0, 0.0))
            p = plain[own].distribution(states[own])
        arm = draw(p, rng.random())
        click = float(rng.random() < rates[s if differ else 0, arm])
        found += click
        late.append((s, own, arm, 1 - click))
        if len(late) > 50:
            s, own, arm, loss = late.pop(int(rng.integers(len(late))))
            if mode == "rule":
                player.settle(f"s{s}", arm, loss)
            else:
                states[own] = plain[own].settle(states[own], arm, loss)
    return found / slots


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("differ", [True, False])
def test_segments_are_never_far_behind_the_better_of_the_two_simple_ways(differ):
    mean = {
        mode: np.mean([clicks(mode, seed, 20, 5_000, differ=differ) for seed in range(2)])
        for mode in ("all", "each", "rule")
    }

    assert mean["rule"] > 0.97 * max(mean["all"], mean["each"]), mean
    assert mean["rule"] > 1.15 * mean["all" if differ else "each"], mean
