"""A session's state as bytes: exact, checked, and marked with the number of its schema.

What no later schema changes: a state's first byte is the number of its schema, the next two are the length of its
head, and its last four are the CRC-32 of all before them. A schema that is newer than this program knows is so told
from damage. Before its CRC a state has, little-endian,

- the head, of which lists are made: all numbers of the session and, last, the lower half of its own CRC-32,
- the vectors' numbers, then in a session over arms the outstanding decisions by arm, and with expiry ``_JUDGED``,
- behind their length arrays of integers, and the number of rows,
- what events did to a vector since it was stored, where the learner's state has a log; with features, what changed
  the regressions last.

``SCHEMAS``, at the end, has the schemas that this program reads. Which of them is written is one number of the
process, ``Schemas.written`` in ``commit/schemas.py``. Until the first release there is one schema, and a change of
it writes ``tests/states`` again.

A checksum shows that bytes are as they were written, but not that they were written for this session: somebody may
have copied a state from another one, or changed the specification beside it. That is checked too.
"""

from __future__ import annotations

import math
import struct
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from operator import attrgetter
from typing import Any, NamedTuple, get_type_hints

import numpy as np

from ..engine.arm_run import Arms
from ..engine.control import Control
from ..engine.ledger import ActTimes, ArmLedger, Ledger
from ..engine.run import Run
from ..errors import NewerSchemaError
from ..learners.base import FixedArray, FloatArray, IntArray, Log, Rows, Spec
from ..learners.maths import LARGEST_VALUE
from ..learners.segments import Shared
from ..learners.specs import ArmsSpec
from ..store.base import LAST_SECOND, head_of
from .binary import BYTE, BYTES, CHECKSUM_BYTES, LENGTH, CodecError, Reader, checksum, dtype_below, foreign
from .control import N_NUMBERS, ledger_of, numbers_of

FLOATS, INTEGERS = np.dtype("<f8"), np.dtype("<i8")

# -- The head: the ledger's numbers, facts of the session, the learner's rates, and the numbers of its state.

EQUAL_LOSSES, MOSTLY_SURPLUS, SEGMENTS, HAS_LOG, LATE_EVENTS, CONTROL, SILENT, UNTOLD = (2**n for n in range(8))
"""Flags of the head; with ``HAS_LOG`` it has the number of entries of the log behind the rates. With ``CONTROL``
the last of these are the numbers of a control group; before them stand what acts said of features, and goals."""
_NAMES = (
    *("slot", "feedbacks", "expired", "removed", "total_delay", "outstanding", "time", "voided", "losses"),
    *("mean_loss", "last_act_at", "last_event_at", "telling", "above", "below", "squares"),
)
_LEDGER = attrgetter(*_NAMES)
"""The numbers of a ledger, in the order of its fields; of the last one the head has a flag."""
MOST = 2**62
"""Every count is below, also after the largest one that is imported, and all that a session may act then."""
_COUNT, _TIME, _LOSS = (0, MOST), (0, LAST_SECOND), (-2 * LARGEST_VALUE, 2 * LARGEST_VALUE)
_SQUARES = (0, MOST * _LOSS[1] ** 2)
_RANGES = (*(_COUNT,) * 6, _TIME, _COUNT, _COUNT, _LOSS, _TIME, _TIME, *(_COUNT,) * 3, _SQUARES)
_START = struct.Struct("<BHBB")
"""Schema, length of the head, flags, number of rates."""
_FACTS = 4 + 16
"""Where they stand among the head's numbers: how many arms there ever were, the forms of vectors, how many segments
are kept, and ``effective_arms``."""
_RATES = _FACTS + 4
"""Where the rates begin, which only lists read, and behind them the counts of goals. NaN stands for None."""
_JUDGED = struct.Struct("<HHI")
"""Of the latest events of a session over arms with expiry, how many were judged, and came too late; and how many
decisions have expired since the last one."""
_HALF = struct.Struct("<H")
"""The lower half of the CRC-32 of all before it. Behind a whole one that of the state would not depend on these."""


@lru_cache(maxsize=64)
def _head(codes: str) -> struct.Struct:
    """Return the layout of a head, up to its checksum, with numbers of these codes behind ``effective_arms``."""
    return struct.Struct(f"<BHBB6qd2q3dIBBd3Id{codes}")


