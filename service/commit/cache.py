"""What a worker has of sessions: versions that it decodes and keeps, and how it reads them from the store, whole.

It also counts, in memory, how many of the latest events were surplus.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any, NamedTuple, Self

import numpy as np

from ..cooperative import FairYield, run_in_thread_if_large
from ..engine.arm_run import ArmRun
from ..engine.run import FeatureRun, PointRun, ProvisionalRun, Run, SlotRun
from ..engine.segment_run import KeptSegment, SegmentRun
from ..errors import OverloadedError, StateCorruptError, SurplusFeedbackError, UnknownSessionError
from ..learners.feature_tsallis import known
from ..models import stored as stored_specification
from ..models.specification import is_id
from ..models.stored import Stored
from ..serialization import records as records_codec
from ..serialization import state as codec
from ..serialization.binary import CHECKSUM_BYTES, CodecError
from ..serialization.records import decode_segment, name_of
from ..store.base import ReadSegments, Snapshot, Store, Written
from ..tokens import SessionTokens

Operation = Any
"""A request: its file imports this one."""

# -- How many arms a session's distribution amounts to, as lists show it.

EFFECTIVE_SECONDS = 9.0
"""Lists may show an ``effective_arms`` this old, plus the time between commits."""


class Effective(NamedTuple):
    """How many arms the distribution amounts to, as lists show it."""

    value: float | None
    """None over points."""
    at: float
    """When it was computed, in Unix seconds."""


# -- How many of a session's latest events were surplus, as one worker sees them: in memory, best effort.

WINDOW = 1000
"""Events that are judged together."""
MAX_SESSIONS = 10_000
"""Sessions that are watched."""


class SurplusWatch:
    """Counts events by session, refused ones included, a window after the other.

    Attributes
    ----------
    mostly_surplus : ids of the sessions where more than half of the last full window of events was surplus
    """

    def __init__(self) -> None:
        self.mostly_surplus: set[str] = set()
        self._sessions: dict[str, tuple[int, int]] = {}
        """Events of the present window, and how many of them were surplus."""

    def count(self, session_id: str, settled: Mapping[str, int], results: Sequence[object]) -> None:
        """Count the events of a batch.

        Parameters
        ----------
        session_id : of the session
        settled : number of events by outcome; of those refused the surplus ones are counted
        results : of the batch's requests
        """
        if not settled:
            return
        refused = [each for each in results if type(each) is SurplusFeedbackError] if "refused" in settled else ()
        if session_id not in self._sessions and len(self._sessions) >= MAX_SESSIONS:
            self._sessions.clear()
            self.mostly_surplus.clear()
        events, surplus = self._sessions.get(session_id, (0, 0))
        events += sum(settled.values()) - settled.get("refused", 0)
        surplus += settled.get("surplus", 0)
        for each in refused:
            events, surplus = events + each.events, surplus + len(each.indexes)
        if events >= WINDOW:
            (self.mostly_surplus.add if 2 * surplus > events else self.mostly_surplus.discard)(session_id)
            events = surplus = 0
        self._sessions[session_id] = (events, surplus)

    def forget(self, session_id: str) -> None:
        """Drop a session that no longer exists."""
        self._sessions.pop(session_id, None)
        self.mostly_surplus.discard(session_id)


# -- One version of a session, decoded: made of stored bytes, or of the commit that wrote them.

SESSION_BYTES = 2_000
"""Memory that a session takes besides: its objects, and a block of draws."""
OBJECT_BYTES = 200
"""Memory that an arm's label takes wherever it stands, about."""


