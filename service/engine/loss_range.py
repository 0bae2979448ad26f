"""From a posted loss to the loss a learner learns from."""

from __future__ import annotations

from typing import NamedTuple

from ..learners.maths.gradients import LARGEST_VALUE


class LossRange(NamedTuple):
    """[best, worst], two different finite numbers in either order.

    With ``normalize`` the learner gets (loss - best)/(worst - best), in [0, 1]; without it the posted loss, which
    must then be >= 0, because Lemma 2 of the paper fails for negative losses.
    """

    best: float = 0.0
    worst: float = 1.0
    normalize: bool = True

    def learned(self, loss: float) -> float:
        """Return the loss on the learner's scale, at most ``LARGEST_VALUE``.

        Raises
        ------
        ValueError
            outside the range, or negative where losses are taken raw.
        """
        low, high = min(self.best, self.worst), max(self.best, self.worst)
        if not low <= loss <= high:
            raise ValueError(f"loss must lie in [{low!r}, {high!r}]")
        if not self.normalize:
            if loss < 0:
                raise ValueError("loss must be >= 0 where losses are not normalised")
            return min(loss, LARGEST_VALUE)
        return (loss - self.best) / (self.worst - self.best)