class Shown(NamedTuple):
    """What lists show of a session's state."""

    ledger: Any
    kept: int | None
    """How many segments are kept, in a session with segments."""
    mostly_surplus: bool
    """Whether most of the latest events answered no outstanding decision."""
    effective: float | None = None
    """``effective_arms`` of a moment ago; None over points."""
    rates: Sequence[float | None] = ()
    control: ArmLedger | None = None
    """Counts of the control group; those in ``ledger`` are the learner's."""


def read_shown(head: bytes, ledger_type: Any = Ledger, n_goals: int = 0, n_features: int = 0) -> Shown:
    """Read what lists show of a state's head; behind the learner's rates stand counts of goals and of features.

    Raises
    ------
    CodecError, struct.error
        for anything a state of this program does not begin with.
    """
    schema, length, flags, n_rates = _START.unpack_from(head)
    if schema not in SCHEMAS or length != len(head) or _half(head[: -_HALF.size]) != head[-_HALF.size :]:
        raise CodecError("not the head of a state")
    numbers = _head("d" * n_rates + "q" * bool(flags & HAS_LOG)).unpack_from(head)
    for name, (least, most), number in zip(_NAMES, _RANGES, numbers[4:_FACTS], strict=True):
        if not least <= number <= most:
            raise CodecError(f"{name} is not in [{least:g}, {most:g}]")
    told = {"equal_losses": EQUAL_LOSSES, "late_events": LATE_EVENTS, "silent": SILENT, "untold": UNTOLD}
    told = {name: bool(flags & flag) for name, flag in told.items()}
    ledger = ledger_type(*numbers[4:_FACTS], **told, logged=numbers[_RATES + n_rates] if flags & HAS_LOG else 0)
    control, n_numbers = None, N_NUMBERS if flags & CONTROL else 0
    if flags & CONTROL:
        control = ledger_of(numbers[_RATES + n_rates - n_numbers : _RATES + n_rates])
    n_rates -= n_numbers
    n_counts = n_goals + (2 + 2 * n_features) * bool(n_features)
    counts = numbers[_RATES + n_rates - n_counts : _RATES + n_rates]
    if n_counts > n_rates or not all(0 <= count <= MOST and count.is_integer() for count in counts):
        raise CodecError("not the counts of this session's goals and features")
    counts, numbers = tuple(map(int, counts)), numbers[: _RATES + n_rates - n_counts]
    ledger.goals, ledger.said = counts[:n_goals], counts[n_goals:]
    effective, *rates = [None if number != number else number for number in numbers[_RATES - 1 :]]
    kept = numbers[_FACTS + 2] if flags & SEGMENTS else None
    return Shown(ledger, kept, bool(flags & MOSTLY_SURPLUS), effective, rates, control)


def _half(body: bytes) -> bytes:
    return _HALF.pack(zlib.crc32(body) & 0xFFFF)


# -- The fields of a learner's state, and behind them those of what segments share: the annotations of their
# NamedTuples say how each is stored. Fields with a default are not.

_CODES = {int: "q", float: "d", bool: "?"}


class Layout(NamedTuple):
    """The fields of each kind, by their places."""

    head: struct.Struct
    """Without its checksum."""
    numbers: Sequence[int]
    vectors: Sequence[int]
    """Those of floats, of any shape."""
    fixed: Sequence[int]
    """Vectors of which the arms have no part in the length."""
    of_arms: Sequence[int]
    """The others."""
    integers: Sequence[int]
    rows: Sequence[int]
    has_log: bool


@lru_cache(maxsize=64)
def layout_of(state_type: Any, shared_type: Any, n_rates: int, is_logged: bool) -> Layout:
    """Return the layout of a state with so many rates, and of what segments share; None: there are none."""
    hints, defaults = get_type_hints(state_type, include_extras=True), state_type._field_defaults
    kinds = [None if name in defaults else hint for name, hint in hints.items()]
    if shared_type is not None:
        kinds += get_type_hints(shared_type, include_extras=True).values()
    head = _head("d" * n_rates + "q" * is_logged + "".join(_CODES[kind] for kind in kinds if kind in _CODES))

    def places(*annotations: Any) -> list[int]:
        return [place for place, kind in enumerate(kinds) if kind in annotations]

    vectors = (places(FloatArray, FixedArray), places(FixedArray), places(FloatArray))
    return Layout(head, places(*_CODES), *vectors, places(IntArray), places(Rows), "log" in defaults)


