"""Events of arms by index, as columns: most feedback is this, and an object for each costs as much as learning."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Self, overload

from .events import ArmEvent, Event, RewardEvent

_KINDS: Mapping[str, type[ArmEvent | RewardEvent]] = {"loss": ArmEvent, "reward": RewardEvent}


@dataclass(slots=True, eq=False)
class PlainEvents(Sequence[Event]):
    """A batch whose events have an arm, a number and perhaps an id, and nothing else.

    As a sequence it makes the events themselves, each once, when it is asked for it.
    """

    word: Literal["loss", "reward"]
    """What the numbers are."""
    arms: Sequence[int]
    """Index of each event's arm, 0 or more."""
    values: Sequence[float]
    """Loss or reward of each, finite."""
    event_ids: Sequence[str | None]
    """Of each, None where it has none."""
    _made: dict[int, Event] = field(default_factory=dict, init=False)

    @classmethod
    def joined(cls, batches: Sequence[Self]) -> Self:
        """Make one batch of several, one or more, whose numbers are all of one kind."""
        first, *others = batches
        arms, values, event_ids = list(first.arms), list(first.values), list(first.event_ids)
        for each in others:
            arms += each.arms
            values += each.values
            event_ids += each.event_ids
        return cls(first.word, arms, values, event_ids)

    def __len__(self) -> int:
        return len(self.arms)

    @overload
    def __getitem__(self, index: int) -> Event: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Event]: ...
    def __getitem__(self, index: int | slice) -> Event | Sequence[Event]:
        places = range(len(self))[index]
        return self._event(places) if isinstance(places, int) else [self._event(place) for place in places]

    def __iter__(self) -> Iterator[Event]:
        return map(self._event, range(len(self)))

    def _event(self, place: int) -> Event:
        if place not in self._made:
            fields = {"arm": self.arms[place], self.word: self.values[place], "event_id": self.event_ids[place]}
            self._made[place] = _KINDS[self.word].model_validate(fields)
        return self._made[place]
