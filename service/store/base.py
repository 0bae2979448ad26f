"""What a store promises.

**Atomic.** A commit happens wholly or not at all; a session never mixes two versions.
**Ordered.** A commit is applied only to the version it was computed from.
**Once.** Sending the same commit again never applies it again: the session remembers, for each writer, the
version its last commit made, so a writer that lost a reply may simply send the commit again, also after others
have committed.
**Remembered.** Event ids and stored answers are kept for the dedupe window, and deleted with the session.
**Counted.** Increments of counts and entries of the log are part of their commit: once, or not at all.
**Expiring.** All keys of a session share one deadline by the store's clock, or have none.

A writer (one worker incarnation) has one commit in flight per session at a time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

DIGEST_BYTES = 16
"""Size of an event-id or idempotency-key digest as stored."""


class StoreUnavailableError(Exception):
    """The store can't be reached or refuses to work now; the text says why and names no secret."""


class StoreFullError(StoreUnavailableError):
    """The store has no room for what was to be written, in memory or on its disk."""


class Snapshot(NamedTuple):
    """A session as stored. ``spec`` and ``state`` are opaque bytes."""

    version: str
    spec: bytes
    state: bytes
    created_at: float
    """Unix seconds by the store's clock."""
    expires_at: float | None
    """Unix seconds; None for a session without idle expiry."""


@dataclass(frozen=True, slots=True)
class NewSession:
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


@dataclass(frozen=True, slots=True)
class Commit:
    """One attempt to move a session from ``expected`` to ``version``.

    With ``version`` None nothing is written, and the idle deadline stays: the store only confirms that ``expected``
    is still the session's version, and returns the duplicates and replays.
    """

    session_id: str
    writer: str
    """Worker incarnation, lower-case hexadecimal."""
    expected: str
    version: str | None
    """Has no white space, and differs from every other version of every session."""
    state: bytes = b""
    checksum: bytes = b""
    """The last bytes of the expected state; if the stored state has others, it was changed by hand."""
    idle_ttl_ms: int | None = None
    """Milliseconds from the commit to the new idle deadline; None leaves the deadline as it is."""
    permanent: bool = False
    """Whether the session loses its idle deadline."""
    spec: bytes | None = None
    """Replaces the specification; None leaves it."""
    events: Sequence[bytes] = ()
    """Digests of event ids to look up and, on OK, to remember."""
    event_lookups: Sequence[bytes] = ()
    """Digests of event ids to look up only: they belong to events that are refused or skipped."""
    lookups: Sequence[bytes] = ()
    """Digests of idempotency keys to look up."""
    answers: Mapping[bytes, bytes] = field(default_factory=dict)
    """Digest of an idempotency key to the answer to store on OK."""
    records: Mapping[bytes, bytes | None] = field(default_factory=dict)
    """Records beside the state that have changed, by key; None deletes a record."""
    segments: Mapping[bytes, tuple[int, bytes] | None] = field(default_factory=dict)
    """Segments that have changed: name to the slot in which it was played last and its record; None deletes it."""
    counts: Mapping[bytes, int | float] = field(default_factory=dict)
    """What to add to counts beside the state, by field; a field that is absent is 0. A field stays int or float."""
    summary: bytes = b""
    """Replaces the session's summary."""
    about: bytes | None = None
    """Replaces what seldom changes; None leaves it."""
    entries: Sequence[bytes] = ()
    """Entries to append to the session's log, in order."""
    max_entries: int = 0
    """About how many entries the log keeps: the oldest are dropped."""


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


class Listed(NamedTuple):
    """What lists show of a session. Texts that were damaged by hand are empty, times None."""

    session_id: str
    version: str
    created_at: float | None
    """Unix seconds by the store's clock."""
    expires_at: float | None
    """Unix seconds; None for a session without idle expiry."""
    about: bytes
    """As the latest commit that brought one left it; empty where none did."""
    summary: bytes


class Page(NamedTuple):
    """Some sessions and where to go on, None at the end."""

    sessions: Sequence[Listed]
    next_cursor: str | None

    @property
    def session_ids(self) -> Sequence[str]:
        """Their ids."""
        return [session.session_id for session in self.sessions]


class Counts(NamedTuple):
    """Counts beside a session's state, as of a version."""

    version: str
    values: Sequence[float]
    """In the order of the fields asked for."""


class ReadSegments(NamedTuple):
    """Some segments of a session, as of a version."""

    version: str
    records: Sequence[bytes | None]
    """In the order of the names asked for; None for a segment that there is not."""
    oldest: Sequence[tuple[int, bytes]]
    """Last slot and name of the segments played least recently, ascending."""


class LogEntry(NamedTuple):
    """An entry of a session's log."""

    position: str
    """Where it stands: milliseconds by the store's clock, a hyphen, and its number within them."""
    data: bytes


class Log(NamedTuple):
    """Part of a session's log, oldest first."""

    about: bytes
    """The session's, empty where nothing was written for lists yet."""
    entries: Sequence[LogEntry]


class WholeSession(NamedTuple):
    """A session as of one version, with all that moves with it."""

    snapshot: Snapshot
    records: Mapping[bytes, bytes]
    counts: Mapping[bytes, bytes]
    """Decimal texts by field."""
    events: Sequence[tuple[float, Sequence[bytes]]]
    """Digests of event ids, with the Unix seconds at which they are forgotten."""
    segments: Mapping[bytes, tuple[int, bytes]] = {}
    """Last slot and record of each segment, by name."""


