"""What a store promises.

**Atomic.** A commit happens wholly or not at all; a session never mixes two versions.
**Ordered.** A commit is applied only to the version it was computed from.
**Once.** Sending the same commit again never applies it again: the session remembers, for each writer, the
version its last commit made, so a writer that lost a reply may simply send the commit again, also after others
have committed.
**Remembered.** Event ids, each with a value, and stored answers are kept for the dedupe window, or for as long as
their session asks if that is longer, and deleted with the session.
**Counted.** Increments of counts and entries of the log are part of their commit: once, or not at all.
**Expiring.** All keys of a session share one deadline by the store's clock, or have none.

A writer (one worker incarnation) has one commit in flight per session at a time.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

from ..errors import StoreUnavailableError

# -- Why a store does not do what it is asked.

NO_CONNECTION = "no connection to the store"
"""How the text begins where no server listens at the store's address."""
NO_ANSWER = "the store did not answer in time"


class NoAnswerError(StoreUnavailableError):
    """No answer came in time: the store is slow, or it answers nothing."""


class StoreFullError(StoreUnavailableError):
    """The store has no room for what was to be written, in memory or on its disk."""


class WrongTypeError(StoreUnavailableError):
    """A key is of another type than any call makes it, or has what none writes: somebody changed it by hand."""


class KeysApartError(StoreUnavailableError):
    """The server is one of a cluster, where a call may not name keys of several hash slots: it did nothing."""


# -- What is counted of the arms of a session, beside its state.


class ArmCounts(NamedTuple):
    """What is counted of one arm, with losses on the scale where 0 is best and 1 is worst.

    Of acts nothing: every act is outstanding, or counted by what became of it.
    """

    feedbacks: float = 0
    losses: float = 0
    """Sum of the losses of applied events and of decisions learned at the default."""
    defaulted: float = 0
    """Decisions that count as the default loss: expired ones, and those of a removed arm."""
    expired: float = 0
    voided: float = 0
    removed: float = 0


FEEDBACKS, LOSSES, DEFAULTED, EXPIRED, VOIDED, REMOVED = range(len(ArmCounts._fields))
"""Where each count stands in a row."""

Row = Sequence[float]
Rows = Mapping[int, Row]
"""Index of an arm to its counts."""

# Stores keep the counts of 16 arms in one vector: their feedbacks first, then their losses, and so on. It ends with
# the last count that is not 0. Redis finds what it adds to in a short vector without a look at the other groups.

GROUP = 16
"""Arms whose counts are one vector."""
VECTOR = GROUP * len(ArmCounts._fields)
INCREMENT = struct.Struct(">BBd")
"""What is added to a number of a vector, as MessagePack: its place, from 1 on, ``DOUBLE``, and the amount."""
INCREMENTS = struct.Struct(">BBdBBd")
"""The same of two numbers: how many events were applied, and their losses."""
DOUBLE = 0xCB
Added = Mapping[int, bytes]
"""Number of a group to what is added to its vector: ``INCREMENT``s, joined."""


def add_counts(vectors: dict[int, list[float]], counts: Added) -> None:
    """Add to vectors what a commit brings."""
    for group, added in counts.items():
        vector = vectors.setdefault(group, [0] * VECTOR)
        for place, _, amount in INCREMENT.iter_unpack(added):
            vector[place - 1] += amount


