"""When outstanding decisions were taken: counts per arm in buckets of time, not a record per act.

Within an arm the oldest outstanding decision is the one that is settled, by events and by expiry alike. So
the acts of a bucket never change after it has passed: of an arm's decisions in it, those still outstanding
are the arm's outstanding ones less its acts in all later buckets.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from ..learners.base import IntArray
from .params import Expiry

PER_WINDOW = 64
"""Buckets in the time a decision may stay outstanding: none expires later than 1/64 of it too late."""


@dataclass(slots=True)
class ActTimes:
    """Acts of each arm by bucket; learners over points count all acts as those of one arm."""

    width: float
    """Seconds of one bucket."""
    acts: dict[int, IntArray] = field(default_factory=dict)
    """Bucket to acts, shape (n_arms,), in ascending order; arrays are replaced, never changed."""
    changed: set[int] = field(default_factory=set)
    """Buckets the store does not hold as they are here."""

    @classmethod
    def of_session(cls, expiry: Expiry | None) -> ActTimes | None:
        """Start with no acts; None for a session without expiry, which keeps no times."""
        return None if expiry is None else cls(expiry.after_seconds / PER_WINDOW)

    def copy(self) -> ActTimes:
        """Buckets that may change without changing these."""
        return replace(self, acts=self.acts.copy(), changed=self.changed.copy())

    def written(self) -> ActTimes:
        """The same buckets, once the store holds them."""
        return replace(self, changed=set())

    def act(self, time: float, arm: int, n_arms: int) -> None:
        """Count one act."""
        bucket = int(time // self.width)
        acts = np.zeros(n_arms, dtype=np.int64) if bucket not in self.acts else self.acts[bucket].copy()
        acts.resize(n_arms, refcheck=False)
        acts[arm] += 1
        self.acts[bucket] = acts
        self.changed.add(bucket)

    def acted_at(self, arm: int, outstanding: int) -> float | None:
        """Unix seconds, to half a bucket, of the oldest of an arm's ``outstanding`` decisions."""
        for bucket, acts in reversed(self.acts.items()):
            outstanding -= int(acts[arm]) if arm < acts.size else 0
            if outstanding <= 0:
                return (bucket + 0.5) * self.width
        return None

    def opened_at(self, later: int) -> float | None:
        """Unix seconds, to half a bucket, of the act that ``later`` acts came after."""
        for bucket, acts in reversed(self.acts.items()):
            later -= int(acts.sum())
            if later < 0:
                return (bucket + 0.5) * self.width
        return None

    def newest(self) -> int | None:
        """The latest bucket."""
        return next(reversed(self.acts), None)

    def due_at(self) -> float | None:
        """Unix seconds at which the oldest bucket's decisions are all due; None without acts."""
        oldest = next(iter(self.acts), None)
        return None if oldest is None else (oldest + 1 + PER_WINDOW) * self.width

    def drop_oldest(self) -> None:
        """Forget the oldest bucket."""
        oldest = next(iter(self.acts))
        del self.acts[oldest]
        self.changed.add(oldest)

    def total(self) -> int:
        """Acts in all buckets."""
        return sum(int(acts.sum()) for acts in self.acts.values())

    def before(self, outstanding: IntArray) -> IntArray:
        """Of each arm's ``outstanding`` decisions, those older than all buckets."""
        left = outstanding.copy()
        for acts in self.acts.values():
            left[: acts.size] -= acts
        return np.maximum(left, 0)
