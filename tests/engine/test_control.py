"""The learner knows nothing of a control group; which acts are of it, and what it draws."""

import random
from dataclasses import fields as fields_of
from itertools import chain

import numpy as np
import pytest

from service.engine.control import is_in_control
from service.engine.ledger import ArmFeedback, ControlParams, Expiry, Ledger, Params
from service.engine.run import SlotRun, expire_oldest, start_run
from service.learners import REGISTRY
from tests.support import vectors

VECTORS = vectors.load("control_groups")
RUNS = [
    ("multiscale_tsallis", Expiry(64.0, 1.0, True), 0),
    ("multiscale_tsallis", Expiry(64.0, 1.0), 0),
    ("multiscale_tsallis", Expiry(64.0, 1.0, True), 4),
    ("centred_tsallis", Expiry(64.0, None), 4),
    ("fixed", None, 0),
    ("exp3", Expiry(64.0, 1.0), 0),
]


@pytest.mark.parametrize("case", VECTORS["cases"], ids=lambda case: str(case["seed"]))
def test_groups_are_those_of_the_vectors(case):
    params = ControlParams(case["share"])
    slots = [slot for slot in range(1, 41) if is_in_control(params, case["seed"], b"s%d" % slot)]
    visitors = [name for name in VECTORS["visitors"] if is_in_control(params, case["seed"], b"v" + name.encode())]

    assert (slots, visitors) == (case["slots"], case["visitors"])


def test_the_share_of_acts_is_in_control_and_a_raised_share_keeps_all():
    small, large = ControlParams(0.1), ControlParams(0.4)
    names = [b"v%d" % number for number in range(4000)]
    first, then = ({name for name in names if is_in_control(each, 11, name)} for each in (small, large))

    assert first < then
    assert [len(first) / 4000, len(then) / 4000] == pytest.approx([0.1, 0.4], abs=0.03)


class DrawsOf:
    """The uniforms of some slots of a session, as if these were its first."""

    def __init__(self, draws):
        self.draws, self.slots = draws, []

    def uniform(self, t):
        return self.draws.uniform(self.slots[t - 1])

    def uniforms(self, t, count):
        return np.array([self.uniform(number) for number in range(t, t + count)])


def parts_of(run):
    """What the learner has learned, and its counts, as bytes."""
    of_segments = (
        [(name, kept and [*kept.segment, *kept[2:3], *kept[4:]]) for name, kept in run.segments.changes.items()]
        if hasattr(run, "segments")
        else []
    )
    own = {"last_act_at", "last_event_at"}  # Those of the session.
    counts = [getattr(run.ledger, each.name) for each in fields_of(run.ledger) if each.name not in own]
    shared = getattr(run, "shared", ())
    named = chain.from_iterable([name, *(kept or ())] for name, kept in of_segments)
    return [np.asarray(part).tobytes() for part in (*run.state, *shared, *named, *counts)]


