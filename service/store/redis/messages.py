"""Arguments and replies of the scripts as the contract's types."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from ..base import (
    DIGEST_BYTES,
    ArmCounts,
    Commit,
    Counts,
    Known,
    Listed,
    Log,
    LogEntry,
    ReadSegments,
    Snapshot,
    Written,
)
from ..base.counts import Row, texts
from .beside.counts import read_fields, with_joined
from .connection.pipeline import RedisArgument
from .keys import ANSWER, EVENT, Keys

FIELD_BYTES = len(EVENT) + DIGEST_BYTES
"""Length of a field that stands for an event id: its kind byte and the digest."""
END_OF_TIME = 253_402_300_800
"""Unix seconds of the first moment that no date can name."""
_NOTHING = Written(version="", state=b"")
"""What a confirmation writes."""
_LISTED_BUCKET = re.compile(rb"([0-9]+)=([0-9]+)")


def text(data: bytes) -> str:
    """Decode a text; bytes that somebody changed by hand may not be UTF-8."""
    return data.decode("utf-8", "replace")


def snapshot(fields: Sequence[bytes | None]) -> Snapshot:
    """Read the fields of a session; damaged ones give an empty state, which no codec accepts.

    Parameters
    ----------
    fields : version, specification, state, creation in Unix seconds, idle deadline in Unix milliseconds; None for
        what is missing, and for no deadline
    """
    version, spec, state, created_at, expires_at = fields
    name, times = _version(version), _times(created_at, expires_at)
    if not name or times is None:
        return Snapshot(name, spec or b"", b"", 0.0, None)
    return Snapshot(name, spec or b"", state or b"", *times)


def _version(data: bytes | None) -> str:
    """Read a version; nothing where no commit wrote it, since none could be made on it."""
    found = text(data or b"")
    return found if found.isascii() and found.isprintable() else ""


def _times(created_at: bytes | None, expires_at: bytes | None) -> tuple[float, float | None] | None:
    """Return Unix seconds of both times of a session; None where one is damaged, or the first is missing."""
    created, expires = _seconds(created_at, 1), _seconds(expires_at, 1000)
    if created is None or (expires is None and expires_at is not None):
        return None
    return created, expires


def bucket_numbers(listed: bytes) -> Sequence[int]:
    """Read the numbers of the buckets in a session's field ``buckets``."""
    return [int(number) for number, _ in _LISTED_BUCKET.findall(listed)]


def commit_args(commit: Commit) -> Sequence[RedisArgument]:
    """Make the arguments of ``commit.lua``.

    Two come before them, which say which buckets the keys are, and one behind them, which says whether the call
    waits for replicas.
    """
    written = commit.written or _NOTHING
    events = b"".join([EVENT + digest for digest in commit.event_ids])
    lookups = b"".join(
        [EVENT + digest for digest in commit.event_lookups] + [ANSWER + digest for digest in commit.lookups]
    )
    answers = [item for digest, answer in commit.answers.items() for item in (ANSWER + digest, answer)]
    records = [item for key, value in written.records.items() if value is not None for item in (key, value)]
    dropped = [key for key, value in written.records.items() if value is None]
    head = (
        commit.writer,
        commit.expected,
        written.version,
        written.state,
        commit.checksum,
        -1 if written.permanent else written.idle_ttl_ms or 0,
    )
    # One argument for all counts: encoding an argument takes longer than taking it apart.
    if written.counts_as_texts:
        rows, named = "", b" ".join([b" ".join(each) for each in texts(written.counts)])
    else:
        rows, named = "".join([_added(arm, row) for arm, row in written.counts.items()]), b""
    kept = {name: segment for name, segment in written.segments.items() if segment is not None}
    segments = [item for name, (_, record) in kept.items() for item in (name, record)]
    played = [item for name, (slot, _) in kept.items() for item in (slot, name)]
    gone = [name for name, segment in written.segments.items() if segment is None]
    sizes = (len(answers), len(records), len(dropped), rows, named, len(written.entries))
    sizes_of_segments = (len(segments), len(played), len(gone))
    # Letters of what is replaced that other commits leave; 1.0 needs to find every writer listed.
    replaced = ("" if written.about is None else "a") + ("" if written.spec is None else "s")
    replaced += ("w" if written.counts_as_texts else "") + ("c" if written.joins_counts else "")
    about = (written.summary, replaced, written.about or b"", written.max_entries)
    spec = () if written.spec is None else (written.spec,)
    items = (*answers, *records, *dropped, *written.entries, *segments, *played, *gone, *spec)
    return (*head, events + lookups, len(events), *about, *sizes, *sizes_of_segments, *items)


