"""Events settled together give, to the bit, the state that they give one by one."""

from __future__ import annotations

import random

import numpy as np
import pytest

from service.engine.arm_run import ArmRun
from service.engine.feedback import ArmFeedback
from service.engine.slot_run import SlotRun
from tests.support import runs
from tests.support.vectors import over_arms

RATES = {"learning_rate": 0.5, "loss_clip": 2.0, "probability_floor": 0.2}
SPECS = {kind: {"kind": kind, "n_arms": 7} | fields for kind, fields in over_arms().items()} | {
    "dexp3, clipped": {"kind": "dexp3", "n_arms": 5, **RATES},
    "dexp3, many arms": {"kind": "dexp3", "n_arms": 1000, **RATES},
    "dexp3, one arm": {"kind": "dexp3", "n_arms": 1, **RATES},
}


def bits(run):
    ledger = run.ledger
    counts = [getattr(ledger, name) for name in ("outstanding", "feedbacks", "losses", "mean_loss", "equal_losses")]
    state = [part.tobytes() if isinstance(part, np.ndarray) else part for part in run.state]
    return counts, ledger.by_arm.tolist(), state


@pytest.mark.parametrize(
    "name", [name for name, spec in SPECS.items() if not isinstance(runs.start(spec), SlotRun)]
)
def test_together_is_one_by_one(name):
    alone, together, chance = runs.start(SPECS[name]), runs.start(SPECS[name]), random.Random(4)
    assert isinstance(together, ArmRun)
    waiting: list[int] = []
    for size in (1, 3, 0, 50, 200):
        for run in (alone, together):
            run.advance(float(size))
        acted = [(runs.act(alone).arm, runs.act(together).arm) for _ in range(2 * size)]
        assert all(one == other for one, other in acted)
        waiting += [arm for arm, _ in acted]
        chance.shuffle(waiting)
        arms, waiting = waiting[:size], waiting[size:]
        losses = [chance.choice([0.0, 1.0, chance.random(), 1e-300]) for _ in arms]

        for arm, loss in zip(arms, losses, strict=True):
            alone.settle(ArmFeedback(arm, loss))
        if arms:
            together.settle_all(arms, losses)

        assert bits(alone) == bits(together)
