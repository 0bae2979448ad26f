"""The arms a session has had, by index, and those it still has."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from ..learners.base import FloatArray, IntArray

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
    paused: frozenset[int] = frozenset()
    """Live arms, by index, that are never drawn."""
    unpaused: IntArray | None = None
    """Positions of the live arms that are not paused, ascending; None where none is paused."""

    @classmethod
    def of(cls, n_arms: int, names: Sequence[str] | None = None) -> Arms:
        """Start with ``n_arms`` live arms.

        Parameters
        ----------
        n_arms : arms at the start, one or more
        names : a label for each arm, all different; None where the session has no labels
        """
        return _unnamed(n_arms) if names is None else cls(range(n_arms), range(n_arms), names, _labels(names))

    @classmethod
    def at(
        cls, first: Sequence[str], added: Sequence[str], live: Sequence[int], paused: Iterable[int] = ()
    ) -> Arms:
        """Return arms as they were stored.

        Parameters
        ----------
        first, added : labels of the arms at the start, and of those added later
        live : indexes of the live arms, ascending
        paused : indexes of those of them that are paused
        """
        names = [*first, *added]
        positions = _positions(len(names), live)
        return cls(live, positions, names, _labels(names), added, *_pauses(positions, len(live), paused))

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
        """Return whether an arm, by index, has not been removed."""
        return self.positions[arm] != REMOVED

    def find(self, names: Iterable[int | str]) -> tuple[IntArray, int]:
        """Find the arms, by index or label, that may be drawn.

        Returns
        -------
        their positions, ascending, and how many different names are not of such an arm: they are of a removed or
        paused arm, or of none
        """
        different = set(names)
        found = [place for name in different if (place := self._drawable(name)) != REMOVED]
        return np.array(sorted(found), dtype=np.int64), len(different) - len(found)

    def _drawable(self, name: int | str) -> int:
        """Return the position of an arm that may be drawn, by index or label, else ``REMOVED``."""
        arm = (self.labels or {}).get(name, self.size) if isinstance(name, str) else name
        return REMOVED if arm >= self.size or arm in self.paused else self.positions[arm]

    def without(self, positions: IntArray) -> IntArray:
        """Return the positions, ascending, of the arms that may be drawn, but for these positions."""
        may_be_drawn = np.ones(len(self.live), dtype=bool)
        may_be_drawn[positions] = False
        if self.unpaused is not None:
            return self.unpaused[may_be_drawn[self.unpaused]]
        return np.flatnonzero(may_be_drawn)

    def with_pauses(self, resume: Iterable[str], pause: Iterable[str]) -> Arms:
        """Return the arms after resuming some and then pausing others; labels that no live arm has change nothing.

        Parameters
        ----------
        resume : labels of paused arms that may be drawn again
        pause : labels of arms that are not to be drawn; one that is also in ``resume`` is paused
        """
        resumed, stopped = self._live_arms(resume), self._live_arms(pause)
        paused = (self.paused - resumed) | stopped
        if paused == self.paused:
            return self
        paused, unpaused = _pauses(self.positions, len(self.live), paused)
        return replace(self, added=self.added or [], paused=paused, unpaused=unpaused)

    def _live_arms(self, labels: Iterable[str]) -> frozenset[int]:
        known = self.labels or {}
        return frozenset(known[label] for label in labels if label in known and self.is_live(known[label]))

    def change(self, add: Iterable[str], remove: Iterable[str]) -> Change:
        """Return what removing some labels and then adding others changes.

        Labels to remove that no live arm has, and labels to add that one has, change nothing.

        Parameters
        ----------
        add : labels; one that is also in ``remove`` is given to a new arm
        remove : labels
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
        positions, paused = _positions(len(names), live), self.paused.difference(change.removed)
        labels = {**(self.labels or {}), **new}
        return Arms(live, positions, names, labels, added, *_pauses(positions, len(live), paused))

    def spread(self, p: FloatArray) -> FloatArray:
        """Return numbers of live arms, shape (..., live), by index, shape (..., size), with 0 for removed arms."""
        if len(self.live) == self.size:
            return p
        spread = np.zeros((*p.shape[:-1], self.size))
        spread[..., list(self.live)] = p
        return spread


@lru_cache(maxsize=64)
def _unnamed(n_arms: int) -> Arms:
    """Return arms without labels, which never change: sessions share them."""
    return Arms(range(n_arms), range(n_arms))


def _labels(names: Sequence[str]) -> dict[str, int]:
    return dict(zip(names, range(len(names)), strict=True))


def _pauses(positions: Sequence[int], n_live: int, paused: Iterable[int]) -> tuple[frozenset[int], IntArray | None]:
    """Return the paused arms, by index, and the positions of the others, None where none is paused."""
    stopped = frozenset(paused)
    if not stopped:
        return stopped, None
    may_be_drawn = np.ones(n_live, dtype=bool)
    may_be_drawn[[positions[arm] for arm in stopped]] = False
    return stopped, np.flatnonzero(may_be_drawn)


def _positions(size: int, live: Sequence[int]) -> list[int]:
    positions = np.full(size, REMOVED)
    positions[np.array(live, dtype=np.int64)] = np.arange(len(live))
    return positions.tolist()
