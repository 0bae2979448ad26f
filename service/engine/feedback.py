"""Feedback as runs take it: the loss of an arm, or the values at a point."""

from __future__ import annotations

from typing import NamedTuple

from ..learners.base import FloatArray


class ArmFeedback(NamedTuple):
    """One loss of an arm, by index, on the learner's scale (``LossRange.learned``); ``slot`` where it is named."""

    arm: int
    loss: float
    slot: int | None = None
    is_void: bool = False
    """Whether the decision was never shown: there is no loss, and ``loss`` means nothing."""
    segment: str = ""
    """Of the decision, in sessions with segments."""


class PointFeedback(NamedTuple):
    """One bundle of losses, shape (dim+1,), or one gradient, shape (dim,)."""

    values: FloatArray
    is_void: bool = False
    """Whether the decision was never shown: there are no values."""
