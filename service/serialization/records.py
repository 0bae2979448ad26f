"""Bytes of what is kept beside a session's state and written only when it changes: a record each, with a checksum.

There are open slots, acts by bucket of time, rows of a learner's state, labels of removed arms, and segments. A
record may be older than the schema of the state that it stands beside, since commits leave those that have not
changed: so a new form of records needs a mark of its own.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping, Sequence
from dataclasses import replace
from hashlib import blake2b
from itertools import pairwise, takewhile
from typing import Any, NamedTuple

import numpy as np

from ..engine.arm_run import ArmRun, Arms, Change, Removed
from ..engine.ledger import EXPIRED, PER_WINDOW, UNCHARGED, ActTimes, ArmFeedback, Stretch
from ..engine.open_slots import OpenSlot, OpenSlots
from ..engine.run import Run, SlotRun
from ..engine.segment_run import KeptSegment, SegmentRun
from ..errors import StateCorruptError
from ..learners.base import IntArray, Rows
from ..learners.maths import LARGEST_VALUE
from ..learners.segments import EXPERTS, Segment
from ..store.base import LAST_SECOND
from . import control
from . import state as codec
from .binary import CodecError, body_of, foreign, record_of

# -- What was learned for an event id, if events can be improved: the value that the store keeps with it.

_LEARNED = struct.Struct("<Iddq?")
"""Arm, loss, time of the first application, slot of ``since`` and whether it is the control's; then the segment."""
_SEGMENT_BYTES = 8


class Learned(NamedTuple):
    """What an event that counts has taught, or an event that may improve it would teach."""

    arm: int
    """By index."""
    loss: float
    """On the learner's scale."""
    at: float
    """Unix seconds of the first application."""
    segment: bytes = b""
    """Eight bytes that stand for its name; none outside segments."""
    is_control: bool = False
    """Whether it is of the control group."""
    since: int = 0
    """The slot in which the verdict began anew that the event counts in; 0 for one that has been from the start."""

    @classmethod
    def of(cls, event: ArmFeedback, at: float, since: int = 0) -> Learned:
        """Return what an event teaches, if it is applied at a time in Unix seconds."""
        name = event.segment.encode()
        segment = blake2b(name, digest_size=_SEGMENT_BYTES).digest() if name else b""
        return cls(event.arm, event.loss, at, segment, event.is_control, since)

    def encode(self, event_id: bytes) -> bytes:
        """Return the value of an event id, by its digest."""
        numbers = (self.arm, self.loss, self.at, self.since, self.is_control)
        return record_of(event_id, _LEARNED.pack(*numbers) + self.segment)

    @classmethod
    def decode(cls, event_id: bytes, value: bytes) -> Learned:
        """Read what ``encode`` wrote.

        Raises
        ------
        CodecError
            for anything else.
        """
        with foreign("the value of an event id"):
            body = body_of(event_id, value)
            (arm, loss, at, since, is_control), segment = _LEARNED.unpack_from(body), body[_LEARNED.size :]
            if not (0 <= loss <= LARGEST_VALUE and 0 <= at <= LAST_SECOND and since >= 0):
                raise ValueError("numbers out of range")
            if len(segment) not in (0, _SEGMENT_BYTES):
                raise ValueError("not a segment")
            return cls(arm, loss, at, segment, is_control, since)

    @classmethod
    def known(cls, event_id: bytes, value: bytes) -> Learned:
        """Read the value of an event id of a session.

        Raises
        ------
        StateCorruptError
            for one that somebody changed by hand.
        """
        try:
            return cls.decode(event_id, value)
        except CodecError as error:
            raise StateCorruptError from error


# -- Records of open slots: key is the slot in decimal, bytes are the arm (int64) and the learner's numbers.

MOST_DIGITS = 18
"""No slot has a longer number."""


def encode_slots(slots: OpenSlots) -> dict[bytes, bytes | None]:
    """Return the records of slots that changed since the last commit, by key; None for one to delete."""
    records: dict[bytes, bytes | None] = {b"%d" % slot: None for slot in slots.closed}
    for slot, kept in slots.opened.items():
        key = b"%d" % slot
        records[key] = record_of(key, struct.pack(f"<q{len(kept.record)}d", kept.arm, *kept.record))
    return records


