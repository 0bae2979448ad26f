"""Records of open slots: key is the slot's number in decimal, bytes are the arm (int64) and the learner's numbers.

They are read by columns, since there may be a million.
"""

from __future__ import annotations

import struct
from typing import Any

import numpy as np

from ...engine.open_slots import OpenSlot, OpenSlots, SlotColumns
from ..binary import CHECKSUM_BYTES, CodecError
from .checksums import checksums
from .record import record_of

MOST_DIGITS = 18
"""No slot has a longer number; all of these are int64."""
CHECKSUMS, INTEGERS, FLOATS = np.dtype("<u4"), np.dtype("<i8"), np.dtype("<f8")


def encode_slots(slots: OpenSlots) -> dict[bytes, bytes | None]:
    """Return the records of slots that changed since the last commit, by key; None for one to delete."""
    records: dict[bytes, bytes | None] = {b"%d" % slot: None for slot in slots.closed}
    for slot, kept in slots.opened.items():
        key = b"%d" % slot
        records[key] = _slot_bytes(key, kept)
    return records


def _slot_bytes(key: bytes, kept: OpenSlot) -> bytes:
    return record_of(key, struct.pack(f"<q{len(kept.record)}d", kept.arm, *kept.record))


class SlotReader:
    """Reads the records of one session.

    Parameters
    ----------
    most : records that it will read, at most; memory is taken at once, since small arrays would scatter it
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._count = 0
        self._columns: tuple[Any, Any, Any] | None = None

    def read(self, keys: Any, values: Any) -> None:
        """Read records of the same lengths.

        Parameters
        ----------
        keys : uint8, shape (records, bytes of a key)
        values : uint8, shape (records, bytes of a record)

        Raises
        ------
        CodecError
            where one of them is not the record of an open slot, or the learner left more numbers than of others.
        """
        digits, body = keys - np.uint8(ord("0")), values[:, :-CHECKSUM_BYTES]
        numbers, rest = divmod(body.shape[1], INTEGERS.itemsize)
        if not 0 < digits.shape[1] <= MOST_DIGITS or (digits > 9).any() or not numbers or rest:
            raise CodecError("not the record of an open slot")
        if (_checksums(keys, body) != _as(values[:, -CHECKSUM_BYTES:], CHECKSUMS)[:, 0]).any():
            raise CodecError("not a record of a session")
        slots = digits @ 10 ** np.arange(digits.shape[1] - 1, -1, -1)
        self._add(
            slots, _as(body[:, : INTEGERS.itemsize], INTEGERS)[:, 0], _as(body[:, INTEGERS.itemsize :], FLOATS)
        )

    def _add(self, *columns: Any) -> None:
        if self._columns is None:
            numbers, arms, records = (np.empty((self._most, *each.shape[1:]), each.dtype) for each in columns)
            self._columns = numbers, arms, records
        places = slice(self._count, self._count + len(columns[0]))
        for kept, read in zip(self._columns, columns, strict=True):
            if kept.shape[1:] != read.shape[1:]:
                raise CodecError("records of a session have one length")
            kept[places] = read
        self._count = places.stop

    def open_slots(self) -> OpenSlots:
        """Return the slots that were read."""
        if self._columns is None:
            return OpenSlots()
        return OpenSlots(SlotColumns.of(*(column[: self._count] for column in self._columns)))


def _checksums(keys: Any, body: Any) -> Any:
    colons = np.full((len(keys), 1), ord(":"), np.uint8)
    return checksums(np.concatenate([keys, colons, body], axis=1))


def _as(data: Any, dtype: np.dtype[Any]) -> Any:
    return np.ascontiguousarray(data).view(dtype)
