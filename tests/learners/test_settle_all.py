"""Events settled together give, to the bit, the state that they give one by one."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from service.engine.arm_run import ArmRun
from service.engine.ledger import ArmFeedback
from service.engine.run import SlotRun
from service.learners.base import ArmLearner, Slot
from service.learners.multiscale_tsallis import MultiscaleTsallisSpec
from tests.support import runs
from tests.support.vectors import learner_over_arms, over_arms

RATES = {"learning_rate": 0.5, "loss_clip": 2.0, "probability_floor": 0.2}
SPECS = {kind: {"kind": kind, "n_arms": 7} | fields for kind, fields in over_arms().items()} | {
    "dexp3, clipped": {"kind": "dexp3", "n_arms": 5, **RATES},
    "dexp3, many arms": {"kind": "dexp3", "n_arms": 1000, **RATES},
    "dexp3, one arm": {"kind": "dexp3", "n_arms": 1, **RATES},
}


ODD_LOSSES = [0.0, 1.0, 1e-300]


def bits(run):
    ledger = run.ledger
    counts = [getattr(ledger, name) for name in ("outstanding", "feedbacks", "losses", "mean_loss", "equal_losses")]
    return counts, ledger.by_arm.tolist(), runs.bits_of(run.state)


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
        losses = [chance.choice([*ODD_LOSSES, chance.random()]) for _ in arms]

        for arm, loss in zip(arms, losses, strict=True):
            alone.settle(ArmFeedback(arm, loss))
        if arms:
            together.settle_all(arms, losses)

        assert bits(alone) == bits(together)


def moment(learner: ArmLearner[Any], seed: int) -> Any:
    """A state after some slots and events, of which the last slots drew from arms 0 and 1 alone."""
    chance, state = random.Random(seed), learner.start()
    for t in range(1, 30):
        eligible = np.array([0, 1]) if t > 25 and learner.takes_eligible else None
        outstanding = 0 if t > 25 else t % 5
        state = learner.open(state, Slot(t, outstanding, chance.random(), eligible=eligible, provisional=True))
        for _ in range(t % 3):
            state = learner.settle(state, chance.randrange(4), chance.choice([*ODD_LOSSES, chance.random()]))
    return state


@pytest.mark.parametrize(
    "kind", [kind for kind in over_arms() if type(learner_over_arms(kind)).settle_all is not ArmLearner.settle_all]
)
@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("size", [1, 40])
def test_events_of_arms_that_no_decision_can_be_of_change_as_little(kind, seed, size):
    learner = learner_over_arms(kind, n_arms=4)
    state, chance = moment(learner, seed), random.Random(seed)
    arms = [chance.randrange(4) for _ in range(40)]
    losses = [chance.choice([*ODD_LOSSES, chance.random()]) for _ in arms]

    alone = state
    for arm, loss in zip(arms, losses, strict=True):
        alone = learner.settle(alone, arm, loss)

    for start in range(0, 40, size):
        state = learner.settle_all(state, arms[start : start + size], losses[start : start + size])
    assert runs.bits_of(state) == runs.bits_of(alone)


@pytest.mark.parametrize("default", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("seed", range(4))
def test_corrections_together_are_those_one_by_one(seed, default):
    learner = MultiscaleTsallisSpec(n_arms=4).build()
    state, chance = moment(learner, seed), random.Random(seed)
    arms = [chance.randrange(4) for _ in range(40)]
    losses = [chance.choice([*ODD_LOSSES, chance.random()]) for _ in arms]

    alone = state
    for arm, loss in zip(arms, losses, strict=True):
        alone = learner.correct(alone, arm, loss, default)

    assert runs.bits_of(learner.correct_all(state, arms, losses, default)) == runs.bits_of(alone)
