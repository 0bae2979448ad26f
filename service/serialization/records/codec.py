"""Bytes of what is kept beside a session's state and written only when it changes.

These are open slots, acts by bucket of time, and the rows of a learner's state.

Numbers are little-endian int64 and float64; every record ends with a CRC-32 of its key, a colon and itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from ...engine.ledger import ActTimes
from ...engine.open_slots import OpenSlots
from ...engine.run import Run, SlotRun
from ...learners.base import Rows
from ...store.base import PackedRecords
from .. import logs
from .. import state as codec
from ..binary import CodecError, foreign
from .record import body_of, record_of
from .slots import SlotReader, encode_slots
from .table import tables_of

BUCKET, ROW = b"b", b"r"
"""First byte of the keys of buckets and of rows; those of open slots are digits: see ``slots``."""
MAX_ARMS = 2**24
"""Most arms that a bucket can count: far more than any session may have."""


class Records(NamedTuple):
    """What a session keeps beside its state; None for what its kind of run does not have."""

    open_slots: OpenSlots | None
    act_times: ActTimes | None
    rows: Rows | None


def encode(run: Run, schema: int = codec.SCHEMA) -> dict[bytes, bytes | None]:
    """Return the records that changed since the last commit, by key; None for one to delete.

    Parameters
    ----------
    run : the session's, at the moment of that state
    schema : of the state that they stand beside
    """
    records: dict[bytes, bytes | None] = {}
    if isinstance(run, SlotRun):
        records |= encode_slots(run.open_slots)
    if run.act_times is not None:
        records |= _encode_act_times(run.act_times)
    rows = rows_of(run, schema)
    for number in range(len(rows), len(run.stored_rows)):
        records[ROW + b"%d" % number] = None
    for number, row in enumerate(rows):
        if number >= len(run.stored_rows) or row is not run.stored_rows[number]:
            key = ROW + b"%d" % number
            records[key] = record_of(key, row.astype("<f8").tobytes())
    return records


def dropped_act_times(run: Run) -> dict[bytes, None]:
    """Return the keys of all that the store may hold of a run's acts by bucket of time, to drop them."""
    times = run.act_times
    return {} if times is None else {BUCKET + b"%d" % bucket: None for bucket in times.acts.keys() | times.changed}


def rows_of(run: Run, schema: int = codec.SCHEMA) -> Rows:
    """Return the rows of a run's state, () where it has none.

    Parameters
    ----------
    run : of any session
    schema : of the state that they stand beside: logs have rows from ``COMPACT`` on

    Returns
    -------
    float64 arrays; of learners with rows shape (n_arms,) each, of a log as ``logs.rows_of`` has them.
    """
    has_log = schema >= codec.COMPACT and getattr(run.state, "log", None) is not None
    log = logs.log_of(run.state, codec.least_logged_arms(schema)) if has_log else None
    if log is not None and log.is_stored:
        return logs.rows_of(run.state, run.stored_rows)
    name = codec.rows_field(run.learner.state_type)
    rows: Rows = () if name is None else getattr(run.state, name)
    return rows


def decode(records: Mapping[bytes, bytes], run: Run) -> Records:
    """Read all that a session keeps beside its state.

    Parameters
    ----------
    records : key to bytes, as the store holds them
    run : the session's run at the moment of its state

    Raises
    ------
    CodecError
        for anything ``encode`` did not write.
    """
    by_kind: dict[bytes, dict[bytes, bytes]] = {BUCKET: {}, ROW: {}}
    packed = PackedRecords.of(records)
    slots = SlotReader(packed.count)
    with foreign("records of this session"):
        for table in tables_of(packed):
            are_others = table.begin_with(BUCKET + ROW)
            for key, data in table.items(are_others):
                by_kind[key[:1]][key] = body_of(key, data)
            for keys, values in table.blocks(~are_others):
                slots.read(keys, values)
        times = ActTimes.of_session(run.params.expiry)
        times = None if times is None else _decode_act_times(by_kind[BUCKET], times)
        open_slots = slots.open_slots() if isinstance(run, SlotRun) else None
        return Records(open_slots, times, _decode_rows(by_kind[ROW], run))


def _decode_rows(records: Mapping[bytes, bytes], run: Run) -> Rows | None:
    is_logged = logs.is_unread(run.state)
    if codec.rows_field(run.learner.state_type) is None and not is_logged:
        return None
    count = len(records) if is_logged else len(rows_of(run))
    try:
        return tuple(np.frombuffer(records[ROW + b"%d" % number], "<f8").copy() for number in range(count))
    except KeyError as error:
        raise CodecError("a row of the state is missing") from error


def _encode_act_times(times: ActTimes) -> dict[bytes, bytes | None]:
    """Key: ``b`` and the bucket's number. Record: number of arms, indexes of arms with acts, their acts."""
    records: dict[bytes, bytes | None] = {}
    for bucket in times.changed:
        key, acts = BUCKET + b"%d" % bucket, times.acts.get(bucket)
        if acts is None:
            records[key] = None
        else:
            arms = np.flatnonzero(acts)
            records[key] = record_of(key, np.concatenate([[acts.size], arms, acts[arms]]).astype("<i8").tobytes())
    return records


def _decode_act_times(records: Mapping[bytes, bytes], times: ActTimes) -> ActTimes:
    for key in sorted(records, key=lambda key: int(key[len(BUCKET) :])):
        numbers = np.frombuffer(records[key], "<i8")
        arms, counts = np.split(numbers[1:], 2)
        if not 0 <= numbers[0] <= MAX_ARMS:
            raise CodecError("no session has so many arms")
        acts = np.zeros(int(numbers[0]), dtype=np.int64)
        acts[arms] = counts
        times.acts[int(key[len(BUCKET) :])] = acts
    return times
