"""What a store promises.

**Atomic.** A commit happens wholly or not at all; a session never mixes two versions.
**Ordered.** A commit is applied only on the version it was computed from.
**Once.** Sending the same commit again never applies it again: the session remembers, for each writer, the
id of its last commit, so a writer that lost a reply may simply ask again, also after others have committed.
**Remembered.** Event ids and stored answers outlive the commit by the dedupe window and die with the session.
**Expiring.** All keys of a session share one deadline by the store's clock, or have none.

A writer (one worker incarnation) has one commit in flight per session at a time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

DIGEST_BYTES = 16
"""Size of an event-id or idempotency-key digest as stored."""


class StoreUnavailableError(Exception):
    """The store can't be reached or refuses to work now; the text names the reason and no secret."""


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
    """Digest and answer of an idempotency key to store with it."""


@dataclass(frozen=True, slots=True)
class Commit:
    """One attempt to move a session from ``expected`` to ``version``.

    With ``version`` None nothing is written: the store only confirms that ``expected`` is still the
    session's version (the idle deadline is left alone), and tells duplicates and replays.
    """

    session_id: str
    writer: str
    """Worker incarnation, lower-case hexadecimal."""
    expected: str
    version: str | None
    """Without white space, and unlike any other version of any session."""
    state: bytes = b""
    digest: bytes = b""
    """Trailing bytes of the expected state; where the stored ones differ the state was changed by hand."""
    idle_ttl_ms: int | None = None
    """Milliseconds from the commit to the new idle deadline; None leaves the deadline as it is."""
    events: Sequence[bytes] = ()
    """Digests of event ids to look up and, on OK, to record."""
    event_lookups: Sequence[bytes] = ()
    """Digests of event ids to look up only: those of events that are refused or skipped."""
    lookups: Sequence[bytes] = ()
    """Digests of idempotency keys to look up."""
    answers: Mapping[bytes, bytes] = field(default_factory=dict)
    """Digest of an idempotency key to the answer to record on OK."""
    records: Mapping[bytes, bytes | None] = field(default_factory=dict)
    """What is kept beside the state and has changed, by key; None deletes a record."""


class Committed(NamedTuple):
    """OK: the commit is in the store (or, for a confirmation, ``expected`` is the present version).

    ``snapshot`` is not None when the commit took earlier and others have committed since: the
    session as it is now.
    """

    snapshot: Snapshot | None = None


class Conflict(NamedTuple):
    """CONFLICT: another version is stored, and nothing was written."""

    snapshot: Snapshot
    """The session as it is stored."""


class Known(NamedTuple):
    """DUPLICATES and REPLAY: some events or keys were recorded before; nothing was written."""

    duplicates: frozenset[bytes]
    """Digests of event ids recorded before."""
    replays: Mapping[bytes, bytes]
    """Digest of an idempotency key to its stored answer."""


class NotFound(NamedTuple):
    """NOT_FOUND: there is no such session."""


Outcome = Committed | Conflict | Known | NotFound


class Page(NamedTuple):
    """Ids of some sessions and where to go on, None at the end."""

    session_ids: Sequence[str]
    next_cursor: str | None


class Reminders(Protocol):
    """When sessions have decisions that fall due, for the one worker that settles them when nobody calls.

    Reminders are hints: losing one, or sweeping a session twice, harms nothing. Whoever touches a session
    settles what is due, and the version check alone keeps it from being settled twice.
    """

    async def remind(self, session_id: str, at: float) -> None:
        """Note that a session has decisions due at a time (Unix seconds); an earlier note stands."""

    async def due(self, limit: int) -> Sequence[str]:
        """Sessions whose time has come, at most ``limit`` of each shard."""

    async def done(self, session_id: str, again_at: float | None) -> None:
        """Replace a note whose time has come by the next one, or drop it."""

    async def forget(self, session_id: str) -> None:
        """Drop the note of a session that no longer exists."""

    async def lead(self, worker: str, seconds: float) -> bool:
        """Whether this worker is the one that sweeps, for so long."""


class Store(Protocol):
    """A store of sessions. Every method raises ``StoreUnavailableError`` where the store can't serve it."""

    @property
    def reminders(self) -> Reminders:
        """When sessions have decisions that fall due."""

    async def create(self, session: NewSession) -> Snapshot | None:
        """Create a session; None if done (by an earlier sending too), else the session that has this id."""

    async def load(self, session_id: str) -> Snapshot | None:
        """A session as it is now; None where there is none. The deadline is left alone."""

    async def recall(self, session_id: str, digest: bytes) -> bytes | None:
        """The answer recorded for an idempotency key of a session, None where there is none."""

    async def commit(self, commit: Commit) -> Outcome:
        """Try to commit. The checks come in the order: NotFound, Committed before, Conflict, Known, Committed."""

    async def read_records(self, session_id: str) -> Mapping[bytes, bytes]:
        """All records of a session, by key."""

    async def delete(self, session_id: str) -> bool:
        """Delete a session with all that belongs to it; False where there was none.

        Where a reply is lost the store can't tell whether the deletion took, and says it is unavailable.
        """

    async def list(self, cursor: str | None, limit: int) -> Page:
        """Ids of at most ``limit`` sessions; a session present all along is listed at least once.

        Raises
        ------
        ValueError
            for a cursor this store never gave.
        """

    async def ping(self) -> None:
        """Return if the store can commit now."""

    def now(self) -> float:
        """Unix seconds by the store's clock, as of its latest reply; never goes backwards."""

    async def close(self) -> None:
        """Give back connections."""
