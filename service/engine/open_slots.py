"""The open slots of a session whose feedback names slots."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from itertools import chain, takewhile
from typing import NamedTuple

from ..learners.base import Record


class OpenSlot(NamedTuple):
    """What one decision left for its feedback."""

    arm: int
    record: Record


@dataclass(slots=True)
class OpenSlots:
    """Open slots, oldest first: those the store holds, and the changes made since.

    Copies share the stored slots and have separate changes, so that copying and acting take the same time however
    many slots are open.
    """

    stored: OrderedDict[int, OpenSlot] = field(default_factory=OrderedDict)
    """Slots as the store holds them, in ascending order."""
    changes: dict[int, OpenSlot | None] = field(default_factory=dict)
    """Slots opened, or closed (None), since then."""
    closed: int = 0
    """Number of changes that are None."""

    def __len__(self) -> int:
        return len(self.stored) + len(self.changes) - 2 * self.closed

    def __contains__(self, slot: object) -> bool:
        return isinstance(slot, int) and self.get(slot) is not None

    def get(self, slot: int | None) -> OpenSlot | None:
        """Return an open slot; None where it is unknown, settled or dropped, or where no slot is named."""
        if slot is None:
            return None
        return self.changes[slot] if slot in self.changes else self.stored.get(slot)

    def oldest(self) -> int:
        """Return the number of the oldest open slot; there must be one."""
        return next(slot for slot in chain(self.stored, self.changes) if self.get(slot) is not None)

    def up_to(self, last: int) -> list[tuple[int, int]]:
        """Return arm and number of every open slot up to number ``last``, by arm, then by number."""
        slots = takewhile(lambda slot: slot <= last, chain(self.stored, self.changes))
        return sorted((kept.arm, slot) for slot in dict.fromkeys(slots) if (kept := self.get(slot)) is not None)

    def of(self, arms: Collection[int]) -> list[int]:
        """Return the numbers of the open slots of these arms, by index."""
        slots = dict.fromkeys(chain(self.stored, self.changes))
        return [slot for slot in slots if (kept := self.get(slot)) is not None and kept.arm in arms]

    def open(self, slot: int, arm: int, record: Record) -> None:
        """Add an open slot.

        Parameters
        ----------
        slot : its number, higher than all before
        arm : its index
        record : what ``SlotLearner.record`` returned
        """
        self.changes[slot] = OpenSlot(arm, record)

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
        if slot in self.stored:
            self.changes[slot] = None
            self.closed += 1
        else:
            del self.changes[slot]
        return closed

    def copy(self) -> OpenSlots:
        """Copy the open slots, so that the copy may change alone."""
        return replace(self, changes=self.changes.copy())

    def separate(self) -> OpenSlots:
        """Copy all slots, so that the copy stays as it is when the others are written."""
        return replace(self, stored=self.stored.copy(), changes=self.changes.copy())

    def written(self) -> OpenSlots:
        """Return the same slots as they are once the store holds the changes.

        Earlier copies, except separate ones, share the stored slots and must not be used any more.
        """
        for slot, change in self.changes.items():
            if change is None:
                del self.stored[slot]
            else:
                self.stored[slot] = change
        return OpenSlots(self.stored)
