"""When outstanding decisions were taken: counts per arm in buckets of time, not a record per act.

Events and expiry both settle the oldest outstanding decision of an arm. So the counts of a bucket never change
once its time has passed: the decisions of an arm that are still outstanding from up to a bucket are the arm's
outstanding ones less its acts in all later buckets.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from ..learners.base import IntArray
from .params import Expiry

PER_WINDOW = 64
"""Buckets in the time a decision may stay outstanding, which expires at most 1/64 of that time too late."""


@dataclass(slots=True)
class ActTimes:
    """Acts of each arm by bucket of time; a run over points counts all its acts as those of one arm."""

    width: float
    """Seconds of one bucket."""
    acts: dict[int, IntArray] = field(default_factory=dict)
    """Bucket number to acts, shape (arms there were,), in ascending order; arrays are replaced, never changed."""
    changed: set[int] = field(default_factory=set)
    """Numbers of the buckets that are to be written to the store."""

    @classmethod
    def of_session(cls, expiry: Expiry | None) -> ActTimes | None:
        """Start with no acts; return None for a session without expiry, which keeps no times."""
        return None if expiry is None else cls(expiry.after_seconds / PER_WINDOW)

    def copy(self) -> ActTimes:
        """Copy the buckets, so that the copy may change alone."""
        return replace(self, acts=self.acts.copy(), changed=self.changed.copy())

    def written(self) -> ActTimes:
        """Return the same buckets as they are once the store holds them."""
        return replace(self, changed=set())

    def act(self, time: float, arms: Sequence[int], n_arms: int) -> None:
        """Count acts.

        Parameters
        ----------
        time : of the acts, in Unix seconds
        arms : index of the arm of each, 0 over points
        n_arms : arms there ever were, 1 over points
        """
        bucket = int(time // self.width)
        acts = np.zeros(n_arms, dtype=np.int64) if bucket not in self.acts else self.acts[bucket].copy()
        acts.resize(n_arms, refcheck=False)
        for arm in arms:
            acts[arm] += 1
        self.acts[bucket] = acts
        self.changed.add(bucket)

    def acted_at(self, arm: int, outstanding: int) -> float | None:
        """Return the Unix time, to half a bucket, of the act of an arm's oldest outstanding decision.

        None where it is older than all buckets.

        Parameters
        ----------
        arm : its index, 0 over points
        outstanding : its decisions without feedback, one or more
        """
        for bucket, acts in reversed(self.acts.items()):
            outstanding -= int(acts[arm]) if arm < acts.size else 0
            if outstanding <= 0:
                return (bucket + 0.5) * self.width
        return None

    def opened_at(self, later: int) -> float | None:
        """Return the Unix time, to half a bucket, of the act that ``later`` other acts followed.

        None where it is older than all buckets.
        """
        for bucket, acts in reversed(self.acts.items()):
            later -= int(acts.sum())
            if later < 0:
                return (bucket + 0.5) * self.width
        return None

    def newest(self) -> int | None:
        """Return the number of the latest bucket."""
        return next(reversed(self.acts), None)

    def due_at(self) -> float | None:
        """Return the Unix time at which all decisions of the oldest bucket are due; None without acts."""
        oldest = next(iter(self.acts), None)
        return None if oldest is None else (oldest + 1 + PER_WINDOW) * self.width

    def drop_oldest(self) -> None:
        """Forget the oldest bucket."""
        oldest = next(iter(self.acts))
        del self.acts[oldest]
        self.changed.add(oldest)

    def total(self) -> int:
        """Return the number of acts in all buckets."""
        return sum(int(acts.sum()) for acts in self.acts.values())

    def before(self, outstanding: IntArray) -> IntArray:
        """Return how many of each arm's ``outstanding`` decisions, shape (arms,), are older than all buckets."""
        left = outstanding.copy()
        for acts in self.acts.values():
            left[: acts.size] -= acts
        return np.maximum(left, 0)
