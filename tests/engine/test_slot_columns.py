"""Columns of open slots do what a dictionary of them does, however many are opened and closed."""

from __future__ import annotations

import random
from collections.abc import Collection

import numpy as np
import pytest

from service.engine.open_slots import CLOSED_KEPT, OpenSlot, OpenSlots, SlotColumns

ARMS = 5


class Pair:
    """Slots in columns, and the same in a dictionary."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.slots, self.known = OpenSlots(), dict[int, OpenSlot]()
        self.next = 1

    def step(self, opened: int, closed: int) -> None:
        """One commit."""
        self.slots = self.slots.copy()
        for slot in range(self.next, self.next + opened):
            self.known[slot] = OpenSlot(self.random.randrange(ARMS), (self.random.random(), float(slot)))
            self.slots.open(slot, *self.known[slot])
        self.next += opened
        for slot in self.random.sample(sorted(self.known), min(closed, len(self.known))):
            assert self.slots.close(slot) == self.known.pop(slot)

    def check(self, slots: OpenSlots, known: dict[int, OpenSlot]) -> None:
        assert len(slots) == len(known)
        assert not known or slots.oldest() == min(known)
        last = self.next // 2
        assert slots.up_to(last) == sorted((kept.arm, slot) for slot, kept in known.items() if slot <= last)
        assert slots.of({1, 3}) == [slot for slot, kept in known.items() if kept.arm in (1, 3)]
        for slot in self.random.choices(range(-1, self.next + 3), k=20):
            assert slots.get(slot) == known.get(slot)
            assert (slot in slots) == (slot in known)


@pytest.mark.parametrize("seed", range(5))
def test_they_are_as_a_dictionary_of_them(seed: int) -> None:
    pair = Pair(seed)
    for number in range(60):
        grows = number % 20 < 10
        pair.step(*((pair.random.randrange(400), 20) if grows else (20, pair.random.randrange(400))))
        pair.check(pair.slots, pair.known)
        if number % 3:
            pair.slots = pair.slots.written()
            pair.check(pair.slots, pair.known)


def test_separate_ones_stay_as_they_are() -> None:
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


def test_closed_ones_take_no_memory_for_long() -> None:
    count = 100_000
    stored = columns(range(count))
    assert 24 * count < stored.nbytes < 26 * count

    stored.change({}, range(count - 10))

    assert (len(stored), list(stored)) == (10, [*range(count - 10, count)])
    assert stored.nbytes <= 26 * CLOSED_KEPT
    stored.change({count: OpenSlot(1, (0.5,))}, [])
    assert stored.get(count) == OpenSlot(1, (0.5,))


def test_slots_in_any_order_and_twice_are_sorted_and_kept_once() -> None:
    stored = columns([5, 900, 5, 7, 10**15, 7])

    assert list(stored) == [5, 7, 900, 10**15]
    assert len(stored) == 4
    assert stored.get(7) == OpenSlot(7 % ARMS, (7.5,))
    assert stored.get(10**30) is None


def test_numbers_of_a_record_stay_as_many() -> None:
    stored = columns([1])

    with pytest.raises(ValueError, match="same length"):
        stored.change({2: OpenSlot(0, (0.5, 0.5))}, [])


def columns(numbers: Collection[int]) -> SlotColumns:
    found = np.array(numbers)
    return SlotColumns.of(found, found % ARMS, (found + 0.5).reshape(-1, 1))
