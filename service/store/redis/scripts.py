"""What the store says to Redis: names of keys, Lua scripts, their arguments, and what their replies mean.

No other module spells a key.

=================================  ====  ==============================================================
key                                type  holds
=================================  ====  ==============================================================
``<prefix>:{<session id>}``        hash  ``version``, ``spec``, ``state``, ``created_at``, ``expires_at``,
                                         ``writers`` (last version of each writer), ``counts`` (of arms, where
                                         these are few), ``buckets``
                                         (number and deadline of each ``seen`` hash), ``summary`` and
                                         ``about`` (what lists show), ``samples`` (how many) and
                                         ``~<n>`` (a sample of its history)
``<prefix>:{<session id>}:slots``  hash  records beside the state: open slots, acts by time, rows
``<prefix>:{<session id>}:counts`` hash  counts of arms, to which commits add
``<prefix>:{<session id>}:log``    strm  the session's log
``<prefix>:{<session id>}:segments`` hash  segments: name -> record
``<prefix>:{<session id>}:played`` zset  names of segments by the slot in which each was played last
``<prefix>:{<session id>}:seen:n`` hash  ids and answers of time bucket n: kind byte + digest -> answer
``<prefix>:{<session id>}:copy:*`` any   copies of the above while a session is exported or restored, and of names
                                         of segments, in their order, while these are listed
``<prefix>:{<session id>}:probe``  none  never exists; deleting it shows whether the server is a master
``<prefix>:index``                 zset  ids of all sessions, for a while after a list by prefix
``<prefix>:due:n``                 zset  session ids of shard n, by the time their decisions fall due
``<prefix>:sweeper``               text  the worker that settles due decisions
``<prefix>:schemas``               zset  live workers and the schemas of states that each reads, by the
                                         time until which they count
=================================  ====  ==============================================================

The braces are a hash tag: a cluster keeps all keys of a session on one node. The first six are permanent
in sessions without idle expiry; every other key has a deadline. A time bucket covers a quarter of the dedupe
window of the worker that begins it, and expires a window and a quarter after its end. Sessions list their buckets,
so that each worker finds all of them, whatever its own window is.
"""

from __future__ import annotations

import hashlib
import math
import re
import struct
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from importlib.resources import files
from itertools import zip_longest
from typing import Any, NamedTuple

from .. import base
from ..base import ArmCounts, Commit, Counts, Known, Listed, Log, LogEntry, ReadSegments, Row, Snapshot, Written
from .connection import RedisArgument

BUCKETS_PER_WINDOW = 4
OLDEST, NEWEST = -6, 1
"""Buckets that scripts mostly need, relative to the present one by the worker's clock; one spare later than it."""
_RECORDS, _COUNTS, _LOG, _PROBE = ":slots", ":counts", ":log", ":probe"
_SEGMENTS, _PLAYED, _SEEN = ":segments", ":played", ":seen:"
EVENT, ANSWER = b"e", b"k"
"""Kind bytes of entries in a bucket: event ids, and answers under idempotency keys."""
SAMPLE = b"~"
"""Kind byte of the fields of a session that hold its history; a number follows."""


class SessionKeys(NamedTuple):
    """The keys of a session that scripts may read or write at a given time."""

    all: Sequence[str]
    """In the order in which scripts expect them: of the session, beside it, of its buckets, and one that never
    exists."""
    numbers: str
    """Numbers of the buckets, separated by spaces."""


@lru_cache(maxsize=256)
def _numbers(present: int, also: tuple[int, ...]) -> tuple[Sequence[str], str]:
    """Return the numbers of buckets near the present one, and others, as texts, and all of them joined.

    Most sessions have the same.
    """
    texts = [str(number) for number in sorted({*range(present + OLDEST, present + NEWEST + 1), *also})]
    return texts, " ".join(texts)


