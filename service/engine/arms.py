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
    """Arms that leave, by index, and labels of arms that come, after them."""

    removed: Sequence[int]
    added: Sequence[str]


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Arms:
    """Indexes are given once and never again; a learner sees only live arms, at positions 0, 1, ... among them."""

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
        """All arms live."""
        return cls(range(n_arms), range(n_arms), names, None if names is None else _labels(names))

    @classmethod
    def at(cls, first: Sequence[str], added: Sequence[str], live: Sequence[int]) -> Arms:
        """Some arms live, by ascending index, of those of the start and those that came after it."""
        names = [*first, *added]
        return cls(live, _positions(len(names), live), names, _labels(names), added)

    @property
    def size(self) -> int:
        """Arms there ever were."""
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
        """What removing and then adding labels comes to; absent ones leave and present ones come without effect."""
        labels = self.labels or {}
        leaving = {label for label in remove if label in labels and self.is_live(labels[label])}
        coming = [
            label
            for label in dict.fromkeys(add)
            if label in leaving or label not in labels or not self.is_live(labels[label])
        ]
        return Change(sorted(labels[label] for label in leaving), coming)

    def changed(self, change: Change) -> Arms:
        """The arms after a change."""
        places = [self.positions[arm] for arm in change.removed]
        live = np.delete(np.array(self.live), places).tolist()
        live += range(self.size, self.size + len(change.added))
        names, added = ([*(known or ()), *change.added] for known in (self.names, self.added))
        new = dict(zip(change.added, range(self.size, len(names)), strict=True))
        return Arms(live, _positions(len(names), live), names, {**(self.labels or {}), **new}, added)

    def spread(self, p: FloatArray) -> FloatArray:
        """Numbers of live arms, by index, 0 for removed ones."""
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
