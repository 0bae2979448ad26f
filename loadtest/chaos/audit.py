"""Compare what was acknowledged with the counts of the session: everything once, nothing lost."""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from loadtest.client import Client
from loadtest.errors import ServiceError

CHUNK = 1000
"""Events that one call of the audit posts again."""
LISTED = 5
"""Problems that a report shows of one kind of fault."""


class AcknowledgedAct(NamedTuple):
    """An act as the service acknowledged it."""

    key: str
    slots: tuple[int, ...]
    answer: Any


@dataclass
class Ledger:
    """Everything that the service acknowledged to the clients of one session; they share one ledger."""

    session_id: str
    acts: list[AcknowledgedAct] = field(default_factory=list)
    events: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Acknowledged events by id."""
    failures: list[str] = field(default_factory=list)
    """Calls that were never acknowledged, or refused."""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def path(self) -> str:
        """The session's address."""
        return f"/v1/sessions/{self.session_id}"

    @property
    def slots(self) -> int:
        """Distinct slots that were acknowledged."""
        return len({slot for act in self.acts for slot in act.slots})

    def acted(self, key: str, answer: Any) -> None:
        """Note an act."""
        with self._lock:
            self.acts.append(AcknowledgedAct(key, tuple(action["slot"] for action in answer["actions"]), answer))

    def settled(self, events: list[dict[str, Any]], answer: Any) -> None:
        """Note events that count by the answer."""
        with self._lock:
            self.events.update((event["event_id"], event) for event in events)
            if answer["applied"] + answer["duplicates"] != len(events):
                self.failures.append(f"{len(events)} events sent, the answer was {answer}")

    def failed(self, error: ServiceError) -> None:
        """Note a call that was given up."""
        with self._lock:
            self.failures.append(str(error))


def audit(client: Client, ledger: Ledger) -> list[str]:
    """Return the problems of a session after all its clients were answered; empty if there are none.

    Send all ids once more: that must change nothing and return the same answers.
    """
    found = list(ledger.failures)
    try:
        found += _wrong_counts(client, ledger)
        found += _wrong_replays(client, ledger)
        found += _wrong_counts(client, ledger)
    except ServiceError as error:
        found.append(str(error))
    return [f"session {ledger.session_id}: {problem}" for problem in found]


def _wrong_counts(client: Client, ledger: Ledger) -> list[str]:
    view = client.call("view", "GET", ledger.path)
    expected = {"slot": ledger.slots, "feedbacks": len(ledger.events)}
    expected["outstanding"] = expected["slot"] - expected["feedbacks"]
    wrong = [
        f"{name} is {view[name]}, acknowledged {count}" for name, count in expected.items() if view[name] != count
    ]
    given = Counter(slot for act in ledger.acts for slot in act.slots)
    twice = [slot for slot, times in given.items() if times > 1]
    if twice:
        wrong.append(f"slots given twice: {twice[:LISTED]}")
    if sorted(given) != list(range(1, len(given) + 1)):
        wrong.append("the acknowledged slots have gaps")
    return wrong


def _wrong_replays(client: Client, ledger: Ledger) -> list[str]:
    wrong = []
    for key, slots, answer in ledger.acts:
        again = client.call("acts", "POST", f"{ledger.path}/acts", {"count": len(slots)}, key)
        if again != answer:
            wrong.append(f"act {key} was {answer} and is {again}")
    events = list(ledger.events.values())
    for at in range(0, len(events), CHUNK):
        chunk = events[at : at + CHUNK]
        settled = client.call("feedbacks", "POST", f"{ledger.path}/feedbacks", {"events": chunk})
        if (settled["applied"], settled["duplicates"]) != (0, len(chunk)):
            wrong.append(f"{len(chunk)} events sent again: {settled}")
    return wrong[:LISTED]