class Keys:
    """Makes the keys of sessions under one prefix.

    Parameters
    ----------
    prefix : first part of every key
    window_seconds : shortest time for which event ids and answers are remembered

    Attributes
    ----------
    bucket_ms : length of a time bucket in milliseconds
    server_probe : never exists; for calls that concern no session
    before_id : stands before the id in the key of a session hash; a closing brace stands behind it
    session_pattern : a glob that matches session hashes only
    index, sweeper, schemas : keys that are told of above
    """

    def __init__(self, prefix: str, window_seconds: float) -> None:
        self.bucket_ms = max(1, round(window_seconds * 1000 / BUCKETS_PER_WINDOW))
        self.server_probe, self.before_id = prefix + _PROBE, f"{prefix}:{{"
        self.session_pattern = re.sub(r"([\\*?\[\]^-])", r"\\\1", prefix) + ":{*}"
        self.index, self.sweeper, self.schemas = f"{prefix}:index", f"{prefix}:sweeper", f"{prefix}:schemas"
        self._due = f"{prefix}:due:"

    def session(self, session_id: str) -> str:
        """Return the key of the session hash."""
        return f"{self.before_id}{session_id}}}"

    def session_id(self, session_key: str) -> str:
        """Return the session id in the key of a session hash."""
        return session_key[len(self.before_id) : -1]

    def records(self, session_id: str) -> str:
        """Return the key of the hash with records beside the state."""
        return self.session(session_id) + _RECORDS

    def counts(self, session_id: str) -> str:
        """Return the key of the hash with counts beside the state."""
        return self.session(session_id) + _COUNTS

    def log(self, session_id: str) -> str:
        """Return the key of the session's log."""
        return self.session(session_id) + _LOG

    def segments(self, session_id: str) -> tuple[str, str]:
        """Return the keys of the hash of segments, and of the sorted set of when they were played."""
        session = self.session(session_id)
        return (session + _SEGMENTS, session + _PLAYED)

    def seen(self, session_id: str, number: int) -> str:
        """Return the key of a time bucket.

        Parameters
        ----------
        session_id : of the session
        number : Unix milliseconds by the store's clock at which the bucket begins, divided by its length
        """
        return f"{self.session(session_id)}{_SEEN}{number}"

    def copies(self, session_id: str, token: str) -> str:
        """Return what the keys of copies begin with; the name of the part follows.

        Parameters
        ----------
        session_id : of the session that is exported or restored, or whose segments are listed
        token : made at random for one export or one restoring; the list's is the same for all
        """
        return f"{self.session(session_id)}:copy:{token}:"

    def whole(self, session_id: str) -> tuple[str, ...]:
        """Return the keys that have a session's name alone: all but time buckets."""
        key = self.session(session_id)
        return (key, key + _RECORDS, key + _COUNTS, key + _LOG, key + _SEGMENTS, key + _PLAYED)

    def at(self, session_id: str, seconds: float, also: Iterable[int] = ()) -> SessionKeys:
        """Return the keys of a session at a time.

        Parameters
        ----------
        session_id : of the session
        seconds : Unix seconds by the store's clock
        also : numbers of buckets that the session lists
        """
        key = f"{self.before_id}{session_id}}}"
        numbers, joined = _numbers(int(seconds * 1000 // self.bucket_ms), tuple(also))
        whole = (key, key + _RECORDS, key + _COUNTS, key + _LOG, key + _SEGMENTS, key + _PLAYED)
        buckets = [f"{key}{_SEEN}{number}" for number in numbers]
        return SessionKeys((*whole, *buckets, key + _PROBE), joined)

    def probe(self, session_id: str) -> str:
        """Return a key of the session that never exists; deleting it shows whether the server may write."""
        return self.session(session_id) + _PROBE

    def due(self, shard: int) -> str:
        """Return the key of one shard of reminders."""
        return f"{self._due}{shard}"


# -- The Lua scripts that the store sends to the server; each is sent behind the files with its functions.


class Script:
    """The Lua script in ``lua/<name>.lua``.

    Parameters
    ----------
    name : its path in ``lua``, without the ending
    functions : paths of files that it begins with, behind ``prelude.lua``
    writes : whether it needs room in the store
    repeats : whether running it twice gives the right answer: if not, it is retried only if it was not sent
    retry : seconds for which it is retried; None for the option ``retry_seconds``

    Attributes
    ----------
    source : begins with the files of its functions
    sha : its name for EVALSHA
    """

    def __init__(
        self, name: str, *functions: str, writes: bool = False, repeats: bool = True, retry: float | None = None
    ) -> None:
        folder = files(__package__) / "lua"
        self.name, self.writes, self.is_repeatable, self.retry_seconds = name, writes, repeats, retry
        self.source = b"".join([(folder / f"{part}.lua").read_bytes() for part in ("prelude", *functions, name)])
        self.sha = hashlib.sha1(self.source, usedforsecurity=False).hexdigest()


CREATE = Script("create", writes=True)
LOAD = Script("load")
RECALL = Script("recall")
COMMIT = Script("commit", "sums", "writers", writes=True)
RECORDS = Script("beside/records")
COUNTS = Script("beside/counts")
LOG = Script("beside/log")
SEGMENTS = Script("beside/segments")
SEGMENT_NAMES = Script("beside/segment_names")
DELETE = Script("delete", repeats=False)
SCAN = Script("listing/scan")
SESSIONS = Script("listing/sessions")
INDEX_ADD = Script("listing/index_add")
INDEX_BUILD = Script("listing/index_build")
INDEX_PAGE = Script("listing/index_page")
COPY = Script("transfer/copy")
PART = Script("transfer/part")
PUT = Script("transfer/put")
DROP = Script("transfer/drop")
RESTORE = Script("transfer/restore")
RECORD_SAMPLE = Script("history/record", writes=True)
READ_SAMPLES = Script("history/read")
THIN_SAMPLES = Script("history/thin")
PING = Script("ping", retry=0.1)
"""Retried long enough to replace a lost connection."""
MAY_RUN = Script("may_run")
REMIND = Script("reminders/remind", writes=True)
DUE = Script("reminders/due")
RESCHEDULE = Script("reminders/reschedule", writes=True)
FORGET = Script("reminders/forget", writes=True)
ACQUIRE_LEASE = Script("reminders/acquire_lease", writes=True)
ANNOUNCE = Script("announce", writes=True, retry=0.1)


# -- The counts of arms as Redis has them.
#
# A field for each arm holds them packed, as numbers of MessagePack, which the script of a commit unpacks, adds to
# and packs again: feedbacks, losses, and the others where one of them is not 0. Commits of sessions with few arms
# add to one value of the session instead, with a text of MessagePack for each arm, by index: they write to one key
# alone. What a session has in both ways is added up.

_LAYOUTS = {first: struct.Struct(f">{kind}") for first, kind in zip(range(0xCA, 0xD4), "fdBHIQbhiq", strict=True)}
"""First byte of a number to what follows; other first bytes are small integers themselves."""
_LENGTHS = {first: struct.Struct(f">{kind}") for first, kind in ((0xD9, "B"), (0xDA, "H"))}
"""First byte of a text that is not short to what its length is."""
_WRITTEN = ((0xCC, 1 << 8), (0xCD, 1 << 16), (0xCE, 1 << 32), (0xCF, 1 << 64))
"""First bytes of integers, and what these are less than."""


def read_fields(fields: Iterable[tuple[bytes, bytes]]) -> dict[int, Row]:
    """Read the counts of arms by index, which may lack the last ones where these are 0; what is no number is 0."""
    return {int(arm): _unpacked(value) for arm, value in fields if arm.isdigit()}


def with_joined(rows: dict[int, Row], joined: bytes | None) -> dict[int, Row]:
    """Add the counts of all arms that a session has as one value to those of its fields, and return these.

    Parameters
    ----------
    rows : index of an arm to its counts, as ``read_fields`` gives them; they are changed
    joined : that value, None where there is none; what was changed by hand to something else counts as 0
    """
    for arm, data in enumerate(_texts(joined or b"")):
        rows[arm] = [sum(pair) for pair in zip_longest(rows.get(arm, ()), _unpacked(data), fillvalue=0)]
    return rows


def _texts(data: bytes) -> Iterator[bytes]:
    """Yield the texts of MessagePack that follow each other, up to one that is none or is cut."""
    at = 0
    while at < len(data):
        first, at = data[at], at + 1
        if 0xA0 <= first < 0xC0:
            size = first - 0xA0
        elif first in _LENGTHS and at + _LENGTHS[first].size <= len(data):
            (size,) = _LENGTHS[first].unpack_from(data, at)
            at += _LENGTHS[first].size
        else:
            return
        yield data[at : at + size]
        at += size


def packed(row: Row) -> bytes:
    """Pack the counts of an arm."""
    feedbacks, losses, *others = ArmCounts(*row)
    return b"".join(map(_packed, (feedbacks, losses, *(others if any(others) else ()))))


def _packed(number: float) -> bytes:
    if number < 0 or number != int(number):
        return b"\xcb" + _LAYOUTS[0xCB].pack(number)
    if number < 0x80:
        return bytes((int(number),))
    first = next(first for first, most in _WRITTEN if number < most)
    return bytes((first,)) + _LAYOUTS[first].pack(int(number))


def _unpacked(row: bytes) -> list[float]:
    numbers, at = list[float](), 0
    while at < len(row):
        first, at = row[at], at + 1
        if (layout := _LAYOUTS.get(first)) is not None and at + layout.size <= len(row):
            numbers += layout.unpack_from(row, at)
            at += layout.size
        elif first < 0x80 or first >= 0xE0:
            numbers.append(first - 256 * (first >= 0xE0))
        else:
            return []
    return numbers[: len(ArmCounts._fields)] if all(map(math.isfinite, numbers)) else []


# -- Arguments and replies of the scripts as the contract's types.

FIELD_BYTES = len(EVENT) + base.DIGEST_BYTES
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
    counts = "".join([_added(arm, row) for arm, row in written.counts.items()])
    kept = {name: segment for name, segment in written.segments.items() if segment is not None}
    segments = [item for name, (_, record) in kept.items() for item in (name, record)]
    played = [item for name, (slot, _) in kept.items() for item in (slot, name)]
    gone = [name for name, segment in written.segments.items() if segment is None]
    sizes = (len(answers), len(records), len(dropped), counts, len(written.entries))
    sizes_of_segments = (len(segments), len(played), len(gone))
    # Letters of what is replaced that other commits leave.
    replaced = ("" if written.about is None else "a") + ("" if written.spec is None else "s")
    replaced += "c" if written.joins_counts else ""
    about = (written.summary, replaced, written.about or b"", written.max_entries)
    spec = () if written.spec is None else (written.spec,)
    items = (*answers, *records, *dropped, *written.entries, *segments, *played, *gone, *spec)
    return (*head, events + lookups, len(events), *about, *sizes, *sizes_of_segments, *items)


def _added(arm: int, row: Row) -> str:
    """Return what to add to the packed counts of an arm, as the script takes it apart."""
    feedbacks, losses, *others = row
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


def read_counts(reply: Sequence[bytes | None], arms: Sequence[int]) -> Counts:
    """Read a version and counts of arms; what is missing, or was changed by hand, is 0.

    Parameters
    ----------
    reply : the version, the counts of all arms as one value, then the counts of each arm, None where there are none
    arms : indexes of the arms, in the order of the result
    """
    version, joined, *values = reply
    rows = with_joined({arm: _unpacked(row) for arm, row in zip(arms, values, strict=True) if row}, joined)
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