@lru_cache(maxsize=64)
def rows_field(state_type: type) -> str | None:
    """Return the name of the field that holds rows, if any; a state has only their number, the rows are records."""
    return next((name for name, hint in get_type_hints(state_type).items() if hint == Rows), None)


# -- Outstanding decisions by arm: where they are few, the index of the arm of each, else how many each arm has. All
# take as few bytes as the number of arms, or that of all outstanding decisions, may need.

FEW = 4
"""Times as many arms as outstanding decisions from which on these are few."""


def _encode_outstanding(by_arm: IntArray, outstanding: int) -> bytes:
    size = by_arm.size
    if outstanding * FEW > size:
        return by_arm.astype(dtype_below(outstanding + 1)).tobytes()
    if not outstanding:
        return b""
    arms = by_arm.nonzero()[0]
    return (arms if arms.size == outstanding else arms.repeat(by_arm[arms])).astype(dtype_below(size)).tobytes()


def _read_outstanding(reader: Reader, size: int, outstanding: int) -> IntArray:
    if outstanding * FEW > size:
        by_arm: IntArray = reader.numbers(dtype_below(outstanding + 1), size).astype(INTEGERS)
    else:
        by_arm = np.bincount(reader.numbers(dtype_below(size), outstanding), minlength=size)
    if by_arm.size != size or by_arm.sum() != outstanding:
        raise CodecError("the outstanding decisions are not those of this session's arms")
    return by_arm


# -- States with a log: vectors that follow from earlier ones by few steps.
#
# Of few arms a state has the vector of its slot's opening, and behind it stand the numbers that differ from it now:
# how many (1 byte; 0 if a learner has more vectors), their arms (uint32 each), and they. Of many arms the state
# has no vectors, and behind it stand ``LOGGED``, the number of steps, and how many came before the open slot
# (uint32 each). The log is rows beside the state: what it begins with, then for each commit the first and the
# second numbers of its steps, which later commits leave as they are. A step sets a number, or does again what an
# event or the opening of a slot did: see the learner. A long log begins again when a slot opens.

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
    kept = getattr(state, "regressions", None)
    return (log is not None and not log.base.size) or (kept is not None and bool(kept.log.rows) and not kept.arms)


def shortened(state: Any, layout: Layout) -> tuple[Any, bytes]:
    """Return a state as its fields are stored, and what stands behind them."""
    if (log := state.log) is not None:
        short = state._replace(**{state._fields[at]: _NONE for at in layout.of_arms})
        return short, BYTES[LOGGED] + _LOGGED_HEAD.pack(len(log.steps), log.opened)
    if not hasattr(state, "opened") or state.weights is state.opened:
        return state, BYTES[0]
    (places,) = (state.weights != state.opened).nonzero()
    if places.size * STEP_BYTES >= state.weights.nbytes or places.size >= LOGGED:
        return state, BYTES[0]
    numbers = (*places.tolist(), *state.weights[places].tolist())
    return state.__class__(state.opened, *state[1:]), BYTES[places.size] + _layout(places.size).pack(*numbers)


@lru_cache(maxsize=256)
def _layout(count: int) -> struct.Struct:
    return struct.Struct(f"<{count}I{count}d")


def _read_log(reader: Reader, state: Any, layout: Layout, before: Any) -> Any:
    """Read what ``shortened`` put behind a state, and return the whole; rows of it are still to be read.

    Parameters
    ----------
    reader : from which the state's fields have been read
    state : NamedTuple of these fields, with ``log`` at its default
    before : an earlier state of the session

    Raises
    ------
    CodecError, IndexError, ValueError
        where these bytes do not belong behind this state.
    """
    (count,) = reader.unpack(BYTE)
    if count == LOGGED:
        steps, opened = reader.unpack(_LOGGED_HEAD)
        if not opened <= steps <= MAX_EVENTS or any(state[at].size for at in layout.of_arms):
            raise CodecError("not a state with a log")
        return state._replace(log=Log(_NONE, ((0, 0.0),) * steps, opened, before=before))
    numbers = reader.unpack(_layout(count))
    if count:
        if not hasattr(state, "opened") or state.weights is not state.opened:
            raise CodecError("not a state at the opening of its slot")
        weights = state.opened.copy()
        weights[list(numbers[:count])] = numbers[count:]
        state = state._replace(weights=weights)
    return state.checked()