class Reminders(Protocol):
    """When sessions have decisions that fall due, for the one worker that settles them when nobody calls.

    Reminders are hints: losing one, or sweeping a session twice, harms nothing. Any request to a session first
    settles what is due, and the version check keeps it from being settled twice.
    """

    async def remind(self, session_id: str, at: float) -> None:
        """Note that a session has decisions due at ``at`` (Unix seconds), unless an earlier time is noted."""

    async def due(self, limit: int) -> Sequence[str]:
        """Ids of sessions with decisions due, at most ``limit`` of each shard."""

    async def reschedule(self, session_id: str, again_at: float | None) -> None:
        """Replace a note that is due by the next one (Unix seconds), or drop it; a later note stays."""

    async def forget(self, session_id: str) -> None:
        """Drop the note of a session that no longer exists."""

    async def acquire_lease(self, worker: str, seconds: float) -> bool:
        """Try to become, or stay, the worker that sweeps for the next ``seconds``; False if another one is."""


class History(Protocol):
    """Samples of sessions over time, each at a place: best effort, and never part of a commit.

    They belong to their session: they are deleted and expire with it, and are in no export.
    """

    async def record(self, session_id: str, created_at: float, place: int, sample: bytes) -> int | None:
        """Keep a sample, in place of one that is there.

        Parameters
        ----------
        created_at : of the session that the sample is of, as its snapshots have it

        Returns
        -------
        How many samples the session has now, about; None where it does not exist any more.
        """

    async def read(self, session_id: str) -> Mapping[int, bytes] | None:
        """Read all samples of a session, by place; None where there is no session."""

    async def thin(self, session_id: str, dropped: Iterable[int], left: int) -> None:
        """Drop the samples at these places, after which ``left`` stay."""


class Store(Protocol):
    """A store of sessions. Every method raises ``StoreUnavailableError`` where the store can't be used."""

    @property
    def reminders(self) -> Reminders:
        """When sessions have decisions that fall due."""

    @property
    def history(self) -> History:
        """Samples of sessions over time."""

    async def create(self, session: NewSession) -> Snapshot | None:
        """Create a session.

        Returns
        -------
        None if it was created, by an earlier sending too; else the session that has this id.
        """

    async def load(self, session_id: str) -> Snapshot | None:
        """Read a session as it is now; None where there is none. The idle deadline stays."""

    async def recall(self, session_id: str, digest: bytes) -> bytes | None:
        """Read the answer stored under an idempotency key of a session, by its digest; None where there is none."""

    async def commit(self, commit: Commit) -> Outcome:
        """Try to commit. Checked in this order: NotFound, Committed before, Conflict, Known; else Committed."""

    async def read_records(self, session_id: str) -> Mapping[bytes, bytes]:
        """Read all records beside a session's state, by key."""

    async def read_counts(self, session_id: str, fields: Sequence[bytes]) -> Counts | None:
        """Read counts beside a session's state; None where there is no session."""

    async def read_segments(self, session_id: str, names: Sequence[bytes], oldest: int = 0) -> ReadSegments | None:
        """Read segments by name, and which ``oldest`` were played least recently; None without such a session."""

    async def segment_names(
        self, session_id: str, after: bytes | None, limit: int, *, backwards: bool = False
    ) -> Sequence[bytes]:
        """Return the first ``limit`` names of segments behind ``after``, in the order of their bytes.

        A segment that is kept all along is not left out.

        Parameters
        ----------
        after : a name; None to begin with the first
        backwards : whether the order is turned round
        """

    async def read_log(self, session_id: str, after: str | None, limit: int) -> Log | None:
        """Read at most ``limit`` entries of a session's log; None where there is no session.

        Parameters
        ----------
        after : position of the entry before the first; None to begin with the oldest
        """

    async def delete(self, session_id: str) -> bool:
        """Delete a session with all that belongs to it; False where there was none.

        Where a reply is lost nobody knows whether the session was deleted: the store is then unavailable.
        """

    async def list(self, cursor: str | None, limit: int, prefix: str = "") -> Page:
        """List at most ``limit`` sessions; a session that exists all along is listed at least once.

        Parameters
        ----------
        prefix : what their ids begin with; lists by prefix are in the order of ids, and a session that a program
            without an index of ids created is missing for some minutes at most

        Raises
        ------
        ValueError
            for a cursor this store never gave.
        """

    async def export(self, session_id: str) -> WholeSession | None:
        """Read a session whole, at one version, without its log and stored answers; None where there is none."""

    async def restore(self, session_id: str, whole: WholeSession, new: NewSession) -> Snapshot | None:
        """Create a session from one that was exported, here or elsewhere; its ``created_at`` stays.

        Parameters
        ----------
        new : its version, idle time to live and what lists show of it; the rest is that of ``whole``

        Returns
        -------
        None if it was created, by an earlier sending too; else the session that has this id.
        """

    async def count(self, prefix: str, most: int) -> int:
        """Return how many sessions have ids with a prefix, or ``most`` where there are as many or more."""

    async def ping(self) -> None:
        """Return if the store can commit now."""

    def now(self) -> float:
        """Unix seconds by the store's clock, as of its latest reply; they decrease if that clock was set back."""

    async def close(self) -> None:
        """Close all connections."""
