"""One call of the service's HTTP interface as data, without any I/O, and the events that calls carry."""

from __future__ import annotations

import json
import re
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias, TypedDict, TypeVar
from urllib.parse import quote

from .answers import FALLBACK_ID, Action

T = TypeVar("T")
Arm: TypeAlias = str | int
"""A label, or an index from 0."""
Json: TypeAlias = Any
Numbers: TypeAlias = Any
"""Floats: a list, a tuple, or an array of numpy."""

Fallback: TypeAlias = str | int | Sequence[float]
"""An arm, or a point."""
VOID = "void"
"""Field of an event that ends its decision unlearned, until the session's own word for it is known."""
_WHERE = ("event_id", "slot", "segment")
OUTCOMES = ("loss", "reward", "losses", "gradient", VOID)
_SESSION_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")


@dataclass(frozen=True)
class Call:
    """One request; every attempt sends the same bytes and the same key.

    Attributes
    ----------
    path : below the service's address
    content : JSON, or None
    key : the Idempotency-Key
    timeout : seconds for all attempts; None: the client's
    absent_ok : whether 404 on a repeated attempt means that an earlier one did it
    """

    method: str
    path: str
    content: str | None = None
    query: Mapping[str, str | int] = field(default_factory=dict)
    key: str | None = None
    timeout: float | None = None
    absent_ok: bool = False


Steps: TypeAlias = Generator[Call, Json, T]
"""Calls, one after the other, each of which is sent its answer; returns what they come to. Has no I/O."""


class Where(TypedDict, total=False):
    """Which decision an event is about, as far as the action does not say it.

    ``event_id``: the event counts once, however often it is sent; ``slot``, ``segment``: of the decision.
    """

    event_id: str | None
    slot: int | None
    segment: str | None


class Outcome(Where, total=False):
    """What an event reports, in the session's unit: one of ``loss``, ``reward``, ``losses`` and ``gradient``."""

    loss: float
    reward: float
    losses: Numbers
    gradient: Numbers


def encode(value: Json) -> str:
    """Return a value as JSON text; arrays and numbers of numpy are lists and numbers.

    Raises
    ------
    ValueError, TypeError
        for what JSON has no form for, such as NaN.
    """
    return json.dumps(value, allow_nan=False, separators=(",", ":"), default=_plain)


def _plain(value: Any) -> Json:
    if not hasattr(value, "tolist"):
        raise TypeError(f"{type(value).__name__} has no form in JSON")
    return value.tolist()


def session_path(session_id: str, *below: str) -> str:
    """Return the path of a session, or of what is below it.

    Parameters
    ----------
    session_id : of the session, as the caller gave it
    below : parts of the path, used as they are

    Raises
    ------
    ValueError
        for a text that no session can have as its id.
    """
    if not isinstance(session_id, str) or not _SESSION_ID.fullmatch(session_id):
        raise ValueError("session_id: 1 to 128 letters, digits, '.', '_' and '-', a letter or digit first")
    return "/".join(("/v1/sessions", quote(session_id), *below))


def event_of(decision: Action | Arm | None, fields: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the event that reports an outcome; None for that of a fallback, which nobody may learn from.

    Parameters
    ----------
    decision : what ``act`` returned, or the arm; None for points
    fields : of ``Outcome``; or ``void``. An event id is by default that of the action

    Raises
    ------
    TypeError
        unless the fields have exactly one outcome.
    """
    outcome = [name for name in OUTCOMES if name in fields]
    if len(outcome) != 1 or not fields.keys() <= {*outcome, *_WHERE}:
        raise TypeError("report exactly one of loss, reward, losses and gradient")
    where = {name: fields.get(name) for name in _WHERE}
    if isinstance(decision, Action):
        of_action = {"event_id": decision.event_id or None, "slot": decision.slot, "segment": decision.segment}
        where = {name: of_action[name] if where[name] is None else where[name] for name in _WHERE}
        if decision.is_fallback:
            return None
        decision = None if decision.x is not None else decision.choice
    if str(where["event_id"]).startswith(FALLBACK_ID):
        return None
    if decision is None:
        where["slot"] = None
    else:
        where["label" if isinstance(decision, str) else "arm"] = decision
    return {name: value for name, value in where.items() if value is not None} | {outcome[0]: fields[outcome[0]]}


def events_content(events: Sequence[Mapping[str, Any]], void_field: str) -> str:
    """Return the body of a batch; voids are said in the session's own word.

    Parameters
    ----------
    events : as ``event_of`` returns them, none of a fallback
    void_field : ``loss``, ``reward``, ``losses`` or ``gradient``

    Raises
    ------
    ValueError, TypeError
        for what JSON has no form for, such as NaN.
    """
    said = [{void_field if name == VOID else name: value for name, value in event.items()} for event in events]
    return encode({"events": said})
