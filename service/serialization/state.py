"""Bytes of a session's state: exact, checked, and marked with a schema number.

Layout, little-endian: schema (1 byte), the ledger's numbers, for learners over arms the outstanding decisions by
arm and the arms, the fields of the learner's state in order, in sessions with segments those of what these share,
CRC-32 of all before it (4 bytes). ``binary`` has the layout of arrays. The arms are
their length in bytes (uint32; 0 where arms never changed), the live arms as an array, from schema 2 on the paused
ones as another, and the labels of the arms that came after the start as JSON.

Schema 1 is version 0.1's. It holds neither voided decisions, paused arms, means nor times of the last act and
event: see ``needed_schema``, and ``Ledger.restart_means`` for what its readers count.

Schema 3 has the ledger's integers as short as the largest allows, behind a byte that says how many bytes each has,
arrays as a compact state has them, and in place of vectors that follow from another to the bit what ``logs`` says.
Vectors that follow by powers and exponentials need not have the same bits on every processor, and are stored.

Schema 4 has the bytes of schema 3. It says that counts beside the state are packed, so that version 1.0, which
would read 0 in their place, refuses the session. A session that began with an older schema never gets it, and one
that has it keeps it: see ``CachedSession.schema``.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Sequence
from functools import lru_cache
from operator import attrgetter
from typing import Any, NamedTuple, get_type_hints
from weakref import WeakKeyDictionary

import numpy as np

from ..engine.arms import Arms
from ..engine.ledger import ArmLedger, Ledger
from ..learners.base import FixedArray, FloatArray, IntArray, Rows
from . import logs
from .binary import (
    BYTE,
    CHECKSUM_BYTES,
    FLOAT_ARRAY,
    INT_ARRAY,
    LENGTH,
    ROWS,
    CodecError,
    Reader,
    Writer,
    checksum,
    foreign,
    width_of,
)

SCHEMA = 4
"""The newest schema."""
COMPACT = 3
"""The first schema whose states are compact."""
PACKED_COUNTS = 4
"""The first schema beside whose states the counts of arms are packed."""
MAX_ROWS = 2**20
"""Most rows of a state: more than a session can have open slots."""

_OF_1 = ("slot", "feedbacks", "expired", "removed", "total_delay", "outstanding", "time")
_NEW = ("voided", "losses", "counted_from_slot", "mean_loss", "last_act_at", "last_event_at", "equal_losses")
_FULL = {1: (_OF_1, struct.Struct("<6qd")), 2: (_OF_1 + _NEW, struct.Struct("<6qd3q3d?"))}
"""Schema to the names of the numbers and their layout."""
_INTEGERS = (*_OF_1[:-1], *_NEW[:3])
_COMPACT = (*_INTEGERS, "time", *_NEW[3:])
_LAYOUTS = {width: struct.Struct(f"<9{kind}4d?") for width, kind in ((1, "b"), (2, "h"), (4, "i"), (8, "q"))}
"""Bytes of an integer to the layout from schema 3 on."""
_numbers = attrgetter(*_COMPACT)
_SCALARS = {int: struct.Struct("<q"), float: struct.Struct("<d"), bool: struct.Struct("<?")}
_ENCODED_ARMS: WeakKeyDictionary[Arms, dict[int, bytes]] = WeakKeyDictionary()
"""Arms to schema to bytes."""

_FIELD_LAYOUTS: list[tuple[Any, Any]] = [(Rows, ROWS), (FloatArray, FLOAT_ARRAY), (IntArray, INT_ARRAY)]


class Decoded(NamedTuple):
    """A session's state: the ledger, the bytes that ``decode_arms`` reads, the learner's NamedTuple."""

    ledger: Ledger
    arms: bytes
    state: Any
    schema: int
    shared: Any = None
    """What segments share, in sessions with segments."""


def needed_schema(ledger: Ledger, arms: Arms | None = None) -> int:
    """Return the oldest schema that holds all but means and times of a session.

    Parameters
    ----------
    ledger : of the session
    arms : None where arms never changed
    """
    return 2 if ledger.voided or (arms is not None and arms.paused) else 1


def encode(ledger: Ledger, state: Any, arms: Arms | None = None, schema: int = SCHEMA, shared: Any = None) -> bytes:
    """Return the bytes of a session's state.

    Parameters
    ----------
    ledger : of the session; an ``ArmLedger`` where the learner is over arms
    state : NamedTuple of the learner's state
    arms : None where arms never changed
    schema : the schema to write, or an older one than ``needed_schema``, which then is written
    shared : NamedTuple of what segments share, in sessions with segments
    """
    if schema < COMPACT:
        schema = max(schema, needed_schema(ledger, arms))
    writer = Writer(compact=schema >= COMPACT)
    writer.pack(BYTE, schema)
    _write_counts(ledger, schema, writer)
    if isinstance(ledger, ArmLedger):
        writer.integers(ledger.by_arm)
        changed = b"" if arms is None or arms.added is None else _arms_bytes(arms, schema)
        writer.parts += [LENGTH.pack(len(changed)), changed]
    has_log = schema >= COMPACT and "log" in state._field_defaults
    stored = logs.shortened(state) if has_log else state
    for part in (stored, *(() if shared is None else (shared,))):
        writer.fields(_fields(part.__class__), part)
    if has_log:
        logs.write(writer, stored)
    body = b"".join(writer.parts)
    return body + checksum(body)


def decode(data: bytes, state_type: type, *, by_arm: bool, shared_type: type | None = None) -> Decoded:
    """Read what ``encode`` wrote.

    Parameters
    ----------
    data : the whole state, with its checksum
    state_type : NamedTuple class of the learner's state
    by_arm : whether the learner is over arms
    shared_type : NamedTuple class of what segments share, in sessions with segments

    Raises
    ------
    CodecError
        for anything ``encode`` did not write for this state type.
    """
    schema, reader = _opened(data)
    with foreign("a state of this learner"):
        numbers = _read_counts(schema, reader)
        outstanding = reader.integers() if by_arm else None
        arms = reader.block() if by_arm else b""
        values = [_read(reader, kind) for kind in _fields(state_type)]
        of_all = [_read(reader, kind) for kind in (() if shared_type is None else _fields(shared_type))]
        state: Any = state_type(*values)
        if schema >= COMPACT and "log" in state._field_defaults:
            state = logs.read(reader, state)
    if reader.left or not all(map(_is_finite, [*state[: len(values)], *of_all])):
        raise CodecError("not a state of this learner")
    ledger = Ledger(**numbers) if outstanding is None else ArmLedger(**numbers, by_arm=outstanding)
    if schema == 1:
        ledger.restart_means()
    shared = None if shared_type is None else shared_type(*of_all)
    return Decoded(ledger, arms, state, schema, shared)


def _opened(data: bytes) -> tuple[int, Reader]:
    """Return the schema of a state and a reader of what follows."""
    schema = data[0] if data else 0
    if not 1 <= schema <= SCHEMA or len(data) <= CHECKSUM_BYTES:
        raise CodecError("not a state this version can read")
    body = memoryview(data)[:-CHECKSUM_BYTES]
    if checksum(body) != data[-CHECKSUM_BYTES:]:
        raise CodecError("the checksum does not fit")
    return schema, Reader(body[1:], compact=schema >= COMPACT)


def _write_counts(ledger: Ledger, schema: int, writer: Writer) -> None:
    """Write a ledger's numbers."""
    if schema in _FULL:
        names, layout = _FULL[schema]
        writer.pack(layout, *attrgetter(*names)(ledger))
    else:
        numbers = _numbers(ledger)
        width = width_of(numbers[: len(_INTEGERS)])
        writer.pack(BYTE, width)
        writer.pack(_LAYOUTS[width], *numbers)


