"""A control group as bytes: its counts in the head of the state, the rest as records beside it.

In the head stand the numbers of its ledger, as doubles, behind those of lists; behind the learner's outstanding
decisions by arm stand its own. Records that are written only when they change have keys that begin with ``c``:

- ``cb`` and a number: its acts in a bucket of time, as those of the learner,
- ``cp``: its probabilities, by live arm, once they are not those of the specification,
- ``cr``: a verdict that has begun anew: slot and number of live arms, then of each group ``_PAST`` and by arm the
  open decisions from before.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import replace
from operator import attrgetter
from typing import Any

import numpy as np

from ..engine.control import Control, Restart
from ..engine.ledger import ArmLedger, Ledger
from ..learners.maths import LARGEST_VALUE
from ..store.base import LAST_SECOND
from .binary import CodecError, record_of

CONTROL = b"c"
"""First byte of the keys of its records."""
BUCKETS, PROBABILITIES, RESTART = b"cb", b"cp", b"cr"
_COUNTED = ("slot", "feedbacks", "expired", "removed", "total_delay", "outstanding", "voided", "losses")
_NAMES = (*_COUNTED, "mean_loss", "squares", "halted_at")
N_NUMBERS = len(_NAMES)
_numbers = attrgetter(*_NAMES)
_HEAD = struct.Struct("<qI")
_PAST = struct.Struct("<qqqdd")
"""Of the decisions from before: slots, those that are void, losses, their mean and their squares."""
_PAST_NAMES = ("slot", "voided", "losses", "mean_loss", "squares")
_past = attrgetter(*_PAST_NAMES)
MOST = 2**53
"""Counts are below it, so that a double has them exactly."""
MOST_SQUARES, SUM_TOLERANCE = 1e285, 1e-6


def numbers_of(ledger: ArmLedger) -> Sequence[float]:
    """Return the numbers of the group that a head has."""
    numbers: Sequence[float] = _numbers(ledger)
    return numbers


def ledger_of(numbers: Sequence[float]) -> ArmLedger:
    """Read what ``numbers_of`` returned, without the outstanding decisions by arm; CodecError for other numbers."""
    found: dict[str, Any] = dict(zip(_NAMES, numbers, strict=True))
    for name in _COUNTED:
        if not 0 <= found[name] <= MOST or found[name] != int(found[name]):
            raise CodecError("not the counts of a control group")
        found[name] = int(found[name])
    ledger = ArmLedger(**found)
    ended = ledger.feedbacks + ledger.expired + ledger.removed + ledger.voided
    if ledger.slot != ended + ledger.outstanding or not _fits(ledger) or not 0 <= ledger.halted_at <= LAST_SECOND:
        raise CodecError("the counts of the control group do not add up")
    return ledger


def _fits(ledger: Ledger) -> bool:
    has_mean = 0 <= ledger.mean_loss <= 2 * LARGEST_VALUE and 0 <= ledger.squares <= MOST_SQUARES
    return has_mean and 0 <= ledger.losses <= ledger.slot - ledger.voided


def encode(control: Control) -> dict[bytes, bytes | None]:
    """Return the records that are to be written, but those of its buckets, by key; None for one that goes."""
    records: dict[bytes, bytes | None] = {PROBABILITIES: None, RESTART: None}
    if control.p is not None:
        records[PROBABILITIES] = record_of(PROBABILITIES, control.p.astype("<f8").tobytes())
    if (restart := control.restart) is not None:
        parts = [_HEAD.pack(restart.slot, restart.open.shape[1])]
        for past, by_arm in zip(restart.past, restart.open, strict=True):
            parts += [_PAST.pack(*_past(past)), by_arm.astype("<i8").tobytes()]
        records[RESTART] = record_of(RESTART, b"".join(parts))
    return records


def decode(records: Mapping[bytes, bytes], control: Control, learner: ArmLedger) -> Control:
    """Return a group with what stands beside the state, but its buckets.

    Parameters
    ----------
    records : bodies by key
    control : as the state has it, with the probabilities of the specification
    learner : the counts of the other group

    Raises
    ------
    CodecError
        for what ``encode`` did not write of this session.
    """
    n_arms, p, restart = control.ledger.by_arm.size, control.p, None
    if (body := records.get(PROBABILITIES)) is not None:
        p = np.frombuffer(body, "<f8").copy()
    if p is not None and not (p.shape == (n_arms,) and (p >= 0).all() and abs(p.sum() - 1) <= SUM_TOLERANCE):
        raise CodecError("not the probabilities of this session's arms")
    if (body := records.get(RESTART)) is not None:
        (slot, size), end, past, opened = _HEAD.unpack_from(body), _HEAD.size, list[Ledger](), list[Any]()
        for now in (learner, control.ledger):
            numbers: Any = zip(_PAST_NAMES, _PAST.unpack_from(body, end), strict=True)
            before, by_arm = Ledger(**dict(numbers)), np.frombuffer(body, "<i8", n_arms, end + _PAST.size)
            fits = (before.slot <= now.slot, 0 <= before.voided <= now.voided, _fits(before))
            if not (all(fits) and (by_arm >= 0).all() and (by_arm <= now.by_arm).all()):
                raise CodecError("not the decisions from before of this session")
            past.append(before)
            opened.append(by_arm.astype(np.int64))
            end += _PAST.size + by_arm.nbytes
        if (size, end) != (n_arms, len(body)) or not 0 <= slot <= learner.slot + control.ledger.slot:
            raise CodecError("not a verdict that has begun anew")
        restart = Restart(slot, np.array(opened), (past[0], past[1]))
    return replace(control, p=p, restart=restart)
