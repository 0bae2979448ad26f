"""One version of a session, decoded: made of stored bytes, or of the commit that wrote them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from ...engine.arm_run import ArmRun
from ...engine.run import PointRun, Run, SlotRun
from ...engine.segment_run import SegmentRun
from ...errors import StateCorruptError
from ...learners.segments import Shared
from ...models import stored as stored_specification
from ...models.stored import Stored
from ...serialization import consistency
from ...serialization import records as records_codec
from ...serialization import state as codec
from ...serialization import state as logs
from ...serialization.binary import CHECKSUM_BYTES, CodecError
from ...store.base import Snapshot, Written
from .effective import Effective

SESSION_BYTES = 2_000
"""Memory that a session takes besides: its objects, and a block of draws."""
MAX_STORED_BYTES = 8_192
"""Most that are kept of a session in place of what is decoded of them: more would take long to decode."""
OBJECT_BYTES = 200
"""Memory that an arm's label takes wherever it stands, about."""


class StoredBytes(NamedTuple):
    """What the store keeps of one version of a session, but for what stands beside its state."""

    spec: bytes
    state: bytes

    def are_enough_for(self, run: Run) -> bool:
        """Return whether a session at this run may be decoded of these bytes, without waiting for the store."""
        few = len(self.spec) + len(self.state) <= MAX_STORED_BYTES
        return few and type(run) in (ArmRun, PointRun) and run.params.expiry is None and not run.stored_rows


