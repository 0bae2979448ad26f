"""What the store says to Redis: names of keys, Lua scripts, their arguments, and what their replies mean.

No other module spells a key.

=================================  ====  ==============================================================
key                                type  holds
=================================  ====  ==============================================================
``<prefix>:{<session id>}``        hash  ``version``, ``spec``, ``state``, ``created_at``, ``expires_at``,
                                         ``writers`` (last version of each writer), ``#<n>`` (counts of
                                         16 arms), ``buckets`` (number and deadline of each ``seen``
                                         hash), ``about`` (what lists show beside
                                         ``samples`` (how many) and ``~<n>`` (a sample of its history)
``<prefix>:{<session id>}:slots``  hash  records beside the state: open slots, acts by time, rows
``<prefix>:{<session id>}:log``    strm  the session's log; ids are positions, and milliseconds of time
``<prefix>:{<session id>}:segments`` hash  segments: name -> record
``<prefix>:{<session id>}:played`` zset  names of segments by the slot in which each was played last
``<prefix>:{<session id>}:seen:n`` hash  ids and answers of time bucket n: kind byte + digest -> value or answer
``<prefix>:{<session id>}:copy:*`` any   copies of the above while a session is exported or restored, and of names
                                         of segments, in their order, while these are listed
``<prefix>:{<session id>}:probe``  none  never exists; deleting it shows whether the server is a master
``<prefix>:index``                 zset  ids of all sessions, for a while after a list by prefix
``<prefix>:due:n``                 zset  session ids of shard n, by the time their decisions fall due
``<prefix>:sweeper``               text  the worker that settles due decisions
``<prefix>:tokens``                text  the key that signs tokens, unless a file has it
``<prefix>:schemas``               zset  live workers and the schemas of states that each reads, by the
                                         time until which they count
=================================  ====  ==============================================================

The braces are a hash tag: a cluster keeps all keys of a session on one node. The first five are permanent
in sessions without idle expiry, and so is the key of tokens; every other key has a deadline. A time bucket covers a
quarter of the dedupe window of the worker that begins it, or of what its session asks for if that is longer, and
expires a window and a quarter after its end. Sessions list their buckets, so that each worker finds all of them,
whatever the windows are.
"""

import hashlib
import math
import re
import struct
from collections.abc import Mapping, Sequence
from functools import lru_cache
from importlib.resources import files
from typing import Any, NamedTuple

from .. import base
from ..base import GROUP, ArmCounts, Commit, Counts, Listed, Snapshot, Written
from .connection import RedisArgument

BUCKETS_PER_WINDOW = 4
OLDEST, NEWEST = -6, 1
"""Buckets that scripts mostly need, relative to the present one by the worker's clock; one spare later than it."""
MAX_AHEAD = 8
"""Buckets later than the present one that may be what event ids go to, after a clock was set back: two windows."""
_LISTED_BUCKET = re.compile(r"([0-9]+)=([0-9]+)")
RECORDS_KEY, LOG_KEY, SEGMENTS_KEY, PLAYED_KEY = BESIDE = (":slots", ":log", ":segments", ":played")
"""What stands behind the key of a session in those of what is permanent beside it."""
SEEN_KEY, NAMES_KEY, PROBE_KEY = ":seen:", ":copy:list:names", ":probe"
EVENT, ANSWER = b"e", b"k"
"""Kind bytes of entries in a bucket: event ids, and answers under idempotency keys."""
SAMPLE = b"~"
COUNTED = b"#"
"""Kind bytes of the fields of a session that hold its history, and its counts of arms; a number follows."""


@lru_cache(maxsize=256)
def _numbers(present: int, listed: str) -> tuple[Sequence[str], str]:
    """Return the numbers of buckets near the present one, and of listed ones, as texts, and all of them joined.

    Most sessions have the same.
    """
    also = (int(number) for number, _ in _LISTED_BUCKET.findall(listed))
    texts = [str(number) for number in sorted({*range(present + OLDEST, present + NEWEST + 1), *also})]
    return texts, " ".join(texts)


class Left(NamedTuple):
    """What a worker knows of a session beside its state, since it read or wrote that last."""

    version: str
    """Which this worker has committed, and which names it; empty where another has, or none."""
    listed: str
    """Field ``buckets`` at that version."""
    expires: bool
    """Whether the session has an idle deadline."""


