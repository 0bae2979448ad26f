"""Which events are surplus: no outstanding decision can have caused them. They are checked in their order."""

from __future__ import annotations

from collections.abc import Callable
from itertools import repeat
from typing import Any

from ..learners.base import IntArray
from .feedback import ArmFeedback
from .open_slots import OpenSlots

SurplusChecker = Callable[[Any], bool]
"""Call it with one event after another: True where a decision is left that may have caused it; it takes that one.

Counts and open slots of the run stay as they are.
"""


def check_by_count(outstanding: int) -> SurplusChecker:
    """Return a checker of events each of which may be of any of the ``outstanding`` decisions."""
    left = repeat(True, outstanding)
    return lambda event: next(left, False)  # noqa: ARG005 - any event may be of any decision


def check_by_arm(outstanding: IntArray) -> SurplusChecker:
    """Return a checker of events that name an arm.

    Parameters
    ----------
    outstanding : decisions without feedback of each arm, by index, shape (arms,); it must not change meanwhile
    """
    left: dict[int, int] = {}

    def has_decision(event: ArmFeedback) -> bool:
        count = left.get(event.arm)
        left[event.arm] = (int(outstanding[event.arm]) if count is None else count) - 1
        return left[event.arm] >= 0

    return has_decision


def check_by_slot(open_slots: OpenSlots) -> SurplusChecker:
    """Return a checker of events that name their slot, one of ``open_slots``."""
    used: set[int | None] = set()

    def has_decision(event: ArmFeedback) -> bool:
        if event.slot in used or event.slot not in open_slots:
            return False
        used.add(event.slot)
        return True

    return has_decision