class CachedSession(NamedTuple):
    """One version of a session, decoded. Its run must not be changed: ``copy`` it first."""

    version: str
    stored: Stored
    run: Run
    checksum: bytes
    """The last bytes of the stored state: a commit finds out by them whether the state was changed by hand."""
    size: int
    """Bytes of memory, about."""
    is_listed: bool = False
    """Whether the store has what lists show of it, except what every commit writes."""
    needs_records: bool = False
    """Whether the records beside the state, open slots or times of acts, are still to be read."""
    effective: Effective | None = None
    """What the last commit of this worker showed of the distribution."""
    mostly_surplus: bool = False
    """Whether most of the latest events were surplus, as this worker saw them; set where a view is to show it."""
    created_at: float = 0.0
    """Unix seconds; tells sessions apart that had one id after another."""
    has_packed_counts: bool = False
    """Whether the stored state is of a schema with packed counts of arms."""
    stored_bytes: StoredBytes | None = None
    """Of which it can be decoded again; None where they are many, or do not suffice."""

    @classmethod
    def of(cls, snapshot: Snapshot, previous: CachedSession | None = None) -> CachedSession:
        """Decode a snapshot, without the records beside the state.

        Parameters
        ----------
        snapshot : the session as the store keeps it
        previous : an earlier version, of which learner and draws are used again

        Raises
        ------
        StateCorruptError
            where the stored bytes are not what this version writes.
        """
        if not snapshot.version:
            raise StateCorruptError
        try:
            stored = stored_specification.decode(snapshot.spec)
            run = previous.run if previous is not None and previous.stored == stored else _begun(snapshot, stored)
            ledger, arms, state, schema, shared = codec.decode(
                snapshot.state,
                run.learner.state_type,
                by_arm=isinstance(run, ArmRun),
                shared_type=Shared if isinstance(run, SegmentRun) else None,
            )
            if isinstance(run, ArmRun):
                names = getattr(run.params.learner, "arms", None)
                run = run.with_arms(codec.decode_arms(arms, run.arms, names, schema))
            consistency.check_state(run, ledger, state)
            if isinstance(run, SegmentRun):
                consistency.check_shared(run, shared)
        except (CodecError, ValueError) as error:
            raise StateCorruptError from error
        is_listed = schema >= codec.PACKED_COUNTS or (
            previous is not None and previous.is_listed and run is previous.run
        )
        run = run.moved(ledger, state)
        if isinstance(run, SegmentRun):
            run = replace(run, shared=shared)
        needs_records = isinstance(run, SlotRun) or run.params.expiry is not None or logs.is_unread(state)
        checksum, size = snapshot.state[-CHECKSUM_BYTES:], _memory(run)
        has_packed_counts = schema >= codec.PACKED_COUNTS
        stored_bytes = StoredBytes(snapshot.spec, snapshot.state)
        suffice = has_packed_counts and not needs_records and stored_bytes.are_enough_for(run)
        return cls(
            *(snapshot.version, stored, run, checksum, size, is_listed, needs_records),
            created_at=snapshot.created_at,
            has_packed_counts=has_packed_counts,
            stored_bytes=stored_bytes if suffice else None,
        )

    def with_records(self, records: Mapping[bytes, bytes]) -> CachedSession:
        """Return the same version with the records beside the state: open slots, times of acts and rows.

        Raises
        ------
        StateCorruptError
            where a record is not what this version writes.
        """
        try:
            slots, times, rows = found = records_codec.decode(records, self.run)
            consistency.check_records(self.run, found)
            run, name = self.run, codec.rows_field(self.run.learner.state_type)
            state = run.state if name is None else run.state._replace(**{name: rows})
            state = logs.replayed(state, rows or ()) if self.is_unread else state
        except (CodecError, ValueError, IndexError) as error:
            raise StateCorruptError from error
        run = replace(run, state=state, act_times=times, stored_rows=rows or ())
        if isinstance(run, SlotRun) and slots is not None:
            run = replace(run, open_slots=slots)
        return self._replace(run=run, needs_records=False, size=_memory(run))

    def schema(self, allowed: int) -> int:
        """Return the schema to write the next version in; counts are packed in sessions that began so.

        Parameters
        ----------
        allowed : the newest schema in which states may be written
        """
        if self.has_packed_counts:
            return max(allowed, codec.PACKED_COUNTS)
        return min(allowed, codec.PACKED_COUNTS - 1)

    @property
    def is_unread(self) -> bool:
        """Whether its learner's state is still to be made of the records."""
        return logs.is_unread(self.run.state)

    @classmethod
    def begun(cls, version: str, stored: Stored, run: Run, state: bytes) -> CachedSession:
        """Make a session before its first slot.

        Parameters
        ----------
        version : its first one
        stored : its specification, with a seed
        run : which no act or event has changed
        state : the bytes of the run's state
        """
        return cls(version, stored, run, state[-CHECKSUM_BYTES:], _memory(run), is_listed=True)

    @staticmethod
    def encode(run: Run, schema: int = codec.SCHEMA) -> bytes:
        """Return the bytes of a run's state.

        Parameters
        ----------
        run : the session's, in which the state is
        schema : of states, in which it is written; an older one that can't hold it is not taken
        """
        arms = run.arms if isinstance(run, ArmRun) else None
        shared = run.shared if isinstance(run, SegmentRun) else None
        return codec.encode(run.ledger, run.state, arms, schema, shared)

    def committed_as(
        self,
        written: Written,
        run: Run,
        effective: Effective | None,
        stored: Stored,
    ) -> CachedSession:
        """Return the session as this worker has just committed it.

        Parameters
        ----------
        written : by that commit
        run : taken over: nobody else may use it, or earlier copies of it, any more
        effective : what the commit showed of the distribution; None where the next one has to compute it
        stored : the specification, which the commit may have replaced
        """
        schema = written.state[codec.SCHEMA_BYTE]
        run.on_written(records_codec.rows_of(run, schema))
        if schema == 1:
            run.ledger.restart_means()
        if (stored_bytes := self.stored_bytes) is not None:
            stored_bytes = StoredBytes(written.spec or stored_bytes.spec, written.state)
            stored_bytes = stored_bytes if stored_bytes.are_enough_for(run) else None
        return CachedSession(
            *(written.version, stored, run, written.state[-CHECKSUM_BYTES:], _memory(run)),
            is_listed=True,
            effective=effective,
            created_at=self.created_at,
            has_packed_counts=schema >= codec.PACKED_COUNTS,
            stored_bytes=stored_bytes,
        )


def _begun(snapshot: Snapshot, stored: Stored) -> Run:
    """Start the run of a session that was read; refuse a state that is too short before memory is taken for it."""
    run = stored_specification.begun(snapshot.spec)
    if run is not None:
        return run
    consistency.check_length(snapshot.state, stored.specification.learner)
    return stored.start()


def _memory(run: Run) -> int:
    """Return about how many bytes a session takes; its state twice, as a commit makes the next beside it."""
    state = {id(part): part.nbytes for part in run.state if isinstance(part, np.ndarray)}
    by_arm = run.ledger.by_arm.nbytes if isinstance(run, ArmRun) else 0
    labels = run.arms.names or () if isinstance(run, ArmRun) else ()
    slots = run.open_slots.nbytes if isinstance(run, SlotRun) else 0
    acts = () if run.act_times is None else run.act_times.acts.values()
    arrays: int = sum(array.nbytes for array in (*acts, *run.stored_rows))
    segments = run.segments.nbytes if isinstance(run, SegmentRun) else 0
    objects = SESSION_BYTES + OBJECT_BYTES * len(labels)
    return 2 * (sum(state.values()) + by_arm) + arrays + slots + segments + objects
