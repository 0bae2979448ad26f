"""A session's state as bytes: exact, checked, and marked with the number of its schema.

What no later schema changes: a state's first byte is the number of its schema, its last four are the CRC-32 of all
before them. A schema that is newer than this program knows is so told from damage. Between them stand, for learners
over arms, the outstanding decisions by arm and the arms behind their length in bytes (uint32; 0 where arms never
changed); the ledger's numbers; the fields of the learner's state in order; in sessions with segments those of what
these share; and what events did to a vector since it was stored. ``binary`` has the layout of arrays.

``SCHEMAS``, at the end, has the schemas that this program reads. Which of them is written is one number of the
process, ``Schemas.written`` in ``commit/schemas.py``. Until the first release there is one schema, and a change of
it writes ``tests/states`` again.

A checksum shows that bytes are as they were written, but not that they were written for this session: somebody may
have copied a state from another one, or changed the specification beside it. That is checked too.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from operator import attrgetter
from typing import Any, NamedTuple, get_type_hints
from weakref import WeakKeyDictionary

import numpy as np

from ..engine.arm_run import ArmRun, Arms
from ..engine.ledger import ArmLedger, Ledger
from ..engine.run import Run
from ..engine.segment_run import SegmentRun
from ..errors import NewerSchemaError
from ..learners.base import FixedArray, FloatArray, IntArray, Log, Rows, Spec
from ..learners.segments import Shared
from ..learners.specs import ArmsSpec
from . import binary
from .binary import BYTES, CHECKSUM_BYTES, LENGTH, CodecError, Reader, Writer, checksum, foreign, width_of

# -- The fields of a learner's state: the annotations of its NamedTuple say how each is stored.

_SCALARS = {int: struct.Struct("<q"), float: struct.Struct("<d"), bool: struct.Struct("<?")}
_KINDS: list[tuple[Any, Any]] = [
    (Rows, binary.ROWS),
    (FloatArray, binary.FLOAT_ARRAY),
    (IntArray, binary.INT_ARRAY),
]
"""Annotations that are no scalar, and their kinds."""


@lru_cache(maxsize=64)
def kinds_of(state_type: type) -> tuple[Any, ...]:
    """Return the kind of each stored field of a state: the layout of a scalar, or one of the kinds in ``binary``.

    Fields with a default stand behind the others and are not stored.
    """
    kinds = _stored_hints(state_type).values()
    return tuple(next((kind for array, kind in _KINDS if hint == array), None) or _SCALARS[hint] for hint in kinds)


def _stored_hints(state_type: Any) -> dict[str, Any]:
    hints = get_type_hints(state_type)
    return {name: hint for name, hint in hints.items() if name not in state_type._field_defaults}


@lru_cache(maxsize=64)
def rows_field(state_type: type) -> str | None:
    """Return the name of the field that holds rows, if any; a state has only their number, the rows are records."""
    kinds = zip(_stored_hints(state_type), kinds_of(state_type), strict=True)
    return next((name for name, kind in kinds if kind is binary.ROWS), None)


@lru_cache(maxsize=64)
def fixed_fields(state_type: type) -> frozenset[str]:
    """Return the names of the fields that are a ``FixedArray``, whose length the arms have no part in."""
    hints = get_type_hints(state_type, include_extras=True)
    return frozenset(name for name, hint in hints.items() if hint == FixedArray)


# -- The arms of a session as bytes, where they have changed since its creation.
#
# They are the live arms as an array, the paused ones as another, and the labels of the arms that came after the
# start as JSON.

_ENCODED_ARMS: WeakKeyDictionary[Arms, bytes] = WeakKeyDictionary()


def encode_arms(arms: Arms) -> bytes:
    """Return the bytes of the arms of a session with labels; they are made once for each ``Arms``."""
    if (encoded := _ENCODED_ARMS.get(arms)) is None:
        writer = Writer()
        writer.integers(np.array(arms.live, dtype="<i8"))
        writer.integers(np.array(sorted(arms.paused), dtype="<i8"))
        encoded = b"".join(writer.parts) + json.dumps(arms.added, separators=(",", ":")).encode()
        _ENCODED_ARMS[arms] = encoded
    return encoded


def decode_arms(data: bytes, known: Arms, first_names: Sequence[str] | None) -> Arms:
    """Read the arms of a session.

    Parameters
    ----------
    data : ``Decoded.arms``; empty where arms never changed
    known : arms of the same session at some moment, which are returned where they are the ones read
    first_names : labels the session was created with; None without labels

    Raises
    ------
    CodecError
        for anything ``encode_arms`` did not write.
    """
    if data == (b"" if known.added is None else encode_arms(known)):
        return known
    if first_names is None:
        raise CodecError("arms without labels never change")
    if not data:
        return Arms.of(len(first_names), first_names)
    reader = Reader(memoryview(data))
    with foreign("the arms of this session"):
        live, paused = reader.integers(), reader.integers()
        added = json.loads(bytes(reader.left))
    if not isinstance(added, list) or not all(isinstance(name, str) for name in added):
        raise CodecError("not labels of arms")
    ascending = live.ndim == 1 and live.size and live[0] >= 0 and np.all(live[1:] > live[:-1])
    if not ascending or live[-1] >= len(first_names) + len(added):
        raise CodecError("not the arms of this session")
    if paused.ndim != 1 or not np.isin(paused, live).all() or np.unique(paused).size != paused.size:
        raise CodecError("not the paused arms of this session")
    return Arms.at(first_names, added, live.tolist(), paused.tolist())


# -- The numbers of a session's ledger: a byte that says how many bytes an integer has, the integers, the floats.

_INTEGERS = ("slot", "feedbacks", "expired", "removed", "total_delay", "outstanding", "voided", "losses")
_COUNTS = (*_INTEGERS, "time", "mean_loss", "last_act_at", "last_event_at", "equal_losses")
_LAYOUTS = {
    width: struct.Struct(f"<B{len(_INTEGERS)}{kind}4d?") for width, kind in ((1, "b"), (2, "h"), (4, "i"), (8, "q"))
}
"""By the bytes of an integer."""
_numbers = attrgetter(*_COUNTS)


def _read_counts(reader: Reader) -> dict[str, Any]:
    """Return the ledger's numbers by the names of its fields."""
    if (layout := _LAYOUTS.get(reader.left[0])) is None:
        raise CodecError("no state has such counts")
    _, *numbers = reader.unpack(layout)
    if not all(map(math.isfinite, numbers)):
        raise CodecError("the counts are no numbers")
    return dict(zip(_COUNTS, numbers, strict=True))


