"""Features: how a session declares them, how what is said of a visitor becomes columns, what tokens carry of it.

Columns are multiples of 2^-14 in [-1, 1], so that sums of their products are exact in float64 in any order. The
first column is always 1. What is missing is 0 in all of its columns.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
from pydantic import AfterValidator, Field, StringConstraints, model_validator

from ..errors import FieldError, FieldValueError, InvalidRequestError
from .base import FloatArray, Posted, Visit
from .regressions import MOST_COLUMNS, UNIT, int16_of, of_int16
from .specs import Finite, Whole

# -- Features as clients declare them.

MAX_FEATURES = 64
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


class _Declared(Posted):
    @property
    def columns(self) -> int:
        """Number of columns."""
        return 1


class NumberFeature(_Declared):
    """A number, in one column."""

    kind: Literal["number"]
    range: Range
    """The numbers that become -1 and 1; those outside are clipped."""


class BooleanFeature(_Declared):
    """True or false, in one column."""

    kind: Literal["boolean"]


class CategoryFeature(_Declared):
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
        return len(self.values) if self.values is not None else self.buckets or 0


class VectorFeature(_Declared):
    """Several numbers, an embedding say, in a column for each."""

    kind: Literal["vector"]
    length: Annotated[Whole, Field(ge=1, le=MOST_COLUMNS - 1)]
    range: Range
    """Of each of the numbers."""

    @property
    def columns(self) -> int:
        return self.length


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


class Encoded(NamedTuple):
    """A visitor's columns, and what became of the features."""

    x: FloatArray
    """Shape (d,)."""
    missing: Sequence[str] = ()
    """Names that were not said."""
    clipped: Sequence[str] = ()
    """Names with a number outside of its range."""


class Encoder:
    """Makes columns of what acts and events say.

    Parameters
    ----------
    features : as the session declares them, in its order
    """

    def __init__(self, features: Mapping[str, Any]) -> None:
        self.features, self.columns = features, columns_of(features)
        self.places = {name: place for place, name in enumerate(features)}
        """By name, its place among them."""
        self._starts, at = dict[str, int](), 1
        for name, feature in features.items():
            self._starts[name] = at
            at += feature.columns
        self._values = {
            name: {value: place for place, value in enumerate(feature.values)}
            for name, feature in features.items()
            if isinstance(feature, CategoryFeature) and feature.values is not None
        }

    def encode(self, said: Mapping[str, Any] | None) -> Encoded:
        """Return the columns of what is said of a visitor; any feature may be missing, or null.

        Raises
        ------
        InvalidRequestError
            naming the first feature that was not declared, or is of a wrong type. What was said is in no message.
        """
        columns, missing, clipped, said = [0] * self.columns, list[str](), list[str](), said or {}
        columns[0] = UNIT
        for name in said:
            if name not in self.features:
                text = "the session declares no such feature"
                field = f"features.{name[:MAX_NAME]}"
                raise InvalidRequestError.of_all([FieldError(field, text, logged_as="features")])
        for name, at in self._starts.items():
            value, feature = said.get(name), self.features[name]
            if value is None:
                missing.append(name)
                continue
            try:
                if isinstance(feature, CategoryFeature):
                    if (place := self._place(name, feature, value)) is not None:
                        columns[at + place] = UNIT
                elif isinstance(feature, BooleanFeature):
                    columns[at] = UNIT if _checked(value, bool, "true or false") else -UNIT
                elif isinstance(feature, NumberFeature):
                    columns[at], is_outside = _scaled(value, feature.range)
                    if is_outside:
                        clipped.append(name)
                else:
                    columns[at : at + feature.length], is_outside = _all_scaled(value, feature)
                    if is_outside:
                        clipped.append(name)
            except ValueError as error:
                raise InvalidRequestError.of(f"features.{name}", f"must be {error}") from None
        return Encoded(of_int16(columns), missing, clipped)

    def _place(self, name: str, feature: CategoryFeature, value: Any) -> int | None:
        """Return the place of a category's value among its columns; None of one that is not among its values."""
        text = f"a text of at most {MAX_VALUE_BYTES} bytes"
        if not _fits(_checked(value, str, text)):
            raise ValueError(text)
        if feature.buckets is None:
            return self._values[name].get(value)
        digest = blake2b(b"\0".join((name.encode(), value.encode())), digest_size=8).digest()
        return int.from_bytes(digest, "little") % feature.buckets


def _checked(value: Any, kind: type, what: str) -> Any:
    if type(value) is not kind:
        raise ValueError(what)
    return value


def _scaled(value: Any, of: Sequence[float]) -> tuple[int, bool]:
    """Return a number as a column, in units of 2^-14, and whether it is outside of its range."""
    if type(value) is not float and type(value) is not int:
        raise ValueError("a number")
    low, high = of
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise ValueError("a finite number")
    share = 2 * (number - low) / (high - low) - 1
    return round(min(max(share, -1.0), 1.0) * UNIT), not low <= number <= high


def _all_scaled(value: Any, feature: VectorFeature) -> tuple[list[int], bool]:
    """Return what ``_scaled`` returns of each number of a vector, and whether any is outside: the same bits."""
    if type(value) is not list or len(value) != feature.length or not set(map(type, value)) <= {int, float}:
        raise ValueError(f"a list of {feature.length} numbers")
    low, high = feature.range
    try:
        numbers = np.array(value, dtype=np.float64)
    except OverflowError:
        numbers = np.array([math.inf])
    if not np.isfinite(numbers).all():
        raise ValueError(f"a list of {feature.length} finite numbers")
    with np.errstate(over="ignore"):
        shares = 2 * (numbers - low) / (high - low) - 1
    scaled = np.rint(np.minimum(np.maximum(shares, -1.0), 1.0) * UNIT)
    return scaled.astype(int).tolist(), bool(((numbers < low) | (numbers > high)).any())


# -- What a token carries for the feedback of its decision: columns that are not 0, and the act's ratios.

RATIOS = 11
_RATIO = np.dtype("<f2")
_COLUMN = np.dtype("<i2")


def tail_of(visit: Visit) -> bytes:
    """Return what a token carries of a visit of which all is known: ratios, which columns, and these."""
    if visit.x is None or visit.ratios is None:
        raise ValueError("a visit of which too little is known")
    columns = int16_of(visit.x)
    present = columns != 0
    ratios = np.array(visit.ratios, dtype=_RATIO)
    tail: bytes = ratios.tobytes() + np.packbits(present).tobytes() + columns[present].tobytes()
    return tail


def visit_of(tail: bytes, n_columns: int) -> Visit | None:
    """Read what ``tail_of`` wrote, in a session of so many columns; None for anything else."""
    start = RATIOS * _RATIO.itemsize
    end = start + (n_columns - 1 + 7) // 8
    if len(tail) < end:
        return None
    ratios = np.frombuffer(tail, _RATIO, RATIOS).astype(np.float64)
    present = np.unpackbits(np.frombuffer(tail, np.uint8, end - start, start))
    is_whole = len(tail) == end + _COLUMN.itemsize * int(present.sum()) and not present[n_columns - 1 :].any()
    if not is_whole or not (np.isfinite(ratios).all() and ratios.min() >= 0):
        return None
    columns = np.zeros(n_columns, dtype=np.int64)
    columns[0] = UNIT
    columns[1:][present[: n_columns - 1] == 1] = np.frombuffer(tail, _COLUMN, offset=end)
    return Visit(of_int16(columns), tuple(ratios.tolist())) if abs(columns).max() <= UNIT else None
