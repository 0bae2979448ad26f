"""Moving a session to another store: the JSON document that it is exported as, and what is restored of one.

It goes on bit for bit. Bytes are in base64, in parts, so that making and reading them keeps no request waiting for
long: doubles are exact. The document ends in a SHA-256 of its canonical JSON without it: keys sorted, no spaces,
ASCII. The state in it begins with the number of its schema, as in a store.
"""

from __future__ import annotations

import hashlib
import json
import math
import struct
from base64 import b64decode, b64encode
from binascii import Error
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from typing import Any, cast

import numpy as np

from ..commit.cache import CachedSession, decoded, with_records
from ..cooperative import Body, FairYield, json_chunks, run_in_thread_if_large
from ..engine.arm_run import ArmRun, Arms
from ..engine.ledger import ActTimes
from ..engine.run import FeatureRun, Run, SlotRun
from ..engine.segment_run import KeptSegment, SegmentRun
from ..errors import InvalidRequestError, PayloadTooLargeError, StateCorruptError, UnknownSessionError
from ..learners.feature_tsallis import known
from ..learners.maths import LARGEST_VALUE, LOWEST
from ..learners.specs import MAX_COUNT, NOT_IN_LABELS
from ..models import stored as stored_specification
from ..models.events import MAX_SEGMENT_BYTES
from ..serialization import state as codec
from ..serialization import summary
from ..serialization.binary import CodecError
from ..serialization.control import PROBABILITIES, RESTART
from ..serialization.records import Learned, decode_segment
from ..store import base
from ..store.base import DIGEST_BYTES, LAST_SECOND, ArmCounts, NewSession, Snapshot, Store, WholeSession
from .views import Limits, Rights, check_id, label_bytes

# -- What is restored of an exported session, where everything in it can be read.


async def restorable(whole: WholeSession, limits: Limits, rights: Rights) -> CachedSession:
    """Read an exported session, with all that goes on with it.

    Parameters
    ----------
    whole : of ``read``, and not trusted
    limits : of this service, for the session's size
    rights : how many arms the caller's sessions may have

    Raises
    ------
    NewerSchemaError
        for what a newer version exported.
    InvalidRequestError
        for what this version can't read, or what is beyond the limits.
    """
    codec.refuse_newer(whole.snapshot.state)
    try:
        # Before memory of the session's size is taken, which its specification alone says.
        data = whole.snapshot.spec
        read = await run_in_thread_if_large(len(data), stored_specification.decode, data)
    except ValueError as error:
        raise InvalidRequestError.of("specification", "is not one that this version can read") from error
    spec = read.specification
    await run_in_thread_if_large(label_bytes(spec), limits.check, spec, rights)
    cached = await read_whole(whole, checked=True)
    if isinstance(run := cached.run, ArmRun):
        limits.check_features("features", spec, len(run.arms.live))
        if run.arms.size > (most := limits.arms_of(spec.learner, rights).ever):
            text = f"a session may have had at most {most} arms, removed ones included"
            raise InvalidRequestError.of("specification.arms", text)
    return cached


async def read_whole(whole: WholeSession, *, checked: bool) -> CachedSession:
    """Decode all that a session goes on with; with ``checked`` its numbers are looked at too.

    Raises
    ------
    InvalidRequestError
        naming the part that is not what this version writes, or the field that no session comes to.
    """
    part, fair_yield = "state", FairYield()
    try:
        cached = await decoded(whole.snapshot)
        part, run = "records", cast("Any", cached.run)
        if cached.needs_records:
            run = (cached := await with_records(cached, whole.records)).run
        part = "segments"
        if len(whole.segments) != (run.shared.kept if isinstance(run, SegmentRun) else 0):
            raise CodecError("are not as many as the session keeps")
        for name, (slot, record) in whole.segments.items():
            text, kept = name.decode(), decode_segment(name, record, run.arms)
            if kept.last_slot != slot:
                raise CodecError("a segment was played last in another slot")
            if checked:
                check_segment(run, text, kept)
            await fair_yield()
        part = "event_ids"
        for event_id, value in (item for _, ids in whole.events for item in ids.items()):
            learned = Learned.decode(event_id, value) if value else None
            if learned is not None and (
                (not run.params.updates or learned.arm >= run.arms.size)
                or (learned.is_control and run.control is None)
                or learned.since > run.slot
            ):
                raise CodecError("a value is not of this session")
            await fair_yield()
    except (StateCorruptError, CodecError, UnicodeDecodeError) as error:
        because = error.__cause__ or error
        told = f": {because}" if isinstance(because, CodecError) else ""
        raise InvalidRequestError.of(part, f"is not what this version writes{told}") from error
    if checked:
        await run_in_thread_if_large(_size(whole), check_state, run, whole)
    return cached


