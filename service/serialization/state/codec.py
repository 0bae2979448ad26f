"""Bytes of a session's state: exact, checked, and marked with a schema number.

Layout, little-endian: schema (1 byte), the ledger's numbers, for learners over arms the outstanding decisions by
arm and the arms behind their length in bytes (uint32; 0 where arms never changed), the fields of the learner's
state in order, in sessions with segments those of what these share, CRC-32 of all before it (4 bytes). ``binary``
has the layout of arrays, ``schemas`` what each schema holds.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from ...engine.arm_run import Arms
from ...engine.ledger import ArmLedger, Ledger
from .. import logs
from ..binary import BYTES, CHECKSUM_BYTES, LENGTH, CodecError, Writer, checksum, foreign
from ..binary.reader import Reader
from .arms import encode_arms
from .counts import read_counts, write_counts
from .fields import kinds_of
from .schemas import COMPACT, SCHEMA, least_logged_arms, needed_schema


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
    stored = logs.shortened(state, least_logged_arms(schema)) if has_log else state
    writer.fields(kinds_of(stored.__class__), stored)
    if shared is not None:
        writer.fields(kinds_of(shared.__class__), shared)
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
            state = logs.read(reader, state)
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
