"""What a player is: a learner in many runs at once, each run with its own counts of events and open decisions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from service.learners.base import FloatArray, IntArray

Mask = NDArray[np.bool_]


class Turn:
    """What a player is told when a slot opens.

    Parameters
    ----------
    outstanding : open decisions of each run, shape (runs,)
    u, v : uniforms of the draw, shape (runs,)
    eligible : arms that may be drawn, shape (runs, arms); None: all
    """

    __slots__ = ("eligible", "outstanding", "u", "v")

    def __init__(self, outstanding: IntArray, u: FloatArray, v: FloatArray, eligible: Mask | None = None) -> None:
        self.outstanding, self.u, self.v, self.eligible = outstanding, u, v, eligible


class Player(ABC):
    """A learner in many runs. Arms are positions among the present ones.

    Parameters
    ----------
    default : the loss of a decision whose window passed; None: nothing is learned of it
    """

    def __init__(self, default: float | None) -> None:
        self.default = default

    @abstractmethod
    def act(self, turn: Turn) -> tuple[FloatArray, IntArray]:
        """Open a slot; return its distributions, shape (runs, arms), and the arms drawn, shape (runs,)."""

    @abstractmethod
    def settle(self, runs: IntArray, arms: IntArray, losses: FloatArray, slots: IntArray) -> None:
        """Learn losses of these runs, each named once; ``slots`` are those of the acts, for learners that ask."""

    def add_arms(self, count: int) -> None:
        """Add arms behind the others."""
        self._change(None, count)

    def remove_arms(self, positions: IntArray) -> None:
        """Remove arms in every run."""
        self._change(positions, 0)

    def _change(self, removed: IntArray | None, added: int) -> None:
        raise NotImplementedError

    def expire(self, runs: IntArray, arms: IntArray, slots: IntArray) -> None:
        """Let decisions end whose window passed without an event: learn the default loss."""
        if self.default is not None:
            self.settle(runs, arms, np.full(len(runs), self.default), slots)


def rounds(runs: IntArray) -> Iterator[IntArray]:
    """Yield indexes of ``runs`` so that each part names a run once, and the order within a run stays."""
    if len(runs) == 1:
        yield np.zeros(1, dtype=np.int64)
        return
    order = np.argsort(runs, kind="stable")
    ordered = runs[order]
    starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
    rank = np.arange(len(runs)) - np.repeat(starts, np.diff(np.r_[starts, len(runs)]))
    for number in range(int(rank.max()) + 1):
        yield order[rank == number]