def restored(
    session_id: str, version: str, whole: WholeSession, cached: CachedSession, schema: int
) -> tuple[WholeSession, NewSession]:
    """Return an exported session as it is to be stored, and what is new of it.

    Parameters
    ----------
    session_id : which it had, and has again
    version : its first one here
    whole : as it was exported
    cached : the same session decoded, as ``restorable`` returns it
    schema : the newest that its state may have here
    """
    spec, run, snapshot = cached.stored.specification, cached.run, whole.snapshot
    run.ledger.untold = run.ledger.logged > 0
    state = codec.encode(run, min(schema, cached.schema), summary.effective_arms_of(run))
    about, whole = summary.encode_about(spec.chosen(), run), whole._replace(snapshot=snapshot._replace(state=state))
    idle, remembered = spec.idle_ttl_ms, run.params.remember_seconds
    return whole, NewSession(session_id, version, snapshot.spec, state, idle, None, about, remembered)


# -- Which numbers an imported session may have: each field's range by its name, and what must agree with what.
#
# Checksums tell that bytes are as they were written, and anybody can make them. A number that no session comes to
# may end it later, or what shows it: so all are looked at before any is stored.

NEARLY = 1e-6
"""Error of a sum that rounding may leave."""
DEEPEST, SHALLOWEST = 1e60, 1e-170
"""Bounds of a Tsallis learner's sums and multiplier in units of its scale, and of that: so it can be solved."""
COUNT, SUM = (0, MAX_COUNT), (-1e150, 1e150)
"""Of integers, and of other numbers, that have no name here."""
_SHARES, _POSITIVE = "p p_open before pool pools drawn", "weights opened shown full"
_DISTRIBUTIONS = frozenset(f"{_SHARES} {_POSITIVE}".split())
_RANGES = (
    ("total_delay delay_sum", (0, MAX_COUNT + 1)),  # They stop at 2^53.
    ("time last_act_at last_event_at halted_at", (0, LAST_SECOND)),
    ("logged", (0, MAX_COUNT // 2)),  # A log goes on behind it.
    ("mean mean_loss shift x", (-2 * LARGEST_VALUE, 2 * LARGEST_VALUE)),
    (_SHARES, (0, 1 + NEARLY)),
    (_POSITIVE, (SMALLEST := 1e-30, 1e100)),  # Floors are far above.
    ("probability_floor", (SMALLEST, 1)),
    ("scale scales mixture_units deviation_sum total total_open drift learning_rate loss_clip", (0, 1e125)),
    ("variance_sum variance_max gradient_sum losses squares", (0, 1e285)),
    ("log_weights", (LOWEST, 0)),
    ("sums", (-1e115, 1e115)),
    ("arm", (-1, MAX_COUNT)),
)
RANGES: Mapping[str, tuple[float, float]] = {name: each for names, each in _RANGES for name in names.split()}


def check(part: str, named: Mapping[str, Any]) -> None:
    """Refuse numbers out of range, alone or in an array or in rows, and distributions with another sum.

    Raises
    ------
    InvalidRequestError
        naming the part of the document and the field.
    """
    for name, value in named.items():
        for each in value if type(value) is tuple else (value,):
            if not isinstance(each, (int, float, np.ndarray)) or not (array := np.asarray(each)).size:
                continue
            least, most = RANGES.get(name, SUM if array.dtype.kind == "f" else COUNT)
            most = most if array.dtype.kind == "f" else min(most, MAX_COUNT + 1)
            if not least <= array.min() <= array.max() <= most:
                raise InvalidRequestError.of(f"{part}.{name}", f"must lie in [{least:g}, {most:g}]")
            total = named.get("total_open" if name == "opened" else "total", 1.0)
            agree(f"{part}.{name}", name not in _DISTRIBUTIONS or abs(array.sum(axis=-1) - total) <= NEARLY * total)
            agree(f"{part}.{name}", name != "log_weights" or array.max() == 0)


def agree(field: str, *fits: Any) -> None:
    """Refuse a field of a document if something of it does not fit the rest."""
    if not all(map(np.all, fits)):
        raise InvalidRequestError.of(field, "does not fit the rest of the session")


def check_segment(run: Run, name: str, kept: KeptSegment) -> None:
    """Refuse a segment of a run by its name, its numbers, or the times of its acts."""
    check("segments", kept._asdict())
    check("segments", kept.segment._asdict())
    agree("segments", len(name.encode()) <= MAX_SEGMENT_BYTES, NOT_IN_LABELS.isdisjoint(name))
    times = (0 <= bucket * kept.width <= LAST_SECOND and 0 <= count <= MAX_COUNT for bucket, count in kept.acts)
    agree("segments", all(times), math.isfinite(run.params.losses.posted(kept.mean_loss)))


def check_state(run: Any, whole: WholeSession) -> None:
    """Refuse a session with numbers that none comes to, or that do not belong together.

    Parameters
    ----------
    run : decoded, with what stands beside its state
    whole : as it is in the document

    Raises
    ------
    InvalidRequestError
        naming the part, and mostly the field.
    """
    ledger, state, times = run.ledger, run.state, run.act_times or ActTimes(1.0)
    for part in (run.shared, state) if isinstance(run, SegmentRun) else (state,):
        named = part._asdict()
        if isinstance(run, FeatureRun):  # What it shows is a pool, in which arms may have no part.
            named["pool"] = named.pop("shown")
        check("state", named)
    check("state", {each.name: getattr(ledger, each.name) for each in fields(ledger)})
    agree("state.mean_loss", math.isfinite(run.params.losses.posted(ledger.mean_loss)))
    arms = run.arms if isinstance(run, ArmRun) else Arms((), (), 0)
    agree("state.arm", not arms.live or getattr(state, "arm", 0) < len(arms.live))
    removed = arms.removed or {}
    agree("records", all(0 <= each.until <= LAST_SECOND for each in removed.values()))
    if hasattr(state, "lam"):
        scale = np.asarray(state.scales if hasattr(state, "scales") else state.scale)
        rows, solved = np.atleast_2d(state.sums), np.size(state.lam)
        agree("state.sums", rows[solved : solved + 2] >= 0)  # Counts, if there are any.
        depth = np.maximum(abs(rows[:solved]).max(axis=-1), abs(state.lam))
        fits = (scale >= SHALLOWEST) & (depth <= DEEPEST * scale)
        agree("state.sums", (scale == 0) | fits, state.p >= SMALLEST)
    if isinstance(run, FeatureRun):
        agree("state.regressions", known(state).is_sound())
    n_records = len(run.stored_rows) + len(times.acts) + len(removed) + bool(times.expired) + len(times.silent)
    if run.control is not None:
        own = run.control.act_times or ActTimes(1.0)
        n_records += len(own.acts) + sum(key in whole.records for key in (PROBABILITIES, RESTART))
        _check_acts(own, run.control.ledger.slot, ledger.time)
    _check_acts(times, ledger.slot, ledger.time)
    if isinstance(run, SlotRun):
        slots, n_records = run.open_slots.stored, n_records + len(run.open_slots)
        kept = np.sort([number for each in slots.values() for number in each.record])
        waiting = getattr(state, "waiting", None)
        agree("records", kept <= 1 if waiting is None else np.array_equal(kept, np.flatnonzero(waiting)))
        places = np.searchsorted(arms.live, [each.arm for each in slots.values()])
        agree("records", np.array_equal(np.bincount(places, minlength=len(arms.live)), ledger.by_arm))
        agree("records", kept >= 0, max(slots, default=0) <= run.slot)
    agree("records", len(whole.records) == n_records)
    rows = np.array([(0.0,) * len(ArmCounts._fields), *whole.counts.values()])
    half = (rows[:, base.FEEDBACKS] + rows[:, base.DEFAULTED]) / 2
    # Updates move the sum of an arm's losses, and rounding leaves it a little below 0.
    agree("counts", abs(rows[:, base.LOSSES] - half) <= half * (1 + NEARLY), rows <= MAX_COUNT)
    agree("counts", np.delete(rows, base.LOSSES, axis=1) >= 0)
    agree("counts", rows[:, base.DEFAULTED] <= rows[:, base.EXPIRED] + rows[:, base.REMOVED])
    totals, counted = rows.sum(axis=0), run.counts
    agree("counts", totals[base.FEEDBACKS] <= counted.feedbacks, totals[base.EXPIRED] <= counted.expired)
    agree("counts", totals[base.REMOVED] <= counted.removed)
    agree("counts", max(whole.counts, default=-1) < arms.size)
    agree("event_ids", all(0 <= until <= LAST_SECOND for until, _ in whole.events))


def _check_acts(times: ActTimes, most: int, now: float) -> None:
    """Refuse more acts by bucket than there are, or later ones than a time in Unix seconds."""
    acts = times.acts.values()
    agree("records", max(times.acts, default=0) <= now // times.width, *(each >= 0 for each in acts))
    agree("records", sum(each.sum(dtype=float) for each in acts) <= most)


# -- The document.

FORMAT = 1
"""Number of the form of the document that this program writes and reads."""
PART_BYTES = 48_000
"""Bytes in a part."""
_CANONICAL = json.JSONEncoder(separators=(",", ":"), sort_keys=True, allow_nan=False)
_PAIR = struct.Struct("<II")
_UNTIL, _ARM = struct.Struct(">d"), struct.Struct(">I")
"""Keys, by which parts are sorted: when event ids are forgotten, and the index of an arm."""
_SLOT, _COUNTS = struct.Struct("<q"), struct.Struct("<6d")
"""The last slot of a segment, before its record, and the ``ArmCounts`` of an arm."""


async def export(store: Store, session_id: str, most_bytes: int) -> Body:
    """Return the document of a whole session, seed included, if it could be imported.

    Raises
    ------
    UnknownSessionError, StateCorruptError, NewerSchemaError, StoreUnavailableError
    PayloadTooLargeError
        where it would be longer than about ``most_bytes``.
    """
    check_id(session_id)
    if (whole := await store.export(session_id)) is None:
        raise UnknownSessionError
    try:
        await read_whole(whole, checked=False)
    except InvalidRequestError as error:
        raise StateCorruptError from error
    document, size = await run_in_thread_if_large(_size(whole), _document, session_id, whole)
    if size > most_bytes:
        raise PayloadTooLargeError(f"An exported session may have {most_bytes} bytes")
    return _sealed(document)


def _size(whole: WholeSession) -> int:
    """Return about how many bytes a session has."""
    items = (*whole.records.items(), *((k, v) for k, (_, v) in whole.segments.items()))
    events = sum(len(ids) * (DIGEST_BYTES + len(next(iter(ids.values()), b""))) for _, ids in whole.events)
    counts = len(whole.counts) * _COUNTS.size
    size = len(whole.snapshot.spec) + len(whole.snapshot.state) + sum(len(k) + len(v) for k, v in items)
    return size + events + counts


def _document(session_id: str, whole: WholeSession) -> tuple[dict[str, Any], int]:
    """Return the document without its digest, and its bytes, about."""
    blobs = {
        "counts": _pack({_ARM.pack(arm): _COUNTS.pack(*ArmCounts(*row)) for arm, row in whole.counts.items()}),
        "event_ids": _pack({_UNTIL.pack(until): _pack(ids) for until, ids in whole.events}),
        "records": _pack(whole.records),
        "segments": _pack({name: _SLOT.pack(slot) + record for name, (slot, record) in whole.segments.items()}),
        "state": whole.snapshot.state,
    }
    document = {
        "created_at": whole.snapshot.created_at,
        "format": FORMAT,
        "session_id": session_id,
        "specification": json.loads(whole.snapshot.spec),
        "version": whole.snapshot.version,
        **{name: _parts(data) for name, data in blobs.items() if data or name != "segments"},
    }
    return document, len(whole.snapshot.spec) + sum(len(data) * 4 // 3 for data in blobs.values())


def _sealed(document: Mapping[str, Any]) -> Iterator[str]:
    """Yield the JSON of a document with its digest, in parts."""
    found, before = hashlib.sha256(), ""
    for text in json_chunks(document, _CANONICAL):
        if before:
            yield before
        found.update(text.encode())
        before = text
    yield f'{before[:-1]},"sha256":"{found.hexdigest()}"}}'


async def read(document: Mapping[str, Any]) -> tuple[str, WholeSession]:
    """Read the id and the session in a document.

    Raises
    ------
    InvalidRequestError
        for anything but a document of ``export``, whole and unchanged.
    """
    fields, sealed, fair_yield = dict(document), "", FairYield()
    digest, form = fields.pop("sha256", None), fields.get("format")
    if not isinstance(form, int) or form < 1:
        raise InvalidRequestError.of("format", "this is no exported session")
    if form > FORMAT:
        raise InvalidRequestError.of("format", "the session was exported by a newer version of this service")
    for sealed in _sealed(fields):  # noqa: B007 - the last part ends in the digest
        await fair_yield()
    if digest != sealed.rsplit('"', 2)[1]:
        raise InvalidRequestError.of("sha256", "the document was changed, or is not whole")
    part, found = "state", list[Any]()
    try:
        spec = json.dumps(fields["specification"], separators=(",", ":")).encode()
        snapshot = Snapshot(fields["version"], spec, await _joined(fields[part]), fields["created_at"], None)
        for part, unpack in _UNPACKERS:
            data = await _joined(fields.get(part, ()))
            found.append(await run_in_thread_if_large(len(data), unpack, data))
        return fields["session_id"], WholeSession(snapshot, *found)
    except (KeyError, TypeError, ValueError, Error, struct.error) as error:
        raise InvalidRequestError.of(part, "is not that of an exported session") from error


def _parts(data: bytes) -> list[dict[str, str]]:
    view = memoryview(data)
    return [{"part": b64encode(view[at : at + PART_BYTES]).decode()} for at in range(0, len(data), PART_BYTES)]


async def _joined(parts: Sequence[Mapping[str, str]]) -> bytes:
    data, fair_yield = bytearray(), FairYield()
    for part in parts:
        data += b64decode(part["part"], validate=True)
        await fair_yield()
    return bytes(data)


def _pack(items: Mapping[bytes, bytes]) -> bytes:
    return b"".join(_PAIR.pack(len(key), len(value)) + key + value for key, value in sorted(items.items()))


def _unpack(data: bytes) -> dict[bytes, bytes]:
    items, at = {}, 0
    while at < len(data):
        first, second = _PAIR.unpack_from(data, at)
        at += _PAIR.size
        items[data[at : at + first]] = data[at + first : at + first + second]
        at += first + second
    if at != len(data):
        raise ValueError("cut short")
    return items


def _counts(data: bytes) -> dict[int, Sequence[float]]:
    return {_ARM.unpack(arm)[0]: _COUNTS.unpack(row) for arm, row in _unpack(data).items()}


def _events(data: bytes) -> Sequence[tuple[float, Mapping[bytes, bytes]]]:
    events = [(_UNTIL.unpack(until)[0], _unpack(ids)) for until, ids in _unpack(data).items()]
    if any({*map(len, ids)} != {DIGEST_BYTES} for _, ids in events):
        raise ValueError("not digests of ids")
    return events


def _segments(data: bytes) -> dict[bytes, tuple[int, bytes]]:
    return {name: (_SLOT.unpack_from(each)[0], each[_SLOT.size :]) for name, each in _unpack(data).items()}


_UNPACKERS: Any = (("records", _unpack), ("counts", _counts), ("event_ids", _events), ("segments", _segments))