def rows_of(run: Run) -> Rows:
    """Return the rows of a run's state, () if it has none; those that the store has are the same objects.

    They are float64 arrays: of learners with rows of shape (n_arms,); of a log ``Log.base``, then for each commit
    the first and the second numbers of its steps, (2 * n_steps,).
    """
    log: Log | None = getattr(run.state, "log", None)
    if log is not None:
        stored = run.stored_rows
        kept = stored if stored and stored[0] is log.base else (log.base,)
        new = log.steps[sum(row.size // 2 for row in kept[1:]) :]
        return (*kept, np.array(new).T.ravel()) if new else kept
    if (regressions := getattr(run.state, "regressions", None)) is not None:
        of_features: Rows = regressions.log.rows
        return of_features
    name = rows_field(run.state.__class__)
    rows: Rows = () if name is None else getattr(run.state, name)
    return rows


def replayed(state: Any, rows: Rows, learner: Any) -> Any:
    """Return a state with the vectors that its rows lead to.

    Parameters
    ----------
    state : one that ``is_unread``
    rows : as ``rows_of`` gives them
    learner : of the session

    Raises
    ------
    CodecError, IndexError, ValueError
        where the rows are not those of this state.
    """
    if (kept := getattr(state, "regressions", None)) is not None:
        if len(rows) != len(kept.log.rows):
            raise CodecError("the rows are not those of this state")
        return state._replace(regressions=kept.replayed(rows, learner.begun))
    base, *parts = rows
    columns = [part.reshape(2, -1).T.tolist() for part in parts]
    steps = tuple((int(arm), number) for part in columns for arm, number in part)
    if len(steps) != len(state.log.steps) or any(arm < 0 for arm, _ in steps):
        raise CodecError("the rows are not those of this state")
    return learner.replayed(state, state.log._replace(base=base, steps=steps))


# -- A state whole, and the schemas that there are.

SAME, EMPTY = 1, 2
"""Forms of a vector: equal to the one before it, whose numbers are not written again; empty, as it is still to be
made of rows. 0 stands for others. The head has the forms of all, two bits each, those of the first the lowest."""
MAX_ROWS = 2**20
"""Most rows of a state: more than a session can have open slots."""


def _write(run: Run, schema: int, effective: float | None, mostly_surplus: bool) -> list[bytes]:
    ledger, state, (_, *rates) = run.ledger, run.state, run.learner.rates(run.state).values()
    rates += (*ledger.goals, *ledger.said)
    if (control := run.control) is not None:
        rates += numbers_of(control.ledger)
    # Runs over points have no arms.
    arms: Arms | None = getattr(run, "arms", None)
    shared: Any = getattr(run, "shared", ())
    layout = layout_of(state.__class__, shared.__class__ if shared else None, len(rates), ledger.logged > 0)
    state, behind = shortened(state, layout) if layout.has_log else (state, b"")
    fields, forms, place, before, data_before = state + shared, 0, 1, None, b""
    size, parts = 0 if arms is None else arms.size, []
    for at in layout.vectors:
        vector = fields[at]
        # Whole comparisons are rare: those that differ mostly do so in their first bytes.
        if vector is before or ((data := vector.tobytes()) == data_before and data):
            forms |= SAME * place
        elif data:
            parts.append(data)
            before, data_before = vector, data
        else:
            forms |= EMPTY * place
        place <<= 2
    if isinstance(ledger, ArmLedger):
        parts.append(_encode_outstanding(ledger.by_arm, ledger.outstanding))
        if run.params.expiry is not None:
            parts.append(_JUDGED.pack(ledger.judged, ledger.late, ledger.missed))
    if control is not None:
        parts.append(_encode_outstanding(control.ledger.by_arm, control.ledger.outstanding))
    for at in layout.integers:
        parts += (LENGTH.pack(fields[at].size), fields[at].tobytes())
    for at in layout.rows:
        parts.append(LENGTH.pack(len(fields[at])))
    parts.append(behind)
    if (regressions := getattr(state, "regressions", None)) is not None:
        parts.append(regressions.encoded())
    flags = ledger.equal_losses * EQUAL_LOSSES | mostly_surplus * MOSTLY_SURPLUS
    flags |= bool(shared) * SEGMENTS | (ledger.logged > 0) * HAS_LOG | ledger.late_events * LATE_EVENTS
    flags |= (control is not None) * CONTROL | ledger.silent * SILENT | ledger.untold * UNTOLD
    shown = (effective, *rates)
    if None in shown:
        shown = tuple(math.nan if number is None else number for number in shown)
    head = layout.head.pack(
        *(schema, layout.head.size + _HALF.size, flags, len(rates), *_LEDGER(ledger), size, forms),
        *(shared.kept if shared else 0, *shown, *((ledger.logged,) if ledger.logged else ())),
        *[fields[at] for at in layout.numbers],
    )
    return [head, _half(head), *parts]


def _read(head: bytes, reader: Reader, run: Any) -> Any:
    old, shared, arms = run.state, getattr(run, "shared", ()), getattr(run, "arms", None)
    n_features = 0 if run.params.encoder is None else len(run.params.encoder.features)
    shown = read_shown(head, type(run.ledger), len(run.params.goals), n_features)
    n_rates = head[_START.size - 1]
    ledger = shown.ledger
    layout = layout_of(old.__class__, shared.__class__ if shared else None, n_rates, ledger.logged > 0)
    numbers = layout.head.unpack(head[: -_HALF.size])
    of_state, (size, forms) = numbers[_RATES + n_rates + (ledger.logged > 0) :], numbers[_FACTS : _FACTS + 2]
    if not all(map(math.isfinite, (*numbers[4:_FACTS], *of_state))):
        raise CodecError("not the head of a state of this learner")
    if size != (0 if arms is None else arms.size):
        raise CodecError("the counts are not those of this session's arms")

    # The shapes of vectors follow from the learner and the arms.
    known, live = old + shared, () if arms is None else (len(arms.live),)
    floats = np.frombuffer(reader.left, FLOATS, len(reader.left) // FLOATS.itemsize)
    found, vector, end, misfits = dict(zip(layout.numbers, of_state, strict=True)), _NONE, 0, set[int]()
    for at in layout.vectors:
        shape = known[at].shape if at in layout.fixed or not live else known[at].shape[:-1] + live
        if forms & EMPTY:
            vector = _NONE
        elif not forms & SAME:
            start, end = end, end + math.prod(shape)
            vector = floats[start:end].reshape(shape).copy()
        found[at], forms = vector, forms >> 2
        if vector.shape != shape:
            misfits.add(at)
    reader.take(FLOATS.itemsize * end)
    if not np.isfinite(floats[:end]).all():
        raise CodecError("a state with numbers that are infinite or NaN")
    if arms is not None:
        ledger.by_arm = _read_outstanding(reader, len(arms.live), ledger.outstanding)
        if run.params.expiry is not None:
            ledger.judged, ledger.late, ledger.missed = reader.unpack(_JUDGED)
        if shown.control is not None:
            shown.control.by_arm = _read_outstanding(reader, len(arms.live), shown.control.outstanding)
    for at in layout.integers:
        found[at] = reader.numbers(INTEGERS, *reader.unpack(LENGTH)).copy()
    for at in layout.rows:
        (count,) = reader.unpack(LENGTH)
        if count > MAX_ROWS:
            raise CodecError("no state has so many rows")
        found[at] = (None,) * count
    state = type(old)(*[found[at] for at in range(len(old)) if at in found])
    if layout.has_log:
        state = _read_log(reader, state, layout, old)
        if not all(np.isfinite(state[at]).all() for at in layout.of_arms if state[at] is not found[at]):
            raise CodecError("a log of numbers that are infinite or NaN")
    if arms is not None and (kept := getattr(old, "regressions", None)) is not None:
        state = state._replace(regressions=kept.read(bytes(reader.take(len(reader.left))), len(arms.live)))
        state = state if is_unread(state) else replayed(state, (), run.learner)
    if misfits.difference(layout.of_arms if getattr(state, "log", None) else ()):
        raise CodecError("the state has not this session's sizes")
    if ledger.slot != ledger.feedbacks + ledger.expired + ledger.removed + ledger.voided + ledger.outstanding:
        raise CodecError("the counts do not add up to the slots")
    before, run = run, run.moved(ledger, state)
    if shown.control is None and run.params.control is not None:
        raise CodecError("a state without the control group of its session")
    if shown.control is not None:
        p = None if before.control is None else before.control.p
        run.control = Control(shown.control, ActTimes.of_session(run.params.expiry), p)
    if not shared:
        return run
    shared = Shared(*[found[at] for at in range(len(old), len(known))])
    if not shared.weights.min() > 0 or not 0 <= shared.kept <= run.params.max_segments:
        raise CodecError("the state is not that of this session's segments")
    return replace(run, shared=shared)


class Schema(NamedTuple):
    """How states of a schema are written and read, up to their checksum."""

    write: Callable[[Run, int, float | None, bool], list[bytes]]
    read: Callable[[bytes, Reader, Run], Run]
    narrow: Callable[[Run], None] | None = None
    """Takes from a run what such states don't hold, so that its worker goes on with what others read; None where
    they hold all of it."""


SCHEMAS: Mapping[int, Schema] = {1: Schema(_write, _read)}
"""By number: those that this program reads."""
NEWEST = max(SCHEMAS)


def encode(run: Run, schema: int = NEWEST, effective: float | None = None, mostly_surplus: bool = False) -> bytes:
    """Return the bytes of a session's state.

    Parameters
    ----------
    run : of the session
    schema : one of ``SCHEMAS``
    effective : for lists, ``effective_arms`` of a moment ago; None over points
    mostly_surplus : for lists, whether most of the latest events answered no outstanding decision
    """
    parts, crc = SCHEMAS[schema].write(run, schema, effective, mostly_surplus), 0
    for part in parts:  # Not of the whole, which would be copied once more: it may be megabytes.
        crc = zlib.crc32(part, crc)
    return b"".join([*parts, crc.to_bytes(CHECKSUM_BYTES, "little")])


def decode(data: bytes, run: Run) -> Run:
    """Read what ``encode`` wrote.

    Parameters
    ----------
    data : the whole state, with its checksum
    run : of the same session at any moment; it stays as it is

    Returns
    -------
    The run at the moment of the state, without what stands beside the state.

    Raises
    ------
    CodecError
        for anything ``encode`` did not write for this session, as far as that can be told.
    """
    body = memoryview(data)[:-CHECKSUM_BYTES]
    if len(data) <= CHECKSUM_BYTES or data[0] not in SCHEMAS or checksum(body) != data[-CHECKSUM_BYTES:]:
        raise CodecError("not a state this version can read")
    head = head_of(data)
    reader = Reader(body[len(head) :])
    with foreign("a state of this learner"):
        read = SCHEMAS[data[0]].read(head, reader, run)
    if reader.left:
        raise CodecError("not a state of this learner")
    return read


def refuse_newer(data: bytes) -> None:
    """Raise ``NewerSchemaError`` for a state that a newer program wrote: the rest of its session is foreign too."""
    if data and data[0] > NEWEST and checksum(memoryview(data)[:-CHECKSUM_BYTES]) == data[-CHECKSUM_BYTES:]:
        raise NewerSchemaError


# -- Whether specification and state belong to one session.


def check_length(data: bytes, spec: Spec) -> None:
    """Refuse a state too short for its learner, before memory of the learner's size is taken.

    Raises
    ------
    CodecError
        where it is of fewer arms than the learner, or has fewer bytes than that has numbers.
    """
    numbers = len(data) // FLOATS.itemsize
    if isinstance(spec, ArmsSpec):
        with foreign("a state"):
            numbers = _head("").unpack_from(data)[_FACTS]
    if numbers < spec.size:
        raise CodecError("the state has fewer numbers than its learner")
