"""Learners that need the slot: what is kept of open slots, what is dropped, what is refused."""

import random

import numpy as np
import pytest

from service.engine.ledger import ArmFeedback
from service.engine.open_slots import OpenSlot, OpenSlots
from tests.support.examples import some_quick
from tests.support.runs import act, start

EXP3 = {"kind": "exp3", "n_arms": 4, "learning_rate": 0.4}
BOLD = {"kind": "bold", "n_arms": 4, "learning_rate": 0.4}


def feedback(action, loss=0.5):
    return ArmFeedback(action.arm, loss, action.slot)


def test_exp3_divides_by_the_probability_of_the_slot_that_was_acted():
    """By hand: both arms are drawn at 1/2; the second loss is divided by 1/2 though p has moved since."""
    run = start({"kind": "exp3", "n_arms": 2, "learning_rate": 0.4})
    actions = [act(run) for _ in range(2)]

    for action in actions:
        run.settle(feedback(action, 1.0))

    weights = np.exp(-0.4 * 2.0 * np.bincount([action.arm for action in actions], minlength=2))
    np.testing.assert_allclose(run.probabilities, weights / weights.sum(), rtol=1e-14)


def test_a_slot_that_stays_open_is_kept_while_others_come_and_go():
    run = start(EXP3 | {"max_open_slots": 2})
    waiting = act(run)
    for _ in range(20):
        run.settle(feedback(act(run)))

    assert (run.surplus([feedback(waiting)]), run.ledger.expired) == ([], 0)


def test_bold_uses_the_free_instance_of_lowest_index():
    run = start(BOLD)
    actions = [act(run) for _ in range(3)]
    assert run.state.waiting.tolist() == [1, 1, 1]

    run.settle(feedback(actions[1]))
    run.settle(feedback(actions[0]))
    act(run)

    assert (run.state.instance, run.state.waiting.tolist()) == (0, [1, 0, 1])


def test_bold_never_has_more_instances_than_open_slots():
    run = start(BOLD | {"max_open_slots": 5})
    for _ in range(50):
        act(run)

    assert [row.shape for row in run.state.log_weights] == [(4,)] * 5
    assert run.ledger.expired == 45


@pytest.mark.parametrize("spec", [EXP3, BOLD], ids=lambda spec: spec["kind"])
def test_copies_keep_their_own_slots(spec):
    run = start(spec)
    action = act(run)

    copy = run.copy()
    copy.settle(feedback(action))
    later = act(copy)

    assert (run.surplus([feedback(action)]), run.surplus([feedback(later)])) == ([], [0])
    assert copy.surplus([feedback(action), feedback(later)]) == [0]


def test_changes_tell_what_the_store_does_not_hold_yet():
    slots = OpenSlots(opened={1: OpenSlot(0, (0.5,)), 4: OpenSlot(1, (0.25,))}).written()
    slots.open(7, 2, (0.125,))
    slots.open(8, 0, (1.0,))
    slots.close(1)
    slots.close(8)

    assert (slots.opened, slots.closed) == ({7: OpenSlot(2, (0.125,))}, {1})
    assert (len(slots), slots.oldest()) == (2, 4)

    written = slots.written()

    assert (written.opened, written.closed) == ({}, set())
    assert [slot for slot in range(10) if slot in written] == [4, 7]
    with pytest.raises(KeyError):
        written.close(1)


ARMS = 5


class Pair:
    """Slots as sessions keep them, and the same in a dictionary."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.slots, self.known = OpenSlots(), dict[int, OpenSlot]()
        self.next = 1

    def step(self, opened, closed):
        """One commit."""
        self.slots = self.slots.copy()
        for slot in range(self.next, self.next + opened):
            self.known[slot] = OpenSlot(self.random.randrange(ARMS), (self.random.random(), float(slot)))
            self.slots.open(slot, *self.known[slot])
        self.next += opened
        for slot in self.random.sample(sorted(self.known), min(closed, len(self.known))):
            assert self.slots.close(slot) == self.known.pop(slot)

    def check(self, slots, known):
        assert len(slots) == len(known)
        assert not known or slots.oldest() == min(known)
        last = self.next // 2
        assert slots.up_to(last) == sorted((kept.arm, slot) for slot, kept in known.items() if slot <= last)
        assert slots.of({1, 3}) == [slot for slot, kept in known.items() if kept.arm in (1, 3)]
        for slot in self.random.choices(range(-1, self.next + 3), k=20):
            assert slots.get(slot) == known.get(slot)
            assert (slot in slots) == (slot in known)


@pytest.mark.parametrize("seed", some_quick(range(5), [0]))
def test_they_are_as_a_dictionary_of_them(seed):
    pair = Pair(seed)
    for number in range(60):
        grows = number % 20 < 10
        pair.step(*((pair.random.randrange(400), 20) if grows else (20, pair.random.randrange(400))))
        pair.check(pair.slots, pair.known)
        if number % 3:
            pair.slots = pair.slots.written()
            pair.check(pair.slots, pair.known)


def test_separate_ones_stay_as_they_are():
    pair = Pair(7)
    pair.step(500, 100)
    pair.slots = pair.slots.written()
    pair.step(30, 30)
    separate, known = pair.slots.separate(), pair.known.copy()

    for _ in range(30):
        pair.slots = pair.slots.written()
        pair.step(100, 110)

    pair.check(separate, known)
    pair.check(separate.written(), known)
    pair.check(pair.slots, pair.known)
