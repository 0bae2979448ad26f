"""The open slots of a session whose feedback names slots."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from itertools import chain

import numpy as np

from ..learners.base import Record
from .slot_columns import OpenSlot, SlotColumns

MOST_RECENT = 1024
"""Slots that are kept as objects of Python, which takes less time than columns where they come and go."""
OBJECT_BYTES = 200
"""Memory that one of these takes, about."""


@dataclass(slots=True, eq=False)
class OpenSlots:
    """Open slots, oldest first: those the store holds, and the changes made since.

    Copies share the stored slots and have separate changes, so that copying and acting take the same time however
    many slots are open.
    """

    stored: SlotColumns = field(default_factory=SlotColumns)
    """Slots that the store holds: all that were read, and those that are no longer recent."""
    recent: dict[int, OpenSlot] = field(default_factory=dict)
    """Newer slots that the store holds, in ascending order."""
    opened: dict[int, OpenSlot] = field(default_factory=dict)
    """Slots opened since then, in ascending order."""
    closed: set[int] = field(default_factory=set)
    """Numbers of the slots closed since then that the store holds."""
    _read: dict[int, OpenSlot] = field(default_factory=dict)
    """What was asked for of ``stored``: a slot is asked for to check its event, and to settle it."""
    _left: Iterator[int] | None = None
    """Numbers of the slots that the store holds, above ``_first``."""
    _first: int | None = None
    """The first of them that is not closed, as far as was looked; None where none is left."""

    def __len__(self) -> int:
        return len(self.stored) + len(self.recent) + len(self.opened) - len(self.closed)

    def __contains__(self, slot: object) -> bool:
        return isinstance(slot, int) and self.get(slot) is not None

    @property
    def nbytes(self) -> int:
        """Memory that the slots which the store holds take, about."""
        return self.stored.nbytes + OBJECT_BYTES * len(self.recent)

    @property
    def changes(self) -> dict[int, OpenSlot | None]:
        """Slots opened, or closed (None), since the store was written."""
        return {**self.opened, **dict.fromkeys(self.closed)}

    def get(self, slot: int | None) -> OpenSlot | None:
        """Return an open slot; None where it is unknown, settled or dropped, or where no slot is named."""
        if slot is None or slot in self.closed:
            return None
        kept = self.opened.get(slot) or self.recent.get(slot) or self._read.get(slot)
        if kept is None and (kept := self.stored.get(slot)) is not None:
            self._read[slot] = kept
        return kept

    def oldest(self) -> int:
        """Return the number of the oldest open slot; there must be one."""
        if self._left is None:
            self._left = chain(self.stored, self.recent)
            self._first = next(self._left, None)
        while self._first in self.closed:
            self._first = next(self._left, None)
        return next(iter(self.opened)) if self._first is None else self._first

    def up_to(self, last: int) -> list[tuple[int, int]]:
        """Return arm and number of every open slot up to number ``last``, by arm, then by number."""
        numbers, arms = self.stored.up_to(last)
        if self.closed:
            is_open = ~np.isin(numbers, list(self.closed))
            numbers, arms = numbers[is_open], arms[is_open]
        if newer := [(slot, kept.arm) for slot, kept in self._newer() if slot <= last]:
            more = np.array(newer, dtype=np.int64)
            numbers, arms = np.append(numbers, more[:, 0]), np.append(arms, more[:, 1])
        by_arm = np.argsort(arms, kind="stable")
        return list(zip(arms[by_arm].tolist(), numbers[by_arm].tolist(), strict=True))

    def of(self, arms: Collection[int]) -> list[int]:
        """Return the numbers of the open slots of these arms, by index."""
        stored = (slot for slot in self.stored.of_arms(arms) if slot not in self.closed)
        return [*stored, *(slot for slot, kept in self._newer() if kept.arm in arms)]

    def _newer(self) -> Iterator[tuple[int, OpenSlot]]:
        """Return the open slots that stand in no columns."""
        slots = chain(self.recent.items(), self.opened.items())
        return ((slot, kept) for slot, kept in slots if slot not in self.closed)

    def open(self, slot: int, arm: int, record: Record) -> None:
        """Add an open slot.

        Parameters
        ----------
        slot : its number, higher than all before
        arm : its index
        record : what ``SlotLearner.record`` returned
        """
        self.opened[slot] = OpenSlot(arm, record)

    def close(self, slot: int | None) -> OpenSlot:
        """Remove an open slot, which has its feedback or is given up, and return what it left.

        Raises
        ------
        KeyError
            where the slot is not open.
        """
        closed = self.get(slot)
        if slot is None or closed is None:
            raise KeyError(slot)
        if self.opened.pop(slot, None) is None:
            self.closed.add(slot)
        return closed

    def copy(self) -> OpenSlots:
        """Copy the open slots, so that the copy may change alone."""
        return OpenSlots(self.stored, self.recent, self.opened.copy(), self.closed.copy())

    def separate(self) -> OpenSlots:
        """Copy all slots, so that the copy stays as it is when the others are written."""
        return OpenSlots(self.stored.separate(), self.recent.copy(), self.opened.copy(), self.closed.copy())

    def written(self) -> OpenSlots:
        """Return the same slots as they are once the store holds the changes.

        Earlier copies, except separate ones, share the stored slots and must not be used any more.
        """
        old = [slot for slot in self.closed if self.recent.pop(slot, None) is None]
        self.recent.update(self.opened)
        is_full = len(self.recent) > MOST_RECENT
        if old or is_full:
            self.stored.change(self.recent if is_full else {}, old)
        return OpenSlots(self.stored, {} if is_full else self.recent)
