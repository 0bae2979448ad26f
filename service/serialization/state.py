"""Bytes of a session's state: exact, checked, and marked with a schema number.

Layout, little-endian: schema (1 byte), the ledger's numbers (``_COUNTS``, ``_HEADS``), for learners over arms the
outstanding decisions by arm and the arms, the fields of the learner's state in order, in sessions with segments
those of what segments share, CRC-32 of all before it (4 bytes). An array is its number of axes (1 byte), its
lengths (uint32 each) and its numbers. The arms are their length in bytes (uint32; 0 where arms never changed), the
live arms as an array, from schema 2 on the paused ones as another, and the labels of the arms that came after the
start as JSON.

Schema 1 is version 0.1's. It holds neither voided decisions, paused arms, means nor times of the last act and
event: see ``needed_schema``, and ``Ledger.restart_means`` for what its readers count.
"""

from __future__ import annotations

import json
import math
import struct
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, NamedTuple, get_type_hints
from weakref import WeakKeyDictionary

import numpy as np

from ..engine.arms import Arms
from ..engine.ledger import ArmLedger, Ledger
from ..learners.base import FixedArray, FloatArray, IntArray, Rows

SCHEMA = 2
"""The newest schema."""
CHECKSUM_BYTES = 4
"""Bytes of the checksum at the end, which a commit compares to notice a state that was changed by hand."""

_COUNTS: dict[int, tuple[str, ...]] = {
    1: ("slot", "feedbacks", "expired", "removed", "total_delay", "outstanding", "time")
}
_COUNTS[2] = (*_COUNTS[1], "voided", "losses", "counted_from_slot", "mean_loss")
_COUNTS[2] += ("last_act_at", "last_event_at", "equal_losses")
_HEADS = {1: struct.Struct("<B6qd"), 2: struct.Struct("<B6qd3q3d?")}
"""Schema to the layout of the schema's number and the ledger's numbers."""
_CRC = struct.Struct("<I")
_LENGTH = struct.Struct("<I")
_SCALARS = {int: struct.Struct("<q"), float: struct.Struct("<d"), bool: struct.Struct("<?")}
_ARRAYS: list[tuple[Any, Any]] = [(FloatArray, np.dtype("<f8")), (IntArray, np.dtype("<i8"))]


MAX_AXES = 8
"""Most axes of an array; states have one or two."""
MAX_ROWS = 2**20
"""Most rows of a state: more than a session can have open slots."""

_ENCODED_ARMS: WeakKeyDictionary[Arms, dict[int, bytes]] = WeakKeyDictionary()
"""Arms to schema to bytes."""

ROWS = object()
"""The layout of a field of rows."""


class CodecError(Exception):
    """The bytes are not a state of this learner, or have a newer schema."""


class Decoded(NamedTuple):
    """A session's state: the ledger, the bytes that ``decode_arms`` reads, the learner's NamedTuple."""

    ledger: Ledger
    arms: bytes
    state: Any
    schema: int
    shared: Any = None
    """What segments share, in sessions with segments."""


def needed_schema(ledger: Ledger, arms: Arms | None = None) -> int:
    """Return the oldest schema that holds all but means and times of a session."""
    return 2 if ledger.voided or (arms is not None and arms.paused) else 1


def encode(ledger: Ledger, state: Any, arms: Arms | None = None, schema: int = SCHEMA, shared: Any = None) -> bytes:
    """Return the bytes of a session's state.

    Parameters
    ----------
    arms : None where arms never changed
    schema : the schema to write, or an older one than ``needed_schema``, which then is written
    shared : NamedTuple of what segments share, in sessions with segments
    """
    schema = max(schema, needed_schema(ledger, arms))
    parts = [_HEADS[schema].pack(schema, *(getattr(ledger, name) for name in _COUNTS[schema]))]
    if isinstance(ledger, ArmLedger):
        arms_bytes = b"" if arms is None else _arms_bytes(arms, schema)
        parts += [*_array_parts(ledger.by_arm), _LENGTH.pack(len(arms_bytes)), arms_bytes]
    for part in (state, *(() if shared is None else (shared,))):
        for kind, value in zip(_fields(part.__class__), part, strict=False):
            parts += _parts(kind, value)
    body = b"".join(parts)
    return body + checksum(body)


