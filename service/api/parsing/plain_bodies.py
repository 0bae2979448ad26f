"""Bodies of plain feedback, read in one pass of pydantic's JSON parser.

Reading one event strictly takes 8 us: Python looks at each object and number, and pydantic validates the event.
Most events are an arm by its index and a number, and for these this file takes 1 us, in batches less. It never
judges: whatever is not plain, wrong or only unusual, is left to ``json_body`` and the models, and what it does read
is exactly what they would.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite
from typing import Any, Literal

from pydantic_core import from_json

from ...learners.specs import MAX_COUNT
from ...models.plain_events import PlainEvents

MAX_ID = 128
MAX_PART = 400
"""Bytes between two colons: ``json_body`` refuses numbers with more characters."""


def plain_event(body: bytes) -> PlainEvents | None:
    """Read one event; None where it is not plain."""
    event = _parsed(body)
    return None if type(event) is not dict else _columns(body, [event], 0)


def plain_events(body: bytes, most: int) -> PlainEvents | None:
    """Read a batch of up to ``most`` events; None where it is not plain."""
    value = _parsed(body)
    if type(value) is not dict or len(value) != 1:
        return None
    events = value.get("events")
    return _columns(body, events, 1) if type(events) is list and 0 < len(events) <= most else None


def _parsed(body: bytes) -> Any:
    # Without escapes each field's name is followed by a colon, and all other colons are in texts.
    if b"\\" in body or (len(body) > MAX_PART and max(map(len, body.split(b":"))) > MAX_PART):
        return None
    try:
        return from_json(body, allow_inf_nan=False)
    except ValueError:
        return None


def _columns(body: bytes, events: Sequence[Any], colons: int) -> PlainEvents | None:
    """Make columns of events.

    Parameters
    ----------
    colons : in the body, beside those of the events: with more than that a field is there twice
    """
    if set(map(type, events)) != {dict}:
        return None
    word: Literal["loss", "reward"] = "reward" if "reward" in events[0] else "loss"
    arms, event_ids = [event.get("arm") for event in events], [event.get("event_id") for event in events]
    values = _numbers([event.get(word) for event in events])
    ids = [event_id for event_id in event_ids if event_id is not None]
    fields = 2 * len(events) + len(ids)
    if values is None or not _are_arms(arms) or not _are_ids(ids) or sum(map(len, events)) != fields:
        return None
    has_each_once = body.count(b":") == fields + colons + "".join(ids).count(":")
    return PlainEvents(word, arms, values, event_ids) if has_each_once else None


def _are_arms(arms: Sequence[Any]) -> bool:
    return set(map(type, arms)) == {int} and min(arms) >= 0 and max(arms) <= MAX_COUNT


def _numbers(values: Sequence[Any]) -> Sequence[float] | None:
    kinds = set(map(type, values))
    if not kinds <= {int, float} or any(abs(value) > MAX_COUNT for value in values if type(value) is int):
        return None
    return list(map(float, values)) if all(map(isfinite, values)) else None


def _are_ids(ids: Sequence[Any]) -> bool:
    if set(map(type, ids)) - {str} or not all(ids) or max(map(len, ids), default=0) > MAX_ID:
        return False
    return (text := "".join(ids)).isascii() and text.isprintable()
