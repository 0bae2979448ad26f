"""What the service acknowledged to the clients of one session."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from loadtest.errors import ServiceError

Action = Mapping[str, Any]
"""With ``slot``, ``arm`` and ``probability`` as the answer had them."""
Event = Mapping[str, Any]


class AcknowledgedAct(NamedTuple):
    """An act as the service acknowledged it."""

    key: str
    body: Mapping[str, Any]
    actions: Sequence[Action]


@dataclass
class Ledger:
    """Everything that the service acknowledged; all clients of the session share it.

    Parameters
    ----------
    word : the field of events with the number
    has_log : whether the session keeps a decision log
    """

    session_id: str
    word: str = "loss"
    has_log: bool = False
    acts: list[AcknowledgedAct] = field(default_factory=list)
    events: dict[str, Event] = field(default_factory=dict)
    """Acknowledged events by id, voids among them."""
    failures: list[str] = field(default_factory=list)
    """Calls that were never acknowledged, or refused."""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def path(self) -> str:
        """The session's address."""
        return f"/v1/sessions/{self.session_id}"

    @property
    def actions(self) -> list[Action]:
        """All acknowledged actions."""
        return [action for act in self.acts for action in act.actions]

    @property
    def slots(self) -> int:
        """Distinct slots that were acknowledged."""
        return len({action["slot"] for action in self.actions})

    def is_void(self, event: Event) -> bool:
        """Whether the event says that its decision was never shown."""
        return event[self.word] is None

    @property
    def voided(self) -> int:
        """Acknowledged voids."""
        return sum(map(self.is_void, self.events.values()))

    def acted(self, key: str, body: Mapping[str, Any], actions: Sequence[Action]) -> None:
        """Note an act."""
        with self._lock:
            self.acts.append(AcknowledgedAct(key, body, actions))

    def settled(self, events: Sequence[Event], answer: Mapping[str, int]) -> None:
        """Note events that count by the answer."""
        with self._lock:
            self.events.update((event["event_id"], event) for event in events)
            if sum(answer.get(name, 0) for name in ("applied", "duplicates", "voided")) != len(events):
                self.failures.append(f"{len(events)} events sent, the answer was {answer}")

    def failed(self, error: ServiceError) -> None:
        """Note a call that was given up."""
        with self._lock:
            self.failures.append(str(error))

    def by_arm(self) -> dict[int, Counter[str]]:
        """Return what the list of arms should show of each: acts, feedbacks, voids, and their values' sum."""
        found: dict[int, Counter[str]] = {}
        for action in self.actions:
            found.setdefault(action["arm"], Counter())["acts"] += 1
        for event in self.events.values():
            found.setdefault(event["arm"], Counter())["voided" if self.is_void(event) else "feedbacks"] += 1
        return found
