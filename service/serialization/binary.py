"""Numbers and arrays as bytes, little-endian, as states and the records beside them have them: written and read.

Imports numpy alone. Writers and readers follow the same layout: scalars stand one behind the other. An array has a
form (1 byte), its number of axes (1 byte), its lengths (uint32 each) and its numbers. The form of floats is 0, or
the place, from 1, of an earlier array of the state that is the same; then nothing follows. The form of integers is
the bytes of each, 1, 2, 4 or 8; plus ``FEW`` where most are 0: then follow the length of the array, how many are
not 0 (uint32 each), their indexes, unsigned and as short as the length allows, and they.
"""

from __future__ import annotations

import math
import struct
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np

CHECKSUM_BYTES = 4
"""Bytes of the checksum at the end, which a commit compares to notice a state that was changed by hand."""
BYTE, LENGTH = struct.Struct("<B"), struct.Struct("<I")
BYTES = tuple(bytes([number]) for number in range(256))
"""What ``BYTE`` makes of each number, at hand."""
FLOATS, INTEGERS = np.dtype("<f8"), np.dtype("<i8")
MAX_AXES = 8
"""Most axes of an array; states have one or two."""
MAX_LENGTH = 2**24
"""Most integers of an array of which most are 0: far more than any session may have arms."""
FEW = 16
ROWS, FLOAT_ARRAY, INT_ARRAY = object(), object(), object()
"""The kinds of fields of a state that are no scalar; of rows only their number is written."""
_CRC = struct.Struct("<I")
_FEW_HEAD = struct.Struct("<BII")
WIDTHS = {width: np.dtype(f"<i{width}") for width in (1, 2, 4, 8)}
_INDEX = {width: np.dtype(f"<u{width}") for width in (1, 2, 4)}


class CodecError(Exception):
    """The bytes are not what this program writes for this learner."""


@contextmanager
def foreign(what: str) -> Iterator[None]:
    """Turn the errors of reading foreign or damaged bytes into a ``CodecError``: they are not ``what``."""
    try:
        yield
    except (ValueError, TypeError, IndexError, OverflowError, RecursionError, struct.error) as error:
        raise CodecError(f"not {what}") from error


def checksum(body: bytes | memoryview) -> bytes:
    """Return the CRC-32, little-endian, that ends every state and every record."""
    return _CRC.pack(zlib.crc32(body))


def width_of(numbers: Sequence[int]) -> int:
    """Return the bytes, 1, 2, 4 or 8, of the shortest signed integers that hold all of these."""
    bits = max(max(numbers), ~min(numbers)).bit_length()
    return 1 if bits < 8 else 2 if bits < 16 else 4 if bits < 32 else 8


def index_dtype(length: int) -> np.dtype[Any]:
    """Return the type of the indexes of an array of so many integers, most of them 0."""
    return _INDEX[1 if length <= 1 << 8 else 2 if length <= 1 << 16 else 4]


@dataclass(slots=True)
class Writer:
    """Writes one value after another."""

    parts: list[bytes] = field(default_factory=list)
    """What has been written."""
    _floats: list[tuple[Any, bytes]] = field(default_factory=list)
    """Arrays that ``floats`` has written, with the bytes of their numbers."""

    def fields(self, kinds: tuple[Any, ...], values: Sequence[Any]) -> None:
        """Write the fields of a state.

        Parameters
        ----------
        kinds : of each field the layout of a scalar, or one of the kinds above
        values : of the fields, in order: scalars, arrays, and of rows what has their length; further ones are not
            written
        """
        for kind, start, end in grouped(kinds):
            if kind is FLOAT_ARRAY:
                self.floats(values[start])
            elif kind is INT_ARRAY:
                self.integers(values[start])
            elif kind is ROWS:
                self.parts.append(LENGTH.pack(len(values[start])))
            else:
                self.parts.append(kind.pack(*values[start:end]))

    def floats(self, array: Any) -> None:
        """Write an array of float64; it may not change while the state is written: others are compared with it."""
        data = None
        for place, (other, known) in enumerate(self._floats, 1):
            if other is not array:
                data = data or array.tobytes()
            if other is array or (known == data and other.shape == array.shape):
                self._floats.append((array, known))
                self.parts.append(BYTES[place])
                return
        data = data or array.tobytes()
        self._floats.append((array, data))
        self.parts += (BYTES[0], shape_layout(array.ndim).pack(array.ndim, *array.shape), data)

    def integers(self, array: Any) -> None:
        """Write an array of int64, of any shape."""
        is_flat = array.ndim == 1
        indexes = array.nonzero()[0] if is_flat else None
        values = array[indexes] if is_flat else array.ravel()
        width, index = width_of([0, *values.tolist()]), index_dtype(array.size)
        if indexes is not None and values.size * (width + index.itemsize) < array.size * width:
            head = _FEW_HEAD.pack(FEW + width, array.size, values.size)
            self.parts += (head, indexes.astype(index).tobytes(), values.astype(WIDTHS[width]).tobytes())
            return
        shape, data = shape_layout(array.ndim).pack(array.ndim, *array.shape), array.astype(WIDTHS[width]).tobytes()
        self.parts += (BYTES[width], shape, data)


