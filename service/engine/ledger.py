"""What is counted in a session: slots, decisions outstanding, events settled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from operator import attrgetter

import numpy as np

from ..learners.base import IntArray


@dataclass(slots=True)
class Ledger:
    """Counts of one session.

    At every moment: acts = settled by feedback + expired + removed + voided + outstanding.
    """

    slot: int = 0
    """Acts so far; every act opens a slot."""
    feedbacks: int = 0
    """Events settled for clients."""
    expired: int = 0
    """Decisions given up: their time was over, or there were too many open slots."""
    removed: int = 0
    """Decisions that were outstanding when their arm was removed."""
    total_delay: int = 0
    """Sum over closed slots of the decisions outstanding at the slot's end: the sum of delays so far, in slots."""
    outstanding: int = 0
    """Decisions that wait for feedback."""
    time: float = 0.0
    """The latest time seen, in Unix seconds; it never goes back."""
    voided: int = 0
    """Decisions taken back: they were never shown, and nothing was learned."""
    losses: int = 0
    """Losses learned: of events, and of decisions that expired at a default loss."""
    counted_from_slot: int = 0
    """The slot that was open when the counts from ``losses`` on began; 0 where they began with the session."""
    mean_loss: float = 0.0
    """Mean of ``losses`` losses on the learner's scale; exactly the loss where all are alike."""
    last_act_at: float = 0.0
    """Unix seconds of the last act, 0 before the first."""
    last_event_at: float = 0.0
    """Unix seconds of the last event that settled a decision, 0 before the first."""
    equal_losses: bool = True
    """Whether all losses were alike."""

    def copy(self) -> Ledger:
        """Copy the counts, so that the copy may change alone."""
        return Ledger(*_counts(self))

    def open(self, count: int = 1) -> int:
        """Close the open slot, open the next (``count`` of them in a row), and return the last's number, from 1."""
        self.total_delay += count * self.outstanding + count * (count - 1) // 2
        self.slot += count
        self.outstanding += count
        self.last_act_at = self.time
        return self.slot

    def settle(self) -> None:
        """Count the feedback of one outstanding decision."""
        self.outstanding -= 1
        self.feedbacks += 1
        self.last_event_at = self.time

    def void(self) -> None:
        """Count one outstanding decision as taken back."""
        self.outstanding -= 1
        self.voided += 1
        self.last_event_at = self.time

    def learn(self, loss: float, count: int = 1) -> None:
        """Count losses that are all alike.

        Parameters
        ----------
        loss : each of them, on the learner's scale
        count : how many, one or more
        """
        self.equal_losses = self.equal_losses and (not self.losses or loss == self.mean_loss)
        self.losses += count
        # A mean moved like this stays finite, and is exactly the loss while all are alike.
        self.mean_loss += (loss - self.mean_loss) * (count / self.losses)

    def expire(self, count: int) -> None:
        """Count ``count`` outstanding decisions as expired."""
        self.outstanding -= count
        self.expired += count

    def restart_means(self) -> None:
        """Forget what the first schema of states can't hold, as a reader of such a state does."""
        self.losses, self.counted_from_slot = 0, self.slot
        self.mean_loss, self.last_act_at, self.last_event_at, self.equal_losses = 0.0, 0.0, 0.0, True


_counts = attrgetter(*(count.name for count in fields(Ledger)))


@dataclass(slots=True)
class ArmLedger(Ledger):
    """Counts of a session over arms; the equation of ``Ledger`` holds for every arm, too."""

    by_arm: IntArray = field(kw_only=True)
    """Outstanding decisions of each arm there ever was, shape (arms,), by index."""

    @classmethod
    def of(cls, n_arms: int) -> ArmLedger:
        """Start at 0, with ``n_arms`` arms."""
        return cls(by_arm=np.zeros(n_arms, dtype=np.int64))

    def copy(self) -> ArmLedger:
        return ArmLedger(*_counts(self), by_arm=self.by_arm.copy())

    def settle_of(self, arm: int) -> None:
        """Count the feedback of one outstanding decision of an arm, by index."""
        self.settle()
        self.by_arm[arm] -= 1

    def settle_all(self, arms: Sequence[int], losses: Sequence[float]) -> None:
        """Count events of outstanding decisions, in order, and their losses.

        That is ``settle_of`` and ``learn`` of one after the other, in half the time.

        Parameters
        ----------
        arms : of each event, by index
        losses : of each event, on the learner's scale
        """
        self.outstanding -= len(arms)
        self.feedbacks += len(arms)
        self.last_event_at = self.time
        if len(arms) == 1:  # In a tenth of the time.
            self.by_arm[arms[0]] -= 1
        else:
            np.subtract.at(self.by_arm, arms, 1)
        count, mean, equal = self.losses, self.mean_loss, self.equal_losses
        for loss in losses:
            equal = equal and (not count or loss == mean)
            count += 1
            mean += (loss - mean) * (1 / count)
        self.losses, self.mean_loss, self.equal_losses = count, mean, equal

    def void_of(self, arm: int) -> None:
        """Count one outstanding decision of an arm, by index, as taken back."""
        self.void()
        self.by_arm[arm] -= 1

    def expire_of(self, arm: int, count: int = 1) -> None:
        """Count outstanding decisions of an arm as expired.

        Parameters
        ----------
        arm : its index
        count : how many expire, at most as many as are outstanding
        """
        self.expire(count)
        self.by_arm[arm] -= count

    def remove(self, arms: Sequence[int]) -> int:
        """Count all outstanding decisions of these arms, by index, as removed; return how many they are."""
        count = int(self.by_arm[list(arms)].sum())
        self.by_arm[list(arms)] = 0
        self.outstanding -= count
        self.removed += count
        return count

    def add_arms(self, count: int) -> None:
        """Count for ``count`` more arms."""
        self.by_arm = np.concatenate([self.by_arm, np.zeros(count, dtype=np.int64)])
