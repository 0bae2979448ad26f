"""Giving up decisions that have had their time."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..learners.base import ArmLearner, SlotLearner
from .open_slots import OpenSlots
from .run import Run


def expire_oldest(run: Run) -> Iterator[None]:
    """Settle what is outstanding in the oldest bucket, an arm (or a slot) at a step."""
    assert run.buckets is not None  # noqa: S101 - only called when due
    assert run.params.expiry is not None  # noqa: S101 - sessions with buckets have one
    run.buckets.drop_oldest()
    loss = run.params.expiry.loss
    if run.open_slots is not None:
        yield from _expire_slots(run, run.open_slots, run.ledger.slot - run.buckets.total(), loss)
        return
    ledger = run.ledger
    outstanding = np.array([ledger.outstanding]) if ledger.by_arm is None else ledger.by_arm
    counts = run.buckets.before(outstanding)
    for arm in np.flatnonzero(counts).tolist():
        _expire(run, arm, int(counts[arm]), loss)
        yield


def _expire(run: Run, arm: int, count: int, loss: float | None) -> None:
    learner = run.learner
    run.ledger.expire(arm, count)
    if not isinstance(learner, ArmLearner):
        return
    if loss is None:
        run.state = learner.give_up(run.state, count)
    else:
        run.state = learner.settle(run.state, run.arms.positions[arm], loss, count)


def _expire_slots(run: Run, open_slots: OpenSlots, last: int, loss: float | None) -> Iterator[None]:
    learner = run.learner
    assert isinstance(learner, SlotLearner)  # noqa: S101 - only they have open slots
    for arm, slot in open_slots.up_to(last):
        record = open_slots.close(slot).record
        run.ledger.expire(arm)
        if loss is None:
            run.state = learner.forget(run.state, record)
        else:
            run.state = learner.settle(run.state, run.arms.positions[arm], loss, record=record)
        yield
