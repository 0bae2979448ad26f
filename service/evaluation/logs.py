"""Decision logs: their entries, read from JSON lines, CSV or parquet, and what became of each act.

That is known by slots that events name; other events are spread over acts by age.
"""

from __future__ import annotations

import ast
import csv
import json
import math
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..row_files import NUMBERS, WHOLES, LogFileError, is_absent, read_cell, read_rows
from .delays import Floats, Spread, Wholes

# -- Entries.

Entry = Mapping[str, Any]
"""Fields by name, as the service answers them, without those that are null."""
KINDS: Mapping[str, Sequence[str]] = {
    "act": ("slot", "arm", "probability", "eligible"),
    "event": ("arm", "outcome"),
    "arms": (),
    "session": (),
}
"""And the fields that each has."""
OUTCOMES = ("applied", "updated", "voided", "removed", "expired")
ROUNDING = 1e-9
"""By so much may a probability exceed 1: sums of floats do, and so do logs of version 1.0.0."""
MOST, LARGEST, LEAST_PROBABILITY = 2**53, 1e100, 1e-30
"""No log has larger numbers of slots or arms, or losses and rewards, or lower probabilities."""
TIMES = datetime.min.replace(tzinfo=UTC).timestamp(), datetime.max.replace(tzinfo=UTC).timestamp()
MOST_COLUMNS = 64
TEN_YEARS = 315_360_000
RANGES, DEFAULTS = ("loss_range", "reward_range"), ("default_loss", "default_reward")


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
    if entry["kind"] not in KINDS:
        raise ValueError(f"kind: {entry['kind']!r} is none of {', '.join(KINDS)}")
    if entry.get("outcome", "applied") not in OUTCOMES:
        raise ValueError(f"outcome: {entry['outcome']!r} is none of {', '.join(OUTCOMES)}")
    if missing := [name for name in KINDS[entry["kind"]] if name not in entry]:
        raise ValueError(f"{missing[0]}: is missing")
    return entry


def _text(value: Any) -> str:
    if not isinstance(value, (str, int, float)):
        raise ValueError("must be text")
    return str(value)


def _number(value: Any, least: float = -LARGEST, most: float = LARGEST) -> float:
    if not least <= (number := float(value)) <= most:
        raise ValueError(f"must lie in [{least:g}, {most:g}]")
    return number


def _whole(value: Any, least: int = 0) -> int:
    number = _number(value, least, MOST)
    if not number.is_integer():
        raise ValueError("must be a whole number")
    return int(number)


def _seconds(value: Any) -> float:
    """Return Unix seconds, or those of a time as the service, or a data frame, writes it."""
    is_number = isinstance(value, (int, float))
    return _number(value, *TIMES) if is_number else datetime.fromisoformat(str(value)).timestamp()


def _made(kind: type, value: Any) -> Any:
    """Return a list or an object, or what its text is as JSON or as Python writes it."""
    try:
        return kind(json.loads(value) if isinstance(value, str) else value)
    except json.JSONDecodeError:
        return kind(ast.literal_eval(value))


def _range(value: Any) -> list[float]:
    first, last = map(_number, _made(list, value))
    return [first, last]


def _columns(value: Any) -> NDArray[np.float32]:
    if not 1 <= len(numbers := _made(list, value)) <= MOST_COLUMNS:
        raise ValueError(f"must be 1 to {MOST_COLUMNS} numbers")
    return np.array([_number(each, -1, 1) for each in numbers], np.float32)  # Exact: multiples of 2 ** -14.


def _expiry(value: Any) -> dict[str, float]:
    fields = _made(dict, value)
    defaults = {name: each for name, each in fields.items() if name in DEFAULTS and not is_absent(name, each)}
    seconds = _number(fields["after_seconds"], 0.1, TEN_YEARS)
    return {"after_seconds": seconds, **{name: _number(each) for name, each in defaults.items()}}


