"""The open slots of a session whose feedback names slots: the many that the store holds, and the changes since."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from ..learners.base import FloatArray, IntArray, Record

# -- Open slots as columns of numbers: a million take 25 MB, and nothing has to be made, scanned or freed for
# each.

BLOCK = 256
"""Slots looked at together where open ones are sought one after the other."""
CLOSED_KEPT = 1024
"""Closed slots that may stand between open ones however few these are."""


class OpenSlot(NamedTuple):
    """What one decision left for its feedback."""

    arm: int
    record: Record


@dataclass(slots=True, eq=False)
class SlotColumns:
    """Open slots in ascending order; closed ones stand between them for a while.

    Copying all of them at every closing would take time in proportion, so that is done when most are closed.
    """

    numbers: IntArray = field(default_factory=lambda: np.empty(0, np.int64))
    """Of the slots, ascending up to ``end``; behind it is room for more."""
    arms: IntArray = field(default_factory=lambda: np.empty(0, np.int64))
    records: FloatArray = field(default_factory=lambda: np.empty((0, 0)))
    """What the learner recorded of each, shape (slots, numbers of a record)."""
    is_open: Any = field(default_factory=lambda: np.empty(0, np.bool_))
    first: int = 0
    """Place of the first open one; ``end`` where there is none."""
    end: int = 0
    count: int = 0
    """Open ones."""

    @classmethod
    def of(cls, numbers: IntArray, arms: IntArray, records: FloatArray) -> SlotColumns:
        """Make columns of open slots in any order; of those with the same number, which are the same, one is kept.

        Parameters
        ----------
        numbers : of the slots, int64
        arms : their arms, by index
        records : what the learner recorded of each, shape (slots, numbers of a record)
        """
        order = np.argsort(numbers)
        numbers = numbers.take(order)
        if (is_double := numbers[1:] == numbers[:-1]).any():
            is_kept = np.append(True, ~is_double)
            order, numbers = order[is_kept], numbers[is_kept]
        count, is_open = numbers.size, np.ones(numbers.size, np.bool_)
        return cls(numbers, arms.take(order), records.take(order, axis=0), is_open, end=count, count=count)

    def __len__(self) -> int:
        return self.count

    @property
    def nbytes(self) -> int:
        """Memory that they take, without the room behind them."""
        return sum(column[: self.end].nbytes for column in (self.numbers, self.arms, self.records, self.is_open))

    def get(self, slot: int) -> OpenSlot | None:
        """Return an open slot; None where it is not open."""
        at = self._place(slot)
        return None if at is None else OpenSlot(self.arms.item(at), tuple(self.records[at].tolist()))

    def _place(self, slot: int) -> int | None:
        if not self.count or not (first := self.numbers.item(0)) <= slot <= self.numbers.item(self.end - 1):
            return None
        at: int = slot - first  # Where it stands if no slot between was left out.
        if at >= self.end or self.numbers.item(at) != slot:
            at = int(self.numbers[: self.end].searchsorted(slot))
            if self.numbers.item(at) != slot:
                return None
        return at if self.is_open.item(at) else None

    def __iter__(self) -> Iterator[int]:
        """Return the numbers of the open slots, one after the other."""
        for at in range(self.first, self.end, BLOCK):
            block = slice(at, min(at + BLOCK, self.end))
            yield from self.numbers[block][self.is_open[block]].tolist()

    def up_to(self, last: int) -> tuple[IntArray, IntArray]:
        """Return number and arm of every open slot up to number ``last``."""
        open_ones = np.flatnonzero(self.is_open[: self.numbers[: self.end].searchsorted(last, "right")])
        return self.numbers[open_ones], self.arms[open_ones]

    def of_arms(self, arms: Collection[int]) -> list[int]:
        """Return the numbers of the open slots of these arms, by index."""
        chosen = self.is_open[: self.end] & np.isin(self.arms[: self.end], list(arms))
        return list(self.numbers[: self.end][chosen].tolist())

    def all_of(self, arms: Sequence[int]) -> bool:
        """Return whether all are of these arms, by index."""
        return set(np.unique(self.arms[: self.end]).tolist()).issubset(arms)

    def separate(self) -> SlotColumns:
        """Return the same slots, which stay as they are when these are changed."""
        # Without room behind them, so that what the copy adds goes to columns of its own.
        first, end, is_open = self.first, self.end, self.is_open[: self.end].copy()
        return SlotColumns(self.numbers[:end], self.arms[:end], self.records[:end], is_open, first, end, self.count)

    def change(self, opened: Mapping[int, OpenSlot], closed: Collection[int]) -> None:
        """Open and close slots.

        Parameters
        ----------
        opened : by number, ascending and above all that were ever here; records of one length
        closed : numbers of open ones

        Raises
        ------
        KeyError
            where one to close is not open.
        """
        for slot in closed:
            if (at := self._place(slot)) is None:
                raise KeyError(slot)
            self.is_open[at] = False
        self.count -= len(closed)
        if self.first < self.end and not self.is_open.item(self.first):
            self.first = self.first + int(self.is_open[self.first : self.end].argmax()) if self.count else self.end
        self._make_room(len(opened), len(next(iter(opened.values())).record) if opened else 0)
        if not opened:
            return
        places = slice(self.end, self.end + len(opened))
        self.numbers[places] = list(opened)
        self.arms[places] = [kept.arm for kept in opened.values()]
        self.records[places] = [kept.record for kept in opened.values()]
        self.is_open[places] = True
        self.end, self.count = places.stop, self.count + len(opened)

    def _make_room(self, count: int, width: int) -> None:
        """Move open slots to longer columns, where room is missing or closed ones take most of it.

        ``count`` slots are to come; their records have ``width`` numbers.
        """
        if self.count and count and width != self.records.shape[1]:
            raise ValueError("all records of a session have the same length")
        is_sparse = self.end > 4 * self.count + CLOSED_KEPT
        if self.end + count <= self.numbers.size and not is_sparse:
            return
        kept, size = np.flatnonzero(self.is_open[: self.end]), 2 * (self.count + count)
        records = self.records if self.count else np.empty((self.end, width))
        self.numbers, self.arms, self.records, self.is_open = (
            _grown(column, kept, size) for column in (self.numbers, self.arms, records, self.is_open)
        )
        self.first, self.end = 0, self.count


def _grown(column: Any, kept: IntArray, size: int) -> Any:
    """Return the ``kept`` places of a column in one with room for ``size``, which takes memory when it is used."""
    grown = np.empty((size, *column.shape[1:]), column.dtype)
    column.take(kept, axis=0, out=grown[: kept.size], mode="clip")  # Other modes copy twice.
    return grown


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