class CachedSession(NamedTuple):
    """One version of a session, decoded. Its run must not be changed: ``copy`` it first."""

    version: str
    stored: Stored
    run: Run
    checksum: bytes
    """The last bytes of the stored state: a commit finds out by them whether the state was changed by hand."""
    size: int
    """Bytes of memory, about."""
    schema: int = codec.NEWEST
    """Of the stored state."""
    needs_records: bool = False
    """Whether the records beside the state, open slots or times of acts, are still to be read."""
    effective: Effective | None = None
    """What the last commit of this worker showed of the distribution."""
    mostly_surplus: bool = False
    """Whether most of the latest events were surplus, as this worker saw them; set where a view is to show it."""
    created_at: float = 0.0
    """Unix seconds; tells sessions apart that had one id after another."""
    tokens: SessionTokens | None = None
    """Makes and knows its tokens; None in a session without, and until a batch is applied."""

    @classmethod
    def of(cls, snapshot: Snapshot, previous: Self | None = None) -> Self:
        """Decode a snapshot, without the records beside the state.

        Parameters
        ----------
        snapshot : the session as the store keeps it
        previous : an earlier version, of which learner and draws are used again

        Raises
        ------
        NewerSchemaError
            where a newer program wrote them.
        StateCorruptError
            where the stored bytes are not what this version writes.
        """
        if not snapshot.version:
            raise StateCorruptError
        codec.refuse_newer(snapshot.state)
        try:
            stored = stored_specification.decode(snapshot.spec)
            if previous is not None and previous.stored == stored:
                run = previous.run
            else:
                # Before memory of the size is taken that the specification alone says.
                codec.check_length(snapshot.state, stored.specification.learner)
                run = stored.start()
            run = codec.decode(snapshot.state, run)
        except (CodecError, ValueError) as error:
            raise StateCorruptError from error
        has_unread = codec.is_unread(run.state) or (isinstance(run, ArmRun) and run.arms.removed is None)
        has_unread |= run.control is not None
        needs_records = isinstance(run, SlotRun) or run.params.expiry is not None or has_unread
        version, _, state, created_at, *_ = snapshot
        known = (version, stored, run, state[-CHECKSUM_BYTES:], _memory(run), state[0], needs_records)
        return cls(*known, created_at=created_at)

    def with_records(self, records: Mapping[bytes, bytes]) -> CachedSession:
        """Return the same version with the records beside the state: open slots, times of acts and rows.

        Raises
        ------
        StateCorruptError
            where a record is not what this version writes.
        """
        try:
            run = records_codec.decode(records, self.run)
        except CodecError as error:
            raise StateCorruptError from error
        return self._replace(run=run, needs_records=False, size=_memory(run))

    @classmethod
    def new(cls, version: str, stored: Stored, run: Run, state: bytes, effective: Effective) -> Self | None:
        """Return a session that was just created; None if it is to be read with what stands beside its state.

        Parameters
        ----------
        version : its first one
        stored, run, state : its specification, and its beginning, decoded and as it is stored
        effective : what lists show of its distribution, and when it was created
        """
        if type(run) not in (ArmRun, PointRun) or run.params.expiry is not None or run.control is not None:
            return None
        return cls(
            version, stored, run, state[-CHECKSUM_BYTES:], _memory(run), state[0], False, effective
        )._replace(created_at=effective.at)

    def committed_as(
        self, written: Written, run: Run, effective: Effective | None, stored: Stored
    ) -> CachedSession:
        """Return the session as this worker has just committed it.

        Parameters
        ----------
        written : by that commit
        run : taken over: nobody else may use it, or earlier copies of it, any more
        effective : what the commit showed of the distribution; None where the next one has to compute it
        stored : the specification, which the commit may have replaced
        """
        state = written.state
        run.on_written(codec.rows_of(run))
        if (narrow := codec.SCHEMAS[state[0]].narrow) is not None:
            narrow(run)
        size = self.size if _are_as_large(self.run, run) else _memory(run)
        made = (written.version, stored, run, state[-CHECKSUM_BYTES:], size, state[0], False, effective)
        return CachedSession(*made, False, self.created_at, self.tokens)


def _are_as_large(one: Run, other: Run) -> bool:
    """Return whether it is plain that two runs of a session take as much memory, as most that follow each other."""
    if type(other) not in (ArmRun, PointRun, ProvisionalRun, FeatureRun):
        return False
    rows, others = one.stored_rows, other.stored_rows
    # Those behind the first of a log are a few numbers each.
    if bool(rows) != bool(others) or (len(rows) != len(others) and type(other) is FeatureRun):
        return False
    times, later = one.act_times, other.act_times
    if times is not later and (times is None or later is None or len(times.acts) != len(later.acts)):
        return False
    return getattr(one, "arms", None) is getattr(other, "arms", None)


def _memory(run: Run) -> int:
    """Return about how many bytes a session takes; its state twice, as a commit makes the next beside it."""
    state = {id(part): part.nbytes for part in run.state if isinstance(part, np.ndarray)}
    shared = {id(part.base) for part in run.state if isinstance(part, np.ndarray) and part.base is not None}
    by_arm = run.ledger.by_arm.nbytes if isinstance(run, ArmRun) else 0
    n_labels = len(run.arms.names or ()) + len(run.arms.removed or ()) if isinstance(run, ArmRun) else 0
    slots = run.open_slots.nbytes if isinstance(run, SlotRun) else 0
    acts = () if run.act_times is None else run.act_times.acts.values()
    # What a log begins with is mostly the open slot's own.
    arrays: int = sum(array.nbytes for array in (*acts, *run.stored_rows) if id(array.base) not in shared)
    segments = run.segments.nbytes if isinstance(run, SegmentRun) else 0
    arrays += known(run.state).nbytes if isinstance(run, FeatureRun) else 0
    objects = SESSION_BYTES + OBJECT_BYTES * n_labels
    return 2 * (sum(state.values()) + by_arm) + arrays + slots + segments + objects