_READERS: Mapping[str, Callable[[Any], Any]] = {
    **dict.fromkeys(("kind", "outcome", "session_id", "label", "segment", "group", "event_id"), _text),
    **dict.fromkeys(WHOLES, partial(_whole, least=1)),
    "arm": _whole,
    **dict.fromkeys(NUMBERS, _number),
    "probability": partial(_number, least=LEAST_PROBABILITY, most=1 + ROUNDING),
    **dict.fromkeys(("at", "until"), _seconds),
    **dict.fromkeys(RANGES, _range),
    "expiry": _expiry,
    "encoded": _columns,
    **dict.fromkeys(("added", "removed", "paused", "resumed", "changed"), partial(_made, list)),
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
    low, high = -LARGEST, LARGEST
    for _, where, value in read_rows(path, form):
        try:
            if isinstance(value, Exception):
                raise value
            rows = value["decisions"] if isinstance(value, dict) and "decisions" in value else value
            entries = list(map(entry_of, rows if isinstance(rows, list) else [rows]))
            for entry in entries:
                low, high = next((sorted(entry[name]) for name in RANGES if name in entry), (low, high))
                word = "loss" if "loss" in entry else "reward"
                if not low <= (value := entry.get(word, low)) <= high:
                    raise ValueError(f"{word}: {value} is not in the session's range, [{low:g}, {high:g}]")
        except (ValueError, TypeError, AttributeError, ArithmeticError, RecursionError, csv.Error) as error:
            why = f" ({error})" if type(error) in {ValueError, json.JSONDecodeError} else ""
            raise LogFileError(f"{path}, {where}: {NO_ENTRY}{why}") from error
        yield from entries


# -- What became of each act.

OPEN, VOIDED, YOUNG = "still open", "voided", "in the last window"
EXPIRED, TRIMMED = "expired without a default", "trimmed from the log, with an event left"
CHANGED = "before the window or its default changed"
LATE = 1 + 1 / 64
"""By this share of the window a session may give decisions up too late."""


@dataclass(slots=True)
class Outcomes:
    """The acts whose outcome is known, or can be estimated, in their order; arrays of shape (acts,)."""

    arms: Wholes
    probabilities: Floats
    """Of the arm, in the distribution that it was drawn from: with a control group, that of the act's group."""
    eligible: Wholes
    """Number of arms that could be drawn."""
    values: Floats
    """Losses or rewards, as they were posted; NaN if no event names the act."""
    word: str
    """``loss`` or ``reward``."""
    labels: Mapping[int, str]
    """Label of an arm, where arms have some."""
    left_out: Mapping[str, int]
    """Number of acts without a value, by why."""
    spread: Spread | None = None
    """Of the acts whose values are NaN, the events that name no slot."""
    armed: float = 0.0
    """Share of events that name the arm alone, neither their slot nor columns."""
    slots: str = "known"
    """``known``; or ``estimated`` if no event names its slot, or ``mixed`` if some do."""
    columns: Floats | None = None
    """Of each act's visitor, shape (acts, d); None if not every act in the log has its own."""
    is_larger_better: bool = True
    """By the session's range; if the log has none, of rewards."""

    def name(self, arm: int) -> str:
        """Return what an arm is called."""
        return self.labels.get(arm, f"arm {arm}")

    def known(self) -> Floats:
        """Return how far each act counts, and the sums of its values and of their squares, shape (3, acts)."""
        powers, named, spread = range(3), ~np.isnan(self.values), self.spread
        sums = np.stack([np.where(named, self.values, 0.0) ** n * named for n in powers])
        if spread is not None:
            sums += np.stack([spread.shared_out(spread.values**n) for n in powers])
            if spread.default is not None:  # What may come yet, or came to nothing.
                sums += np.stack([(spread.exposures - sums[0]) * spread.default**n for n in powers])
        return sums

    def seen(self, weights: Floats) -> Floats:
        """Return the values with which acts that have a weight may have ended."""
        found = self.values[(weights > 0) & ~np.isnan(self.values)]
        if (spread := self.spread) is not None:
            base = () if spread.default is None else (spread.default,)
            found = np.concatenate([found, spread.values[spread.weights_of(weights) > 0], base])
        return found

    def settled(self) -> Outcomes:
        """Return the acts with a value; an event that names no slot is shared out to the acts that it can be of.

        Raises
        ------
        LogFileError
            if events name no slot and the session has no default: nobody knows then which acts had an event.
        """
        if (spread := self.spread) is None:
            return self
        if spread.default is None:
            raise LogFileError("without a default there are columns only of a log whose events name their slots")
        shares = spread.default + spread.shared_out(spread.values - spread.default)
        values, kept = np.where(np.isnan(self.values), shares, self.values), spread.exposures > 1 - 1e-9
        acts = {name: getattr(self, name)[kept] for name in ("arms", "probabilities", "eligible")}
        return replace(self, values=values[kept], spread=None, columns=None, **acts)


@dataclass(slots=True)
class _Decision:
    """An act, or an event that names none, which has no probability."""

    at: float
    source: tuple[str, str, int]
    """Group, segment and arm."""
    columns: bytes | None
    """Of the visitor, as 32-bit floats; of an event, if it says them."""
    value: float | None = None
    probability: float = 0.0
    eligible: int = 0
    answered: float = math.nan
    """When an event came that names it."""
    ended: str = OPEN
    """Why it is left out if it has no value."""
    of: _Decision | None = None
    """The only act of an event's source without one, which it is of unless there is a window."""


@dataclass(slots=True)
class _Log:
    """What has been read of a log; ``window`` is 0 in a session without, None if nobody has said it."""

    window: float | None
    allow_gaps: bool
    default: float | None = math.nan
    """NaN if nobody has said it."""
    word: str = "loss"
    is_turned: bool = False
    """Whether larger losses, or smaller rewards, are better."""
    is_told: bool = False
    """Whether the log itself says window and default."""
    acts: list[_Decision] = field(default_factory=list)
    events: list[_Decision] = field(default_factory=list)
    """Those that name no slot."""
    by_id: dict[Any, _Decision] = field(default_factory=dict)
    """What an event changed, by its id, or by its slot if it came by token."""
    by_slot: dict[int, _Decision] = field(default_factory=dict)
    open: dict[Any, OrderedDict[int, _Decision]] = field(default_factory=lambda: defaultdict(OrderedDict))
    """Acts by source that no event names, the oldest first."""
    labels: dict[int, str] = field(default_factory=dict)
    lone: int = 0
    """Events that name the slot of an act that the log has not."""
    last: dict[str, int] = field(default_factory=dict)
    session_id: str | None = None
    at: float = 0.0
    """Of the last entry, in Unix seconds."""
    begin: float = -math.inf
    """Before it there were acts that the log has not, or with another window."""
    changed: int = 0
    """So many acts came before the last change of window or default."""
    until: float = -math.inf
    """Decisions of acts up to then have expired."""

    def check(self, number: int, entry: Entry) -> None:
        """Refuse an entry that is not the next of the session, by its position, or an act by its slot."""
        of = entry.get("session_id", self.session_id)
        if self.session_id not in (None, of):
            raise LogFileError(f"entry {number}: it is of another session, {of!r}")
        name = "position" if "position" in entry else "slot"
        at = entry.get(name) if name == "position" or entry.get("kind") == "act" else None
        self.session_id, self.at = of, entry.get("at", float(number))
        if self.window and "at" not in entry:
            raise LogFileError(f"entry {number}: with a window it needs its time, `at`")
        if at is None:
            return
        before, self.last[name] = self.last.get(name), at
        if before is None:
            self.begin = self.at if at > 1 else self.begin
        elif at <= before:
            what = "is there twice" if at == before else "is out of order"
            raise LogFileError(f"entry {number}: {name} {at} {what}, behind {before}")
        elif at > before + 1 and not self.allow_gaps:
            what = f"{at} follows {before}: --allow-gaps reads a log with entries missing"
            raise LogFileError(f"entry {number}: {name} {what}")

    def session(self, entry: Entry) -> None:
        word, before = "reward" if "reward_range" in entry else "loss", (self.window, self.default)
        if f"{word}_range" in entry:
            expiry = entry.get("expiry") or {}
            default = expiry.get(f"default_{word}")
            self.word, self.window = word, float(expiry.get("after_seconds", 0))
            self.default = None if default is None else float(default)
            is_other = (
                before != (self.window, self.default) if self.is_told else "expiry" in entry.get("changed", ())
            )
            if is_other:
                self.begin, self.changed = self.at, len(self.acts)
            self.is_told, self.is_turned = True, entry[f"{word}_range"][0] > entry[f"{word}_range"][1]

    def act(self, entry: Entry) -> None:
        act = _Decision(self.at, *_source(entry), None, entry["probability"], entry["eligible"])
        self.acts.append(act)
        self.by_slot[entry["slot"]] = self.open[act.source][entry["slot"]] = act
        if "label" in entry:
            self.labels[entry["arm"]] = entry["label"]

    def event(self, entry: Entry) -> None:
        outcome, (source, columns), slot = entry["outcome"], _source(entry), entry.get("slot")
        self.word = "reward" if "reward" in entry else self.word
        value, key = entry.get(self.word), entry.get("event_id", slot)
        if outcome == "updated":
            if None not in (value, key) and key in self.by_id:
                self.by_id[key].value = value
        elif outcome == "expired":
            self.until = max(self.until, entry.get("until", -math.inf))
            self.default = self.default if self.is_told else value
            if value is None and "until" not in entry:
                self.give_up(source, entry.get("count", 1), EXPIRED)
        elif slot is None and value is None:
            self.give_up(source, 1, VOIDED, columns)
        elif slot is None:
            self.by_id[key] = event = _Decision(self.at, source, columns, value)
            self.events.append(event)
            if len(self.open[source]) == 1 and not self.window:
                event.of = self.open[source].popitem()[1]
        else:
            act = self.by_slot.pop(slot, None)
            if act is None or act.source[-1] != source[-1]:
                self.lone += 1
            elif outcome != "removed" or self.is_within(act):
                self.open[act.source].pop(slot, None)
                act.value, act.answered, act.ended = value, self.at, VOIDED
                self.by_id[key] = act

    def give_up(self, source: Any, count: int, why: str, columns: bytes | None = None) -> None:
        """Leave the oldest acts out whose window has not ended, one of a visitor with these columns first."""
        opened = self.open[source]
        while opened and not self.is_within(next(iter(opened.values()))):
            opened.popitem(last=False)
        if columns is not None and (same := next((at for at, act in opened.items() if act.columns == columns), 0)):
            opened.move_to_end(same, last=False)
        while count and opened:
            opened.popitem(last=False)[1].ended, count = why, count - 1
        self.lone += count

    def is_within(self, act: _Decision) -> bool:
        """Return whether the window of an act has not ended yet."""
        return not self.window or self.at - act.at <= self.window * LATE


def _source(entry: Entry) -> tuple[tuple[str, str, int], bytes | None]:
    columns = np.add(entry["encoded"], 0, dtype=np.float32).tobytes() if "encoded" in entry else None  # No -0.
    return (entry.get("group", "learner"), entry.get("segment", ""), entry["arm"]), columns


def match(
    entries: Iterable[Entry], segment: str | None = None, *, window: float | None = None, allow_gaps: bool = False
) -> Outcomes:
    """Find the outcome of each act, or what is known of it from events that name no slot.

    Parameters
    ----------
    entries : of the log of one session, in their order
    segment : keeps the acts of this segment alone; "" those that named none; None keeps all
    window : of the session, in seconds, if the log does not say it; 0 if it has none
    allow_gaps : whether entries may be missing

    Raises
    ------
    ValueError
        for an entry that no decision log has.
    LogFileError
        for a log that is doubled, out of order, of two sessions, or has a gap; and for one that does not say what
        has to be known.
    """
    if not 0 <= (window or 0) <= TEN_YEARS:
        raise LogFileError("--window: give 0 or more seconds, and ten years at most")
    log = _Log(window, allow_gaps)
    handlers = {"act": log.act, "event": log.event, "session": log.session}
    for number, entry in enumerate(entries, 1):
        log.check(number, entry)
        try:
            handlers.get(entry["kind"], lambda _: None)(entry)
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"not an entry of a decision log: {error}") from error
    for event in log.events if not log.window else ():
        if event.of is not None:
            event.of.value, event.of.answered = event.value, event.at
    for act in log.acts[: log.changed]:
        act.value, act.ended = None, CHANGED
    log.acts = [act for act in log.acts if segment in (None, act.source[1])]
    log.events = [e for e in log.events if segment in (None, e.source[1]) and (log.window or e.of is None)]
    is_unknown = log.default is not None and math.isnan(log.default)
    if log.window is None and (log.events or not is_unknown):
        raise LogFileError("the log does not say the session's window: give --window SECONDS (0: it has none)")
    if log.window and is_unknown:
        what = "what silence stands for: no decision expired, no entry is a session's"
        raise LogFileError(f"the log does not say {what}")
    return _outcomes(log)


