"""A session's state as bytes: ``codec`` writes and reads it whole, the other files its parts.

Imports ``binary`` and ``logs`` of the folder above.
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

from ..engine.arm_run import Arms
from ..engine.ledger import ArmLedger, Ledger
from ..learners.base import FixedArray, FloatArray, IntArray, Log, Rows
from .binary import (
    BYTE,
    BYTES,
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

# -- The schemas of states: each state begins with the number of its own.
#
# Schema 1 is version 0.1's. It holds neither voided decisions, paused arms, means nor times of the last act and
# event: see ``needed_schema``, and ``Ledger.restart_means`` for what its readers count.
#
# Schema 3 has the ledger's integers as short as the largest allows, behind a byte that says how many bytes each
# has, arrays as a compact state has them, and in place of vectors that follow from another to the bit what
# ``logs`` says. Vectors that follow by powers and exponentials need not have the same bits on every processor,
# and are stored.
#
# Schema 4 has the bytes of schema 3. It says that counts beside the state are packed, so that version 1.0, which
# would read 0 in their place, refuses the session. A session that began with an older schema never gets it, and
# one that has it keeps it: see ``CachedSession.schema``. Its logs begin at fewer arms (``least_logged_arms``),
# and what commits write for lists is shorter (``compact_summary``).

SCHEMA = 4
"""The newest schema."""
SCHEMA_BYTE = 0
"""Where the bytes of a state have the number of their schema."""
COMPACT = 3
"""The first schema whose states are compact."""
PACKED_COUNTS = 4
"""The first schema beside whose states the counts of arms are packed."""
LOGGED_ARMS_3 = 2_000
"""Arms from which on a state of schema 3 may have its log beside it.

