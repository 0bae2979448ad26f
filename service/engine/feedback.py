"""What a learner is told: a loss of an arm, or the values of a slot at a point."""

from __future__ import annotations

from typing import NamedTuple

from ..learners.base import FloatArray


class ArmFeedback(NamedTuple):
    """One loss of an arm, by index, as the learner sees losses; ``slot`` where the client names it."""

    arm: int
    loss: float
    slot: int | None = None


class PointFeedback(NamedTuple):
    """One bundle of dim+1 losses, or one gradient of length dim."""

    values: FloatArray