def _read_counts(schema: int, reader: Reader) -> dict[str, Any]:
    """Read a ledger's numbers, by name.

    Raises
    ------
    CodecError
    """
    if schema in _FULL:
        names, layout = _FULL[schema]
    else:
        (width,) = reader.unpack(BYTE)
        if width not in _LAYOUTS:
            raise CodecError("no state has such counts")
        names, layout = _COMPACT, _LAYOUTS[width]
    counts = dict(zip(names, reader.unpack(layout), strict=True))
    if not all(map(math.isfinite, counts.values())):
        raise CodecError("the counts are no numbers")
    return counts


def arms_ever(data: bytes) -> int | None:
    """Return how many arms a compact state of a session over arms is of; None for an older schema.

    Raises
    ------
    CodecError
    """
    schema, reader = _opened(data)
    if schema < COMPACT:
        return None
    with foreign("a state"):
        _read_counts(schema, reader)
        return int(reader.integers().size)


def decode_arms(data: bytes, known: Arms, first_names: Sequence[str] | None, schema: int = SCHEMA) -> Arms:
    """Read the arms of a session.

    Parameters
    ----------
    data : ``Decoded.arms`` of ``decode``; empty where arms never changed
    known : arms of the same session at some moment, which are returned where they are the ones read
    first_names : labels the session was created with; None without labels
    schema : ``Decoded.schema`` of ``decode``

    Raises
    ------
    CodecError
        for anything ``encode`` did not write.
    """
    if data == (b"" if known.added is None else _arms_bytes(known, max(schema, 2 if known.paused else 1))):
        return known
    if first_names is None:
        raise CodecError("arms without labels never change")
    if not data:
        return Arms.of(len(first_names), first_names)
    reader = Reader(memoryview(data), compact=schema >= COMPACT)
    with foreign("the arms of this session"):
        live = reader.integers()
        paused = reader.integers() if schema > 1 else live[:0]
        added = json.loads(bytes(reader.left))
    if not isinstance(added, list) or not all(isinstance(name, str) for name in added):
        raise CodecError("not labels of arms")
    ascending = live.ndim == 1 and live.size and live[0] >= 0 and np.all(live[1:] > live[:-1])
    if not ascending or live[-1] >= len(first_names) + len(added):
        raise CodecError("not the arms of this session")
    if paused.ndim != 1 or not np.isin(paused, live).all() or np.unique(paused).size != paused.size:
        raise CodecError("not the paused arms of this session")
    return Arms.at(first_names, added, live.tolist(), paused.tolist())


