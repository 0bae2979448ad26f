"""A control group as bytes: its counts in the head of the state, the rest as records beside it.

In the head stand the numbers of its ledger, as doubles, behind those of lists; behind the learner's outstanding
decisions by arm stand its own. Records that are written only when they change have keys that begin with ``c``:

- ``cb`` and a number: its acts in a bucket of time, as those of the learner,
- ``cp``: its probabilities, by live arm, once they are not those of the specification,
- ``cr``: a verdict that has begun anew, as doubles: its slot, of each group ``_PAST``, and of each group the open
  decisions from before, by live arm.
"""

from __future__ import annotations

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
numbers_of = attrgetter(*_NAMES)
"""Returns the numbers of a control group's ledger that a head has, in their order."""
_PAST = ("slot", "voided", "losses", "mean_loss", "squares")
"""Numbers of the decisions from before."""
MOST = 2**53
"""Counts are below it, so that a double has them exactly."""
MOST_SQUARES, SUM_TOLERANCE = 1e285, 1e-6


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
        past = [getattr(each, name) for each in restart.past for name in _PAST]
        body = np.concatenate([[restart.slot, *past], restart.open.ravel()], dtype="<f8").tobytes()
        records[RESTART] = record_of(RESTART, body)
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
        numbers = np.frombuffer(body, "<f8")
        slot, both = numbers.item(0), numbers[1 : 1 + 2 * len(_PAST)].reshape(2, -1).tolist()
        opened = numbers[1 + 2 * len(_PAST) :].reshape(2, n_arms).astype(np.int64)
        past = [Ledger(**dict(zip(_PAST, each, strict=True))) for each in both]
        for now, before, by_arm in zip((learner, control.ledger), past, opened, strict=True):
            is_part = 0 <= before.voided <= now.voided and _fits(before) and before.slot <= now.slot
            if not is_part or by_arm.min() < 0 or (by_arm > now.by_arm).any():
                raise CodecError("not the decisions from before of this session")
        if not 0 <= slot <= learner.slot + control.ledger.slot or slot != int(slot):
            raise CodecError("not a verdict that has begun anew")
        restart = Restart(int(slot), opened, (past[0], past[1]))
    return replace(control, p=p, restart=restart)
