"""From a posted loss to the loss a learner learns from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

from ..learners.maths import LARGEST_VALUE


class LossRange(NamedTuple):
    """[best, worst], two different finite numbers in either order.

    With ``normalize`` the learner gets (loss - best)/(worst - best), in [0, 1]; without it the posted loss, which
    must then be >= 0, because Lemma 2 of the paper fails for negative losses.
    """

    best: float = 0.0
    worst: float = 1.0
    normalize: bool = True
    word: Literal["loss", "reward"] = "loss"
    """What clients post: rewards have their worst first in ``reward_range``, and are learned alike."""

    def share(self, loss: float) -> float:
        """Return where a loss of the range lies in it: 0 for the best, 1 for the worst."""
        return (loss - self.best) / (self.worst - self.best)

    def shares(self, losses: Sequence[float]) -> Sequence[float]:
        """Return ``share`` of each of these losses."""
        best, width = self.best, self.worst - self.best
        return [(loss - best) / width for loss in losses]

    def posted(self, learned: float) -> float:
        """Return what clients post for a loss on the learner's scale."""
        return self.best + learned * (self.worst - self.best) if self.normalize else learned

    def at_share(self, share: float) -> float:
        """Return the loss that lies at a share of the range: what ``share`` was given."""
        return self.best + share * (self.worst - self.best)

    def learned(self, loss: float) -> float:
        """Return the loss on the learner's scale, at most ``LARGEST_VALUE``.

        Raises
        ------
        ValueError
            outside the range, or negative where losses are taken raw.
        """
        low, high = min(self.best, self.worst), max(self.best, self.worst)
        if not low <= loss <= high:
            raise ValueError(f"{self.word} must lie in [{low!r}, {high!r}]")
        if not self.normalize:
            if loss < 0:
                raise ValueError("loss must be >= 0 where losses are not normalised")
            return min(loss, LARGEST_VALUE)
        return self.share(loss)

    def all_learned(self, losses: Sequence[float]) -> Sequence[float] | None:
        """Return ``learned`` of each of these losses, one or more; None where it refuses one."""
        low, high = min(losses), max(losses)
        if low < min(self.best, self.worst) or high > max(self.best, self.worst):
            return None
        if self.normalize:
            return self.shares(losses)
        return None if low < 0 else [min(loss, LARGEST_VALUE) for loss in losses]
