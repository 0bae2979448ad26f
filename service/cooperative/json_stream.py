"""JSON in chunks, so that a caller can yield the event loop between them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

import numpy as np

from .json_floats import floats_text

CHUNK_SCALARS = 1000
"""Numbers or strings in a chunk."""
CHUNK_OBJECTS, SMALL_OBJECT = 50, 40
"""Most small objects or lists in a chunk, and most elements of a small one: more than a session has in a list."""

COMPACT = json.JSONEncoder(separators=(",", ":"), allow_nan=False)

_SCALARS = {str, int, float, bool, type(None)}
_CONTAINERS = {dict, list, tuple}


def json_chunks(value: Any, encoder: json.JSONEncoder = COMPACT) -> Iterator[str]:
    """Yield the JSON of a value in chunks, each of which is made in a short time.

    Parameters
    ----------
    value : anything that JSON can represent; numpy arrays are lists
    encoder : its separators and the order of keys apply
    """
    if isinstance(value, Mapping):
        yield from _of_mapping(value, encoder)
    elif isinstance(value, Sequence | np.ndarray) and not isinstance(value, str):
        yield from _of_sequence(value, encoder)
    else:
        yield encoder.encode(value)


def _of_mapping(value: Mapping[str, Any], encoder: json.JSONEncoder) -> Iterator[str]:
    start, small = "{", dict[str, Any]()
    for name in sorted(value) if encoder.sort_keys else value:
        part = value[name]
        if is_small := type(part) in _SCALARS or _is_small(part):
            small[name] = part
        if small and (not is_small or len(small) >= CHUNK_OBJECTS):
            yield f"{start}{encoder.encode(small)[1:-1]}"
            start, small = encoder.item_separator, {}
        if not is_small:
            yield f"{start}{encoder.encode(name)}{encoder.key_separator}"
            yield from json_chunks(part, encoder)
            start = encoder.item_separator
    if small:
        yield f"{start}{encoder.encode(small)[1:-1]}}}"
    else:
        yield "{}" if start == "{" else "}"


def _of_sequence(value: Sequence[Any] | np.ndarray, encoder: json.JSONEncoder) -> Iterator[str]:
    start = "["
    step = (
        CHUNK_SCALARS
        if isinstance(value, np.ndarray) or _SCALARS.issuperset(map(type, value[:1]))
        else CHUNK_OBJECTS
    )
    for place in range(0, len(value), step):
        part = value[place : place + step]
        yield start
        if isinstance(part, np.ndarray) and part.ndim == 1 and part.dtype == np.float64:
            yield floats_text(part, encoder)
        else:
            yield from _of_slice(part.tolist() if isinstance(part, np.ndarray) else part, encoder)
        start = encoder.item_separator
    yield "[]" if start == "[" else "]"


def _of_slice(part: Sequence[Any], encoder: json.JSONEncoder) -> Iterator[str]:
    """Yield the elements of a slice without brackets; small ones share a chunk."""
    if _SCALARS.issuperset(map(type, part)):
        yield encoder.encode(part)[1:-1]
        return
    separator = ""
    for small, elements in groupby(part, _is_small):
        for group in [list(elements)] if small else elements:
            yield separator
            yield from [encoder.encode(group)[1:-1]] if small else json_chunks(group, encoder)
            separator = encoder.item_separator


def _is_small(value: Any) -> bool:
    if type(value) in _SCALARS:
        return True
    if type(value) not in _CONTAINERS:
        return False
    parts = value.values() if isinstance(value, dict) else value
    return len(parts) <= SMALL_OBJECT and (_SCALARS.issuperset(map(type, parts)) or all(map(_is_small, parts)))
