"""What eligible sets are for: visitors who are barred from the best item."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from service.engine.arm_run import ArmRun
from service.engine.ledger import ArmFeedback
from service.learners.base import FloatArray, IntArray
from tests.support.runs import start

ITEMS, VISITORS, SEEDS = 20, 5_000, 5
BARRED = 0.7
"""Share of visitors who must not see the best item."""
Show = Callable[[ArmRun, IntArray], int]
"""Choose the item that a visitor sees, of those that may be shown."""


def with_eligible(run: ArmRun, allowed: IntArray) -> int:
    return run.act(allowed).arm


def drawing_again(run: ArmRun, allowed: IntArray) -> int:
    """Without eligible sets: items that don't fit are drawn, never shown and so never clicked."""
    while (arm := run.act().arm) not in allowed:
        run.settle(ArmFeedback(arm, 1.0))
    return arm


def share_of_clicks(kind: str, show: Show, seed: int) -> float:
    """Clicks that are expected of what was shown, of those that the best allowed items would have got."""
    run, rng = start({"kind": kind, "n_arms": ITEMS}, seed), np.random.default_rng(seed)
    assert isinstance(run, ArmRun)
    rates: FloatArray = rng.beta(5, 20, ITEMS)
    rates[rates.argmax()] += 0.25
    best, everything = int(rates.argmax()), np.arange(ITEMS)
    got = possible = 0.0
    for _ in range(VISITORS):
        allowed = everything if rng.random() >= BARRED else np.delete(everything, best)
        arm = show(run, allowed)
        got, possible = got + rates[arm], possible + rates[allowed].max()
        run.settle(ArmFeedback(arm, float(rng.random() >= rates[arm])))
    return float(got / possible)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["centred_tsallis", "multiscale_tsallis"])
def test_naming_what_fits_gets_more_clicks_than_drawing_until_it_fits(kind: str) -> None:
    named, again = (
        np.array([share_of_clicks(kind, show, seed) for seed in range(SEEDS)])
        for show in (with_eligible, drawing_again)
    )

    gain = named - again
    error = gain.std(ddof=1) / np.sqrt(SEEDS)
    assert gain.mean() > 0.1 + 3 * error
    assert named.mean() > 0.85