@pytest.mark.parametrize(("kind", "expiry", "segments"), RUNS)
def test_the_learner_is_to_the_bit_what_it_is_with_its_own_acts_alone(kind, expiry, segments):
    rng = random.Random(3)
    more = {"max_open_slots": 30, "learning_rate": 0.1} if kind == "exp3" else {}
    learner = REGISTRY[kind].model_validate({"kind": kind, "arms": ["a", "b", "c", "d"]} | more)
    params = Params(learner, 5, expiry=expiry, floor=0.1, max_segments=segments, control=ControlParams(0.4))
    run, alone = start_run(params), start_run(params._replace(control=None))
    alone.draws = draws = DrawsOf(alone.draws)
    waiting = {True: [], False: []}
    for step in range(500):
        now, dice, name = 1e6 + step, rng.random(), rng.choice("xyz") if segments else ""
        for each in (run, alone):
            each.advance(now)
            while each.due:
                list(expire_oldest(each))
        if dice < 0.5:
            is_control, count = run.stretch(rng.randint(1, 6))
            several = count > 1 and not segments and type(run).__name__ in ("ArmRun", "SlotRun")
            eligible = None if rng.random() < 0.7 else np.sort(rng.sample(range(len(run.arms.live)), 2))
            first = run.slot + 1
            draws.slots += [] if is_control else range(first, first + count)
            if is_control:
                actions = run.control.act(run, eligible, count)
                waiting[True] += [(arm, slot, 0, name) for slot, arm in enumerate(actions.arms, first)]
                continue
            named = (name,) if segments else ()
            while (done := run.slot + 1 - first) < count:
                one, other = (
                    (
                        each.act_all(count - done, eligible)
                        if several and count - done > 1
                        else each.act(eligible, *named)
                    )
                    for each in (run, alone)
                )
                arms = one.arms if hasattr(one, "arms") else [one.arm]
                assert one[1:] == other[1:]
                own = alone.ledger.slot - len(arms) + 1
                waiting[False] += [(arm, one.slot + n, own + n, name) for n, arm in enumerate(arms)]
        elif dice < 0.9:
            is_control = rng.random() < 0.4
            if not waiting[is_control]:
                continue
            arm, slot, own, name = waiting[is_control].pop(rng.randrange(len(waiting[is_control])))
            loss, is_void = rng.random(), rng.random() < 0.1
            event = ArmFeedback(arm, loss, slot, is_void, name, is_control=is_control)
            if run.is_removed(event) or run.surplus([event]):
                continue
            alike = event._replace(slot=own)
            updates = learner.takes_updates and not is_void and rng.random() < 0.3
            for each, seen in ((run, event), (alone, alike))[: 1 if is_control else 2]:
                each.apply(seen)
                if updates:
                    each.apply(seen._replace(loss=loss / 2), loss)
        elif dice < 0.93:
            labels = sorted(run.arms.labels)
            for each in (run, alone):
                each.change_arms(each.arms.change([f"new{step}"], [labels[step % len(labels)]]))
        assert parts_of(run) == parts_of(alone)
        if isinstance(run, SlotRun):
            assert len(run.open_slots) == len(alone.open_slots)
    control = run.control.ledger
    assert min(control.feedbacks, control.voided, control.removed, run.ledger.feedbacks) > 0
    ended = control.feedbacks + control.expired + control.removed + control.voided
    assert (control.slot, control.by_arm.sum()) == (ended + control.outstanding, control.outstanding)
    assert run.counts.slot == run.slot == control.slot + alone.ledger.slot


def test_a_control_group_draws_as_fixed_does_from_the_same_uniforms():
    """Over arms that come and go, too; where no eligible arm has any weight they are alike."""
    given = {"a": 0.5, "b": 0.5, "c": 0.0, "d": 0.0}
    learner = REGISTRY["fixed"].model_validate({"kind": "fixed", "arms": list("abcd"), "probabilities": given})
    params = Params(learner, 9, floor=0.0, control=ControlParams(0.5, given))
    run, fixed = start_run(params), start_run(params._replace(control=None))
    for eligible in (None, np.array([0, 2]), np.array([1, 2, 3])):
        assert run.control.act(run, eligible, 20)[1:4] == fixed.act_all(20, eligible)[1:4]
    alike = run.control.act(run, np.array([2, 3]), 50)
    assert set(alike.arms) == {2, 3}
    assert set(alike.probabilities) == {0.5}
    fixed.act_all(50)
    for each in (run, fixed):
        each.change_arms(each.arms.change(["e"], ["a"]))
    assert run.control.act(run, None, 20)[1:4] == fixed.act_all(20)[1:4]
    assert run.control.p.tolist() == fixed.probabilities.tolist()


def test_counts_of_both_groups_are_those_of_all_losses():
    learner, control, whole = Ledger(), Ledger(), Ledger()
    for number, loss in enumerate([0.25, 0.5, 0.75, 1.0, 0.5]):
        for each in ((learner, control)[number % 2], whole):
            each.slot += 1
            each.outstanding += 1
            each.settle()
            each.learn(loss)
    fixed = REGISTRY["fixed"].model_validate({"kind": "fixed", "n_arms": 2})
    run = start_run(Params(fixed, 1, control=ControlParams(0.5)))
    assert run.counts.equal_losses
    run.ledger, run.control.ledger = learner, control

    assert run.counts.mean_loss == pytest.approx(whole.mean_loss)
    assert run.counts.squares == pytest.approx(whole.squares)
    assert (run.counts.slot, run.counts.feedbacks, run.counts.losses) == (5, 5, 5)
    assert not run.counts.equal_losses
