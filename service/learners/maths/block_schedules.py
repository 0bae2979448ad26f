"""When the composite-loss wrapper (Cesa-Bianchi et al. 2018) updates its inner learner, and on which sum of losses.

The wrapper plays one action for many slots and adds up all losses that arrive in a slot. In an update it gives a
scaled sum over the last slots to an inner learner as if that were the loss of the action.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any, NamedTuple

import numpy as np

from ..base import FloatArray, Slot

MAX_RANDOM_DELAY = 10_000
"""The random schedule keeps the sums of max_delay + 1 slots; longer windows are refused."""


class Kind(StrEnum):
    """Blocks of fixed length, or updates at random times (Cesa-Bianchi et al. 2018)."""

    BLOCKS = "blocks"
    RANDOM = "random"


class Clock(NamedTuple):
    """Where a run stands in its schedule."""

    sums: FloatArray
    """Losses that arrived, shape (..., window, values): per slot of the window, or their sum in one row."""
    t: int
    quiet: Any
    """Number of slots in a row, up to this one, that drew no update (drawn with probability 1/(2d))."""
    updating: Any
    """Whether the open slot ends in an update."""


class Schedule:
    """A schedule for a largest delay.

    Parameters
    ----------
    kind : blocks or random
    max_delay : d-bar; 0 is taken as 1 in blocks
    values : numbers per loss: 1, or dim+1 for bundles
    """

    def __init__(self, kind: Kind, max_delay: int, values: int) -> None:
        self._random = kind is Kind.RANDOM
        self._delay = max_delay + 1 if self._random else max(1, max_delay)
        self._rows = self._delay if self._random else 1
        self._values = values

    def start(self) -> Clock:
        """Return the clock before the first slot."""
        return Clock(np.zeros((self._rows, self._values)), 0, 0, False)

    def updates(self, horizon: int) -> float:
        """Return the expected number of updates in ``horizon`` slots, at least 1, for the theorem's rates."""
        length = 2 * self._delay
        if not self._random:
            return max(1.0, horizon / length)
        return max(1.0, horizon / length * (1 - 1 / length) ** (length - 2))

    def loss(self, clock: Clock) -> FloatArray:
        """Return the loss, shape (..., values), from which the inner learner learns if the closing slot updates."""
        divisor = 2 * self._delay if self._random else self._delay
        total: FloatArray = clock.sums.sum(axis=-2) / divisor
        return total

    def open(self, clock: Clock, slot: Slot) -> Clock:
        """Return the clock of the next slot, with its sum at 0 and whether it ends in an update.

        Parameters
        ----------
        clock : of the slot that closes
        slot : the one that opens; the random schedule updates by its ``v``
        """
        t, length = clock.t + 1, 2 * self._delay
        sums = clock.sums
        if self._random or (t - 1) % self._delay == 0:
            sums = sums.copy()
            sums[..., t % self._rows, :] = 0.0
        if not self._random:
            return Clock(sums, t, clock.quiet, t % length == 0)
        heads = slot.v < 1 / length
        updating = heads & (clock.quiet >= length - 2)
        return Clock(sums, t, np.where(heads, 0, clock.quiet + 1)[()], updating)

    def add(self, clock: Clock, loss: Any) -> Clock:
        """Return the clock after a loss has arrived.

        Parameters
        ----------
        clock : of the open slot
        loss : shape (..., values)
        """
        sums = clock.sums.copy()
        sums[..., clock.t % self._rows, :] += loss
        return clock._replace(sums=sums)