With fewer arms version 1.0 reads such a log, and then writes another distribution of the open slot.
"""


def needed_schema(ledger: Ledger, arms: Arms | None = None) -> int:
    """Return the oldest schema that holds all but means and times of a session.

    Parameters
    ----------
    ledger : of the session
    arms : None where arms never changed
    """
    return 2 if ledger.voided or (arms is not None and arms.paused) else 1


def least_logged_arms(schema: int) -> int:
    """Return from how many arms on a compact state may have its log beside it, where its learner wants one."""
    return LOGGED_ARMS_3 if schema < PACKED_COUNTS else 0


# -- The fields of a learner's state: the annotations of its NamedTuple say how each is stored.

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


# -- The arms of a session as bytes, where they have changed since its creation.
#
# They are the live arms as an array, from schema 2 on the paused ones as another, and the labels of the arms that
# came after the start as JSON.

_ENCODED_ARMS: WeakKeyDictionary[Arms, dict[int, bytes]] = WeakKeyDictionary()
"""Arms to schema to bytes."""


def encode_arms(arms: Arms, schema: int) -> bytes:
    """Return the bytes of arms that changed; they are made once for each ``Arms``.

    Parameters
    ----------
    arms : of a session that was created with labels
    schema : of the state in which they stand
    """
    by_schema = _ENCODED_ARMS.setdefault(arms, {})
    if schema not in by_schema:
        writer = Writer(compact=schema >= COMPACT)
        writer.integers(np.array(arms.live, dtype="<i8"))
        if schema > 1:
            writer.integers(np.array(sorted(arms.paused), dtype="<i8"))
        by_schema[schema] = b"".join(writer.parts) + json.dumps(arms.added, separators=(",", ":")).encode()
    return by_schema[schema]


def decode_arms(data: bytes, known: Arms, first_names: Sequence[str] | None, schema: int = SCHEMA) -> Arms:
    """Read the arms of a session.

    Parameters
    ----------
    data : ``Decoded.arms``; empty where arms never changed
    known : arms of the same session at some moment, which are returned where they are the ones read
    first_names : labels the session was created with; None without labels
    schema : ``Decoded.schema``

    Raises
    ------
    CodecError
        for anything ``encode_arms`` did not write.
    """
    if data == (b"" if known.added is None else encode_arms(known, max(schema, 2 if known.paused else 1))):
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


# -- The numbers of a session's ledger, as they stand in its state.

_OF_1 = ("slot", "feedbacks", "expired", "removed", "total_delay", "outstanding", "time")
_NEW = ("voided", "losses", "counted_from_slot", "mean_loss", "last_act_at", "last_event_at", "equal_losses")
_FULL = {1: (_OF_1, struct.Struct("<6qd")), 2: (_OF_1 + _NEW, struct.Struct("<6qd3q3d?"))}
"""Schema to the names of the numbers and their layout."""
_INTEGERS = (*_OF_1[:-1], *_NEW[:3])
_COMPACT = (*_INTEGERS, "time", *_NEW[3:])
_LAYOUTS = {width: struct.Struct(f"<B9{kind}4d?") for width, kind in ((1, "b"), (2, "h"), (4, "i"), (8, "q"))}
"""Bytes of an integer to the layout from schema 3 on, which begins with them."""
_numbers = attrgetter(*_COMPACT)


def write_counts(ledger: Ledger, schema: int, writer: Writer) -> None:
    """Write a ledger's numbers.

    Parameters
    ----------
    ledger : of the session; its outstanding decisions by arm are not among the numbers
    schema : of the state
    writer : to which the schema has been written
    """
    if schema in _FULL:
        names, layout = _FULL[schema]
        writer.pack(layout, *attrgetter(*names)(ledger))
    else:
        numbers = _numbers(ledger)
        width = width_of(numbers[: len(_INTEGERS)])
        writer.pack(_LAYOUTS[width], width, *numbers)


def read_counts(schema: int, reader: Reader) -> dict[str, Any]:
    """Read a ledger's numbers, by the names of its fields.

    Parameters
    ----------
    schema : of the state
    reader : from which the schema has been read

    Raises
    ------
    CodecError
        where they are not finite, or of a layout that no ledger has.
    """
    if schema in _FULL:
        names, layout = _FULL[schema]
    else:
        width = reader.left[0]
        if width not in _LAYOUTS:
            raise CodecError("no state has such counts")
        names, layout = ("width", *_COMPACT), _LAYOUTS[width]
    counts = dict(zip(names, reader.unpack(layout), strict=True))
    counts.pop("width", None)
    if not all(map(math.isfinite, counts.values())):
        raise CodecError("the counts are no numbers")
    return counts


# -- States that are stored as a vector and what events did to it since.
#
# Of few arms the vector is that of the open slot, and events stand behind the state: their number (1 byte), their
# arms (uint32 each), and the factors of their weights. Of many arms the state has no vectors, and behind it stand
# ``LOGGED``, the number of events, and how many of them came before the open slot (uint32 each). What was logged
# are rows beside the state: the vector, then for each commit the arms, factors and least weights of its events,
# which later commits leave as they are. A log that is long begins again when a slot opens: see the learner.
#
# A reader makes the events again. They only multiply, add, divide and compare doubles, so the bits are the same
# on every processor.

LOGGED = 255
"""In place of the number of events."""
MAX_EVENTS = 1024
"""Most events of a log: more than a learner keeps."""
EVENT_BYTES = 12
_LOGGED_HEAD = struct.Struct("<II")
_NONE = np.zeros(0)


def is_unread(state: Any) -> bool:
    """Return whether the vectors of a state that was read are still to be made of rows."""
    log: Log | None = getattr(state, "log", None)
    return log is not None and not log.base.size


def log_of(state: Any, least_arms: int) -> Log | None:
    """Return the log of a state as it may be stored.

    Parameters
    ----------
    state : NamedTuple with ``log``
    least_arms : with fewer, a log begins at the opening of the slot and stands behind the state
    """
    log: Log | None = state.log
    if log is None or not log.is_stored or log.base.size >= least_arms:
        return log
    return Log(state.p_open, log.steps[log.opened :], 0)


def shortened(state: Any, least_arms: int) -> Any:
    """Return a state with the vectors that are stored: those at the opening of its slot, or none, or all.

    Parameters
    ----------
    state : NamedTuple with ``log``
    least_arms : as for ``log_of``
    """
    log = log_of(state, least_arms)
    if log is None:
        return state
    if log.is_stored:
        return state._replace(p=_NONE, p_open=_NONE)
    if len(log.steps) * EVENT_BYTES >= state.p.nbytes or len(log.steps) >= LOGGED:
        return state._replace(log=None)
    return state._replace(p=log.base, p_open=log.base, log=log)


def write(writer: Writer, state: Any) -> None:
    """Write what follows a state that was ``shortened``.

    Parameters
    ----------
    writer : to which the state's fields have been written
    state : NamedTuple with ``log``, as ``shortened`` gave it
    """
    log: Log | None = state.log
    if log is None or (not log.steps and not log.is_stored):
        writer.parts.append(BYTES[0])
    elif log.is_stored:
        writer.parts += (BYTES[LOGGED], _LOGGED_HEAD.pack(len(log.steps), log.opened))
    else:
        arms, factors, _ = zip(*log.steps, strict=True)
        writer.parts += (BYTES[len(arms)], _layout(len(arms)).pack(*arms, *factors))


@lru_cache(maxsize=256)
def _layout(count: int) -> struct.Struct:
    return struct.Struct(f"<{count}I{count}d")


def read(reader: Reader, state: Any) -> Any:
    """Read what follows a state, and return the state after it; rows that belong to it are still to be read.

    Parameters
    ----------
    reader : from which the state's fields have been read
    state : NamedTuple of these fields, with ``log`` at its default

    Raises
    ------
    CodecError, IndexError, ValueError
        where ``write`` did not write these bytes behind this state.
    """
    (count,) = reader.unpack(BYTE)
    if count == LOGGED:
        steps, opened = reader.unpack(_LOGGED_HEAD)
        if not opened <= steps <= MAX_EVENTS or state.p.size or state.p_open.size:
            raise CodecError("not a state with a log")
        return state._replace(log=Log(_NONE, ((0, 1.0, 0.0),) * steps, opened))
    numbers = reader.unpack(_layout(count))
    if state.p is not state.p_open:
        if count:
            raise CodecError("not a state at the opening of its slot")
        return state
    if not state.p.size:
        raise CodecError("a state without arms")
    least = state.probability_floor / len(state.p)
    steps = tuple((arm, factor, least) for arm, factor in zip(numbers[:count], numbers[count:], strict=True))
    after = state.replayed(Log(state.p, steps, 0))
    return after if steps or not after.log.is_stored else state


def rows_of(state: Any, stored: Rows) -> Rows:
    """Return the rows of a state with a log.

    Parameters
    ----------
    state : NamedTuple whose ``log`` is stored
    stored : the rows that the store has, of an earlier state of the same session; () for none

    Returns
    -------
    float64 arrays: the vector, shape (n_arms,), then for each commit its events, (3 * n_events,). Those that are in
    ``stored`` are the same objects.
    """
    log: Log = state.log
    kept = stored if stored and stored[0] is log.base else (log.base,)
    new = log.steps[sum(row.size // 3 for row in kept[1:]) :]
    return (*kept, np.array(new).T.ravel()) if new else kept


def replayed(state: Any, rows: Rows) -> Any:
    """Return a state with the vectors that its rows lead to.

    Parameters
    ----------
    state : one that ``is_unread``
    rows : as ``rows_of`` gives them: shape (n_arms,), then for each commit (3 * n_events,)

    Raises
    ------
    CodecError, IndexError, ValueError
        where the rows are not those of this state.
    """
    base, *parts = rows
    columns = [part.reshape(3, -1).T for part in parts]
    steps = tuple((int(arm), factor, least) for part in columns for arm, factor, least in part.tolist())
    if len(steps) != len(state.log.steps) or any(arm < 0 for arm, _, _ in steps):
        raise CodecError("the rows are not those of this state")
    after = state.replayed(Log(base, steps, state.log.opened))
    if not (np.isfinite(after.p).all() and np.isfinite(after.p_open).all()):
        raise CodecError("the rows are not those of this state")
    return after


# -- Bytes of a session's state: exact, checked, and marked with a schema number.
#
# Layout, little-endian: schema (1 byte), the ledger's numbers, for learners over arms the outstanding decisions
# by arm and the arms behind their length in bytes (uint32; 0 where arms never changed), the fields of the
# learner's state in order, in sessions with segments those of what these share, CRC-32 of all before it (4
# bytes). ``binary`` has the layout of arrays, ``schemas`` what each schema holds.


class Decoded(NamedTuple):
    """A session's state: the ledger, the bytes that ``decode_arms`` reads, the learner's NamedTuple."""

    ledger: Ledger
    arms: bytes
    state: Any
    schema: int
    shared: Any = None
    """What segments share, in sessions with segments."""


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
    writer.parts.append(BYTES[schema])
    write_counts(ledger, schema, writer)
    if isinstance(ledger, ArmLedger):
        writer.integers(ledger.by_arm)
        changed = b"" if arms is None or arms.added is None else encode_arms(arms, schema)
        writer.parts += [LENGTH.pack(len(changed)), changed]
    has_log = schema >= COMPACT and "log" in state._field_defaults
    stored = shortened(state, least_logged_arms(schema)) if has_log else state
    writer.fields(kinds_of(stored.__class__), stored)
    if shared is not None:
        writer.fields(kinds_of(shared.__class__), shared)
    if has_log:
        write(writer, stored)
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
    if checksum(memoryview(data)[:-CHECKSUM_BYTES]) != data[-CHECKSUM_BYTES:]:
        raise CodecError("the checksum does not fit")
    with foreign("a state of this learner"):
        numbers = read_counts(schema, reader)
        outstanding = reader.integers() if by_arm else None
        arms = bytes(reader.block()) if by_arm else b""
        values = reader.fields(kinds_of(state_type))
        of_all = [] if shared_type is None else reader.fields(kinds_of(shared_type))
        state: Any = state_type(*values)
        if schema >= COMPACT and "log" in state._field_defaults:
            state = read(reader, state)
    different = {id(value): value for value in (*state[: len(values)], *of_all)}
    if reader.left or not all(map(_is_finite, different.values())):
        raise CodecError("not a state of this learner")
    ledger = Ledger(**numbers) if outstanding is None else ArmLedger(**numbers, by_arm=outstanding)
    if schema == 1:
        ledger.restart_means()
    shared = None if shared_type is None else shared_type(*of_all)
    return Decoded(ledger, arms, state, schema, shared)


def arms_ever(data: bytes) -> int | None:
    """Return how many arms a compact state of a session over arms says it is of; None for an older schema.

    Raises
    ------
    CodecError
        where it is too short for so many, or begins as no state does.
    """
    schema, reader = _opened(data)
    if schema < COMPACT:
        return None
    with foreign("a state"):
        read_counts(schema, reader)
        return reader.skip_integers()


def _opened(data: bytes) -> tuple[int, Reader]:
    """Return the schema of a state and a reader of what follows, but the checksum."""
    schema = data[0] if data else 0
    if not 1 <= schema <= SCHEMA or len(data) <= CHECKSUM_BYTES:
        raise CodecError("not a state this version can read")
    return schema, Reader(memoryview(data)[1:-CHECKSUM_BYTES], compact=schema >= COMPACT)


def _is_finite(value: Any) -> bool:
    if isinstance(value, float):
        return math.isfinite(value)
    return not isinstance(value, np.ndarray) or bool(np.isfinite(value).all())


__all__ = [
    "COMPACT",
    "PACKED_COUNTS",
    "SCHEMA",
    "SCHEMA_BYTE",
    "Decoded",
    "arms_ever",
    "decode",
    "decode_arms",
    "encode",
    "fixed_fields",
    "least_logged_arms",
    "rows_field",
]