def _decode_slots(records: Mapping[bytes, bytes]) -> OpenSlots:
    """Read the bodies of records of open slots, by key, whatever their order."""
    lengths = set(map(len, records.values()))
    if len(lengths) > 1:
        raise CodecError("records of a session have one length")
    layout, slots = struct.Struct(f"<q{max(lengths, default=8) // 8 - 1}d"), dict[int, OpenSlot]()
    for key, body in records.items():
        if not key.isdigit() or len(key) > MOST_DIGITS or key.startswith(b"0"):
            raise CodecError("not the record of an open slot")
        arm, *record = layout.unpack(body)
        slots[int(key)] = OpenSlot(arm, tuple(record))
    return OpenSlots(dict(sorted(slots.items())))


# -- All records of a session but its segments.

BUCKET, ROW, REMOVED, CONTROL, OPEN = b"b", b"r", b"a", control.CONTROL, b""
"""First byte of the keys of buckets, of rows, of removed arms and of the control group; those of open slots are
digits."""
_UNTIL = struct.Struct("<d")
MAX_BUCKETS = PER_WINDOW + 4
"""Most buckets of time that a session or a segment has: those of its window, and those that are still to expire."""


def encode(run: Run) -> dict[bytes, bytes | None]:
    """Return the records of a run that changed since the last commit, by key; None for one to delete."""
    records: dict[bytes, bytes | None] = {}
    if isinstance(run, SlotRun):
        records |= encode_slots(run.open_slots)
    if run.act_times is not None:
        records |= _encode_act_times(run.act_times, run.arms.live if isinstance(run, ArmRun) else range(1))
    if isinstance(run, ArmRun) and run.control is not None:
        records |= {} if run.control.is_written else control.encode(run.control)
        if run.control.act_times is not None and run.control.act_times.changed:
            records |= _encode_act_times(run.control.act_times, run.arms.live, control.BUCKETS)
    rows, stored = codec.rows_of(run), run.stored_rows
    for number in range(len(rows), len(stored)):
        records[ROW + b"%d" % number] = None
    for number, row in enumerate(rows):
        if number >= len(stored) or row is not stored[number]:
            key = ROW + b"%d" % number
            records[key] = record_of(key, np.ascontiguousarray(row, "<f8").data.cast("B"))
    return records


def dropped_act_times(run: Run) -> dict[bytes, None]:
    """Return the keys of all that the store may hold of a run's acts by bucket of time, to drop them."""
    kept = {BUCKET: run.act_times, control.BUCKETS: None if run.control is None else run.control.act_times}
    known = {key: times.numbers | times.changed | {EXPIRED} for key, times in kept.items() if times is not None}
    return {key + b"%d" % bucket: None for key, buckets in known.items() for bucket in buckets}


def decode(records: Mapping[bytes, bytes], run: Run) -> Run:
    """Return a session's run with all that is kept beside its state.

    Parameters
    ----------
    records : key to bytes, as the store holds them
    run : the session's run at the moment of its state, with its arms

    Raises
    ------
    CodecError
        for anything ``encode`` did not write, arms the session never had, and rows of another length.
    """
    by_kind: dict[bytes, dict[bytes, bytes]] = {BUCKET: {}, ROW: {}, REMOVED: {}, CONTROL: {}, OPEN: {}}
    live, size = (run.arms.live, run.arms.size) if isinstance(run, ArmRun) else (range(1), 1)
    with foreign("records of this session"):
        for key, data in records.items():
            by_kind[key[:1] if key[:1] in by_kind else OPEN][key] = body_of(key, data)
        slots = _decode_slots(by_kind[OPEN])
        times = ActTimes.of_session(run.params.expiry)
        times = None if times is None else _decode_act_times(by_kind[BUCKET], times, np.array(live), size)
        of_control = None
        if isinstance(run, ArmRun) and run.control is not None:
            of_control = control.decode(by_kind[CONTROL], run.control, run.ledger)
            own = {key: body for key, body in by_kind[CONTROL].items() if key.startswith(control.BUCKETS)}
            if of_control.act_times is not None:
                _decode_act_times(own, of_control.act_times, np.array(live), size, control.BUCKETS)
        rows = _decode_rows(by_kind[ROW], run)
        removed = _decode_removed(by_kind[REMOVED])
    if isinstance(run, ArmRun):
        fits = (
            not isinstance(run, SlotRun) or {kept.arm for kept in slots.stored.values()}.issubset(live),
            codec.is_unread(run.state) or all(row.shape == (len(live),) for row in rows),
            all(0 <= each.arm < size and each.arm not in run.arms.positions for each in removed.values()),
            len(removed) == len(by_kind[REMOVED]) and removed.keys().isdisjoint(run.arms.labels or ()),
            times is None or all(times.fits(arm, run) for arm in times.silent),
        )
        if not all(fits):
            raise CodecError("the records are not those of this session's arms")
    state, name = run.state, codec.rows_field(run.state.__class__)
    with foreign("the rows of this state"):
        state = state if name is None else state._replace(**{name: rows})
        if codec.is_unread(state):
            state = codec.replayed(state, rows, run.learner)
            if state[0].shape[-1] != len(live):
                raise ValueError("rows of other arms")
    found: dict[str, Any] = {"state": state, "act_times": times, "stored_rows": rows, "control": of_control}
    if isinstance(run, SlotRun):
        found["open_slots"] = slots
    if isinstance(run, ArmRun) and run.arms.removed is None:
        found["arms"] = replace(run.arms, removed=removed)
    return replace(run, **found)