def decode(data: bytes, state_type: type, *, by_arm: bool, shared_type: type | None = None) -> Decoded:
    """Read what ``encode`` wrote.

    Parameters
    ----------
    state_type : NamedTuple class of the learner's state
    by_arm : whether the learner is over arms
    shared_type : NamedTuple class of what segments share, in sessions with segments

    Raises
    ------
    CodecError
        for anything ``encode`` did not write for this state type.
    """
    schema = data[0] if data else 0
    if schema not in _HEADS or len(data) < _HEADS[schema].size + _CRC.size:
        raise CodecError("not a state this version can read")
    body = memoryview(data)[: -_CRC.size]
    if checksum(body) != data[-_CRC.size :]:
        raise CodecError("the checksum does not fit")
    reader = _Reader(body)
    with foreign("a state of this learner"):
        counts = dict(zip(_COUNTS[schema], reader.unpack(_HEADS[schema])[1:], strict=True))
        outstanding = reader.array(np.dtype("<i8")) if by_arm else None
        arms = reader.block() if by_arm else b""
        values = [reader.value(kind) for kind in _fields(state_type)]
        of_all = [reader.value(kind) for kind in (() if shared_type is None else _fields(shared_type))]
    if reader.left or not (all(map(_is_finite, [*values, *of_all])) and all(map(math.isfinite, counts.values()))):
        raise CodecError("not a state of this learner")
    ledger = Ledger(**counts) if outstanding is None else ArmLedger(**counts, by_arm=outstanding)
    if schema == 1:
        ledger.restart_means()
    shared = None if shared_type is None else shared_type(*of_all)
    return Decoded(ledger, arms, state_type(*values), schema, shared)


def decode_arms(data: bytes, known: Arms, first_names: Sequence[str] | None, schema: int = SCHEMA) -> Arms:
    """Read the arms of a session.

    Parameters
    ----------
    data, schema : as ``decode`` gave them
    known : arms of the same session at some moment, which are returned where they are the ones read
    first_names : labels the session was created with

    Raises
    ------
    CodecError
        for anything ``encode`` did not write.
    """
    if data == _arms_bytes(known, max(schema, 2 if known.paused else 1)):
        return known
    if first_names is None:
        raise CodecError("arms without labels never change")
    if not data:
        return Arms.of(len(first_names), first_names)
    reader = _Reader(memoryview(data))
    with foreign("the arms of this session"):
        live = reader.array(np.dtype("<i8"))
        paused = reader.array(np.dtype("<i8")) if schema > 1 else live[:0]
        added = json.loads(bytes(reader.left))
    if not isinstance(added, list) or not all(isinstance(name, str) for name in added):
        raise CodecError("not labels of arms")
    ascending = live.ndim == 1 and live.size and live[0] >= 0 and np.all(live[1:] > live[:-1])
    if not ascending or live[-1] >= len(first_names) + len(added):
        raise CodecError("not the arms of this session")
    if paused.ndim != 1 or not np.isin(paused, live).all() or np.unique(paused).size != paused.size:
        raise CodecError("not the paused arms of this session")
    return Arms.at(first_names, added, live.tolist(), paused.tolist())


@contextmanager
def foreign(what: str) -> Iterator[None]:
    """Turn the errors of reading foreign or damaged bytes into ``CodecError``."""
    try:
        yield
    except (ValueError, TypeError, IndexError, OverflowError, RecursionError, struct.error) as error:
        raise CodecError(f"not {what}") from error


