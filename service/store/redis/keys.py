"""The names of all keys in Redis; no other module spells one.

=================================  ====  ==============================================================
key                                type  holds
=================================  ====  ==============================================================
``<prefix>:{<session id>}``        hash  ``version``, ``spec``, ``state``, ``created_at``, ``expires_at``,
                                         ``writers`` (id of the last commit of each writer), ``summary`` and
                                         ``about`` (what lists show)
``<prefix>:{<session id>}:slots``  hash  records beside the state: open slots, acts by time, rows
``<prefix>:{<session id>}:counts`` hash  counts beside the state, which commits increment
``<prefix>:{<session id>}:log``    strm  the session's log
``<prefix>:{<session id>}:seen:n`` hash  ids and answers of time bucket n: kind byte + digest -> answer
``<prefix>:{<session id>}:probe``  none  never exists; deleting it shows whether the server is a master
``<prefix>:due:n``                 zset  session ids of shard n, by the time their decisions fall due
``<prefix>:sweeper``               text  the worker that settles due decisions
=================================  ====  ==============================================================

The braces are a hash tag: a cluster keeps all keys of a session on one node. The first four are permanent
in sessions without idle expiry; every other key has a deadline. A time bucket covers a quarter of the dedupe
window and expires a whole window after its end. After a change of the setting for the window, ids and answers
stored before are not found, and expire at their old deadline.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NamedTuple

BUCKETS_PER_WINDOW = 4
OLDEST, NEWEST = -5, 1
"""Buckets that scripts may need, relative to the present one by the worker's clock; one spare at either end."""
_RECORDS, _COUNTS, _LOG, _PROBE = ":slots", ":counts", ":log", ":probe"
EVENT, ANSWER = b"e", b"k"
"""Kind bytes of entries in a bucket: event ids, and answers under idempotency keys."""


class SessionKeys(NamedTuple):
    """The keys of a session that scripts may read or write at a given time."""

    session: str
    records: str
    seen: tuple[str, ...]
    oldest: int
    """Number of the first bucket."""
    counts: str
    log: str
    probe: str
    """Never exists."""

    @property
    def all(self) -> tuple[str, ...]:
        """The keys in the order in which scripts expect them."""
        return (self.session, self.records, *self.seen, self.counts, self.log, self.probe)


@dataclass(frozen=True, slots=True)
class Keys:
    """Makes the keys of sessions under one prefix."""

    prefix: str
    bucket_ms: int
    """Length of a time bucket in milliseconds."""

    @classmethod
    def of(cls, prefix: str, window_seconds: float) -> Keys:
        """Make keys for a dedupe window in seconds."""
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

    def at(self, session_id: str, seconds: float) -> SessionKeys:
        """Return the keys of a session at a time: Unix seconds by the store's clock."""
        session = self.session(session_id)
        present = int(seconds * 1000 // self.bucket_ms)
        seen = tuple(f"{session}:seen:{present + n}" for n in range(OLDEST, NEWEST + 1))
        beside = (session + _COUNTS, session + _LOG, session + _PROBE)
        return SessionKeys(session, session + _RECORDS, seen, present + OLDEST, *beside)

    def probe(self, session_id: str) -> str:
        """Return a key of the session that never exists; deleting it shows whether the server may write."""
        return self.session(session_id) + _PROBE

    @property
    def server_probe(self) -> str:
        """A key that never exists, for calls that concern no session."""
        return self.prefix + _PROBE

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
