"""Features: how a session declares them, how what is said of a visitor becomes columns, what tokens carry of it.

Columns are multiples of 2^-14 in [-1, 1], so that sums of their products are exact in float64 in any order. The
first column is always 1. What is missing is 0 in all of its columns.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import numpy as np
from pydantic import AfterValidator, Field, StringConstraints, model_validator

from ..errors import FieldError, FieldValueError, InvalidRequestError
from .base import FloatArray, Posted, Visit
from .specs import Finite, Whole

# -- Features as clients declare them.

MOST_COLUMNS = MAX_FEATURES = 64
MAX_NAME = 64
MAX_VALUE_BYTES = 128
"""Of a category's value."""
MAX_CATEGORIES = 64
_PATTERN = rf"^[A-Za-z0-9_.-]{{1,{MAX_NAME}}}$"


def _is_range(given: list[float]) -> list[float]:
    low, high = given
    if not low < high or math.isinf(high - low):
        raise ValueError("must be two numbers, the lower first, with a finite difference")
    return given


Columns = tuple[Sequence[int], bool]
LARGEST_FLOAT = float(np.finfo(float).max)
Range = Annotated[list[Finite], Field(min_length=2, max_length=2), AfterValidator(_is_range)]


def _fits(value: str) -> bool:
    """Return whether a text can be said of a category."""
    try:
        return len(value.encode()) <= MAX_VALUE_BYTES
    except UnicodeEncodeError:  # It has half of a surrogate pair.
        return False


def _are_values(values: list[str]) -> list[str]:
    if len(set(values)) < len(values) or not all(value and _fits(value) for value in values):
        raise ValueError(f"must be different texts of 1 to {MAX_VALUE_BYTES} bytes")
    return values


_Values = Annotated[
    list[str], Field(min_length=2, max_length=MAX_CATEGORIES, fail_fast=True), AfterValidator(_are_values)
]


class NumberFeature(Posted):
    """A number, in one column."""

    kind: Literal["number"]
    range: Range
    """The numbers that become -1 and 1; those outside are clipped."""
    columns: ClassVar = 1

    def encoded(self, name: str, value: Any) -> Columns:  # noqa: ARG002 - as categories do
        """Return columns in units of 2^-14, and whether any number is outside of its range; or a ValueError."""
        return _scaled([value], self.range, "a finite number")


class BooleanFeature(Posted):
    """True or false, in one column."""

    kind: Literal["boolean"]
    columns: ClassVar = 1

    def encoded(self, name: str, value: Any) -> Columns:  # noqa: ARG002 - as categories do
        """Return what ``NumberFeature.encoded`` does."""
        if type(value) is not bool:
            raise ValueError("true or false")
        return [UNIT if value else -UNIT], False


class CategoryFeature(Posted):
    """One of several texts, in a column for each: of values that are known, or any, hashed to buckets."""

    kind: Literal["category"]
    values: _Values | None = None
    buckets: Annotated[Whole | None, Field(ge=2, le=MAX_CATEGORIES)] = None

    @model_validator(mode="after")
    def _one_way(self) -> CategoryFeature:
        if (self.values is None) == (self.buckets is None):
            raise FieldValueError("values", "give either values or buckets")
        return self

    @property
    def columns(self) -> int:
        """Number of columns."""
        return self.buckets or len(self.values or ())

    def encoded(self, name: str, value: Any) -> Columns:
        """Return what ``NumberFeature.encoded`` does; all 0 of a value that is not among those declared."""
        if type(value) is not str or not _fits(value):
            raise ValueError(f"a text of at most {MAX_VALUE_BYTES} bytes")
        if self.values is not None:
            return [UNIT * (value == known) for known in self.values], False
        digest = blake2b(b"\0".join((name.encode(), value.encode())), digest_size=8).digest()
        columns = [0] * self.columns
        columns[int.from_bytes(digest, "little") % self.columns] = UNIT
        return columns, False


class VectorFeature(Posted):
    """Several numbers, an embedding say, in a column for each."""

    kind: Literal["vector"]
    length: Annotated[Whole, Field(ge=1, le=MOST_COLUMNS - 1)]
    range: Range
    """Of each of the numbers."""

    @property
    def columns(self) -> int:
        """Number of columns."""
        return self.length

    def encoded(self, name: str, value: Any) -> Columns:  # noqa: ARG002 - as categories do
        """Return what ``NumberFeature.encoded`` does."""
        text = f"a list of {self.length} finite numbers"
        if type(value) is not list or len(value) != self.length:
            raise ValueError(text)
        return _scaled(value, self.range, text)


def _scaled(values: Sequence[Any], within: Sequence[float], text: str) -> Columns:
    low, high = within
    size, columns, is_outside = high - low, list[int](), False
    for value in values:
        if type(value) not in (int, float) or not -LARGEST_FLOAT <= value <= LARGEST_FLOAT:
            raise ValueError(text)
        share = 2 * (value - low) / size - 1
        columns.append(round((share if share < 1 else 1) * UNIT) if share > -1 else -UNIT)
        is_outside = is_outside or not low <= value <= high
    return columns, is_outside


