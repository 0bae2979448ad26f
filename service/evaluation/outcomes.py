"""What became of each act of a decision log."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from .entries import Entry

OPEN = "still open"


@dataclass(slots=True)
class Outcomes:
    """The acts whose outcome is known, in their order; arrays of shape (acts,)."""

    arms: NDArray[np.int64]
    probabilities: NDArray[np.float64]
    """Of the arm, in the distribution that it was drawn from."""
    eligible: NDArray[np.int64]
    """Number of arms that could be drawn."""
    values: NDArray[np.float64]
    """Losses or rewards, as they were posted."""
    word: str
    """``loss`` or ``reward``."""
    labels: Mapping[int, str]
    """Label of an arm, where arms have some."""
    left_out: Mapping[str, int]
    """Number of acts without a value, by why."""


@dataclass(slots=True)
class _Act:
    arm: int
    probability: float
    eligible: int
    segment: str | None = None
    value: float | None = None
    ended: str = OPEN


@dataclass(slots=True)
class _Matching:
    """Acts and events are matched as the service settles them: the oldest open act of the arm, or the slot's.

    Of acts of the arm those of the event's segment come first.
    """

    acts: list[_Act] = field(default_factory=list)
    by_slot: dict[int, _Act] = field(default_factory=dict)
    open: dict[int, deque[_Act]] = field(default_factory=dict)
    by_segment: dict[tuple[int, str | None], deque[_Act]] = field(default_factory=dict)
    labels: dict[int, str] = field(default_factory=dict)
    word: str = "loss"
    lone_events: int = 0
    """Events whose acts the log has dropped."""

    def act(self, entry: Entry) -> None:
        act = _Act(entry["arm"], entry["probability"], entry["eligible"], entry.get("segment"))
        self.acts.append(act)
        self.by_slot[entry["slot"]] = act
        self.open.setdefault(act.arm, deque()).append(act)
        self.by_segment.setdefault((act.arm, act.segment), deque()).append(act)
        if "label" in entry:
            self.labels[act.arm] = entry["label"]

    def event(self, entry: Entry) -> None:
        outcome = entry["outcome"]
        if outcome == "removed":
            return
        if "reward" in entry:
            self.word = "reward"
        value = entry.get(self.word)
        count = entry.get("count", 1)
        for number in range(count):
            act = self._settled(entry, of_any_segment=outcome == "expired")
            if act is None:
                self.lone_events += count - number
                return
            act.ended = outcome
            act.value = None if outcome == "voided" or value is None else float(value)

    def _settled(self, entry: Entry, *, of_any_segment: bool) -> _Act | None:
        arm, slot = entry["arm"], entry.get("slot")
        named = self.by_slot.get(slot) if slot is not None else None
        if named is not None and named.arm == arm and named.ended == OPEN:
            return named
        own = self.by_segment.get((arm, entry.get("segment")), deque())
        for opened in (deque() if of_any_segment else own, self.open.get(arm, deque())):
            while opened:
                # Acts that were found in another way stay in the queue until their turn.
                if (act := opened.popleft()).ended == OPEN:
                    return act
        return None

    def arms(self, entry: Entry) -> None:
        removed = set(entry.get("removed", ()))
        for arm, label in self.labels.items():
            if label in removed:
                for act in self.open.pop(arm, ()):
                    if act.ended == OPEN:
                        act.ended = "removed with their arm"


def match(entries: Iterable[Entry], segment: str | None = None) -> Outcomes:
    """Find the outcome of each act.

    Where non-clicks are learned at the end of a window, acts after the oldest one that is still open are left out:
    among them only clicks would have their outcome yet.

    Parameters
    ----------
    entries : of the log of one session, in their order
    segment : keeps the acts of this segment alone; "" those that named none; None keeps all

    Raises
    ------
    ValueError
        for an entry that no decision log has.
    """
    found = _Matching()
    handlers = {"act": found.act, "event": found.event, "arms": found.arms}
    waits = False
    for entry in entries:
        try:
            handlers.get(entry["kind"], lambda _: None)(entry)
        except (KeyError, TypeError) as error:
            raise ValueError(f"not an entry of a decision log: {error}") from error
        waits |= entry.get("outcome") == "expired" and entry.get(found.word) is not None
    return _outcomes(found, segment, waits=waits)


def _outcomes(found: _Matching, segment: str | None, *, waits: bool) -> Outcomes:
    acts, left_out = found.acts, dict[str, int]()
    first_open = next((place for place, act in enumerate(acts) if act.ended == OPEN), len(acts))
    if waits and first_open < len(acts):
        left_out["in the last window"] = len(acts) - first_open
        acts = acts[:first_open]
    if segment is not None:
        acts = [act for act in acts if (act.segment or "") == segment]
    for act in acts:
        if act.value is None:
            why = "expired without a default" if act.ended == "expired" else act.ended
            left_out[why] = left_out.get(why, 0) + 1
    if found.lone_events:
        left_out["trimmed from the log, with an event left"] = found.lone_events
    kept = [act for act in acts if act.value is not None]
    return Outcomes(
        np.array([act.arm for act in kept], dtype=np.int64),
        np.array([act.probability for act in kept], dtype=np.float64),
        np.array([act.eligible for act in kept], dtype=np.int64),
        np.array([act.value for act in kept], dtype=np.float64),
        found.word,
        found.labels,
        left_out,
    )
