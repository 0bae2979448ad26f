"""Many records as arrays of bytes: a million one by one would take seconds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from ...store.base import PackedPart, PackedRecords

PARTS_TOGETHER = 16
"""Parts, of a thousand records at most: no call of numpy takes long, and the arrays fit the processor's cache."""

LENGTH_BITS = 31
"""No length takes more."""


class RecordTable:
    """Some records, by their places.

    Parameters
    ----------
    parts : one or more
    """

    def __init__(self, parts: Sequence[PackedPart]) -> None:
        self._keys = b"".join(part.keys for part in parts)
        self._values = b"".join(part.values for part in parts)
        self._key_lengths = np.concatenate([part.key_lengths for part in parts]).astype(np.int64)
        self._lengths = np.concatenate([part.value_lengths for part in parts]).astype(np.int64)
        self._key_starts = self._key_lengths.cumsum() - self._key_lengths
        self._starts = self._lengths.cumsum() - self._lengths

    def begin_with(self, first_bytes: bytes) -> Any:
        """Return of each place whether its key begins with one of these bytes."""
        found = np.isin(_bytes(self._keys)[self._key_starts], _bytes(first_bytes))
        return found & (self._key_lengths > 0)

    def items(self, chosen: Any) -> Iterator[tuple[bytes, bytes]]:
        """Return key and value of the chosen places."""
        columns = (self._key_starts, self._key_lengths, self._starts, self._lengths)
        for key, key_length, value, length in zip(*(each[chosen].tolist() for each in columns), strict=True):
            yield self._keys[key : key + key_length], self._values[value : value + length]

    def blocks(self, chosen: Any) -> Iterator[tuple[Any, Any]]:
        """Return keys and values of the chosen places, those of the same lengths together: uint8, of two axes."""
        both = self._lengths << LENGTH_BITS | self._key_lengths
        for lengths in np.unique(both[chosen]).tolist():
            length, key_length = divmod(lengths, 1 << LENGTH_BITS)
            places = np.flatnonzero(chosen & (both == lengths))
            yield (
                _taken(self._keys, self._key_starts[places], key_length),
                _taken(self._values, self._starts[places], length),
            )


def tables_of(records: PackedRecords) -> Iterator[RecordTable]:
    """Return all records, some at a time."""
    for first in range(0, len(records.parts), PARTS_TOGETHER):
        yield RecordTable(records.parts[first : first + PARTS_TOGETHER])


def _bytes(joined: bytes) -> Any:
    return np.frombuffer(joined, np.uint8)


def _taken(joined: bytes, starts: Any, length: int) -> Any:
    return sliding_window_view(_bytes(joined), length)[starts] if length else np.empty((starts.size, 0), np.uint8)