# -- States with a log: vectors of which few numbers were set since another vector.
#
# Of few arms a state has the vector of its slot's opening, and behind it stand the numbers that differ from it now:
# how many (1 byte), their arms (uint32 each), and they. Of many arms the state has no vectors, and behind it stand
# ``LOGGED``, the number of steps, and how many of them came before the open slot (uint32 each). The log is rows
# beside the state: the vector, then for each commit the arms and the numbers that it set, which later commits leave
# as they are. A log that is long begins again when a slot opens: see the learner.

LOGGED = 255
"""In place of how many numbers differ."""
MAX_EVENTS = 1024
"""Most steps of a log: more than a learner keeps."""
STEP_BYTES = 12
_LOGGED_HEAD = struct.Struct("<II")
_NONE = np.zeros(0)


def is_unread(state: Any) -> bool:
    """Return whether the vectors of a state that was read are still to be made of rows."""
    log: Log | None = getattr(state, "log", None)
    return log is not None and not log.base.size


def shortened(state: Any) -> Any:
    """Return a state as its fields are stored, with the ``log`` that stands behind them; None if none does."""
    if state.log is not None:
        return state._replace(weights=_NONE, opened=_NONE)
    if state.weights is state.opened:
        return state
    places = np.flatnonzero(state.weights != state.opened)
    if places.size * STEP_BYTES >= state.weights.nbytes or places.size >= LOGGED:
        return state
    steps = tuple(zip(places.tolist(), state.weights[places].tolist(), strict=True))
    return state._replace(weights=state.opened, log=Log(state.opened, steps, 0, is_stored=False) if steps else None)


def _write_log(writer: Writer, log: Log) -> None:
    """Write what follows the fields of a state that was ``shortened``."""
    if log.is_stored:
        writer.parts += (BYTES[LOGGED], _LOGGED_HEAD.pack(len(log.steps), log.opened))
    else:
        arms, numbers = zip(*log.steps, strict=True)
        writer.parts += (BYTES[len(arms)], _layout(len(arms)).pack(*arms, *numbers))


@lru_cache(maxsize=256)
def _layout(count: int) -> struct.Struct:
    return struct.Struct(f"<{count}I{count}d")