def counts_of(arm: int, vectors: Mapping[int, Sequence[float]]) -> ArmCounts:
    """Return the counts of an arm in these vectors."""
    return ArmCounts(*vectors.get(arm // GROUP, ())[arm % GROUP :: GROUP])


# -- What is read from a store.


LAST_SECOND = 253_402_300_799
"""The last of the year 9999, in Unix seconds: views write years with four digits."""


class Snapshot(NamedTuple):
    """A session as stored. ``spec`` and ``state`` are opaque bytes, but for the length of the state's head."""

    version: str
    spec: bytes
    state: bytes
    created_at: float
    """Unix seconds by the store's clock."""
    expires_at: float | None
    """Unix seconds; None for a session without idle expiry."""
    counts: Sequence[ArmCounts] = ()
    """Of arms that were asked for."""


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
    head: bytes
    """With which the state begins: see ``head_of``."""


def head_of(state: bytes) -> bytes:
    """Return that part of a state that lists show; its second and third byte say how long it is."""
    return state[: int.from_bytes(state[1:3], "little")]


class Page(NamedTuple):
    """Some sessions and where to go on, None at the end."""

    sessions: Sequence[Listed]
    next_cursor: str | None


class Counts(NamedTuple):
    """Counts of arms beside a session's state, as of a version."""

    version: str
    rows: Sequence[ArmCounts]
    """In the order of the arms asked for."""


class ReadSegments(NamedTuple):
    """Some segments of a session, as of a version."""

    version: str
    records: Sequence[bytes | None]
    """In the order of the names asked for; None for a segment that there is not."""
    oldest: Sequence[tuple[int, bytes]]
    """Last slot and name of the segments played least recently, ascending."""


class LogEntry(NamedTuple):
    """An entry of a session's log."""

    position: int
    """1 for the session's first entry, one more for each next; an import goes on behind those before it."""
    at: float
    """Unix seconds by the store's clock, to the millisecond; no entry has an earlier time than those before it."""
    data: bytes


class Log(NamedTuple):
    """Part of a session's log, oldest first."""

    session: Listed
    """What lists show of the session at that moment."""
    entries: Sequence[LogEntry]


class WholeSession(NamedTuple):
    """A session as of one version, with all that moves with it."""

    snapshot: Snapshot
    records: Mapping[bytes, bytes]
    counts: Rows
    events: Sequence[tuple[float, Mapping[bytes, bytes]]]
    """Digests of event ids with their values, and the Unix seconds at which these are forgotten."""
    segments: Mapping[bytes, tuple[int, bytes]] = {}
    """Last slot and record of each segment, by name."""


# -- What is written to a store, and what comes of it.


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
    remember_seconds: float = 0
    """As ``Commit`` has it: event ids that are restored are forgotten by it."""


class Written(NamedTuple):
    """What a commit writes, beside event ids and answers."""

    version: str
    """The new one; has no white space, and differs from every other version of every session."""
    state: bytes
    idle_ttl_ms: int | None = None
    """Milliseconds from the commit to the new idle deadline; None leaves the deadline as it is."""
    least_deadline_ms: int = 0
    """Unix milliseconds before which a new idle deadline is not: the store's clock may be slow for a while."""
    permanent: bool = False
    """Whether the session loses its idle deadline."""
    spec: bytes | None = None
    """Replaces the specification; None leaves it."""
    records: Mapping[bytes, bytes | None] = {}
    """Records beside the state that have changed, by key; None deletes a record."""
    segments: Mapping[bytes, tuple[int, bytes] | None] = {}
    """Segments that have changed: name to the slot in which it was played last and its record; None deletes it."""
    counts: Mapping[int, bytes] = {}
    """What to add to the counts of arms beside the state, as ``Added``; all but losses are integers."""
    about: bytes | None = None
    """Replaces what seldom changes; None leaves it."""
    entries: Sequence[bytes] = ()
    """Entries to append to the session's log, in order."""
    position: int = 1
    """Of the first of these entries."""
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
    values: Mapping[bytes, bytes] = {}
    """Digest of an event id to the value to keep with it: of new ids, b"" for those not named here, and of ids that
    count already, whose value is replaced where it is. Until when they are kept stays."""
    remember_seconds: float = 0
    """For which the session's ids and answers are kept at least, if that is longer than the store's window."""
    prolongs: bool = False
    """Whether what is remembered already is kept so long from now on, as the session asks for more than it did."""


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

    duplicates: Mapping[bytes, bytes]
    """Digests of the event ids that count already, with their values: b"" for an id without."""
    replays: Mapping[bytes, bytes]
    """Digest of an idempotency key to its stored answer."""


class NotFound(NamedTuple):
    """NOT_FOUND: there is no such session."""


Outcome = Committed | Conflict | Known | NotFound


# -- What can be asked of a store.


class Store(Protocol):
    """A store of sessions.

    Every method raises ``StoreUnavailableError`` where the store can't be used, and those about one session
    ``StateCorruptError`` where a key of that session is of another type than they make it.
    """

    async def create(self, session: NewSession) -> Snapshot:
        """Create a session, unless there is one with this id.

        Returns
        -------
        The session that has this id; it is the new one, created by this sending or an earlier one, if the versions
        are the same.
        """

    async def load(self, session_id: str, arms: Sequence[int] = ()) -> Snapshot | None:
        """Read a session as it is now, and counts of arms by index; None where there is none.

        The idle deadline stays.
        """

    async def recall(self, session_id: str, digest: bytes) -> bytes | None:
        """Read the answer stored under an idempotency key of a session; None where there is none.

        Parameters
        ----------
        session_id : of the session; one that does not exist has no answers
        digest : of the key, ``DIGEST_BYTES`` long
        """

    async def commit(self, commit: Commit) -> Outcome:
        """Try to commit. Checked in this order: NotFound, Committed before, Conflict, Known; else Committed."""

    async def read_records(self, session_id: str) -> Mapping[bytes, bytes]:
        """Read all records beside a session's state, by key; one that a commit changes meanwhile is old or new."""

    async def read_counts(self, session_id: str, arms: Sequence[int]) -> Counts | None:
        """Read the counts of arms, by index, beside a session's state; None where there is no session."""

    async def read_segments(self, session_id: str, names: Sequence[bytes], oldest: int = 0) -> ReadSegments | None:
        """Read segments by name, and which ``oldest`` were played least recently; None without such a session.

        Parameters
        ----------
        session_id : of the session
        names : as commits have them
        oldest : how many of the segments played least recently to name; 0 for none
        """

    async def segment_names(
        self, session_id: str, after: bytes | None, limit: int, *, backwards: bool = False
    ) -> Sequence[bytes]:
        """Return the first ``limit`` names of segments behind ``after``, in the order of their bytes.

        A segment that is kept all along is not left out; one that began after the first page was read may be.

        Parameters
        ----------
        session_id : of the session; one that does not exist has no segments
        after : a name, which need not exist and is left out; None to begin with the first
        limit : most names returned
        backwards : whether the order is turned round
        """

    async def read_log(self, session_id: str, after: int, limit: int) -> Log | None:
        """Read at most ``limit`` entries of a session's log; None where there is no session.

        Parameters
        ----------
        session_id : of the session
        after : position below those of the entries; 0 to begin with the oldest
        limit : most entries returned
        """

    async def delete(self, session_id: str) -> bool:
        """Delete a session with all that belongs to it; False where there was none.

        Where a reply is lost nobody knows whether the session was deleted: the store is then unavailable.
        """

    async def list(self, cursor: str | None, limit: int, prefix: str = "") -> Page:
        """List at most ``limit`` sessions; a session that exists all along is listed at least once.

        Parameters
        ----------
        cursor : ``next_cursor`` of the page before, with the same prefix; None for the first
        limit : most sessions returned; a page with fewer need not be the last
        prefix : what their ids begin with, '' for all; lists by prefix are in the order of ids

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
        session_id : of the session to create
        whole : as ``export`` gave it
        new : its version, idle time to live, answer and what lists show of it; the rest is that of ``whole``

        Returns
        -------
        None if it was created, by an earlier sending too; else the session that has this id.
        """

    async def count(self, prefix: str, most: int) -> int:
        """Return how many sessions have ids with a prefix, or ``most`` where there are as many or more.

        Parameters
        ----------
        prefix : what their ids begin with, '' for all
        most : the largest number that is of interest: counting stops there
        """

    # Reminders say when decisions of sessions fall due, for the one worker that settles them when nobody calls.
    # They are hints: losing one, or sweeping a session twice, harms nothing. Any request to a session first settles
    # what is due, and the version check keeps it from being settled twice.

    async def remind(self, session_id: str, at: float) -> None:
        """Note that a session has decisions due at ``at``, unless an earlier time is noted.

        Parameters
        ----------
        session_id : of the session; whether it exists is not looked up
        at : Unix seconds by the store's clock
        """

    async def due(self, limit: int) -> Sequence[str]:
        """Return ids of sessions with decisions due, at most ``limit`` of each shard."""

    async def reschedule(self, session_id: str, again_at: float | None) -> None:
        """Replace a note that is due by the next one, or drop it; a later note stays.

        Parameters
        ----------
        session_id : of the session; whether it exists is not looked up
        again_at : Unix seconds by the store's clock at which its next decisions fall due; None for none
        """

    async def forget_reminder(self, session_id: str) -> None:
        """Drop the note of a session that no longer exists."""

    async def acquire_lease(self, worker: str, seconds: float) -> bool:
        """Try to become, or stay, the worker that sweeps for the next ``seconds``; False if another one is.

        Parameters
        ----------
        worker : a name that no other worker has
        seconds : how long the lease lasts from now on, by the store's clock
        """

    # Samples of sessions over time, each at a place: best effort, and never part of a commit. They belong to their
    # session: they are deleted and expire with it, and are in no export.

    async def record_sample(self, session_id: str, created_at: float, place: int, sample: bytes) -> int | None:
        """Keep a sample, in place of one that is there.

        Parameters
        ----------
        session_id : of the session
        created_at : of the session that the sample is of, as its snapshots have it
        place : number of the sample's period since 1970: one sample is kept for each
        sample : opaque

        Returns
        -------
        How many samples the session has now, about; None where it does not exist any more.
        """

    async def read_samples(self, session_id: str) -> Mapping[int, bytes] | None:
        """Read all samples of a session, by place; None where there is no session."""

    async def thin_samples(self, session_id: str, dropped: Iterable[int], left: int) -> None:
        """Drop the samples at these places, after which ``left`` stay.

        Parameters
        ----------
        session_id : of the session; where it does not exist nothing happens
        dropped : places of samples
        left : how many samples the session then has, for ``record_sample`` to count on
        """

    async def announce(self, worker: str, schemas: Sequence[int], seconds: float) -> Sequence[frozenset[int]]:
        """Say which schemas of states a worker reads, and return what each live worker does, this one included.

        Parameters
        ----------
        worker : a name that no other worker has, without a space
        schemas : their numbers
        seconds : how long it counts from now on, by the store's clock; 0 to be no longer counted
        """

    async def token_key(self, new: bytes) -> bytes:
        """Return the key that signs tokens; if there is none, ``new`` is it from now on."""

    async def ping(self) -> None:
        """Return if the store can commit now."""

    async def figures(self) -> Mapping[str, float]:
        """Return how full the store is and how far its replicas are, as metrics tell it.

        Returns
        -------
        By name ``memory_bytes`` and ``memory_limit_bytes``, which is 0 without one, ``replicas`` that have all but
        the newest commits, and ``replica_lag_seconds``; nothing of a store that is no server.
        """

    def now(self) -> float:
        """Return Unix seconds by the store's clock, as of its latest reply; they decrease if it was set back."""

    async def close(self) -> None:
        """Close all connections."""


DIGEST_BYTES = 16
"""Size of an event-id or idempotency-key digest as stored."""


# -- Cursors of lists in the order of ids.

_CURSOR = re.compile(r"after~[A-Za-z0-9][A-Za-z0-9._-]{0,127}")


def after_of(cursor: str | None, prefix: str) -> str:
    """Return the id after which a page begins, '' for the first page.

    Parameters
    ----------
    cursor : as ``cursor_after`` made it; None for the first page
    prefix : what the listed ids begin with; '' for all ids

    Raises
    ------
    ValueError
        for a cursor of another list.
    """
    after = "" if cursor is None else cursor.removeprefix("after~")
    if cursor is not None and not (_CURSOR.fullmatch(cursor) and after.startswith(prefix)):
        raise ValueError("not a cursor of this list")
    return after


def cursor_after(session_id: str) -> str:
    """Return the cursor of the page that begins after an id."""
    return f"after~{session_id}"


# -- The options of a store beside its URL.


class StoreOptions(NamedTuple):
    """Key prefix, limits and timeouts of a store; the defaults suit a service near its Redis."""

    prefix: str = "bandit"
    """First part of every key."""
    dedupe_window_seconds: float = 24 * 3600.0
    """Shortest time for which event ids and answers are remembered; sessions may ask for more."""
    max_connections: int = 32
    """Most connections of one worker to the store; in a cluster, to each master."""
    pool_wait_seconds: float = 1.0
    """Timeout for a free connection."""
    connect_seconds: float = 1.0
    """Timeout for opening a connection."""
    reply_seconds: float = 2.0
    """Timeout for a reply."""
    retry_seconds: float = 2.0
    """A call is not retried later than this after its first attempt, nor in an outage that has lasted longer."""
    min_replicas: int = 0
    """Replicas that must acknowledge a commit before clients get their answers; 0 waits for none."""
    replica_seconds: float = 1.0
    """Timeout for these replicas."""
    data_folder: Path | None = None
    """Where an embedded store writes, to notice a disk that gets full; None for other stores."""
    on_plain_commit: Callable[[], None] = lambda: None
    """Called for each commit that the short script has carried out."""
    on_clock_step_back: Callable[[], None] = lambda: None
    """Called each time the store's clock turns out to have been set back."""