@lru_cache(maxsize=256)
def buckets_of(listed: str, width: int, number: int) -> tuple[list[int], list[int], float, float]:
    """Read a list of buckets.

    Parameters
    ----------
    listed : field ``buckets`` of a session
    width, number : milliseconds of a bucket, and which is the present one

    Returns
    -------
    Numbers of the buckets, and when each is forgotten; then from when and until when the first one is that which
    event ids go to, and none is forgotten, in Unix milliseconds: never, if the present one is not listed.
    """
    deadlines = {int(each): int(deadline) for each, deadline in _LISTED_BUCKET.findall(listed)}
    numbers = sorted(deadlines, key=lambda each: each != number)
    if number not in deadlines or any(number < each <= number + MAX_AHEAD for each in numbers):
        return [], [], 0, 0
    until = min((number + 1) * width, *deadlines.values())
    return numbers, [deadlines[each] for each in numbers], number * width, until


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
    of_tokens : the key of tokens, and one in the same slot of a cluster that never exists
    """

    def __init__(self, prefix: str, window_seconds: float) -> None:
        self.bucket_ms = max(1, round(window_seconds * 1000 / BUCKETS_PER_WINDOW))
        self.server_probe, self.before_id = prefix + PROBE_KEY, f"{prefix}:{{"
        self.session_pattern = re.sub(r"([\\*?\[\]^-])", r"\\\1", prefix) + ":{*}"
        self.index, self.sweeper, self.schemas = f"{prefix}:index", f"{prefix}:sweeper", f"{prefix}:schemas"
        self._due, tokens = f"{prefix}:due:", f"{prefix}:tokens"
        self.of_tokens = tokens, f"{self.server_probe}:{{{tokens}}}"

    def session(self, session_id: str) -> str:
        """Return the key of the session hash."""
        return f"{self.before_id}{session_id}}}"

    def of(self, session_id: str, *parts: str) -> tuple[str, ...]:
        """Return the key of a session hash, those with these parts behind it, and one that never exists.

        Deleting the last one shows whether the server may write. The part of a bucket is ``SEEN_KEY`` and the Unix
        milliseconds by the store's clock at which it begins, divided by its length.
        """
        key = f"{self.before_id}{session_id}}}"
        return (key, *(key + part for part in parts), key + PROBE_KEY)

    def copies(self, session_id: str, token: str) -> str:
        """Return what the keys of copies begin with; the name of the part follows.

        Parameters
        ----------
        session_id : of the session that is exported or restored
        token : made at random for one export or one restoring
        """
        return f"{self.session(session_id)}:copy:{token}:"

    def width(self, remember_seconds: float) -> int:
        """Return the length in milliseconds of a time bucket of a session that asks for so many seconds, or 0."""
        return max(self.bucket_ms, math.ceil(remember_seconds * 1000 / BUCKETS_PER_WINDOW))

    def at(
        self, session_id: str, seconds: float, listed: str = "", width: int | None = None
    ) -> tuple[tuple[str, ...], str]:
        """Return the keys of a session that scripts may read or write, and the numbers of the buckets among them.

        Parameters
        ----------
        session_id : of the session
        seconds : Unix seconds by the store's clock
        listed : field ``buckets`` of the session, as far as it is known
        width : milliseconds of a bucket; None for ``bucket_ms``

        Returns
        -------
        The keys in the order in which scripts expect them: of the session, beside it, of its buckets, and one that
        never exists. The numbers are separated by spaces.
        """
        numbers, joined = _numbers(int(seconds * 1000 // (width or self.bucket_ms)), listed)
        return self.of(session_id, *BESIDE, *[SEEN_KEY + number for number in numbers]), joined

    def due(self, shard: int) -> str:
        """Return the key of one shard of reminders."""
        return f"{self._due}{shard}"


# -- The Lua scripts that the store sends to the server; each is sent behind the files with its functions.


class Script:
    """The Lua script in ``lua/<name>.lua``.

    Parameters
    ----------
    name : its path in ``lua``, without the ending
    begin : names of files that it begins with
    writes : whether it needs room in the store
    repeats : whether running it twice gives the right answer: if not, it is retried only if it was not sent
    retry : seconds for which it is retried; None for the option ``retry_seconds``

    Attributes
    ----------
    source : begins with the files of its functions
    sha : its name for EVALSHA
    """

    def __init__(
        self,
        name: str,
        begin: str = "prelude",
        *,
        writes: bool = False,
        repeats: bool = True,
        retry: float | None = None,
    ) -> None:
        folder = files(__package__) / "lua"
        self.name, self.writes, self.is_repeatable, self.retry_seconds = name, writes, repeats, retry
        self.source = b"".join([(folder / f"{part}.lua").read_bytes() for part in (*begin.split(), name)])
        self.sha = hashlib.sha1(self.source, usedforsecurity=False).hexdigest()


CREATE = Script("create", writes=True)
LOAD = Script("load", "prelude counted")
RECALL = Script("recall")
COMMIT = Script("commit", "prelude sums writers", writes=True)
COMMIT_PLAIN = Script("commit_plain", "sums", writes=True)
RECORDS = Script("beside/records")
COUNTS = Script("beside/counts", "prelude counted")
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
TOKEN_KEY = Script("token_key", writes=True)


# -- Arguments and replies of the scripts as the contract's types.

_NOTHING = Written(version="", state=b"")
"""What a confirmation writes."""


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
    name, times = text(version or b""), _times(created_at, expires_at)
    # No commit could be made on a version that none wrote.
    name = name if name.isascii() and name.isprintable() else ""
    if not name or times is None:
        return Snapshot(name, spec or b"", b"", 0.0, None)
    return Snapshot(name, spec or b"", state or b"", *times)


def _times(created_at: bytes | None, expires_at: bytes | None) -> tuple[float, float | None] | None:
    """Return Unix seconds of both times of a session; None where one is damaged, or the first is missing."""
    created, expires = _seconds(created_at, 1), _seconds(expires_at, 1000)
    if created is None or (expires is None and expires_at is not None):
        return None
    return created, expires


_PLAIN = struct.Struct(">ddddHHHHH")
MAX_PLAIN = 400
"""Event ids, records and groups of arms that a plain commit may have together."""
ITEMS_AT_ONCE = 1000
"""Arguments of one command of a script."""
_PRESENT, _KEY_OF_SESSION, _KEY_OF_RECORDS, _KEY_OF_LOG, _KEY_OF_SEGMENTS, _KEY_OF_PLAYED = range(6)
"""Numbers of keys in ``commit.lua``."""


def plain_call(
    commit: Commit, left: Left | None, keys: Keys, seconds: float
) -> tuple[Sequence[str], Sequence[RedisArgument], Left] | None:
    """Return keys and arguments of ``commit_plain.lua``, and what it leaves; None for a commit that is not plain.

    Parameters
    ----------
    left : what this worker knows of the session
    seconds : Unix seconds by the store's clock, about
    """
    written, own, events = commit.written, commit.writer + "-", commit.event_ids
    if (
        (left is None or written is None or left.version != commit.expected)
        or not (left.version.startswith(own) and written.version.startswith(own))
        or (commit.answers or commit.lookups or commit.event_lookups or written.segments or written.entries)
        or (commit.values and not commit.values.keys() <= set(events))
        or (written.permanent or written.spec is not None or written.about is not None)
        or (left.expires and not written.idle_ttl_ms)
        or len(events) + len(written.records) + len(written.counts) > MAX_PLAIN
    ):
        return None
    key, idle, values = keys.session(commit.session_id), written.idle_ttl_ms or 0, commit.values
    buckets: Sequence[int] = ()
    names, deadlines, since, until = [key], buckets, 0.0, math.inf
    if events or (idle and left.listed):
        now_ms, width = int(seconds * 1000), keys.bucket_ms
        if commit.remember_seconds:
            width = keys.width(commit.remember_seconds)
        buckets, deadlines, since, until = buckets_of(left.listed, width, now_ms // width)
        if until <= now_ms:
            return None
        names += [f"{key}{SEEN_KEY}{number}" for number in buckets]
    if idle:
        names += [key + part for part in BESIDE]
    elif written.records:
        names.append(key + RECORDS_KEY)
    # Most commits lack most of these, and a list made of nothing takes time too.
    groups = [COUNTED + b"%d" % group for group in written.counts] if written.counts else ()
    ids = [item for digest in events for item in (EVENT + digest, values.get(digest, b""))] if events else ()
    kept = written.records and _items(written.records)
    dropped = written.records and [name for name, each in written.records.items() if each is None]
    times = (idle, written.least_deadline_ms, since, until)
    sizes = _PLAIN.pack(*times, len(buckets), len(groups), len(ids), len(kept), len(dropped))
    head = (commit.expected, commit.checksum, written.version, written.state, sizes)
    beside: Any = (*groups, *written.counts.values(), *ids, *kept, *dropped, *(deadlines if idle else ()))
    return names, (*head, *beside), Left(written.version, left.listed, left.expires or idle > 0)


def commit_args(commit: Commit) -> Sequence[RedisArgument]:
    """Make the arguments of ``commit.lua``.

    Two come before them, which say which buckets the keys are, and one behind them, which says whether the call
    waits for replicas.
    """
    written, args = commit.written or _NOTHING, list[RedisArgument]()
    lookups = [EVENT + digest for digest in (*commit.event_ids, *commit.event_lookups)]
    lookups += [ANSWER + digest for digest in commit.lookups]
    idle = -1 if written.permanent else written.idle_ttl_ms or 0
    args += (commit.writer, commit.expected, written.version, commit.checksum, idle, b"".join(lookups))
    groups = [COUNTED + b"%d" % group for group in written.counts]
    args += (written.least_deadline_ms, int(commit.prolongs), len(groups), *groups, *written.counts.values())

    def write(command: str, key: int, items: Sequence[RedisArgument]) -> None:
        for at in range(0, len(items), ITEMS_AT_ONCE):
            some = items[at : at + ITEMS_AT_ONCE]
            args.extend((command, key, len(some), *some))

    # Nothing is written before XADD, which an access list may lack.
    some = ITEMS_AT_ONCE - 2
    for at in range(0, len(written.entries), some):
        write("XADD", _KEY_OF_LOG, (written.max_entries, written.position + at, *written.entries[at : at + some]))
    fields = {b"version": written.version.encode(), b"state": written.state}
    if commit.written is not None:
        write("HSET", _KEY_OF_SESSION, _items(fields | {b"about": written.about, b"spec": written.spec}))
    remembered, values = dict.fromkeys([EVENT + digest for digest in commit.event_ids], b""), commit.values
    kept_values = {EVENT + digest: value for digest, value in values.items()}
    remembered |= {name: value for name, value in kept_values.items() if name in remembered}
    replaced = {name: value for name, value in kept_values.items() if name not in remembered}
    remembered |= {ANSWER + digest: answer for digest, answer in commit.answers.items()}
    write("HSET", _PRESENT, _items(remembered))
    write("REPLACE", _PRESENT, _items(replaced))
    write("HSET", _KEY_OF_RECORDS, _items(written.records))
    write("HDEL", _KEY_OF_RECORDS, [name for name, record in written.records.items() if record is None])
    kept = {name: segment for name, segment in written.segments.items() if segment is not None}
    write("HSET", _KEY_OF_SEGMENTS, _items({name: record for name, (_, record) in kept.items()}))
    write("ZADD", _KEY_OF_PLAYED, [item for name, (slot, _) in kept.items() for item in (slot, name)])
    gone = [name for name, segment in written.segments.items() if segment is None]
    write("HDEL", _KEY_OF_SEGMENTS, gone)
    write("ZREM", _KEY_OF_PLAYED, gone)
    return args


def _items(values: Mapping[bytes, bytes | None]) -> list[bytes]:
    """Return field, value, ... of what has a value."""
    return [item for name, value in values.items() if value is not None for item in (name, value)]


_ROW = struct.Struct(f">{len(ArmCounts._fields)}d")


def read_counts(reply: Sequence[bytes]) -> Counts:
    """Read a version, and the counts of arms."""
    version, *rows = reply
    return Counts(text(version), rows_of(rows))


def rows_of(rows: Sequence[bytes]) -> list[ArmCounts]:
    """Read the counts of arms."""
    return [ArmCounts(*_ROW.unpack(row)) for row in rows]


def pack_counts(rows: base.Rows) -> dict[bytes, bytes]:
    """Return the fields that hold the counts of arms: numbers of MessagePack, all of them doubles or 0."""
    vectors: dict[bytes, list[bytes]] = {}
    for arm, row in rows.items():
        vector = vectors.setdefault(COUNTED + b"%d" % (arm // GROUP), [b"\0"] * base.VECTOR)
        counts = [struct.pack(">Bd", base.DOUBLE, count) if count else b"\0" for count in ArmCounts(*row)]
        vector[arm % GROUP :: GROUP] = counts
    return {name: b"".join(vector) for name, vector in vectors.items()}


def listed(rows: Sequence[Sequence[bytes | None]], keys: Keys) -> list[Listed]:
    """Read what lists show of sessions; those that are gone are left out.

    Parameters
    ----------
    rows : key, version, creation (Unix seconds), idle deadline (Unix milliseconds), about and head of the state of
        each; a session that is gone has no version
    keys : of the store, which find the session's id in its key
    """
    found = []
    for key, version, created_at, expires_at, about, head in rows:
        if version is None:
            continue
        created, expires = _times(created_at, expires_at) or (None, None)
        session_id = text(key or b"")[len(keys.before_id) : -1]
        found.append(Listed(session_id, text(version), created, expires, about or b"", head or b""))
    return found


def _seconds(value: bytes | None, units: int) -> float | None:
    """Return Unix seconds of a stored time, None where it is missing or damaged."""
    try:
        seconds = float(value or b"") / units
    except ValueError:
        return None
    return seconds if 0 <= seconds <= base.LAST_SECOND else None
