"""Decision logs: reading their entries from JSON lines, CSV or parquet."""

from __future__ import annotations

import ast
import csv
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from ..row_files import NUMBERS, WHOLES, LogFileError, is_absent, read_cell, read_rows

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
    return (
        _number(value, *TIMES)
        if isinstance(value, (int, float))
        else datetime.fromisoformat(str(value)).timestamp()
    )


def _made(kind: type, value: Any) -> Any:
    """Return a list or an object, or what its text is as JSON or as Python writes it."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            try:
                value = ast.literal_eval(value)
            except SyntaxError as error:
                raise ValueError("must be a list, or an object") from error
    return kind(value)


def _range(value: Any) -> list[float]:
    first, last = map(_number, _made(list, value))
    return [first, last]


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
