"""The segments of a session, as far as they are at hand, and which of them is dropped when there are too many."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from .kept_segment import OBJECT_BYTES, KeptSegment

MAX_BYTES = 32 * 2**20
"""Memory that the segments of one session may take, about, where a store has them too."""


@dataclass(slots=True)
class KeptSegments:
    """Segments by name: those read from the store, and the changes made since.

    Copies share what was read and have separate changes.
    """

    known: OrderedDict[str, KeptSegment | None] = field(default_factory=OrderedDict)
    """Segments as the store holds them; None for one that is not kept. The least recently changed comes first."""
    changes: dict[str, KeptSegment | None] = field(default_factory=dict)
    """Segments played or changed since, or dropped (None)."""
    oldest: tuple[tuple[int, str], ...] = ()
    """Last slots and names of the segments played least recently, ascending, as the store has them."""
    place: int = 0
    """How many of these have been found to be played or dropped since."""
    is_whole: bool = False
    """Whether there is no store, so that all segments are at hand."""
    nbytes: int = 0
    """Bytes of what is known, about."""

    def copy(self) -> KeptSegments:
        """Copy the segments, so that the copy may change alone."""
        return replace(self, changes=self.changes.copy())

    def is_known(self, name: str) -> bool:
        """Return whether it is known here if the session keeps a segment of this name."""
        return self.is_whole or name in self.changes or name in self.known

    def get(self, name: str) -> KeptSegment | None:
        """Return a segment; None where it is not kept.

        Raises
        ------
        LookupError
            where the store was not asked for it.
        """
        if name in self.changes:
            return self.changes[name]
        if not self.is_whole and name not in self.known:
            raise LookupError(f"segment {name!r} has not been read")
        return self.known.get(name)

    def put(self, name: str, kept: KeptSegment) -> None:
        """Keep a segment as it is now.

        Parameters
        ----------
        name : of the segment, as acts and events give it
        kept : what it has now; the next commit writes it
        """
        self.changes[name] = kept

    def drop_least_recent(self) -> None:
        """Drop the segment that was played least recently."""
        self.changes[self._least_recent()] = None

    def _least_recent(self) -> str:
        if self.is_whole and self.place >= len(self.oldest):
            kept = {**self.known, **self.changes}
            slots = ((each.last_slot, name) for name, each in kept.items() if each is not None)
            self.oldest, self.place = tuple(sorted(slots)), 0
        while self.place < len(self.oldest):
            slot, name = self.oldest[self.place]
            self.place += 1
            each = self.changes.get(name, self.known.get(name)) if self.is_known(name) else None
            if not self.is_known(name) or (each is not None and each.last_slot == slot):
                return name
        return min((each.last_slot, name) for name, each in self.changes.items() if each is not None)[1]

    def read(self, found: Mapping[str, KeptSegment | None], oldest: Iterable[tuple[int, str]]) -> KeptSegments:
        """Return the same with what the store has just been found to hold, and without changes.

        Parameters
        ----------
        found : segments by name; None for one that is not kept
        oldest : last slots and names of the segments played least recently, ascending
        """
        for name, each in found.items():
            self._note(name, each)
        return replace(self, oldest=tuple(oldest), place=0, changes={})

    def written(self) -> KeptSegments:
        """Return the same segments as they are once the store holds the changes.

        Earlier copies share what is known and must not be used any more.
        """
        for name, each in self.changes.items():
            self._note(name, each)
        return replace(self, changes={}, oldest=self.oldest if self.is_whole else ())

    def trim(self) -> None:
        """Forget what was changed least recently, where it takes too much memory."""
        while self.nbytes > MAX_BYTES and not self.is_whole:
            _, dropped = self.known.popitem(last=False)
            self.nbytes -= _size(dropped)

    def _note(self, name: str, each: KeptSegment | None) -> None:
        if name in self.known:
            self.nbytes -= _size(self.known.pop(name))
        self.known[name] = each
        self.nbytes += _size(each)


def _size(kept: KeptSegment | None) -> int:
    return OBJECT_BYTES if kept is None else kept.nbytes
