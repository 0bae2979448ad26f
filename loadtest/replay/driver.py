"""What drives one learner, over HTTP or in process: the same calls give the same numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

from loadtest.client import CallLog
from service.engine.ledger import Action
from service.learners.base import FloatArray


class Event(NamedTuple):
    """One slot's feedback on its way."""

    slot: int
    arm: int | None
    posted: Any


class Receipt(NamedTuple):
    """How many events of a call are in the state, and how many of them were there before."""

    acknowledged: int
    duplicates: int
    surplus: int = 0
    """Events no outstanding decision can have caused, skipped: late clicks of decisions given up."""


class Counts(NamedTuple):
    """The session's own counts."""

    slot: int
    feedbacks: int
    outstanding: int
    expired: int = 0


class Driver(Protocol):
    """One session, called by one client, one call at a time."""

    log: CallLog

    def act(self) -> Action:
        """Open the next slot."""

    def look(self, slot: int) -> FloatArray | None:
        """p_t of the open slot ``slot``; None for points."""

    def deliver(self, events: Sequence[Event]) -> Receipt:
        """Hand over feedback, in this order."""

    def counts(self) -> Counts:
        """Return what the session has counted."""

    def describe(self) -> dict[str, Any]:
        """How the session was driven, and its learner's parameters as resolved."""
