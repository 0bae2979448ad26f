"""Bytes of segments, each a record beside the session's state.

Numbers are little-endian: counts and times (``_HEAD``), bucket and acts of each bucket of time, indexes of arms
where some were removed, then S, q, e and, where it differs, e over all arms. A record ends with a CRC-32 of its
name, a colon and itself.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from ..engine.arm_run import Arms
from ..engine.segment_run import KeptSegment, SegmentRun
from ..learners.segments import EXPERTS, Segment
from .binary import CHECKSUM_BYTES, CodecError, checksum, foreign
from .records import record_of

FORMAT = 1
_HEAD = struct.Struct("<BqdqqqddqqqdddIIBB")
_BUCKET = struct.Struct("<qq")
_FULL, _LISTED = 1, 1


def name_of(segment: str) -> bytes:
    """Return what the store calls a segment."""
    return segment.encode()


def encode(run: SegmentRun, name: str) -> tuple[int, bytes] | None:
    """Return last slot and record of a segment that changed since the last commit; None for one to delete.

    Parameters
    ----------
    run : of a session with segments
    name : one of ``run.segments.changes``
    """
    kept = run.segments.changes[name]
    return None if kept is None else (kept.last_slot, _encode(name_of(name), kept))


def _encode(name: bytes, kept: KeptSegment) -> bytes:
    segment, listed = kept.segment, not isinstance(kept.live, range)
    has_full = segment.full is not segment.drawn
    head = _HEAD.pack(
        FORMAT,
        kept.last_slot,
        kept.last_act_at,
        kept.outstanding,
        kept.feedbacks,
        kept.losses,
        kept.mean_loss,
        kept.width,
        segment.slots,
        segment.events,
        segment.outstanding,
        segment.scale,
        segment.mean,
        segment.shift,
        len(kept.live),
        len(kept.acts),
        has_full,
        listed,
    )
    live = [np.array(kept.live, dtype="<i4").tobytes()] if listed else []
    arrays = (segment.sums, segment.pool, segment.drawn, *((segment.full,) if has_full else ()))
    acts = [_BUCKET.pack(*each) for each in kept.acts]
    return record_of(name, b"".join([head, *acts, *live, *(array.tobytes() for array in arrays)]))


def decode(name: bytes, record: bytes, arms: Arms) -> KeptSegment:
    """Read a segment, as it was when it was last used.

    Parameters
    ----------
    name : the segment's, as the store has it
    record : as the store has it, with its checksum
    arms : of the session, as of the version that the record was read at

    Raises
    ------
    CodecError
        for anything ``encode`` did not write for this session.
    """
    body = record[:-CHECKSUM_BYTES]
    if checksum(name + b":" + body) != record[-CHECKSUM_BYTES:]:
        raise CodecError("not the record of a segment")
    with foreign("a segment of this session"):
        form, *numbers, n_arms, n_acts, has_full, listed = _HEAD.unpack_from(body)
        at = _HEAD.size + n_acts * _BUCKET.size
        acts = tuple(_BUCKET.iter_unpack(body[_HEAD.size : at]))
        live: Sequence[int] = range(n_arms)
        if listed == _LISTED:
            live = np.frombuffer(body, "<i4", n_arms, at).tolist()
            at += 4 * n_arms
        rows = np.frombuffer(body[at:], "<f8").reshape(-1, n_arms).copy()
    if form != FORMAT or len(rows) != 2 + EXPERTS * (2 if has_full == _FULL else 1) or not _fits(live, arms):
        raise CodecError("not a segment of this session")
    if not (np.isfinite(rows).all() and all(map(math.isfinite, numbers))):
        raise CodecError("a segment with numbers that are infinite or NaN")
    live = arms.live if list(live) == list(arms.live) else live
    return _segment(rows, numbers, live, acts)


def _segment(rows: Any, numbers: Sequence[Any], live: Sequence[int], acts: Any) -> KeptSegment:
    slot, at, outstanding, feedbacks, losses, mean_loss, width, slots, events, open_, scale, mean, shift = numbers
    drawn = rows[2 : 2 + EXPERTS]
    full = rows[2 + EXPERTS :] if len(rows) > 2 + EXPERTS else drawn
    segment = Segment(rows[0], rows[1], drawn, full, slots, events, open_, scale, mean, shift)
    return KeptSegment(segment, live, slot, at, outstanding, feedbacks, losses, mean_loss, width, acts)


def _fits(live: Sequence[int], arms: Arms) -> bool:
    """Return whether these may have been the indexes of a session's arms at some time."""
    ascending = all(one < other for one, other in pairwise(live))
    return bool(live) and ascending and live[0] >= 0 and live[-1] < arms.size