def encode_removed(before: Arms, after: Arms, change: Change) -> dict[bytes, bytes | None]:
    """Return the records of labels that a change of arms removed, and None for those that are forgotten, by key.

    Key: ``a`` and the arm's index. Record: the time until which its label is known, and the label.
    """
    were, removed = before.removed or {}, after.removed or {}
    # Those whose time is over come first; a hundred thousand others need no look.
    gone = [*takewhile(lambda label: label not in removed, were), *were.keys() & change.added]
    records: dict[bytes, bytes | None] = {REMOVED + b"%d" % were[label].arm: None for label in gone}
    for label in map((before.names or ()).__getitem__, change.removed):
        if label in removed:
            arm, until = removed[label]
            key = REMOVED + b"%d" % arm
            records[key] = record_of(key, _UNTIL.pack(until) + label.encode())
    return records


def _decode_removed(records: Mapping[bytes, bytes]) -> dict[str, Removed]:
    """Return the removed arms in the order in which their labels will be forgotten, that of their removal."""
    found = [(*_UNTIL.unpack_from(data), int(key[len(REMOVED) :]), data) for key, data in records.items()]
    return {data[_UNTIL.size :].decode(): Removed(arm, until) for until, arm, data in sorted(found)}


def _decode_rows(records: Mapping[bytes, bytes], run: Run) -> Rows:
    is_logged = codec.is_unread(run.state)
    if codec.rows_field(run.state.__class__) is None and not is_logged:
        return ()
    count = len(records) if is_logged else len(codec.rows_of(run))
    return tuple(np.frombuffer(records[ROW + b"%d" % number], "<f8").copy() for number in range(count))


def _encode_act_times(times: ActTimes, live: Sequence[int], kind: bytes = BUCKET) -> dict[bytes, bytes | None]:
    """Key: ``b`` and the bucket's number. Record: number of acts, indexes of live arms with acts, their acts.

    Key ``b-1``: indexes of arms, each before the window in which a decision of it expired last. Key ``b`` and
    ``UNCHARGED`` less an arm's index: the ``Stretch``es of its decisions, one behind the other.
    """
    records: dict[bytes, bytes | None] = {}
    for bucket in times.changed:
        key, acts = kind + b"%d" % bucket, times.acts.get(bucket)
        if bucket == EXPIRED:
            records[key] = record_of(key, np.array([*times.expired.items()], "<i8").tobytes())
        elif bucket <= UNCHARGED:
            of_arm = times.silent.get(UNCHARGED - bucket)
            records[key] = None if of_arm is None else record_of(key, np.array(of_arm, "<i8").tobytes())
        elif acts is None:
            records[key] = None
        else:
            (places,) = acts[1:].nonzero()
            arms = places if isinstance(live, range) else np.take(live, places)
            body = np.concatenate([(acts.sum(),), arms, acts[1:][places]], dtype="<i8")
            records[key] = record_of(key, body.tobytes())
    return records


def _decode_act_times(
    records: Mapping[bytes, bytes], times: ActTimes, live: IntArray, size: int, kind: bytes = BUCKET
) -> ActTimes:
    """Read the buckets; arms removed since their last acts, which the session's state no longer has, become one."""
    records = dict(records)
    if (data := records.pop(kind + b"%d" % EXPIRED, None)) is not None:
        times.expired = dict(np.frombuffer(data, "<i8").reshape(-1, 2).tolist())
        newest = max(times.expired.values()) * times.width * PER_WINDOW
        if not (0 <= min(times.expired) <= max(times.expired) < size and 0 <= newest <= LAST_SECOND):
            raise CodecError("windows of arms, or of a time, that there are not")
    for key in [key for key in records if key.startswith(BUCKET + b"-")]:
        of_arm = np.frombuffer(records.pop(key), "<i8").reshape(-1, len(Stretch._fields)).tolist()
        times.silent[UNCHARGED - int(key[len(BUCKET) :])] = tuple(map(Stretch._make, of_arm))
    if len(records) > MAX_BUCKETS:
        raise CodecError("no session has so many buckets")
    for bucket in sorted(int(key[len(kind) :]) for key in records):
        numbers = np.frombuffer(records[kind + b"%d" % bucket], "<i8")
        arms, counts = np.split(numbers[1:], 2)
        if arms.size and not 0 <= arms.min() <= arms.max() < size:
            raise CodecError("acts of arms that the session never had")
        if not 0 <= bucket * times.width <= LAST_SECOND:
            raise CodecError("a bucket of no time that there is")
        places = live.searchsorted(arms) % live.size
        is_live = live[places] == arms
        acts = np.zeros(live.size + 1, dtype=np.int64)
        acts[places[is_live] + 1] = counts[is_live]
        acts[:1] = numbers[:1] - acts.sum()  # As an array: one that wraps is refused below, and warns nobody.
        if acts.min() < 0:
            raise CodecError("not the acts of a bucket")
        times.acts[bucket] = acts
    return times