def _outcomes(log: _Log) -> Outcomes:
    """Return the acts whose outcome the log has; or all, with the events that name no slot spread over them.

    If the slots are known and missing clicks are learned at the end of a window, acts of the last one are left out:
    among them only clicks would have their outcome yet.
    """
    events, default = log.events, log.default if log.window else None
    # Buckets are of the batch's clock, and acts have the time of its commit, which is later.
    over = max(log.until + (log.window or 0) * (LATE - 1), log.at - (log.window or math.inf) * LATE)
    left_out, kept = Counter[str](), list[_Decision]()
    for act in log.acts:
        is_over, why = act.at <= over, ""
        if act.value is None and act.ended != OPEN:
            why = act.ended
        elif not events and default is not None and not is_over:
            why = YOUNG
        elif not events and act.value is None:
            act.value = default
            why = "" if default is not None else EXPIRED if is_over else OPEN
        if why:
            left_out[why] += 1
        else:
            kept.append(act)
    rows = [(each.source[2], each.probability, each.eligible, each.value, each.at, each.answered) for each in kept]
    arms, p, eligible, values, at, answered = np.array(rows, np.float64).reshape(-1, 6).T
    found = Outcomes(arms.astype(int), p, eligible.astype(int), values, log.word, log.labels, left_out)
    found.is_larger_better = (log.word == "reward") != log.is_turned
    sizes = {len(act.columns or b"") for act in kept}
    if len(sizes) == 1 and 0 not in sizes:
        columns = np.frombuffer(b"".join(act.columns or b"" for act in kept), np.float32)
        found.columns = columns.astype(np.float64).reshape(len(kept), -1)
    if events:
        said = dict.fromkeys((event.source, event.columns) for event in events if event.columns)
        keys: list[Any] = [*dict.fromkeys(act.source for act in kept), *said]
        number = dict(zip(keys, range(len(keys)), strict=True))
        found.armed = sum(not event.columns for event in events) / (len(events) + np.isfinite(answered).sum())
        pairs = [(of := number.get(e.source, -1), number.get((e.source, e.columns), of)) for e in [*kept, *events]]
        sources, sought = np.split(np.array(pairs, np.int64).T, [len(kept)], axis=1)
        came, posted = np.array([(event.at, event.value) for event in events]).T
        window = log.window * LATE if log.window else log.at - at.min(initial=log.at) + 1
        # A click that comes within a window of the beginning may be of an act from before.
        begin = log.begin + window if default is not None else log.begin if log.changed else -math.inf
        acted, span = (at, sources, answered), (begin, log.at)
        found.spread = spread = Spread.of(acted, (came, sought, posted), default, window, span)
        found.slots = "estimated" if np.isnan(answered).all() else "mixed"
        log.lone += len(events) - spread.values.size
    if log.lone:
        left_out[TRIMMED] = log.lone
    return found