@lru_cache(maxsize=64)
def grouped(kinds: tuple[Any, ...]) -> tuple[tuple[Any, int, int], ...]:
    """Return kinds of fields with the first and the last place of each, scalars in a row as one layout."""
    groups: list[tuple[Any, int, int]] = []
    for place, kind in enumerate(kinds):
        last, start, _ = groups[-1] if groups else (None, 0, 0)
        if isinstance(kind, struct.Struct) and isinstance(last, struct.Struct):
            groups[-1] = (struct.Struct(last.format + kind.format.removeprefix("<")), start, place + 1)
        else:
            groups.append((kind, place, place + 1))
    return tuple(groups)


@lru_cache(maxsize=16)
def shape_layout(axes: int) -> struct.Struct:
    """Return the layout of an array's number of axes and of its lengths."""
    return struct.Struct(f"<B{axes}I")


MAX_ROWS = 2**20
"""Most rows of a state: more than a session can have open slots."""
_FEW = struct.Struct("<II")
_SHAPES = tuple(struct.Struct(f"<{axes}I") for axes in range(MAX_AXES + 1))


class Reader:
    """Reads one value after another of what a ``Writer`` wrote."""

    def __init__(self, data: memoryview) -> None:
        self._data = data
        self._at = 0
        self._floats: list[Any] = []
        """Arrays that ``floats`` has read."""

    @property
    def left(self) -> memoryview:
        """What has not been read."""
        return self._data[self._at :]

    def unpack(self, kind: struct.Struct) -> tuple[Any, ...]:
        """Read the numbers of a layout."""
        return kind.unpack_from(self._data, self._skip(kind.size))

    def block(self) -> memoryview:
        """Read bytes behind their length."""
        (length,) = self.unpack(LENGTH)
        return self._take(length)

    def fields(self, kinds: tuple[Any, ...]) -> list[Any]:
        """Read the fields of a state.

        Parameters
        ----------
        kinds : as ``Writer.fields`` was given them

        Returns
        -------
        Numbers and arrays, in the order of the fields; rows are a tuple of as many None.

        Raises
        ------
        CodecError
            where there are more rows than a state has, or the bytes end before the fields.
        """
        values: list[Any] = []
        for kind, _, _ in grouped(kinds):
            if kind is FLOAT_ARRAY:
                values.append(self.floats())
            elif kind is INT_ARRAY:
                values.append(self.integers())
            elif kind is ROWS:
                if (count := self.unpack(LENGTH)[0]) > MAX_ROWS:
                    raise CodecError("no state has so many rows")
                values.append((None,) * count)
            else:
                values += self.unpack(kind)
        return values

    def floats(self) -> Any:
        """Read an array of floats; those that were the same are one."""
        (place,) = self.unpack(BYTE)
        self._floats.append(self._floats[place - 1] if place else self._array(FLOATS))
        return self._floats[-1]

    def integers(self) -> Any:
        """Read an array of integers, as int64."""
        dtype, has_few = self._form()
        if not has_few:
            return self._array(dtype).astype(INTEGERS)
        length, count = self._lengths()
        found = np.zeros(length, dtype=INTEGERS)
        indexes = self._numbers(index_dtype(length), count)
        found[indexes] = self._numbers(dtype, count)
        return found

    def skip_integers(self) -> int:
        """Skip an array of integers without making it, and return how many they are."""
        dtype, has_few = self._form()
        if has_few:
            length, count = self._lengths()
            self._skip(count * (index_dtype(length).itemsize + dtype.itemsize))
            return length
        size = math.prod(self._shape())
        self._skip(size * dtype.itemsize)
        return size

    def _form(self) -> tuple[np.dtype[Any], bool]:
        """Return the type of integers, and whether only those that are not 0 follow."""
        (form,) = self.unpack(BYTE)
        dtype = WIDTHS.get(form % FEW)
        if dtype is None or form > 2 * FEW:
            raise CodecError("no state has such integers")
        return dtype, form > FEW

    def _lengths(self) -> tuple[int, int]:
        """Return the length of an array and how many of its integers are not 0."""
        length, count = self.unpack(_FEW)
        if not count <= length <= MAX_LENGTH:
            raise CodecError("no state has so many integers")
        return length, count

    def _shape(self) -> tuple[int, ...]:
        (axes,) = self.unpack(BYTE)
        if axes > MAX_AXES:
            raise CodecError("no state has so many axes")
        return self.unpack(_SHAPES[axes])

    def _array(self, dtype: np.dtype[Any]) -> Any:
        shape = self._shape()
        return self._numbers(dtype, math.prod(shape)).reshape(shape).copy()

    def _numbers(self, dtype: np.dtype[Any], count: int) -> Any:
        return np.frombuffer(self._take(dtype.itemsize * count), dtype)

    def _take(self, count: int) -> memoryview:
        start = self._skip(count)
        return self._data[start : self._at]

    def _skip(self, count: int) -> int:
        """Go on behind so many bytes, and return where they begin."""
        start = self._at
        self._at = end = start + count
        if end > len(self._data):
            raise CodecError("the state is cut short")
        return start
