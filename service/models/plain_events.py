"""Events of arms by index, as columns: most feedback is this, and an object for each costs as much as learning."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, overload

from .events import ArmEvent, Event, RewardEvent

_KINDS: Mapping[str, type[ArmEvent | RewardEvent]] = {"loss": ArmEvent, "reward": RewardEvent}


class PlainEvents(Sequence[Event]):
    """A batch whose events have an arm, a number and perhaps an id, and nothing else.

    As a sequence it makes the events themselves, once.

    Parameters
    ----------
    word : what the numbers are
    arms : index of each event's arm, 0 or more
    values : loss or reward of each, finite
    event_ids : of each, None where it has none
    """

    def __init__(
        self,
        word: Literal["loss", "reward"],
        arms: Sequence[int],
        values: Sequence[float],
        event_ids: Sequence[str | None],
    ) -> None:
        self.word = word
        self.arms = arms
        self.values = values
        self.event_ids = event_ids
        self._made: list[Event] | None = None

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
