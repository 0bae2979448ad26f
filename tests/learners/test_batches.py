"""Acts drawn together, and events settled together, give to the bit what they give one by one."""

import random
from dataclasses import fields

import numpy as np
import pytest

from service.engine.arm_run import ArmRun
from service.engine.ledger import ArmFeedback, Expiry, Params
from service.engine.run import SlotRun, start_run
from service.learners import REGISTRY
from service.learners.base import ArmLearner, Slot, draw, draw_all
from service.learners.multiscale_tsallis import MultiscaleTsallisSpec
from tests.support import runs
from tests.support.runs import bits_of
from tests.support.vectors import learner_over_arms, over_arms

CASES = {kind: ({"kind": kind, "n_arms": 7} | fields, {}) for kind, fields in over_arms().items()} | {
    "dexp3, capped": ({"kind": "dexp3", "n_arms": 5, "max_outstanding": 30}, {}),
    "dexp3, many arms": ({"kind": "dexp3", "n_arms": 1000}, {}),
    "dexp3, one arm": ({"kind": "dexp3", "n_arms": 1}, {}),
    "dexp3, expiry": ({"kind": "dexp3", "n_arms": 5}, {"expiry": Expiry(3600.0, 0.5)}),
    "fixed, floor": ({"kind": "fixed", "n_arms": 3, "probabilities": [0.5, 0.5, 0]}, {"floor": 0.25}),
    "batched_exp3, each slot": ({"kind": "batched_exp3", "n_arms": 4, "horizon": 1000, "max_delay": 1}, {}),
}


def started(name):
    spec, options = CASES[name]
    run = start_run(Params(REGISTRY[spec["kind"]].model_validate(spec), 5, **options))
    assert isinstance(run, ArmRun)
    return run


def bits(run):
    times = None if run.act_times is None else {key: acts.tolist() for key, acts in run.act_times.acts.items()}
    counts = {field.name: getattr(run.ledger, field.name) for field in fields(run.ledger)}
    return counts | {"by_arm": run.ledger.by_arm.tolist()}, bits_of(run.state), times


def acted(run, count, eligible):
    """Acts drawn together, and the most of them that were drawn at once."""
    found, largest = [], 0
    while len(found) < count:
        actions = run.act_all(count - len(found), eligible)
        largest = max(largest, len(actions.arms))
        rows = zip(actions.arms, actions.probabilities, strict=True)
        found += [(slot, arm, p, actions.eligible) for slot, (arm, p) in enumerate(rows, actions.slot)]
    return found, largest


def settle_half(runs, waiting, chance):
    """Settle half of the waiting decisions in both runs."""
    chance.shuffle(waiting)
    for _ in range(len(waiting) // 2):
        slot, arm = waiting.pop()
        event = ArmFeedback(arm, chance.random(), slot)
        surplus = [run.surplus([event]) for run in runs]
        assert surplus[0] == surplus[1]
        for run in runs if not surplus[0] else ():
            run.settle(event)


@pytest.mark.parametrize("name", [name for name in CASES if type(started(name)) is ArmRun])
def test_acts_together_are_one_by_one(name):
    runs = alone, together = started(name), started(name)
    chance, waiting = random.Random(4), []
    eligible = np.arange(0, alone.learner.n_arms, 2) if alone.learner.takes_eligible else None
    most = 0
    for size in (1, 2, 63, 64, 1, 200, 3):
        for run in runs:
            run.advance(1e9 + size)
        one_by_one = [alone.act(eligible if size == 63 else None)[:4] for _ in range(size)]

        found, largest = acted(together, size, eligible if size == 63 else None)

        assert found == one_by_one
        assert bits(alone) == bits(together)
        most = max(most, largest)
        waiting += [(slot, arm) for slot, arm, _, _ in found]
        settle_half(runs, waiting, chance)
    spec, _ = CASES[name]
    at_once = spec.get("max_delay", 200)
    if type(alone.learner).open_all is not ArmLearner.open_all and at_once >= 200:
        assert most == 200


def test_arms_of_many_uniforms_are_those_of_each():
    """The last arm with a probability is drawn where rounding leaves none."""
    chance = np.random.default_rng(3)
    for _ in range(200):
        p = chance.dirichlet(np.full(6, 0.3)) * (1 - 1e-9)
        p[chance.integers(6)] = 0.0
        u = np.concatenate([chance.random(20), np.cumsum(p), [0.0, np.nextafter(1, 0)]])

        assert draw_all(p, u).tolist() == [draw(p, each) for each in u]


RATES = {"learning_rate": 0.5, "loss_clip": 2.0, "probability_floor": 0.2}
SPECS = {kind: {"kind": kind, "n_arms": 7} | fields for kind, fields in over_arms().items()} | {
    "dexp3, clipped": {"kind": "dexp3", "n_arms": 5, **RATES},
    "dexp3, many arms": {"kind": "dexp3", "n_arms": 1000, **RATES},
    "dexp3, one arm": {"kind": "dexp3", "n_arms": 1, **RATES},
}


ODD_LOSSES = [0.0, 1.0, 1e-300]


def counts_and_bits(run):
    ledger = run.ledger
    counts = [getattr(ledger, name) for name in ("outstanding", "feedbacks", "losses", "mean_loss", "equal_losses")]
    return counts, ledger.by_arm.tolist(), runs.bits_of(run.state)


@pytest.mark.parametrize("name", [n for n, spec in SPECS.items() if not isinstance(runs.start(spec), SlotRun)])
def test_events_together_are_one_by_one(name):
    alone, together, chance = runs.start(SPECS[name]), runs.start(SPECS[name]), random.Random(4)
    assert isinstance(together, ArmRun)
    waiting = []
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

        assert counts_and_bits(alone) == counts_and_bits(together)


def moment(learner, seed):
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
