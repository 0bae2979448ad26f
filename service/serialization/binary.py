"""What states and the records beside them have in common as bytes: their checksum, and how they are read."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

CHECKSUM_BYTES = 4
"""Bytes of the checksum at the end, which a commit compares to notice a state that was changed by hand."""
BYTE, LENGTH = struct.Struct("<B"), struct.Struct("<I")
BYTES = tuple(bytes([number]) for number in range(256))
"""What ``BYTE`` makes of each number, at hand."""
UNSIGNED = {width: np.dtype(f"<u{width}") for width in (1, 2, 4, 8)}


class CodecError(Exception):
    """The bytes are not what this program writes for this learner."""


@contextmanager
def foreign(what: str) -> Iterator[None]:
    """Turn the errors of reading foreign or damaged bytes into a ``CodecError``: they are not ``what``."""
    try:
        yield
    except (ValueError, TypeError, LookupError, ArithmeticError, RecursionError, struct.error) as error:
        raise CodecError(f"not {what}") from error


def checksum(body: bytes | memoryview) -> bytes:
    """Return the CRC-32, little-endian, that ends every state and every record."""
    return zlib.crc32(body).to_bytes(CHECKSUM_BYTES, "little")


def dtype_below(end: int) -> np.dtype[Any]:
    """Return the type of the shortest unsigned integers that hold all below ``end``."""
    return UNSIGNED[1 if end <= 1 << 8 else 2 if end <= 1 << 16 else 4 if end <= 1 << 32 else 8]


# -- One record: its numbers, and a CRC-32 of its key, a colon and them.

LARGE_RECORD = 65_536
"""Bytes from which on the CRC is of sums instead, in a fifth of the time: 100 us for the 1.7 MB of 10,000 arms."""
COLUMNS = 1024
"""Whole rows of so many integers of 8 bytes are summed by column and by row, modulo 2^64; what is left is not."""


def record_of(key: bytes, body: bytes | memoryview) -> bytes:
    """Return the record with a key of the store, and its checksum."""
    return b"".join((body, _checksum(key, body)))


def _checksum(key: bytes, body: bytes | memoryview) -> bytes:
    crc = zlib.crc32(key + b":")
    if len(body) >= LARGE_RECORD:
        rows = np.frombuffer(body, UNSIGNED[8], len(body) // (8 * COLUMNS) * COLUMNS).reshape(-1, COLUMNS)
        crc = zlib.crc32(np.add.reduce(rows, axis=1), zlib.crc32(np.add.reduce(rows, axis=0), crc))
        body = memoryview(body)[rows.nbytes :]
    return zlib.crc32(body, crc).to_bytes(CHECKSUM_BYTES, "little")


def body_of(key: bytes, data: bytes) -> bytes:
    """Invert ``record_of``; a checksum of another record raises ``CodecError``."""
    body = data[:-CHECKSUM_BYTES]
    if _checksum(key, body) != data[-CHECKSUM_BYTES:]:
        raise CodecError("not a record of a session")
    return body


class Reader:
    """Reads one part after another of bytes."""

    def __init__(self, data: memoryview) -> None:
        self._data, self._at = data, 0

    @property
    def left(self) -> memoryview:
        """What has not been read."""
        return self._data[self._at :]

    def unpack(self, layout: struct.Struct) -> tuple[Any, ...]:
        """Read the numbers of a layout."""
        return layout.unpack(self.take(layout.size))

    def numbers(self, dtype: np.dtype[Any], count: int) -> Any:
        """Read an array of numbers, shape (count,), that shares memory with the bytes."""
        return np.frombuffer(self.take(dtype.itemsize * count), dtype)

    def take(self, count: int) -> memoryview:
        """Read bytes."""
        start = self._at
        self._at = end = start + count
        if end > len(self._data):
            raise CodecError("the state is cut short")
        return self._data[start:end]
