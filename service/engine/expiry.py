"""Giving up decisions that waited too long for feedback."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..learners.base import IntArray
from .arm_run import ArmRun
from .run import Run
from .slot_run import SlotRun


def expire_oldest(run: Run) -> Iterator[tuple[int, int]]:
    """Expire what is outstanding of the oldest times of acts; each step expires one arm, or one open slot.

    A session without expiry has nothing to expire. All steps must be taken.

    Yields
    ------
    The arm's index, 0 over points, and how many of its decisions expired.
    """
    times, expiry = run.act_times, run.params.expiry
    if times is None or expiry is None:
        return
    times.drop_oldest()
    if isinstance(run, SlotRun):
        yield from _expire_slots(run, run.ledger.slot - times.total(), expiry.loss)
    elif isinstance(run, ArmRun):
        yield from _expire_arms(run, times.before(run.ledger.by_arm), expiry.loss)
    elif count := int(times.before(np.array([run.ledger.outstanding]))[0]):
        run.ledger.expire(count)
        yield 0, count


def _expire_arms(run: ArmRun, counts: IntArray, loss: float | None) -> Iterator[tuple[int, int]]:
    """Expire ``counts`` decisions of each arm, by index."""
    for arm in np.flatnonzero(counts).tolist():
        count = int(counts[arm])
        run.expire(arm, count, loss)
        yield arm, count


def _expire_slots(run: SlotRun, last: int, loss: float | None) -> Iterator[tuple[int, int]]:
    """Expire the open slots up to number ``last``."""
    learner = run.learner
    for arm, slot in run.open_slots.up_to(last):
        record = run.open_slots.close(slot).record
        run.ledger.expire_of(arm)
        if loss is None:
            run.state = learner.forget(run.state, record)
        else:
            run.ledger.learn(loss)
            run.state = learner.settle(run.state, run.arms.positions[arm], loss, record=record)
        yield arm, 1
