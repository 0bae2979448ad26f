"""An entry of a decision log, whatever kind of file it was written to."""

from __future__ import annotations

import ast
import json
import math
from collections.abc import Callable, Mapping
from typing import Any

Entry = Mapping[str, Any]
"""Fields by name, as the service answers them, without those that are null."""
OUTCOMES = ("applied", "voided", "removed", "expired")
CHOSEN_BY_CLIENTS = ("label", "segment", "event_id")
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
    given = {name: value for name, value in fields.items() if not _is_absent(name, value)}
    entry = {name: _READERS.get(name, _as_it_is)(value) for name, value in given.items()}
    if "kind" not in entry:
        raise ValueError("an entry has a kind")
    if not 0 < entry.get("probability", 1) <= 1 + ROUNDING:
        raise ValueError("a probability is above 0, and 1 at most")
    if entry.get("outcome", "applied") not in OUTCOMES:
        raise ValueError("unknown outcome")
    return entry


def _is_absent(name: str, value: Any) -> bool:
    if isinstance(value, str):
        return value == "" or (value == "nan" and name not in CHOSEN_BY_CLIENTS)
    return value is None or (isinstance(value, float) and math.isnan(value))


def _as_it_is(value: Any) -> Any:
    return value


def _number(value: Any) -> float:
    if not math.isfinite(number := float(value)):
        raise ValueError("numbers are finite")
    return number


def _whole(value: Any, least: int = 0) -> int:
    number = _number(value)
    if not number.is_integer() or not least <= number <= MOST:
        raise ValueError("must be a whole number")
    return int(number)


def _count(value: Any) -> int:
    return _whole(value, least=1)


def _labels(value: Any) -> list[str]:
    """Return a list, or what its text lists as JSON or as Python writes it."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            value = _literal(value)
    return list(value)


def _literal(text: str) -> Any:
    try:
        return ast.literal_eval(text)
    except SyntaxError as error:
        raise ValueError("must be a list") from error


_READERS: Mapping[str, Callable[[Any], Any]] = {
    **dict.fromkeys(("slot", "eligible", "count"), _count),
    "arm": _whole,
    **dict.fromkeys(("probability", "loss", "reward"), _number),
    **dict.fromkeys(("added", "removed", "paused", "resumed", "changed"), _labels),
}
