"""Checks that specification, state and records that were read belong to one session.

A checksum shows that bytes are as they were written, but not that they were written for this session: somebody may
have copied a state from another session, or changed the specification beside it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..engine.arm_run import ArmRun
from ..engine.ledger import ArmLedger, Ledger
from ..engine.run import Run
from ..engine.segment_run import SegmentRun
from ..learners.base import Spec
from ..learners.segments import Shared
from ..learners.specs import ArmsSpec
from . import state as codec
from . import state as logs
from .binary import CodecError
from .records import Records

NUMBER_BYTES = 8
"""Bytes of an int64 or a float64."""


def check_length(state: bytes, spec: Spec) -> None:
    """Refuse a state too short for its learner, before memory of the learner's size is taken.

    Parameters
    ----------
    state : the bytes of the session's state, as stored
    spec : of the session's learner

    Raises
    ------
    CodecError
        where it is of fewer arms than the learner, or has fewer bytes than that has numbers.
    """
    ever = codec.arms_ever(state) if isinstance(spec, ArmsSpec) else None
    if len(state) < spec.size * NUMBER_BYTES if ever is None else ever < spec.size:
        raise CodecError("the state has fewer numbers than its learner")


def check_state(run: Run, ledger: Ledger, state: Any) -> None:
    """Refuse a ledger whose counts do not add up, and arrays of other shapes than the session's.

    Parameters
    ----------
    run : the same session at any moment, with the arms that were read
    ledger : the one that was read
    state : NamedTuple of the learner's state that was read; vectors still to be made of rows are not checked

    Raises
    ------
    CodecError
        where a shape differs, or the counts do not add up to the slots or, by arm, to the outstanding decisions.
    """
    settled = ledger.feedbacks + ledger.expired + ledger.removed + ledger.voided
    if ledger.slot != settled + ledger.outstanding:
        raise CodecError("the counts do not add up to the slots")
    live: tuple[int, ...] | None = None
    if isinstance(run, ArmRun) and isinstance(ledger, ArmLedger):
        live = (len(run.arms.live),)
        if ledger.by_arm.shape != (run.arms.size,) or ledger.by_arm.sum() != ledger.outstanding:
            raise CodecError("the counts are not those of this session's arms")
    if logs.is_unread(state):
        return
    fixed = codec.fixed_fields(run.learner.state_type)
    for name, known, part in zip(state._fields, run.state, state, strict=True):
        if isinstance(part, np.ndarray) and part.dtype.kind == "f":
            expected = known.shape if live is None or name in fixed else (*known.shape[:-1], *live)
            if part.shape != expected:
                raise CodecError("the state has not this session's sizes")


def check_shared(run: SegmentRun, shared: Shared) -> None:
    """Refuse what segments share where it has other sizes, or counts more segments than may be kept.

    Parameters
    ----------
    run : the same session at any moment
    shared : what its segments share, as it was read

    Raises
    ------
    CodecError
    """
    arrays = zip((shared.mixture_sums, shared.weights), (run.shared.mixture_sums, run.shared.weights), strict=True)
    if any(found.shape != known.shape for found, known in arrays) or not shared.weights.min() > 0:
        raise CodecError("the state is not that of segments")
    if not 0 <= shared.kept <= run.params.max_segments:
        raise CodecError("the session has not so many segments")


def check_records(run: Run, records: Records) -> None:
    """Refuse records that name arms the session never had, or rows of another length.

    Parameters
    ----------
    run : the session, with the arms and the state that were read
    records : those that were read beside its state

    Raises
    ------
    CodecError
        where a record does not fit.
    """
    if not isinstance(run, ArmRun):
        return
    size, live = run.arms.size, len(run.arms.live)
    slots, times, rows = records
    fits = (
        slots is None or slots.stored.are_arms_below(size),
        all(acts.size <= size for acts in (times.acts.values() if times is not None else ())),
        all(row.shape == (live,) for row in (rows or ())[: 1 if logs.is_unread(run.state) else None]),
    )
    if not all(fits):
        raise CodecError("the records are not those of this session's arms")
