"""Open slots as columns of numbers: a million take 25 MB, and nothing has to be made, scanned or freed for each."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from ..learners.base import FloatArray, IntArray, Record

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
        count = numbers.size
        return cls(
            numbers, arms.take(order), records.take(order, axis=0), np.ones(count, np.bool_), end=count, count=count
        )

    def __len__(self) -> int:
        return self.count

    @property
    def nbytes(self) -> int:
        """Memory that they take, without the room behind them."""
        return sum(column[: self.end].nbytes for column in (self.numbers, self.arms, self.records, self.is_open))

    def get(self, slot: int) -> OpenSlot | None:
        """Return an open slot; None where it is not open."""
        at = self._place(slot)
        if at is None:
            return None
        return OpenSlot(self.arms.item(at), tuple(self.records[at].tolist()))

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

    def are_arms_below(self, size: int) -> bool:
        """Return whether the arms of all have indexes from 0 on and below ``size``."""
        arms = self.arms[: self.end]
        return not arms.size or bool(arms.min() >= 0 and arms.max() < size)

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
            at = self._place(slot)
            if at is None:
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

        Parameters
        ----------
        count : of the slots to come
        width : numbers of a record
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