# -- Bytes of segments, each a record beside the session's state.
#
# Numbers are little-endian: counts and times (``_HEAD``), bucket and acts of each bucket of time, if some arms
# were removed the indexes of the others, then S, q, e and, if it differs, e over all arms.
# A record ends with a CRC-32 of its name, a colon and itself.

FORMAT = 1
_HEAD = struct.Struct("<BqdqqqddqqqqdddIIBB")
_BUCKET = struct.Struct("<qq")
_FULL = 1


def name_of(segment: str) -> bytes:
    """Return what the store calls a segment."""
    return segment.encode()


def encode_segment(run: SegmentRun, name: str) -> tuple[int, bytes] | None:
    """Return last slot and record of a segment that changed since the last commit; None for one to delete.

    Parameters
    ----------
    run : of a session with segments
    name : one of ``run.segments.changes``
    """
    if (kept := run.segments.changes[name]) is None:
        return None
    segment, is_listed = kept.segment, not isinstance(kept.live, range)
    live = np.array(kept.live if is_listed else (), "<u4").tobytes()
    has_full = segment.full is not segment.drawn
    # The numbers of both, from their first to their last, as their classes have them.
    numbers = (*kept[2:-1], *segment[4:])
    head = _HEAD.pack(FORMAT, *numbers, len(kept.live), len(kept.acts), has_full, is_listed)
    arrays = (segment.sums, segment.pool, segment.drawn, *((segment.full,) if has_full else ()))
    acts = [_BUCKET.pack(*each) for each in kept.acts]
    body = b"".join([head, *acts, live, *(array.tobytes() for array in arrays)])
    return kept.last_slot, record_of(name_of(name), body)


def decode_segment(name: bytes, record: bytes, arms: Arms) -> KeptSegment:
    """Read a segment, as it was when it was last used.

    Parameters
    ----------
    name : the segment's, as the store has it
    record : as the store has it, with its checksum
    arms : of the session, as of the version that the record was read at

    Raises
    ------
    CodecError
        for anything ``encode_segment`` did not write for this session.
    """
    body = body_of(name, record)
    with foreign("a segment of this session"):
        form, *numbers, n_arms, n_acts, has_full, is_listed = _HEAD.unpack_from(body)
        if n_arms > arms.size or n_acts > MAX_BUCKETS:
            raise CodecError("a segment of more arms, or buckets, than the session has")
        at = _HEAD.size + n_acts * _BUCKET.size
        acts = tuple(_BUCKET.iter_unpack(body[_HEAD.size : at]))
        live: Sequence[int] = range(n_arms)
        if is_listed:
            live = np.frombuffer(body, "<u4", n_arms, at).tolist()
            at += 4 * n_arms
        rows = np.frombuffer(body[at:], "<f8").reshape(-1, n_arms).copy()
    ascending = bool(live) and live[0] >= 0 and all(one < other for one, other in pairwise(live))
    is_whole = form == FORMAT and len(rows) == 2 + EXPERTS * (2 if has_full == _FULL else 1)
    if not is_whole or not ascending or live[-1] >= arms.size:
        raise CodecError("not a segment of this session")
    if not (np.isfinite(rows).all() and all(map(math.isfinite, numbers))):
        raise CodecError("a segment with numbers that are infinite or NaN")
    live = arms.live if list(live) == list(arms.live) else live
    drawn = rows[2 : 2 + EXPERTS]
    full = rows[2 + EXPERTS :] if has_full == _FULL else drawn
    segment = Segment(rows[0], rows[1], drawn, full, *numbers[7:])
    return KeptSegment._make((segment, live, *numbers[:7], acts))
