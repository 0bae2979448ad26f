"""The arms a session has had, by index, and those it still has."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ..learners.base import FloatArray

REMOVED = -1
"""Position of a removed arm."""


class Change(NamedTuple):
    """Arms to remove, by index, and labels of the arms to add after that."""

    removed: Sequence[int]
    added: Sequence[str]


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Arms:
    """The arms of a session. An index is given once; a learner knows only live arms, by position 0, 1, ..."""

    live: Sequence[int]
    """Position to index, in ascending order."""
    positions: Sequence[int]
    """Index to position, ``REMOVED`` for a removed arm."""
    names: Sequence[str] | None = None
    """Label of every arm there ever was, by index, where the session named them."""
    labels: Mapping[str, int] | None = None
    """Label to the last index that had it."""
    added: Sequence[str] | None = None
    """Labels of the arms that came after the start; None where arms never changed."""

    @classmethod
    def of(cls, n_arms: int, names: Sequence[str] | None = None) -> Arms:
        """Start with ``n_arms`` live arms, labelled ``names`` where the session has labels."""
        return cls(range(n_arms), range(n_arms), names, None if names is None else _labels(names))

    @classmethod
    def at(cls, first: Sequence[str], added: Sequence[str], live: Sequence[int]) -> Arms:
        """Return arms as they were stored.

        Parameters
        ----------
        first, added : labels of the arms at the start, and of those added later
        live : indexes of the live arms, ascending
        """
        names = [*first, *added]
        return cls(live, _positions(len(names), live), names, _labels(names), added)

    @property
    def size(self) -> int:
        """Number of arms there ever were."""
        return len(self.positions)

    @property
    def shown_names(self) -> Sequence[str | None] | None:
        """Labels by index, None for removed arms."""
        if self.names is None or len(self.live) == self.size:
            return self.names
        return [name if place != REMOVED else None for name, place in zip(self.names, self.positions, strict=True)]

    def is_live(self, arm: int) -> bool:
        """Whether an arm, by index, has not been removed."""
        return self.positions[arm] != REMOVED

    def change(self, add: Iterable[str], remove: Iterable[str]) -> Change:
        """Return what removing and then adding these labels changes.

        Labels to remove that no live arm has, and labels to add that one has, change nothing.
        """
        labels = self.labels or {}
        leaving = {label for label in remove if label in labels and self.is_live(labels[label])}
        coming = [
            label
            for label in dict.fromkeys(add)
            if label in leaving or label not in labels or not self.is_live(labels[label])
        ]
        return Change(sorted(labels[label] for label in leaving), coming)

    def changed(self, change: Change) -> Arms:
        """Return the arms after a change."""
        places = [self.positions[arm] for arm in change.removed]
        live = np.delete(np.array(self.live), places).tolist()
        live += range(self.size, self.size + len(change.added))
        names, added = ([*(known or ()), *change.added] for known in (self.names, self.added))
        new = dict(zip(change.added, range(self.size, len(names)), strict=True))
        return Arms(live, _positions(len(names), live), names, {**(self.labels or {}), **new}, added)

    def spread(self, p: FloatArray) -> FloatArray:
        """Return numbers of live arms, shape (..., live), by index, shape (..., size), with 0 for removed arms."""
        if len(self.live) == self.size:
            return p
        spread = np.zeros((*p.shape[:-1], self.size))
        spread[..., list(self.live)] = p
        return spread


def _labels(names: Sequence[str]) -> dict[str, int]:
    return dict(zip(names, range(len(names)), strict=True))


def _positions(size: int, live: Sequence[int]) -> list[int]:
    positions = np.full(size, REMOVED)
    positions[np.array(live)] = np.arange(len(live))
    return positions.tolist()