def _arms_bytes(arms: Arms, schema: int) -> bytes:
    """Return the bytes of arms that changed; they are made once for each ``Arms``."""
    by_schema = _ENCODED_ARMS.setdefault(arms, {})
    if schema not in by_schema:
        writer = Writer(compact=schema >= COMPACT)
        writer.integers(np.array(arms.live, dtype="<i8"))
        if schema > 1:
            writer.integers(np.array(sorted(arms.paused), dtype="<i8"))
        by_schema[schema] = b"".join(writer.parts) + json.dumps(arms.added, separators=(",", ":")).encode()
    return by_schema[schema]


def _read(reader: Reader, kind: Any) -> Any:
    if isinstance(kind, struct.Struct):
        return reader.unpack(kind)[0]
    if kind is ROWS:
        (count,) = reader.unpack(LENGTH)
        if count > MAX_ROWS:
            raise CodecError("no state has so many rows")
        return (None,) * count
    return reader.floats() if kind is FLOAT_ARRAY else reader.integers()


def _is_finite(value: Any) -> bool:
    return isinstance(value, tuple) or bool(np.all(np.isfinite(value)))


@lru_cache(maxsize=64)
def _fields(state_type: type) -> tuple[Any, ...]:
    """Return the layout of each stored field of a state: a struct for a scalar, or one of the kinds in ``binary``.

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
    found = next((layout for array, layout in _FIELD_LAYOUTS if hint == array), None)
    return _SCALARS[hint] if found is None else found