def _arms_bytes(arms: Arms, schema: int) -> bytes:
    """Empty where arms never changed; made once for each ``Arms``."""
    if arms.added is None:
        return b""
    by_schema = _ENCODED_ARMS.setdefault(arms, {})
    if schema not in by_schema:
        parts = _array_parts(np.array(arms.live, dtype="<i8"))
        if schema > 1:
            parts += _array_parts(np.array(sorted(arms.paused), dtype="<i8"))
        by_schema[schema] = b"".join(parts) + json.dumps(arms.added, separators=(",", ":")).encode()
    return by_schema[schema]


def checksum(body: bytes | memoryview) -> bytes:
    """Return the CRC-32, little-endian, that ends every state and every record."""
    return _CRC.pack(zlib.crc32(body))


class _Reader:
    def __init__(self, data: memoryview) -> None:
        self.left = data

    def unpack(self, kind: struct.Struct) -> tuple[Any, ...]:
        return kind.unpack(self._take(kind.size))

    def array(self, dtype: np.dtype[Any]) -> Any:
        (axes,) = self._take(1)
        if axes > MAX_AXES:
            raise CodecError("no state has so many axes")
        shape = struct.unpack(f"<{axes}I", self._take(4 * axes))
        return np.frombuffer(self._take(dtype.itemsize * math.prod(shape)), dtype).reshape(shape).copy()

    def value(self, kind: Any) -> Any:
        if kind is ROWS:
            return self._rows()
        return self.unpack(kind)[0] if isinstance(kind, struct.Struct) else self.array(kind)

    def _rows(self) -> tuple[None, ...]:
        count: int = self.unpack(_LENGTH)[0]
        if count > MAX_ROWS:
            raise CodecError("no state has so many rows")
        return (None,) * count

    def block(self) -> bytes:
        (length,) = self.unpack(_LENGTH)
        return bytes(self._take(length))

    def _take(self, count: int) -> memoryview:
        taken, self.left = self.left[:count], self.left[count:]
        if len(taken) != count:
            raise CodecError("the state is cut short")
        return taken


def _parts(kind: Any, value: Any) -> list[bytes]:
    if kind is ROWS:
        return [_LENGTH.pack(len(value))]
    return [kind.pack(value)] if isinstance(kind, struct.Struct) else _array_parts(value)


def _array_parts(array: Any) -> list[bytes]:
    return [struct.pack(f"<B{array.ndim}I", array.ndim, *array.shape), array.tobytes()]


def _is_finite(value: Any) -> bool:
    return isinstance(value, tuple) or bool(np.all(np.isfinite(value)))


@lru_cache(maxsize=64)
def _fields(state_type: type) -> tuple[Any, ...]:
    """Return the layout of each stored field of a state: a struct for a scalar, a dtype for an array, or ``ROWS``.

    Fields with a default stand behind the others and are not stored.
    """
    return tuple(_kind(hint) for hint in _stored_hints(state_type).values())


def _stored_hints(state_type: Any) -> dict[str, Any]:
    hints = get_type_hints(state_type)
    return {name: hint for name, hint in hints.items() if name not in state_type._field_defaults}


@lru_cache(maxsize=64)
def rows_field(state_type: type) -> str | None:
    """Return the name of the field that holds rows, if any; a state has only their number, the rows are records."""
    kinds = zip(_stored_hints(state_type), _fields(state_type), strict=True)
    return next((name for name, kind in kinds if kind is ROWS), None)


@lru_cache(maxsize=64)
def fixed_fields(state_type: type) -> frozenset[str]:
    """Return the names of the fields that are a ``FixedArray``, whose length the arms have no part in."""
    hints = get_type_hints(state_type, include_extras=True)
    return frozenset(name for name, hint in hints.items() if hint == FixedArray)


def _kind(hint: Any) -> Any:
    if hint == Rows:
        return ROWS
    for array, dtype in _ARRAYS:
        if hint == array:
            return dtype
    return _SCALARS[hint]
