"""The names of all keys in Redis; no other module spells one.

=================================  ====  ==============================================================
key                                type  holds
=================================  ====  ==============================================================
``<prefix>:{<session id>}``        hash  ``version``, ``spec``, ``state``, ``created_at``, ``expires_at``,
                                         ``writers`` (last version of each writer), ``counts`` (of arms, where
                                         these are few: see ``beside/counts.py``), ``buckets``
                                         (number and deadline of each ``seen`` hash), ``summary`` and
                                         ``about`` (what lists show), ``samples`` (how many) and
                                         ``~<n>`` (a sample of its history)
``<prefix>:{<session id>}:slots``  hash  records beside the state: open slots, acts by time, rows
``<prefix>:{<session id>}:counts`` hash  counts of arms, to which commits add: see ``beside/counts.py``
``<prefix>:{<session id>}:log``    strm  the session's log
``<prefix>:{<session id>}:segments`` hash  segments: name -> record
``<prefix>:{<session id>}:played`` zset  names of segments by the slot in which each was played last
``<prefix>:{<session id>}:seen:n`` hash  ids and answers of time bucket n: kind byte + digest -> answer
``<prefix>:{<session id>}:copy:*`` any   copies of the above while a session is exported or restored
``<prefix>:{<session id>}:probe``  none  never exists; deleting it shows whether the server is a master
``<prefix>:index``                 zset  ids of all sessions, for a while after a list by prefix
``<prefix>:due:n``                 zset  session ids of shard n, by the time their decisions fall due
``<prefix>:sweeper``               text  the worker that settles due decisions
=================================  ====  ==============================================================

The braces are a hash tag: a cluster keeps all keys of a session on one node. The first six are permanent
in sessions without idle expiry; every other key has a deadline. A time bucket covers a quarter of the dedupe
window of the worker that begins it, and expires a window and a quarter after its end. Sessions list their buckets,
so that each worker finds all of them, whatever its own window is.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

BUCKETS_PER_WINDOW = 4
OLDEST, NEWEST = -6, 1
"""Buckets that scripts mostly need, relative to the present one by the worker's clock; one spare later than it."""
BUCKET_MS_0_1 = 21_600_000
"""Length of the buckets of version 0.1 with its default window; sessions don't list them."""
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
    seen: Sequence[str]
    """Those of the buckets."""
    numbers: str
    """Numbers of the buckets, separated by spaces."""


@lru_cache(maxsize=256)
def _numbers(present: tuple[int, ...], also: tuple[int, ...]) -> tuple[Sequence[str], str]:
    """Return the numbers of buckets as texts, and all of them joined; most sessions have the same.

    Parameters
    ----------
    present : numbers of the present bucket, by the widths that there may be
    also : further numbers
    """
    near = (number + n for number in present for n in range(OLDEST, NEWEST + 1))
    texts = [str(number) for number in sorted({*near, *also})]
    return texts, " ".join(texts)


@dataclass(frozen=True, slots=True)
class Keys:
    """Makes the keys of sessions under one prefix."""

    prefix: str
    bucket_ms: int
    """Length of a time bucket in milliseconds."""

    @classmethod
    def of(cls, prefix: str, window_seconds: float) -> Keys:
        """Make keys for a dedupe window.

        Parameters
        ----------
        prefix : first part of every key
        window_seconds : shortest time for which event ids and answers are remembered
        """
        return cls(prefix, max(1, round(window_seconds * 1000 / BUCKETS_PER_WINDOW)))

    def session(self, session_id: str) -> str:
        """Return the key of the session hash."""
        return f"{self.prefix}:{{{session_id}}}"

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
        session_id : of the session that is exported or restored
        token : made at random for one export or one restoring
        """
        return f"{self.session(session_id)}:copy:{token}:"

    def whole(self, session_id: str) -> tuple[str, ...]:
        """Return the keys that have a session's name alone: all but time buckets."""
        session = self.session(session_id)
        return (session, session + _RECORDS, session + _COUNTS, session + _LOG, *self.segments(session_id))

    def at(self, session_id: str, seconds: float, also: Iterable[int] = ()) -> SessionKeys:
        """Return the keys of a session at a time.

        Parameters
        ----------
        session_id : of the session
        seconds : Unix seconds by the store's clock
        also : numbers of buckets that the session lists
        """
        session = self.session(session_id)
        present = int(seconds * 1000 // self.bucket_ms), int(seconds * 1000 // BUCKET_MS_0_1)
        numbers, joined = _numbers(present, tuple(also))
        before = session + _SEEN
        seen = tuple([before + number for number in numbers])
        beside = (session + _RECORDS, session + _COUNTS, session + _LOG, session + _SEGMENTS, session + _PLAYED)
        return SessionKeys((session, *beside, *seen, session + _PROBE), seen, joined)

    def probe(self, session_id: str) -> str:
        """Return a key of the session that never exists; deleting it shows whether the server may write."""
        return self.session(session_id) + _PROBE

    @property
    def server_probe(self) -> str:
        """A key that never exists, for calls that concern no session."""
        return self.prefix + _PROBE

    @property
    def index(self) -> str:
        """The key of the index of session ids."""
        return f"{self.prefix}:index"

    @property
    def before_id(self) -> str:
        """What stands before the id in the key of a session hash; a closing brace stands behind it."""
        return f"{self.prefix}:{{"

    def due(self, shard: int) -> str:
        """Return the key of one shard of reminders."""
        return f"{self.prefix}:due:{shard}"

    @property
    def sweeper(self) -> str:
        """The key that names the worker which settles due decisions of idle sessions."""
        return f"{self.prefix}:sweeper"

    @property
    def session_pattern(self) -> str:
        """A glob that matches session hashes only."""
        return re.sub(r"([\\*?\[\]^-])", r"\\\1", self.prefix) + ":{*}"

    def session_id(self, session_key: str) -> str:
        """Return the session id in the key of a session hash."""
        return session_key[len(self.prefix) + 2 : -1]