def _read_log(reader: Reader, state: Any) -> Any:
    """Read what follows a state, and return the state with it; rows that belong to it are still to be read.

    Parameters
    ----------
    reader : from which the state's fields have been read
    state : NamedTuple of these fields, with ``log`` at its default

    Raises
    ------
    CodecError, IndexError, ValueError
        where ``_write_log`` did not write these bytes behind this state.
    """
    (count,) = reader.unpack(binary.BYTE)
    if count == LOGGED:
        steps, opened = reader.unpack(_LOGGED_HEAD)
        if not opened <= steps <= MAX_EVENTS or state.weights.size or state.opened.size:
            raise CodecError("not a state with a log")
        return state._replace(log=Log(_NONE, ((0, 0.0),) * steps, opened))
    numbers = reader.unpack(_layout(count))
    if count:
        if state.weights is not state.opened:
            raise CodecError("not a state at the opening of its slot")
        weights = state.opened.copy()
        weights[list(numbers[:count])] = numbers[count:]
        state = state._replace(weights=weights)
    return state.checked()


def rows_of(run: Run) -> Rows:
    """Return the rows of a run's state, () if it has none; those that the store has are the same objects.

    They are float64 arrays: of learners with rows of shape (n_arms,); of a log the vector, shape (n_arms,), then
    for each commit the arms and numbers that it set, (2 * n_steps,).
    """
    log: Log | None = getattr(run.state, "log", None)
    if log is not None:
        stored = run.stored_rows
        kept = stored if stored and stored[0] is log.base else (log.base,)
        new = log.steps[sum(row.size // 2 for row in kept[1:]) :]
        return (*kept, np.array(new).T.ravel()) if new else kept
    name = rows_field(run.learner.state_type)
    rows: Rows = () if name is None else getattr(run.state, name)
    return rows


def replayed(state: Any, rows: Rows) -> Any:
    """Return a state with the vectors that its rows lead to.

    Parameters
    ----------
    state : one that ``is_unread``
    rows : as ``rows_of`` gives them: shape (n_arms,), then for each commit (2 * n_steps,)

    Raises
    ------
    CodecError, IndexError, ValueError
        where the rows are not those of this state.
    """
    base, *parts = rows
    columns = [part.reshape(2, -1).T.tolist() for part in parts]
    steps = tuple((int(arm), number) for part in columns for arm, number in part)
    if len(steps) != len(state.log.steps) or any(arm < 0 for arm, _ in steps):
        raise CodecError("the rows are not those of this state")
    return state.replayed(Log(base, steps, state.log.opened))


# -- A state whole, and the schemas that there are.


class Decoded(NamedTuple):
    """A session's state: the ledger, the bytes that ``decode_arms`` reads, the learner's NamedTuple."""

    ledger: Ledger
    arms: bytes
    state: Any
    shared: Any = None
    """What segments share, in sessions with segments."""


def _write(writer: Writer, ledger: Ledger, state: Any, arms: Arms | None, shared: Any) -> None:
    has_log = "log" in state._field_defaults
    stored = shortened(state) if has_log else state
    if isinstance(ledger, ArmLedger):
        changed = b"" if arms is None or arms.added is None else encode_arms(arms)
        writer.integers(ledger.by_arm)
        writer.parts += (LENGTH.pack(len(changed)), changed)
    numbers = _numbers(ledger)
    width = width_of(numbers[: len(_INTEGERS)])
    writer.parts.append(_LAYOUTS[width].pack(width, *numbers))
    writer.fields(kinds_of(stored.__class__), stored)
    if shared is not None:
        writer.fields(kinds_of(shared.__class__), shared)
    if has_log:
        if stored.log is None:
            writer.parts.append(BYTES[0])
        else:
            _write_log(writer, stored.log)


def _read(reader: Reader, state_type: Any, by_arm: bool, shared_type: type | None) -> Decoded:
    outstanding = reader.integers() if by_arm else None
    arms = bytes(reader.block()) if by_arm else b""
    counts = _read_counts(reader)
    values = reader.fields(kinds_of(state_type))
    of_all = [] if shared_type is None else reader.fields(kinds_of(shared_type))
    state = state_type(*values)
    if "log" in state._field_defaults:
        state = _read_log(reader, state)
    different = {id(value): value for value in (*state[: len(values)], *of_all)}
    if not all(map(_is_finite, different.values())):
        raise CodecError("not a state of this learner")
    ledger = Ledger(**counts) if outstanding is None else ArmLedger(**counts, by_arm=outstanding)
    return Decoded(ledger, arms, state, None if shared_type is None else shared_type(*of_all))


def _is_finite(value: Any) -> bool:
    if isinstance(value, float):
        return math.isfinite(value)
    return not isinstance(value, np.ndarray) or bool(np.isfinite(value).all())


class Schema(NamedTuple):
    """How states of a schema are written and read, between their number and their checksum."""

    write: Callable[[Writer, Ledger, Any, Arms | None, Any], None]
    read: Callable[[Reader, type, bool, type | None], Decoded]
    narrow: Callable[[Run], None] | None = None
    """Takes from a run what such states don't hold, so that its worker goes on with what others read; None where
    they hold all of it."""


SCHEMAS: Mapping[int, Schema] = {1: Schema(_write, _read)}
"""By number: those that this program reads."""
NEWEST = max(SCHEMAS)


def encode(ledger: Ledger, state: Any, arms: Arms | None = None, shared: Any = None, schema: int = NEWEST) -> bytes:
    """Return the bytes of a session's state.

    Parameters
    ----------
    ledger : of the session; an ``ArmLedger`` where the learner is over arms
    state : NamedTuple of the learner's state
    arms : None where arms never changed
    shared : NamedTuple of what segments share, in sessions with segments
    schema : one of ``SCHEMAS``
    """
    writer = Writer()
    writer.parts.append(BYTES[schema])
    SCHEMAS[schema].write(writer, ledger, state, arms, shared)
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
    reader = _opened(data)
    if checksum(memoryview(data)[:-CHECKSUM_BYTES]) != data[-CHECKSUM_BYTES:]:
        raise CodecError("the checksum does not fit")
    with foreign("a state of this learner"):
        decoded = SCHEMAS[data[0]].read(reader, state_type, by_arm, shared_type)
    if reader.left:
        raise CodecError("not a state of this learner")
    return decoded


def refuse_newer(data: bytes) -> None:
    """Raise ``NewerSchemaError`` for a state that a newer program wrote: the rest of its session is foreign too."""
    if data and data[0] > NEWEST and checksum(memoryview(data)[:-CHECKSUM_BYTES]) == data[-CHECKSUM_BYTES:]:
        raise NewerSchemaError


def _opened(data: bytes) -> Reader:
    """Return a reader of what stands between the number and the checksum."""
    if len(data) <= CHECKSUM_BYTES or data[0] not in SCHEMAS:
        raise CodecError("not a state this version can read")
    return Reader(memoryview(data)[1:-CHECKSUM_BYTES])


# -- Whether specification and state belong to one session.

NUMBER_BYTES = 8
"""Bytes of an int64 or a float64."""


def check_length(data: bytes, spec: Spec) -> None:
    """Refuse a state too short for its learner, before memory of the learner's size is taken.

    Raises
    ------
    CodecError
        where it is of fewer arms than the learner, or has fewer bytes than that has numbers.
    """
    with foreign("a state"):
        is_short = (
            _opened(data).skip_integers() < spec.size
            if isinstance(spec, ArmsSpec)
            else len(data) < spec.size * NUMBER_BYTES
        )
    if is_short:
        raise CodecError("the state has fewer numbers than its learner")


def check_state(run: Run, ledger: Ledger, state: Any) -> None:
    """Refuse a ledger whose counts do not add up, and arrays of other shapes than the session's.

    Parameters
    ----------
    run : the same session at any moment, with the arms that were read
    ledger : the one that was read
    state : NamedTuple of the learner's state that was read; vectors still to be made of rows are not checked

    Raises
    ------
    CodecError
        where a shape differs, or the counts do not add up to the slots or, by arm, to the outstanding decisions.
    """
    settled = ledger.feedbacks + ledger.expired + ledger.removed + ledger.voided
    if ledger.slot != settled + ledger.outstanding:
        raise CodecError("the counts do not add up to the slots")
    live: tuple[int, ...] | None = None
    if isinstance(run, ArmRun) and isinstance(ledger, ArmLedger):
        live = (len(run.arms.live),)
        if ledger.by_arm.shape != (run.arms.size,) or ledger.by_arm.sum() != ledger.outstanding:
            raise CodecError("the counts are not those of this session's arms")
    if is_unread(state):
        return
    fixed = fixed_fields(run.learner.state_type)
    for name, known, part in zip(state._fields, run.state, state, strict=True):
        if isinstance(part, np.ndarray) and part.dtype.kind == "f":
            expected = known.shape if live is None or name in fixed else (*known.shape[:-1], *live)
            if part.shape != expected:
                raise CodecError("the state has not this session's sizes")


def check_shared(run: SegmentRun, shared: Shared) -> None:
    """Refuse what segments share where it has other sizes than the session's, or counts more than may be kept.

    Raises
    ------
    CodecError
    """
    arrays = zip((shared.mixture_sums, shared.weights), (run.shared.mixture_sums, run.shared.weights), strict=True)
    if any(found.shape != known.shape for found, known in arrays) or not shared.weights.min() > 0:
        raise CodecError("the state is not that of segments")
    if not 0 <= shared.kept <= run.params.max_segments:
        raise CodecError("the session has not so many segments")
