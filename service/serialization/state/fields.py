"""The fields of a learner's state: the annotations of its NamedTuple say how each is stored."""

from __future__ import annotations

import struct
from functools import lru_cache
from typing import Any, get_type_hints

from ...learners.base import FixedArray, FloatArray, IntArray, Rows
from ..binary import FLOAT_ARRAY, INT_ARRAY, ROWS

_SCALARS = {int: struct.Struct("<q"), float: struct.Struct("<d"), bool: struct.Struct("<?")}
_KINDS: list[tuple[Any, Any]] = [(Rows, ROWS), (FloatArray, FLOAT_ARRAY), (IntArray, INT_ARRAY)]
"""Annotations that are no scalar, and their kinds."""


@lru_cache(maxsize=64)
def kinds_of(state_type: type) -> tuple[Any, ...]:
    """Return the kind of each stored field of a state: the layout of a scalar, or one of the kinds in ``binary``.

    Fields with a default stand behind the others and are not stored.
    """
    return tuple(_kind(hint) for hint in _stored_hints(state_type).values())


def _stored_hints(state_type: Any) -> dict[str, Any]:
    hints = get_type_hints(state_type)
    return {name: hint for name, hint in hints.items() if name not in state_type._field_defaults}


def _kind(hint: Any) -> Any:
    found = next((kind for array, kind in _KINDS if hint == array), None)
    return _SCALARS[hint] if found is None else found


@lru_cache(maxsize=64)
def rows_field(state_type: type) -> str | None:
    """Return the name of the field that holds rows, if any; a state has only their number, the rows are records."""
    kinds = zip(_stored_hints(state_type), kinds_of(state_type), strict=True)
    return next((name for name, kind in kinds if kind is ROWS), None)


@lru_cache(maxsize=64)
def fixed_fields(state_type: type) -> frozenset[str]:
    """Return the names of the fields that are a ``FixedArray``, whose length the arms have no part in."""
    hints = get_type_hints(state_type, include_extras=True)
    return frozenset(name for name, hint in hints.items() if hint == FixedArray)
