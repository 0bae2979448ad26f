"""Which events no outstanding decision can have caused: judged greedily, in their order."""

from __future__ import annotations

from collections.abc import Callable
from itertools import repeat

from ..learners.base import IntArray
from .feedback import ArmFeedback, Feedback
from .ledger import Ledger
from .open_slots import OpenSlots

Judge = Callable[[Feedback], bool]
"""Tells of one event after the other whether a decision that may have caused it was left, which it then takes."""


def judge_of(ledger: Ledger, open_slots: OpenSlots | None) -> Judge:
    """A judge of events that come next; ledger and open slots stay as they are."""
    if open_slots is not None:
        return _slots_taken(open_slots)
    if ledger.by_arm is not None:
        return _arms_taken(ledger.by_arm)
    left = repeat(True, ledger.outstanding)
    return lambda event: next(left, False)  # noqa: ARG005 - any event answers any decision


def _arms_taken(by_arm: IntArray) -> Judge:
    left: dict[int, int] = {}

    def takes(event: Feedback) -> bool:
        assert isinstance(event, ArmFeedback)  # noqa: S101 - sessions check the kind of event first
        count = left.get(event.arm)
        left[event.arm] = (int(by_arm[event.arm]) if count is None else count) - 1
        return left[event.arm] >= 0

    return takes


def _slots_taken(open_slots: OpenSlots) -> Judge:
    taken: set[int | None] = set()

    def takes(event: Feedback) -> bool:
        assert isinstance(event, ArmFeedback)  # noqa: S101 - sessions check the kind of event first
        if event.slot in taken or event.slot not in open_slots:
            return False
        taken.add(event.slot)
        return True

    return takes