Feature = Annotated[NumberFeature | BooleanFeature | CategoryFeature | VectorFeature, Field(discriminator="kind")]


def _have_columns(features: dict[str, Any]) -> dict[str, Any]:
    if (count := columns_of(features)) > MOST_COLUMNS:
        raise ValueError(f"have {count} columns, the constant one included, and may have {MOST_COLUMNS}")
    return features


_DECLARED = "What acts may say of the visitor: by name its kind, and how it becomes columns."
Features = Annotated[
    dict[Annotated[str, StringConstraints(pattern=_PATTERN)], Feature],
    Field(min_length=1, max_length=MAX_FEATURES, description=_DECLARED),
    AfterValidator(_have_columns),
]
Said = Annotated[
    dict[str, Any],
    Field(max_length=MAX_FEATURES, description="What is known of the visitor, in a session with ``features``."),
]
"""Features of a visitor as acts and events say them; the session's declaration says what is right."""


def columns_of(features: Mapping[str, Any]) -> int:
    """Return d, the columns of declared features, with the one that is always 1."""
    count: int = 1 + sum(feature.columns for feature in features.values())
    return count


# -- What is said of a visitor, as columns.


UNIT = 2**14
"""Columns are multiples of its inverse, in [-1, 1]."""
COLUMN = np.dtype("<i2")


def int16_of(x: FloatArray) -> Any:
    """Return columns, shape (d,), but for the first in units of 2^-14, shape (d - 1,)."""
    return (x[1:] * UNIT).astype(COLUMN)


def of_int16(columns: Sequence[int]) -> FloatArray:
    """Return columns of what ``int16_of`` returns of them."""
    return np.array([1.0, *[column / UNIT for column in columns]])


class Encoded(NamedTuple):
    """A visitor's columns, and what became of the features."""

    x: FloatArray
    """Shape (d,)."""
    missing: Sequence[int] = ()
    """Places of the features that were not said."""
    clipped: Sequence[int] = ()
    """Places of those with a number outside of its range."""


class Encoder:
    """Makes columns of what acts and events say.

    Parameters
    ----------
    features : as the session declares them, in its order
    """

    def __init__(self, features: Mapping[str, Any]) -> None:
        self.features, self.columns = features, columns_of(features)

    def encode(self, said: Mapping[str, Any] | None) -> Encoded:
        """Return the columns of what is said of a visitor; any feature may be missing, or null.

        Raises
        ------
        InvalidRequestError
            naming the first feature that was not declared, or is of a wrong type. What was said is in no message.
        """
        columns, missing, clipped, said = list[int](), list[int](), list[int](), said or {}
        for name in said:
            if name not in self.features:
                text = "the session declares no such feature"
                field = f"features.{name[:MAX_NAME]}"
                raise InvalidRequestError.of_all([FieldError(field, text, logged_as="features")])
        for place, (name, feature) in enumerate(self.features.items()):
            if (value := said.get(name)) is None:
                missing.append(place)
                columns += [0] * feature.columns
                continue
            try:
                found, is_outside = feature.encoded(name, value)
            except ValueError as error:
                raise InvalidRequestError.of(f"features.{name}", f"must be {error}") from None
            columns += found
            if is_outside:
                clipped.append(place)
        return Encoded(of_int16(columns), missing, clipped)


# -- What a token carries for the feedback of its decision: columns that are not 0, and the act's ratios.

_RATIOS = struct.Struct("<11e")


def tail_of(visit: Visit) -> bytes:
    """Return what a token carries of a visit of which all is known: ratios, which columns, and these."""
    if visit.x is None or visit.ratios is None:
        raise ValueError("a visit of which too little is known")
    columns = int16_of(visit.x)
    present = columns != 0
    tail: bytes = _RATIOS.pack(*visit.ratios) + np.packbits(present).tobytes() + columns[present].tobytes()
    return tail


def visit_of(tail: bytes, n_columns: int) -> Visit | None:
    """Read what ``tail_of`` wrote, in a session of so many columns; None for anything else."""
    start, n_bytes = _RATIOS.size, (n_columns + 6) // 8
    end = start + n_bytes
    if len(tail) < end:
        return None
    # In plain numbers: a third of the time of arrays.
    ratios, present = _RATIOS.unpack_from(tail), f"{int.from_bytes(tail[start:end], 'big'):0{8 * n_bytes}b}"
    count = present.count("1")
    is_whole = len(tail) == end + COLUMN.itemsize * count and "1" not in present[n_columns - 1 :]
    if not (is_whole and min(ratios) >= 0 and sum(ratios) < math.inf):  # A sum with NaN is NaN.
        return None
    numbers = struct.unpack_from(f"<{count}h", tail, end)
    if not -UNIT <= min(numbers, default=0) <= max(numbers, default=0) <= UNIT:
        return None
    given = iter(numbers)
    return Visit(of_int16([next(given) if each == "1" else 0 for each in present[: n_columns - 1]]), ratios)