# -- The sessions a worker keeps at hand, each at the version it last saw.

MAX_BYTES = 128 * 2**20
"""Memory that all sessions kept may take, about."""
MAX_CHANGED = 10_000
"""Changed sessions that are remembered."""


class SessionCache:
    """The least recently used sessions are dropped when there are too many, or too many bytes.

    Parameters
    ----------
    max_sessions : how many are kept, at most
    max_bytes : memory that all sessions kept may take, about; one session is kept however large it is
    """

    def __init__(self, max_sessions: int, max_bytes: int = MAX_BYTES) -> None:
        self.watch = SurplusWatch()
        self.on_logged: Callable[[str], object] = id
        """Gets the id of each session whose log has new entries, or that this worker found to be gone."""
        self._max_sessions = max_sessions
        self._max_bytes = max_bytes
        self._bytes = 0
        self._sessions: OrderedDict[str, CachedSession] = OrderedDict()
        self._changed: dict[str, None] = {}
        """Sessions put in since ``take_changed``, in order."""

    def get(self, session_id: str) -> CachedSession | None:
        """Return the session as this worker last saw it; others may have committed since."""
        if (cached := self._sessions.get(session_id)) is not None:
            self._sessions.move_to_end(session_id)
        return cached

    def put(self, session_id: str, cached: CachedSession) -> None:
        """Keep a session's newest version, and drop the sessions used least recently that there is no room for.

        Parameters
        ----------
        session_id : of the session
        cached : the version that this worker has committed or read
        """
        self._changed[session_id] = None
        if len(self._changed) > MAX_CHANGED:
            del self._changed[next(iter(self._changed))]
        before = self._sessions.get(session_id)
        self._sessions[session_id] = cached
        self._sessions.move_to_end(session_id)
        self._bytes += cached.size - (0 if before is None else before.size)
        while len(self._sessions) > self._max_sessions or (
            self._bytes > self._max_bytes and len(self._sessions) > 1
        ):
            self.forget(next(iter(self._sessions)))

    def put_new(self, session_id: str, cached: CachedSession) -> None:
        """Keep a session that was just created, where there is room: maybe it is used elsewhere."""
        self.forget(session_id)
        if len(self._sessions) < self._max_sessions and self._bytes + cached.size <= self._max_bytes:
            self._sessions[session_id] = cached
            self._bytes += cached.size

    def take_changed(self, most: int) -> list[str]:
        """Return ids of sessions put in since they were last returned: ``most`` at most, the first ones first."""
        taken = list(islice(self._changed, most))
        for session_id in taken:
            del self._changed[session_id]
        return taken

    def peek(self, session_id: str) -> CachedSession | None:
        """Return what ``get`` does, without counting that as a use."""
        return self._sessions.get(session_id)

    def forget(self, session_id: str) -> None:
        """Drop a session."""
        if (kept := self._sessions.pop(session_id, None)) is not None:
            self._bytes -= kept.size


# -- Sessions read from the store whole: decoded, with the records and the segments beside their state.

MAX_READS = 32
"""Reads of segments, each of another version than the session's at hand, before a batch is refused as overload."""


async def decoded(snapshot: Snapshot, previous: CachedSession | None = None) -> CachedSession:
    """Return ``CachedSession.of`` the same, which decodes large ones in a thread."""
    return await run_in_thread_if_large(len(snapshot.spec), CachedSession.of, snapshot, previous)


async def with_records(cached: CachedSession, records: Mapping[bytes, bytes]) -> CachedSession:
    """Add the records beside the state, in a thread where they are large: see ``CachedSession.with_records``.

    Parameters
    ----------
    cached : the session without them
    records : field to bytes, as ``Store.read_records`` returns them

    Raises
    ------
    StateCorruptError
        where a record is not what this version writes.
    """
    return await run_in_thread_if_large(sum(map(len, records.values())), cached.with_records, records)


