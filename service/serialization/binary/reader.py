"""Reads what ``writer`` writes."""

from __future__ import annotations

import math
import struct
from typing import Any

import numpy as np

from .writer import (
    BYTE,
    FEW,
    FLOAT_ARRAY,
    FLOATS,
    INT_ARRAY,
    INTEGERS,
    LENGTH,
    MAX_AXES,
    MAX_LENGTH,
    ROWS,
    WIDTHS,
    CodecError,
    grouped,
    index_dtype,
)

MAX_ROWS = 2**20
"""Most rows of a state: more than a session can have open slots."""
_FEW = struct.Struct("<II")
_SHAPES = tuple(struct.Struct(f"<{axes}I") for axes in range(MAX_AXES + 1))


class Reader:
    """Reads one value after another: what a ``Writer`` wrote that was as compact.

    Parameters
    ----------
    data : what was written, from the first value on
    compact : whether arrays are as schema 3 has them
    """

    def __init__(self, data: memoryview, *, compact: bool = False) -> None:
        self._data = data
        self._at = 0
        self._compact = compact
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
                values.append(self._rows())
            else:
                values += self.unpack(kind)
        return values

    def _rows(self) -> tuple[None, ...]:
        count: int = self.unpack(LENGTH)[0]
        if count > MAX_ROWS:
            raise CodecError("no state has so many rows")
        return (None,) * count

    def floats(self) -> Any:
        """Read an array of floats; those that were the same are one."""
        (place,) = self.unpack(BYTE) if self._compact else (0,)
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
        (form,) = self.unpack(BYTE) if self._compact else (INTEGERS.itemsize,)
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
