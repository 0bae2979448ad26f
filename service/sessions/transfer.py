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
from typing import Any

from ..commit.cache import CachedSession
from ..commit.loading import check_segments, decoded, with_records
from ..cooperative import Body, FairYield, json_chunks, run_in_thread_if_large
from ..errors import InvalidRequestError, PayloadTooLargeError, StateCorruptError, UnknownSessionError
from ..models import stored as stored_specification
from ..serialization import state as codec
from ..serialization import summary
from ..store.base import DIGEST_BYTES, ArmCounts, NewSession, Snapshot, Store, WholeSession
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
    try:
        return await read_whole(whole)
    except StateCorruptError as error:
        raise InvalidRequestError.of("state", "is not one that this version can read") from error


async def read_whole(whole: WholeSession) -> CachedSession:
    """Decode all that a session goes on with.

    Raises
    ------
    StateCorruptError
        where anything of it is not what this version writes.
    """
    cached = await decoded(whole.snapshot)
    if cached.needs_records:
        cached = await with_records(cached, whole.records)
    await check_segments(cached, whole.segments)
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
    state = codec.encode(run, min(schema, cached.schema), summary.effective_arms_of(run))
    about, whole = summary.encode_about(spec.chosen(), run), whole._replace(snapshot=snapshot._replace(state=state))
    return whole, NewSession(session_id, version, snapshot.spec, state, spec.idle_ttl_ms, about=about)


# -- The document.

FORMAT = 1
"""Number of the form of the document that this program writes and reads."""
PART_BYTES = 48_000
"""Bytes in a part."""
_CANONICAL = json.JSONEncoder(separators=(",", ":"), sort_keys=True, allow_nan=False)
_PAIR = struct.Struct("<II")
_EVENTS = struct.Struct("<dI")
_SLOT = struct.Struct("<q")
_COUNTS = struct.Struct("<I6d")
"""Index of an arm and its ``ArmCounts``."""


async def export(store: Store, session_id: str, most_bytes: int) -> Body:
    """Return the document of a whole session, seed included, if it could be imported.

    Raises
    ------
    UnknownSessionError, StateCorruptError, NewerSchemaError, StoreUnavailableError
    PayloadTooLargeError
        where it would be longer than about ``most_bytes``.
    """
    check_id(session_id)
    whole = await store.export(session_id)
    if whole is None:
        raise UnknownSessionError
    await read_whole(whole)
    document, size = await run_in_thread_if_large(_size(whole), _document, session_id, whole)
    if size > most_bytes:
        raise PayloadTooLargeError(f"An exported session may have {most_bytes} bytes")
    return _sealed(document)


def _size(whole: WholeSession) -> int:
    """Return about how many bytes a session has."""
    items = (*whole.records.items(), *((k, v) for k, (_, v) in whole.segments.items()))
    events = sum(len(digests) for _, digests in whole.events) * DIGEST_BYTES
    counts = len(whole.counts) * _COUNTS.size
    size = len(whole.snapshot.spec) + len(whole.snapshot.state) + sum(len(k) + len(v) for k, v in items)
    return size + events + counts


def _document(session_id: str, whole: WholeSession) -> tuple[dict[str, Any], int]:
    """Return the document without its digest, and its bytes, about."""
    blobs = {
        "counts": b"".join(_COUNTS.pack(arm, *ArmCounts(*row)) for arm, row in sorted(whole.counts.items())),
        "event_ids": _pack_events(whole.events),
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


async def _digest(document: Mapping[str, Any]) -> str:
    found, fair_yield = hashlib.sha256(), FairYield()
    for text in json_chunks(document, _CANONICAL):
        found.update(text.encode())
        await fair_yield()
    return found.hexdigest()


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
    fields = dict(document)
    digest, form = fields.pop("sha256", None), fields.get("format")
    if not isinstance(form, int) or form < 1:
        raise InvalidRequestError.of("format", "this is no exported session")
    if form > FORMAT:
        raise InvalidRequestError.of("format", "the session was exported by a newer version of this service")
    if digest != await _digest(fields):
        raise InvalidRequestError.of("sha256", "the document was changed, or is not whole")
    try:
        spec = json.dumps(fields["specification"], separators=(",", ":")).encode()
        snapshot = Snapshot(fields["version"], spec, await _joined(fields["state"]), fields["created_at"], None)
        names = ("records", "counts", "event_ids", "segments")
        blobs = [await _joined(fields.get(name, ()) if name == "segments" else fields[name]) for name in names]
        size = sum(map(len, blobs))
        found = await run_in_thread_if_large(size, _unpacked, *blobs)
        return fields["session_id"], WholeSession(snapshot, *found)
    except (KeyError, TypeError, ValueError, Error, struct.error) as error:
        raise InvalidRequestError.of("format", "this is no exported session") from error


def _unpacked(records: bytes, counts: bytes, events: bytes, segments: bytes) -> tuple[Any, Any, Any, Any]:
    kept = {name: (_SLOT.unpack_from(data)[0], data[_SLOT.size :]) for name, data in _unpack(segments).items()}
    rows = {arm: row for arm, *row in _COUNTS.iter_unpack(counts)}
    if not all(math.isfinite(count) for row in rows.values() for count in row):
        raise ValueError("not counts")
    return _unpack(records), rows, _unpack_events(events), kept


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
    return b"".join(
        part for key, value in sorted(items.items()) for part in (_PAIR.pack(len(key), len(value)), key, value)
    )


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


def _pack_events(events: Sequence[tuple[float, Sequence[bytes]]]) -> bytes:
    return b"".join(_EVENTS.pack(until, len(digests)) + b"".join(digests) for until, digests in events)


def _unpack_events(data: bytes) -> list[tuple[float, list[bytes]]]:
    events, at = [], 0
    while at < len(data):
        until, count = _EVENTS.unpack_from(data, at)
        at += _EVENTS.size
        end = at + count * DIGEST_BYTES
        if end > len(data):
            raise ValueError("cut short")
        events.append((until, [data[place : place + DIGEST_BYTES] for place in range(at, end, DIGEST_BYTES)]))
        at = end
    return events
