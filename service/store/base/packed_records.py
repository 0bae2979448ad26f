"""The records beside a session's state as they were read, packed."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import islice
from typing import NamedTuple

PACKED_AT_ONCE = 1000
"""Records packed together, so that no call holds the interpreter for long."""


class PackedPart(NamedTuple):
    """Some records: keys and values one behind the other, with the length of each."""

    key_lengths: array[int]
    keys: bytes
    value_lengths: array[int]
    values: bytes


class PackedRecords(Mapping[bytes, bytes]):
    """Records by key; of those with the same key the last one counts.

    A million as objects of Python take 150 MB, and hold up others when a dictionary of them grows or is freed. As a
    mapping it makes these objects where it is first asked.
    """

    def __init__(self) -> None:
        self.parts: list[PackedPart] = []

    @classmethod
    def of(cls, records: Mapping[bytes, bytes]) -> PackedRecords:
        """Return records packed, as they are where they are already."""
        if isinstance(records, PackedRecords):
            return records
        packed, left = cls(), iter(records.items())
        while part := list(islice(left, PACKED_AT_ONCE)):
            packed.add(*zip(*part, strict=True))
        return packed

    def add(self, keys: Sequence[bytes], values: Sequence[bytes]) -> None:
        """Add records, before anything is asked of the mapping.

        Parameters
        ----------
        keys : of the records
        values : in the same order
        """
        lengths = (array("I", map(len, part)) for part in (keys, values))
        self.parts.append(PackedPart(next(lengths), b"".join(keys), next(lengths), b"".join(values)))

    @property
    def count(self) -> int:
        """Number of the records, with those that others of the same key replace."""
        return sum(len(part.key_lengths) for part in self.parts)

    @property
    def nbytes(self) -> int:
        """Bytes of all values."""
        return sum(len(part.values) for part in self.parts)

    @cached_property
    def _by_key(self) -> dict[bytes, bytes]:
        found: dict[bytes, bytes] = {}
        for part in self.parts:
            keys, values = _split(part.keys, part.key_lengths), _split(part.values, part.value_lengths)
            found.update(zip(keys, values, strict=True))
        return found

    def __getitem__(self, key: bytes) -> bytes:
        return self._by_key[key]

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._by_key)

    def __len__(self) -> int:
        return len(self._by_key)


def _split(joined: bytes, lengths: Sequence[int]) -> Iterator[bytes]:
    at = 0
    for length in lengths:
        yield joined[at : at + length]
        at += length
