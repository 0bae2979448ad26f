"""Decision logs: reading their entries from JSON lines, CSV or parquet, and what became of each act."""

from __future__ import annotations

import ast
import csv
import json
import math
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..row_files import NUMBERS, LogFileError, is_absent, read_cell, read_rows

# -- Entries.

Entry = Mapping[str, Any]
"""Fields by name, as the service answers them, without those that are null."""
OUTCOMES = ("applied", "updated", "voided", "removed", "expired")
ROUNDING = 1e-9
"""By so much may a probability exceed 1: sums of floats do, and so do logs of version 1.0.0."""
MOST = 2**53
"""No log has larger numbers of slots or arms."""


def entry_of(fields: Mapping[str, Any]) -> Entry:
    """Read an entry from the fields of a JSON object, or from the cells of a table's row.

    A table has a cell for each field of any entry: cells that are empty, null or not a number are fields that this
    entry does not have. Its columns of whole numbers may have turned into floats, and its lists into text.

    Raises
    ------
    ValueError, TypeError, OverflowError
        for values that no decision log has.
    """
    entry = {name: read_cell(_READERS, name, value) for name, value in fields.items() if not is_absent(name, value)}
    if "kind" not in entry:
        raise ValueError("an entry has a kind")
    if not 0 < entry.get("probability", 1) <= 1 + ROUNDING:
        raise ValueError(f"probability: {entry['probability']} is not above 0, and 1 at most")
    if entry.get("outcome", "applied") not in OUTCOMES:
        raise ValueError(f"outcome: {entry['outcome']!r} is none of {', '.join(OUTCOMES)}")
    return entry


def _number(value: Any) -> float:
    if not math.isfinite(number := float(value)):
        raise ValueError("numbers are finite")
    return number


def _whole(value: Any, least: int = 0) -> int:
    number = _number(value)
    if not number.is_integer() or not least <= number <= MOST:
        raise ValueError("must be a whole number")
    return int(number)


def _labels(value: Any) -> list[str]:
    """Return a list, or what its text lists as JSON or as Python writes it."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            try:
                value = ast.literal_eval(value)
            except SyntaxError as error:
                raise ValueError("must be a list") from error
    return list(value)


_READERS: Mapping[str, Callable[[Any], Any]] = {
    **dict.fromkeys(("slot", "eligible", "count"), partial(_whole, least=1)),
    "arm": _whole,
    **dict.fromkeys(NUMBERS, _number),
    **dict.fromkeys(("added", "removed", "paused", "resumed", "changed"), _labels),
}


# -- Files.

NO_ENTRY = "not an entry of a decision log"


def read_entries(path: Path, form: str | None = None) -> Iterator[Entry]:
    """Yield the entries of a decision log, in order, from what ``read_rows`` reads.

    A line of JSON may have one entry or a page of them, as the service answers them. Of a table empty cells are
    fields that an entry does not have.

    Parameters
    ----------
    path : of the log
    form : one of ``FORMATS``; by default that of the file's name, before ``.gz``

    Raises
    ------
    LogFileError
        for a file that can't be read, or one with something that is no entry.
    """
    for _, where, value in read_rows(path, form):
        try:
            if isinstance(value, Exception):
                raise value
            rows = value["decisions"] if isinstance(value, dict) and "decisions" in value else value
            entries = list(map(entry_of, rows if isinstance(rows, list) else [rows]))
        except (ValueError, TypeError, AttributeError, ArithmeticError, RecursionError, csv.Error) as error:
            why = f" ({error})" if type(error) in {ValueError, json.JSONDecodeError} else ""
            raise LogFileError(f"{path}, {where}: {NO_ENTRY}{why}") from error
        yield from entries


# -- Outcomes.

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

    def name(self, arm: int) -> str:
        """Return what an arm is called."""
        return self.labels.get(arm, f"arm {arm}")


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
    by_slot: dict[int | None, _Act] = field(default_factory=dict)
    open: dict[int, deque[_Act]] = field(default_factory=lambda: defaultdict(deque))
    by_segment: dict[tuple[int, str | None], deque[_Act]] = field(default_factory=lambda: defaultdict(deque))
    by_event: dict[str | int | None, _Act] = field(default_factory=dict)
    """Acts of applied events by the ids of these, or by the slots of those that came by token."""
    labels: dict[int, str] = field(default_factory=dict)
    word: str = "loss"
    lone_events: int = 0
    """Events whose acts the log has dropped."""

    def act(self, entry: Entry) -> None:
        act = _Act(entry["arm"], entry["probability"], entry["eligible"], entry.get("segment"))
        self.acts.append(act)
        self.by_slot[entry["slot"]] = act
        self.open[act.arm].append(act)
        self.by_segment[act.arm, act.segment].append(act)
        if "label" in entry:
            self.labels[act.arm] = entry["label"]

    def event(self, entry: Entry) -> None:
        outcome = entry["outcome"]
        if outcome == "removed":
            return
        if "reward" in entry:
            self.word = "reward"
        value, event_id = entry.get(self.word), entry.get("event_id", entry.get("slot"))
        if outcome == "updated":
            if value is not None and (improved := self.by_event.get(event_id)) is not None:
                improved.value = float(value)
            return
        count = entry.get("count", 1)
        for number in range(count):
            if (act := self._settled(entry, of_any_segment=outcome == "expired")) is None:
                self.lone_events += count - number
                return
            act.ended = outcome
            act.value = None if outcome == "voided" or value is None else float(value)
            if outcome == "applied" and event_id is not None:
                self.by_event[event_id] = act

    def _settled(self, entry: Entry, *, of_any_segment: bool) -> _Act | None:
        arm, named = entry["arm"], self.by_slot.get(entry.get("slot"))
        if named is not None and named.arm == arm and named.ended == OPEN:
            return named
        own = [] if of_any_segment else [self.by_segment[arm, entry.get("segment")]]
        for opened in [*own, self.open[arm]]:
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
    arms = np.array([act.arm for act in kept], np.int64)
    eligible = np.array([act.eligible for act in kept], np.int64)
    values = np.array([act.value for act in kept], np.float64)
    probabilities = np.array([act.probability for act in kept], np.float64)
    return Outcomes(arms, probabilities, eligible, values, found.word, found.labels, left_out)
