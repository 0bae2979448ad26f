"""What is counted in a session, whatever its learner: slots, decisions outstanding, events settled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..learners.base import IntArray


@dataclass(slots=True)
class Ledger:
    """Counts of one session.

    At every moment, in total and per arm: acts = settled by feedback + expired + removed + outstanding.
    """

    slot: int = 0
    """Acts so far; every act opens a slot."""
    feedbacks: int = 0
    """Events applied for clients."""
    expired: int = 0
    removed: int = 0
    total_delay: int = 0
    """Sum over closed slots of the decisions outstanding at the slot's end: the sum of delays so far."""
    outstanding: int = 0
    time: float = 0.0
    """Unix seconds the session has seen; they never go back."""
    by_arm: IntArray | None = None
    """Outstanding decisions of each arm there ever was; None for learners over points."""

    @classmethod
    def of(cls, n_arms: int | None) -> Ledger:
        """A fresh ledger; ``n_arms`` None for learners over points."""
        return cls(by_arm=None if n_arms is None else np.zeros(n_arms, dtype=np.int64))

    def copy(self) -> Ledger:
        """A ledger that may be changed without changing this one."""
        by_arm = None if self.by_arm is None else self.by_arm.copy()
        counts = (self.slot, self.feedbacks, self.expired, self.removed, self.total_delay, self.outstanding)
        return Ledger(*counts, self.time, by_arm)

    def open(self) -> int:
        """Close the open slot and open the next; its number, from 1."""
        self.total_delay += self.outstanding
        self.slot += 1
        self.outstanding += 1
        return self.slot

    def settle(self) -> None:
        """One outstanding decision has got its feedback."""
        self.outstanding -= 1
        self.feedbacks += 1

    def advance(self, time: float) -> None:
        """Take over the time, unless it went back."""
        self.time = max(self.time, time)

    def remove(self, arms: Sequence[int]) -> int:
        """Settle all that is outstanding of these arms as removed; how many decisions that are."""
        assert self.by_arm is not None  # noqa: S101 - only sessions over arms remove any
        count = int(self.by_arm[list(arms)].sum())
        self.by_arm[list(arms)] = 0
        self.outstanding -= count
        self.removed += count
        return count

    def add_arms(self, count: int) -> None:
        """Count for more arms."""
        assert self.by_arm is not None  # noqa: S101 - only sessions over arms add any
        self.by_arm = np.concatenate([self.by_arm, np.zeros(count, dtype=np.int64)])

    def expire(self, arm: int, count: int = 1) -> None:
        """Outstanding decisions of ``arm`` have had their time."""
        self.outstanding -= count
        self.expired += count
        if self.by_arm is not None:
            self.by_arm[arm] -= count
