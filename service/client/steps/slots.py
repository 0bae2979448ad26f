"""Acting and reporting: what is called, and how it is read. No I/O, so the same for both kinds of clients.

What a docstring does not name is as in the method of the same name in ``service/client/blocking/``.
"""

from __future__ import annotations

import logging
import operator
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, SupportsIndex, TypedDict

from .. import answers
from ..answers import FALLBACK_ID, Action, Settlement, read
from ..calls import VOID, Arm, Call, Fallback, Steps, encode, events_content, session_path
from ..errors import BanditsError

_log = logging.getLogger("delayed_bandits.client")


class ActOptions(TypedDict, total=False):
    """What an act may say.

    ``eligible``: the arms that may be drawn, ``exclude``: those that may not; ``segment``: who asks;
    ``idempotency_key``: the same key gives the same action for a day, such as a visitor's id; ``timeout``: seconds
    for this call and its retries.
    """

    eligible: Sequence[Arm] | None
    exclude: Sequence[Arm] | None
    segment: str | None
    idempotency_key: str | None
    timeout: float | None


class FeedbackOptions(TypedDict, total=False):
    """What becomes of events that match no decision, or don't fit their session; seconds for all attempts."""

    on_surplus: Literal["refuse", "skip"]
    on_invalid: Literal["refuse", "skip"]
    timeout: float


def act(session_id: str, fallback: Fallback | None, options: ActOptions) -> Steps[Action]:
    """Ask for one action.

    Parameters
    ----------
    session_id : of the session
    fallback : returned where no action comes; None raises the error
    options : which arms, for whom, under which key, and how long it may take
    """
    instead = None if fallback is None else [fallback]
    found = yield from _act(session_id, "act", {}, instead, options)
    return found[0]


def acts(
    session_id: str, count: int, distinct: bool, fallback: Sequence[Fallback] | None, options: ActOptions
) -> Steps[list[Action]]:
    """Ask for several actions.

    Parameters
    ----------
    session_id : of the session
    count : actions, one or more
    distinct : whether each arm is drawn once at most
    fallback : of each action, in order; None raises the error
    options : which arms, for whom, under which key, and how long it may take
    """
    body: dict[str, Any] = {"count": count} | ({"distinct": True} if distinct else {})
    return (yield from _act(session_id, "acts", body, fallback if fallback is None else fallback[:count], options))


def _act(
    session_id: str, route: str, body: dict[str, Any], instead: Sequence[Fallback] | None, options: ActOptions
) -> Steps[list[Action]]:
    """Ask; where no action comes, and something is named for this case, return that in place of an error."""
    fallbacks = None if instead is None else [_fallback(each, options.get("segment")) for each in instead]
    try:
        return (yield from _chosen(session_id, route, body, options))
    except Exception as error:
        if fallbacks is None:
            raise
        _log.warning("session %s: the fallback is shown: %s", session_id, error)
        reason = error if isinstance(error, BanditsError) else BanditsError(str(error))
        return [replace(each, error=reason) for each in fallbacks]


def _chosen(session_id: str, route: str, body: dict[str, Any], options: ActOptions) -> Steps[list[Action]]:
    fields = ("eligible", "exclude", "segment")
    body |= {name: value for name in fields if (value := options.get(name)) is not None}
    key = options.get("idempotency_key") or uuid.uuid4().hex
    path = session_path(session_id, route)
    answer = yield Call("POST", path, encode(body), key=key, timeout=options.get("timeout"))

    def actions(found: Mapping[str, Any]) -> list[Action]:
        every = [found] if route == "act" else found["actions"]
        return [answers.action_of(each, key, options.get("segment")) for each in every]

    return read(actions, answer)


def _fallback(shown: Fallback, segment: str | None) -> Action:
    if isinstance(shown, str):
        place: dict[str, Any] = {"label": shown}
    elif isinstance(shown, SupportsIndex):
        place = {"arm": operator.index(shown)}
    else:
        place = {"x": list(map(float, shown))}
    event_id = FALLBACK_ID + uuid.uuid4().hex
    return Action(**place, segment=segment, event_id=event_id, is_fallback=True)


def feedbacks(
    session_id: str,
    events: Sequence[Mapping[str, Any] | None],
    words: dict[str, str],
    options: FeedbackOptions,
    key: str | None = None,
) -> Steps[Settlement]:
    """Send events in one call and wait for it.

    Parameters
    ----------
    session_id : of the session
    events : as ``event_of`` returns them; None stands for one of a fallback, and is not sent
    words : as ``void_field`` takes them
    options : what becomes of surplus and of wrong events, and how long it may take
    key : the Idempotency-Key; None makes one
    """
    sent = [event for event in events if event is not None]
    if not sent:
        return Settlement(fallbacks=len(events))
    word = yield from void_field(session_id, sent, words)
    query = {name: str(options[name]) for name in ("on_surplus", "on_invalid") if options.get(name) is not None}
    path, content = session_path(session_id, "feedbacks"), events_content(sent, word)
    answer = yield Call(
        "POST", path, content, query=query, key=key or uuid.uuid4().hex, timeout=options.get("timeout")
    )
    return replace(read(answers.settlement_of, answer), fallbacks=len(events) - len(sent))


def void_field(session_id: str, events: Iterable[Mapping[str, Any]], words: dict[str, str]) -> Steps[str]:
    """Return the word by which a session's events say their outcome; asks the session where a void needs it.

    Parameters
    ----------
    session_id : of the session
    events : those that are about to be sent
    words : of sessions known so far; is completed
    """
    if session_id not in words and any(VOID in event for event in events):
        answer = yield Call("GET", session_path(session_id))
        words[session_id] = read(answers.view_of, answer).outcome_field
    return words.get(session_id, "loss")