class SessionLoader:
    """Reads sessions whole, with their records, into a cache.

    Parameters
    ----------
    store : has the sessions
    cache : of this worker, which gets what is read
    """

    def __init__(self, store: Store, cache: SessionCache) -> None:
        self._store = store
        self._cache = cache

    async def load(self, session_id: str) -> CachedSession:
        """Read a session from the store; an id that no session can have is not looked for.

        Raises
        ------
        UnknownSessionError, StateCorruptError, StoreUnavailableError
        """
        if not is_id(session_id) or (snapshot := await self._store.load(session_id)) is None:
            raise UnknownSessionError
        return await self.decode(session_id, snapshot)

    async def with_segments(
        self, session_id: str, base: CachedSession, batch: Sequence[Operation]
    ) -> CachedSession:
        """Read the segments that a batch touches, and those it may drop: a session at the version they are of.

        Parameters
        ----------
        session_id : of the session
        base : the session at hand, with the segments that have been read already
        batch : requests, in the order in which they are applied

        Raises
        ------
        UnknownSessionError, StateCorruptError, StoreUnavailableError
        OverloadedError
            where others commit between the reads again and again.
        """
        for _ in range(MAX_READS):
            if (needed := segments_needed(base.run, batch)) is None:
                return base
            names, oldest = needed
            found = await self._store.read_segments(session_id, [name_of(name) for name in names], oldest)
            if found is None:
                raise UnknownSessionError
            if found.version == base.version:
                return await with_segments(base, names, found)
            base = await self.load(session_id)
        raise OverloadedError("Too many workers write this session at once")

    async def decode(
        self, session_id: str, snapshot: Snapshot, previous: CachedSession | None = None
    ) -> CachedSession:
        """Decode a snapshot and read its records.

        The records may already be those of a later version; a commit on this one then meets a conflict.

        Parameters
        ----------
        session_id : of the session
        snapshot : the session as the store keeps it
        previous : an earlier version, of which learner and draws are used again

        Raises
        ------
        UnknownSessionError, StateCorruptError, StoreUnavailableError
        """
        cached = await decoded(snapshot, previous)
        if cached.needs_records:
            records = await self._store.read_records(session_id)
            try:
                cached = await with_records(cached, records)
            except StateCorruptError:
                # Records of a later version need not fit this state: only those of the same version are damage.
                if (now := await self._store.load(session_id)) is not None and now.version == cached.version:
                    raise
                return await self.load(session_id)
        self._cache.put(session_id, cached)
        return cached


def segments_needed(run: Run, batch: Sequence[Operation]) -> tuple[Sequence[str], int] | None:
    """Return names of the segments to read, and how many of those played least recently may be dropped.

    Parameters
    ----------
    run : forgets segments that it can read again, where those at hand take too much memory
    batch : requests, in the order in which they are applied

    Returns
    -------
    None where all that the batch needs is at hand.
    """
    if not isinstance(run, SegmentRun):
        return None
    segments = run.segments
    segments.trim()
    touched = dict.fromkeys(name for operation in batch for name in operation.segments)
    played = dict.fromkeys(name for operation in batch if operation.plays for name in operation.segments)
    missing = [name for name in touched if not segments.is_known(name)]
    begun = sum(1 for name in played if not segments.is_known(name) or segments.get(name) is None)
    # A segment that the batch plays is not the least recent one any more, and may be dropped and begun again.
    oldest = begun + len(played) if begun and run.shared.kept + begun > run.params.max_segments else 0
    if not missing and len(segments.oldest) >= min(oldest, run.shared.kept):
        return None
    return missing, oldest


async def with_segments(base: CachedSession, names: Sequence[str], found: ReadSegments) -> CachedSession:
    """Return a session with segments that were read at its version.

    Parameters
    ----------
    base : a session with segments
    names : those that ``found`` has the records of, in the same order
    found : what the store returned, at the version of ``base``

    Raises
    ------
    StateCorruptError
        where a record is not what this version writes.
    """
    run, fair_yield = base.run, FairYield()
    if not isinstance(run, SegmentRun):
        raise TypeError(f"{run!r} has no segments")
    read: dict[str, KeptSegment | None] = {}
    try:
        for name, record in zip(names, found.records, strict=True):
            read[name] = None if record is None else decode_segment(name_of(name), record, run.arms)
            await fair_yield()
        oldest = [(slot, name.decode()) for slot, name in found.oldest]
    except (CodecError, ValueError) as error:
        raise StateCorruptError from error
    return base._replace(run=replace(run, segments=run.segments.read(read, oldest)))
