"""What is written to a store, and what comes of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from .counts import Row
from .reads import Snapshot


class NewSession(NamedTuple):
    """A session to create."""

    session_id: str
    version: str
    spec: bytes
    state: bytes
    idle_ttl_ms: int | None = None
    answer: tuple[bytes, bytes] | None = None
    """Digest of an idempotency key, and the answer to store under it."""
    about: bytes = b""
    """For lists: what seldom changes. Opaque."""
    summary: bytes = b""
    """For lists: what every commit changes. Opaque."""
    counts_as_texts: bool = False
    """As in its commits."""


class Written(NamedTuple):
    """What a commit writes, beside event ids and answers."""

    version: str
    """The new one; has no white space, and differs from every other version of every session."""
    state: bytes
    idle_ttl_ms: int | None = None
    """Milliseconds from the commit to the new idle deadline; None leaves the deadline as it is."""
    permanent: bool = False
    """Whether the session loses its idle deadline."""
    spec: bytes | None = None
    """Replaces the specification; None leaves it."""
    records: Mapping[bytes, bytes | None] = {}
    """Records beside the state that have changed, by key; None deletes a record."""
    segments: Mapping[bytes, tuple[int, bytes] | None] = {}
    """Segments that have changed: name to the slot in which it was played last and its record; None deletes it."""
    counts: Mapping[int, Row] = {}
    """What to add to the counts of arms beside the state, seven numbers for each; all but losses are integers."""
    counts_as_texts: bool = False
    """Whether the session has its counts as version 1.0 reads them, not packed; that never changes."""
    joins_counts: bool = False
    """Whether a store may keep packed counts of all arms as one value: of few arms it takes fewer bytes. Commits of
    one session may differ in it."""
    summary: bytes = b""
    """Replaces the session's summary."""
    about: bytes | None = None
    """Replaces what seldom changes; None leaves it."""
    entries: Sequence[bytes] = ()
    """Entries to append to the session's log, in order."""
    max_entries: int = 0
    """About how many entries the log keeps: the oldest are dropped."""


class Commit(NamedTuple):
    """One attempt to move a session from ``expected`` to the version that it writes.

    With ``written`` None nothing is written, and the idle deadline stays: the store only confirms that ``expected``
    is still the session's version, and returns the duplicates and replays.
    """

    session_id: str
    writer: str
    """Worker incarnation, lower-case hexadecimal."""
    expected: str
    written: Written | None
    checksum: bytes = b""
    """The last bytes of the expected state; if the stored state has others, it was changed by hand."""
    event_ids: Sequence[bytes] = ()
    """Digests of event ids to look up and, on OK, to remember."""
    event_lookups: Sequence[bytes] = ()
    """Digests of event ids to look up only: they belong to events that are refused or skipped."""
    lookups: Sequence[bytes] = ()
    """Digests of idempotency keys to look up."""
    answers: Mapping[bytes, bytes] = {}
    """Digest of an idempotency key to the answer to store on OK."""


class Committed(NamedTuple):
    """OK: the commit is in the store (or, for a confirmation, ``expected`` is the present version)."""

    snapshot: Snapshot | None = None
    """The session as it is now, where an earlier sending was committed and others have committed since."""


class Conflict(NamedTuple):
    """CONFLICT: another version is stored, and nothing was written."""

    snapshot: Snapshot
    """The session as it is stored."""


class Known(NamedTuple):
    """KNOWN: the store remembers some of the event ids or idempotency keys, and nothing was written."""

    duplicates: frozenset[bytes]
    """Digests of the event ids that count already."""
    replays: Mapping[bytes, bytes]
    """Digest of an idempotency key to its stored answer."""


class NotFound(NamedTuple):
    """NOT_FOUND: there is no such session."""


Outcome = Committed | Conflict | Known | NotFound
