"""Sessions read from the store whole: decoded, with the records and the segments that stand beside their state."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ..cooperative import FairYield, run_in_thread_if_large
from ..engine.run import Run
from ..engine.segment_run import KeptSegment, SegmentRun
from ..errors import OverloadedError, StateCorruptError, UnknownSessionError
from ..serialization.binary import CodecError
from ..serialization.records import decode_segment, name_of
from ..store.base import ReadSegments, Snapshot, Store
from .batch import Operation
from .cache import CachedSession, SessionCache

MAX_READS = 32
"""Reads of segments, each of another version than the session's at hand, before a batch is refused as overload."""


async def decoded(snapshot: Snapshot, previous: CachedSession | None = None) -> CachedSession:
    """Decode a snapshot, in a thread where it is large: see ``CachedSession.of``.

    Parameters
    ----------
    snapshot : the session as the store keeps it
    previous : an earlier version, of which learner and draws are used again

    Raises
    ------
    StateCorruptError
        where the stored bytes are not what this version writes.
    """
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
        """Read a session from the store.

        Raises
        ------
        UnknownSessionError, StateCorruptError, StoreUnavailableError
        """
        if (snapshot := await self._store.load(session_id)) is None:
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
