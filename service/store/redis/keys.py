"""The one place where keys are spelled.

=================================  ====  ==============================================================
key                                type  holds
=================================  ====  ==============================================================
``<prefix>:{<session id>}``        hash  ``version``, ``spec``, ``state``, ``created_at``, ``expires_at``,
                                         ``writers`` (id of the last commit of each writer)
``<prefix>:{<session id>}:slots``  hash  records beside the state: open slots, acts by time, rows
``<prefix>:{<session id>}:seen:n`` hash  what bucket n of time remembers: kind byte + digest -> answer
``<prefix>:{<session id>}:probe``  none  never exists; deleting it shows whether the server is a master
``<prefix>:due:n``                 zset  session ids of shard n, by the time their decisions fall due
``<prefix>:sweeper``               text  the worker that settles them
=================================  ====  ==============================================================

The braces are a hash tag: a cluster keeps all keys of a session on one node. The first two are permanent
in sessions without idle expiry; every other key has a deadline. Buckets are a quarter of the dedupe
window wide and live until a whole window after their end. After a change of the window, what was remembered
before is not found again and goes at its own deadline.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NamedTuple

BUCKETS_PER_WINDOW = 4
OLDEST, NEWEST = -5, 1
"""Buckets that can matter, counted from the present one as the worker sees it; one spare at either end."""
_SLOTS, _PROBE = ":slots", ":probe"
EVENT, ANSWER = b"e", b"k"
"""Kind bytes of what a bucket remembers."""


class SessionKeys(NamedTuple):
    """All keys of a session that can hold something now."""

    session: str
    slots: str
    seen: tuple[str, ...]
    oldest: int
    """Number of the first bucket."""
    probe: str
    """Never exists."""

    @property
    def all(self) -> tuple[str, ...]:
        """In the order that scripts take them."""
        return (self.session, self.slots, *self.seen, self.probe)


@dataclass(frozen=True, slots=True)
class Keys:
    """Spells the keys of sessions under one prefix."""

    prefix: str
    bucket_ms: int
    """Width of a bucket."""

    @classmethod
    def of(cls, prefix: str, window_seconds: float) -> Keys:
        """Keys for a dedupe window."""
        return cls(prefix, max(1, round(window_seconds * 1000 / BUCKETS_PER_WINDOW)))

    def session(self, session_id: str) -> str:
        """The session hash."""
        return f"{self.prefix}:{{{session_id}}}"

    def slots(self, session_id: str) -> str:
        """The hash of records beside the state."""
        return self.session(session_id) + _SLOTS

    def at(self, session_id: str, seconds: float) -> SessionKeys:
        """All keys of a session at a time by the store's clock."""
        session = self.session(session_id)
        present = int(seconds * 1000 // self.bucket_ms)
        seen = tuple(f"{session}:seen:{present + n}" for n in range(OLDEST, NEWEST + 1))
        return SessionKeys(session, session + _SLOTS, seen, present + OLDEST, session + _PROBE)

    def probe(self, session_id: str) -> str:
        """A key that never exists; deleting it shows whether the server may write."""
        return self.session(session_id) + _PROBE

    @property
    def server_probe(self) -> str:
        """Such a key for calls that are about no session."""
        return self.prefix + _PROBE

    def due(self, shard: int) -> str:
        """Reminders of one shard."""
        return f"{self.prefix}:due:{shard}"

    @property
    def sweeper(self) -> str:
        """The worker that settles due decisions when nobody calls."""
        return f"{self.prefix}:sweeper"

    @property
    def session_pattern(self) -> str:
        """Glob that matches session hashes only."""
        return re.sub(r"([\\*?\[\]^-])", r"\\\1", self.prefix) + ":{*}"

    def session_id(self, session_key: str) -> str:
        """The id in the key of a session hash."""
        return session_key[len(self.prefix) + 2 : -1]
