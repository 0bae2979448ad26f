"""The open slots of a session whose feedback names slots: those that the store holds, and the changes since."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from itertools import chain
from typing import NamedTuple

from ..learners.base import Record

OBJECT_BYTES = 250
"""Memory that an open slot takes, about."""


class OpenSlot(NamedTuple):
    """What one decision left for its feedback."""

    arm: int
    record: Record


@dataclass(slots=True, eq=False)
class OpenSlots:
    """Open slots, oldest first: those the store holds, and the changes made since.

    Copies share the stored slots and have separate changes, so that copying and acting take the same time however
    many slots are open.
    """

    stored: dict[int, OpenSlot] = field(default_factory=dict)
    """Slots that the store holds, in ascending order."""
    opened: dict[int, OpenSlot] = field(default_factory=dict)
    """Slots opened since then, in ascending order."""
    closed: set[int] = field(default_factory=set)
    """Numbers of the slots closed since then that the store holds."""
    _left: Iterator[int] | None = None
    """Numbers of the slots that the store holds, above ``_first``."""
    _first: int | None = None
    """The first of them that is not closed, as far as was looked; None where none is left."""

    def __len__(self) -> int:
        return len(self.stored) + len(self.opened) - len(self.closed)

    def __contains__(self, slot: object) -> bool:
        return isinstance(slot, int) and self.get(slot) is not None

    @property
    def nbytes(self) -> int:
        """Memory that the slots which the store holds take, about."""
        return OBJECT_BYTES * len(self.stored)

    def get(self, slot: int | None) -> OpenSlot | None:
        """Return an open slot; None where it is unknown, settled or dropped, or where no slot is named."""
        if slot is None or slot in self.closed:
            return None
        return self.opened.get(slot) or self.stored.get(slot)

    def oldest(self) -> int:
        """Return the number of the oldest open slot; there must be one."""
        if self._left is None:
            self._left = iter(self.stored)
            self._first = next(self._left, None)
        while self._first in self.closed:
            self._first = next(self._left, None)
        return next(iter(self.opened)) if self._first is None else self._first

    def up_to(self, last: int) -> list[tuple[int, int]]:
        """Return arm and number of every open slot up to number ``last``, by arm, then by number."""
        by_arm = defaultdict[int, list[int]](list)
        for slot, kept in self._all():
            if slot > last:
                break
            by_arm[kept.arm].append(slot)
        return [(arm, slot) for arm in sorted(by_arm) for slot in by_arm[arm]]

    def of(self, arms: Collection[int]) -> list[int]:
        """Return the numbers of the open slots of these arms, by index."""
        return [slot for slot, kept in self._all() if kept.arm in arms]

    def _all(self) -> Iterator[tuple[int, OpenSlot]]:
        slots = chain(self.stored.items(), self.opened.items())
        return ((slot, kept) for slot, kept in slots if slot not in self.closed)

    def open(self, slot: int, arm: int, record: Record) -> None:
        """Add an open slot, whose number is higher than all before; ``SlotLearner.record`` returned the record."""
        self.opened[slot] = OpenSlot(arm, record)

    def close(self, slot: int | None) -> OpenSlot:
        """Remove an open slot, which has its feedback or is given up, and return what it left.

        Raises
        ------
        KeyError
            where the slot is not open.
        """
        if slot is None or (closed := self.get(slot)) is None:
            raise KeyError(slot)
        if self.opened.pop(slot, None) is None:
            self.closed.add(slot)
        return closed

    def copy(self) -> OpenSlots:
        """Copy the open slots, so that the copy may change alone."""
        return OpenSlots(self.stored, self.opened.copy(), self.closed.copy())

    def separate(self) -> OpenSlots:
        """Copy all slots, so that the copy stays as it is when the others are written."""
        return OpenSlots(self.stored.copy(), self.opened.copy(), self.closed.copy())

    def written(self) -> OpenSlots:
        """Return the same slots as they are once the store holds the changes.

        Earlier copies, except separate ones, share the stored slots and must not be used any more.
        """
        for slot in self.closed:
            del self.stored[slot]
        self.stored.update(self.opened)
        return OpenSlots(self.stored)