def _added(arm: int, row: Row) -> str:
    """Return what to add to the packed counts of an arm, as the script takes it apart."""
    _, feedbacks, losses, *others = row
    return f"{arm} {feedbacks} {losses} {' '.join(map(str, others)) if any(others) else ''};"


def read_known(reply: Sequence[bytes]) -> Known:
    """Read what the store remembers, from a KNOWN reply.

    Parameters
    ----------
    reply : fields of the event ids, one behind the other, then field and answer of each idempotency key
    """
    events, *items = reply
    duplicates = frozenset(events[at + 1 : at + FIELD_BYTES] for at in range(0, len(events), FIELD_BYTES))
    return Known(duplicates, {field[1:]: answer for field, answer in zip(items[::2], items[1::2], strict=True)})


def read_counts(reply: Sequence[bytes | None], fields: Sequence[bytes | int], arms: Sequence[int]) -> Counts:
    """Read a version and counts of arms; what is missing, or was changed by hand, is 0.

    Parameters
    ----------
    reply : the version, the counts of all arms as one value, then the value of each field, None where there is none
    fields : those that were asked for: indexes of arms where counts are packed, names of texts else
    arms : indexes of the arms, in the order of the result
    """
    version, joined, *values = reply
    pairs = zip(fields, values, strict=True)
    rows = read_fields((b"%d" % name if isinstance(name, int) else name, value) for name, value in pairs if value)
    rows = with_joined(rows, joined)
    return Counts(text(version or b""), [ArmCounts(*rows.get(arm, ())) for arm in arms])


def read_segments(reply: Sequence[Any]) -> ReadSegments:
    """Read segments, as of a version.

    Parameters
    ----------
    reply : the version, the record of each segment that was asked for (None where there is none), and name and last
        slot of each segment played least recently
    """
    version, records, oldest = reply
    pairs = zip(oldest[1::2], oldest[::2], strict=True)
    return ReadSegments(text(version or b""), records, [(int(float(slot)), name) for slot, name in pairs])


def read_log(reply: Sequence[Any]) -> Log:
    """Read what lists show of a session, and entries of its log.

    Parameters
    ----------
    reply : ``about`` (None where there is none), and position and fields of each entry; the last field is the entry
    """
    about, entries = reply
    return Log(about or b"", [LogEntry(text(position), fields[-1]) for position, fields in entries])


def listed(rows: Sequence[Sequence[bytes | None]], keys: Keys) -> list[Listed]:
    """Read what lists show of sessions; those that are gone are left out.

    Parameters
    ----------
    rows : key, version, creation (Unix seconds), idle deadline (Unix milliseconds), about and summary of each;
        a session that is gone has no version
    keys : of the store, which find the session's id in its key
    """
    found = []
    for key, version, created_at, expires_at, about, summary in rows:
        if version is None:
            continue
        created, expires = _times(created_at, expires_at) or (None, None)
        session_id = keys.session_id(text(key or b""))
        found.append(Listed(session_id, text(version), created, expires, about or b"", summary or b""))
    return found


def _seconds(value: bytes | None, units: int) -> float | None:
    """Return Unix seconds of a stored time, None where it is missing or damaged."""
    try:
        seconds = float(value or b"") / units
    except ValueError:
        return None
    return seconds if 0 <= seconds < END_OF_TIME else None
