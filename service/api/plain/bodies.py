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
from ...models.events import PlainEvents

MAX_ID = 128
MAX_PART = 400
"""Bytes between two colons: ``json_body`` refuses numbers with more characters."""


def plain_event(body: bytes) -> PlainEvents | None:
    """Read one event; None where it is not plain."""
    event = _parsed(body)
    return None if type(event) is not dict else _columns(body, [event], 0)


def plain_events(body: bytes, most: int) -> PlainEvents | None:
    """Read a batch of events; None where it is not plain.

    Parameters
    ----------
    body : as it was received
    most : events that the batch may have
    """
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
    first = events[0]
    word: Literal["loss", "reward"] = "reward" if type(first) is dict and "reward" in first else "loss"
    arms, values, event_ids = [], [], []
    for event in events:
        if type(event) is not dict:
            return None
        arm, value = event.get("arm"), event.get(word)
        if type(value) is int and abs(value) <= MAX_COUNT:
            value = float(value)
        if type(arm) is not int or not 0 <= arm <= MAX_COUNT or type(value) is not float or not isfinite(value):
            return None
        event_id: str | None = None
        if len(event) != 2:
            event_id = event.get("event_id")
            if len(event) != 3 or type(event_id) is not str or not 0 < len(event_id) <= MAX_ID:
                return None
            if not event_id.isascii() or not event_id.isprintable():
                return None
            colons += 1 + event_id.count(":")
        arms.append(arm)
        values.append(value)
        event_ids.append(event_id)
    return PlainEvents(word, arms, values, event_ids) if body.count(b":") == 2 * len(arms) + colons else None
