"""Segments follow their rule: its trace, defaults, and what readers see."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from service.learners.base import draw
from service.learners.centred_tsallis import CentredTsallis
from service.learners.multiscale_tsallis import MultiscaleTsallis
from tests.support import vectors
from tests.support.segment_player import Player


def test_segments_follow_their_trace() -> None:
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


def test_a_charge_that_is_taken_back_in_its_slot_leaves_no_trace() -> None:
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


def expected_step(player: Player, name: str, arm: int, d: float, fall: float, count: int) -> tuple[Any, float]:
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
def test_a_default_is_charged_corrected_and_taken_back_by_the_rule(event: str, far: float) -> None:
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
    moved, count = (
        (loss - default, 0) if event == "correct" else (default, 1) if event == "charge" else (-default, -1)
    )
    d, fall = (moved, 1.0) if event == "correct" else (default - segment.shift, 0.25)
    mixture_sums, own = expected_step(player, "a", 0, d, fall, count or 1)

    player.default = default
    {"charge": player.charge, "correct": lambda *at: player.settle(*at, loss), "void": player.void}[event]("a", 0)

    now, after = player.segments["a"], player.shared
    np.testing.assert_allclose(after.mixture_sums, mixture_sums, rtol=0, atol=1e-12)
    np.testing.assert_allclose(now.sums, [own, *segment.sums[1:]], rtol=0, atol=1e-12)
    assert (now.events, after.events) == (segment.events + count, before.events + count)
    assert now.outstanding == segment.outstanding - (event != "charge")
    assert now.mean * now.events == pytest.approx(segment.mean * segment.events + moved)
    assert after.mean * after.events == pytest.approx(before.mean * before.events + moved)
    squares = [(each - before.shift) ** 2 for each in (loss, default)]
    change = squares[0] - squares[1] if event == "correct" else count * squares[1]
    assert after.variance_sum == pytest.approx(max(before.variance_sum + change, 0.0))


def test_what_readers_see_of_a_segment() -> None:
    player = Player(CentredTsallis(4))
    for turn in range(80):
        player.open("a", [0, 1] if turn % 2 else None)
        player.settle("a", turn % 4, float(turn % 4 == 1))
    p = player.open("a", floor=0.2)
    segment, read = player.segments["a"], player.layer.probabilities
    np.testing.assert_allclose(read(player.moment("a"), segment, floor=0.2), p, rtol=0, atol=1e-15)

    some = read(player.moment("a"), segment, np.array([0, 2]))
    assert some[[1, 3]].tolist() == [0, 0]
    assert some.sum() == pytest.approx(1)
    assert read(player.moment("a"), segment, floor=0.2).min() >= 0.05
