"""Segments pay: they are never far behind the better of one session for all and one for each."""

from __future__ import annotations

import numpy as np
import pytest

from service.learners.base import Slot, draw
from service.learners.centred_tsallis import CentredTsallis
from tests.support.segment_player import Player


def clicks(mode: str, seed: int, segments: int, slots: int, *, differ: bool) -> float:
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
def test_segments_are_never_far_behind_the_better_of_the_two_simple_ways(differ: bool) -> None:
    mean = {
        mode: np.mean([clicks(mode, seed, 20, 5_000, differ=differ) for seed in range(2)])
        for mode in ("all", "each", "rule")
    }

    assert mean["rule"] > 0.97 * max(mean["all"], mean["each"]), mean
    assert mean["rule"] > 1.15 * mean["all" if differ else "each"], mean
