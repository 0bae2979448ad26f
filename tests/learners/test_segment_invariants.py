"""What always holds of segments: order and unit of losses do not matter, and nothing breaks them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from service.learners.base import FloatArray, PooledLearner, draw
from service.learners.centred_tsallis import CentredTsallis
from service.learners.multiscale_tsallis import MultiscaleTsallis
from service.learners.segments import given_up, with_fewer, with_more
from tests.support.segment_player import Player

PARTS = [CentredTsallis, MultiscaleTsallis]


def play(
    part: PooledLearner[Any],
    slots: int,
    seed: int,
    change: Any = float,
    default: float | None = None,
    order: int = 1,
) -> FloatArray:
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
def test_the_order_of_events_within_a_slot_does_not_matter(part: Any, default: float | None) -> None:
    if default is not None and part is CentredTsallis:
        return
    one, other = (play(part(4), 80, 5, default=default, order=order) for order in (1, -1))

    np.testing.assert_allclose(one, other, rtol=0, atol=1e-13)
    single = [play(part(4), 40, 6, order=order) for order in (1, -1)]
    np.testing.assert_allclose(*single, rtol=0, atol=1e-14)


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize(("alpha", "beta"), [(3.0, -1000.0), (0.5, 0.25)])
def test_the_unit_of_losses_does_not_matter(part: Any, alpha: float, beta: float) -> None:
    plain, changed = play(part(4), 150, 7), play(part(4), 150, 7, lambda loss: beta + alpha * loss)

    np.testing.assert_allclose(plain, changed, rtol=0, atol=1e-9)


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("n_arms", [1, 3, 10])
def test_equal_losses_leave_p_exactly_uniform(part: Any, n_arms: int) -> None:
    shown = play(part(n_arms), 60, 8, lambda _: 0.3)

    assert (shown == shown[0, 0]).all()
    assert shown[0, 0] == pytest.approx(1 / n_arms, rel=1e-15)
    if part is MultiscaleTsallis:
        assert (play(part(n_arms), 60, 8, lambda _: 0.7, default=0.7) == shown[0, 0]).all()


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("slots", [100, pytest.param(4_000, marks=pytest.mark.slow)])
def test_nothing_breaks_with_dropped_segments_and_lost_or_doubled_feedback(part: Any, slots: int) -> None:
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


def change_arms(player: Player, k: int, rng: np.random.Generator) -> int:
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
