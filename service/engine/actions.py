"""What a run answers to an act: an arm, or a point."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ..learners.base import FloatArray


class ArmAction(NamedTuple):
    """A drawn arm, by index, and its probability in the distribution it was drawn from."""

    slot: int
    arm: int
    probability: float
    eligible: int = 0
    """Number of arms that could be drawn; 0 where that is not known."""


class ArmActions(NamedTuple):
    """Arms drawn in slots that follow each other: one entry for each."""

    slot: int
    """The first."""
    arms: Sequence[int]
    """By index."""
    probabilities: Sequence[float]
    eligible: int
    """Number of arms that could be drawn in each of the slots."""
    dropped: Sequence[int] = ()
    """Arms of the open slots that were dropped, one before each of these slots; none where there was room."""

    def one_by_one(self) -> Iterator[ArmActions]:
        """Return the slots one after the other, each with the one that was dropped before it."""
        rows = zip(self.arms, self.probabilities, self.dropped, strict=True)
        for slot, (arm, probability, dropped) in enumerate(rows, self.slot):
            yield ArmActions(slot, (arm,), (probability,), self.eligible, (dropped,))


class PointAction(NamedTuple):
    """A point, shape (dim,), and its query points, shape (dim, dim), or None where only x is played."""

    slot: int
    x: FloatArray
    query_points: FloatArray | None


Action = ArmAction | PointAction
