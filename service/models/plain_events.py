"""Events of arms by index, as columns: most feedback is this, and an object for each costs as much as learning."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, overload

from .events import ArmEvent, Event, RewardEvent

_KINDS: Mapping[str, type[ArmEvent | RewardEvent]] = {"loss": ArmEvent, "reward": RewardEvent}


@dataclass(slots=True, eq=False)
class PlainEvents(Sequence[Event]):
    """A batch whose events have an arm, a number and perhaps an id, and nothing else.

    As a sequence it makes the events themselves, once.
    """

    word: Literal["loss", "reward"]
    """What the numbers are."""
    arms: Sequence[int]
    """Index of each event's arm, 0 or more."""
    values: Sequence[float]
    """Loss or reward of each, finite."""
    event_ids: Sequence[str | None]
    """Of each, None where it has none."""
    _made: list[Event] | None = field(default=None, init=False)

    def __len__(self) -> int:
        return len(self.arms)

    @overload
    def __getitem__(self, index: int) -> Event: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Event]: ...
    def __getitem__(self, index: int | slice) -> Event | Sequence[Event]:
        return self._events()[index]

    def __iter__(self) -> Iterator[Event]:
        return iter(self._events())

    def _events(self) -> list[Event]:
        if self._made is None:
            kind = _KINDS[self.word]
            rows = zip(self.arms, self.values, self.event_ids, strict=True)
            self._made = [
                kind.model_validate({"arm": arm, self.word: value, "event_id": event_id})
                for arm, value, event_id in rows
            ]
        return self._made
