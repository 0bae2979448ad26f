"""What each method calls and how it reads the answers, one source for both kinds of clients. No I/O."""

from __future__ import annotations

import logging
import operator
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, Required, SupportsIndex, TypedDict

from . import calls as answers
from .calls import (
    FALLBACK_ID,
    VOID,
    Action,
    Arm,
    BanditsError,
    Call,
    Fallback,
    Reader,
    SessionExistsError,
    SessionView,
    Settlement,
    Steps,
    T,
    encode,
    events_content,
    read,
    session_path,
    view_of,
)

# -- Sessions and their arms: what is called, and how it is read. No I/O, so the same for both kinds of clients.
#
# What a docstring does not name is as in the method of the same name in ``service/client/blocking/``.

SESSIONS = "/v1/sessions"
CHANGEABLE = ("expiry", "idle_ttl_seconds", "floor")
"""Fields of a session that may change after its creation, beside its arms."""
_COMPARED = ("loss_range", "reward_range", "normalize_losses", "decision_log")


class SessionOptions(TypedDict, total=False):
    """Fields of a new session, as the service documents them; what is left out has the service's default."""

    learner: Required[Mapping[str, Any]]
    loss_range: Sequence[float]
    reward_range: Sequence[float]
    normalize_losses: bool
    seed: int
    idle_ttl_seconds: float | None
    expiry: Mapping[str, Any] | None
    floor: float
    initial: Sequence[Mapping[str, Any]]
    segments: Mapping[str, Any] | None
    decision_log: Mapping[str, Any] | None


class ArmChanges(TypedDict, total=False):
    """Labels to remove, add, resume and pause, in this order."""

    remove: Sequence[str]
    add: Sequence[str]
    resume: Sequence[str]
    pause: Sequence[str]


class SessionChanges(TypedDict, total=False):
    """Options to change; None clears one."""

    expiry: Mapping[str, Any] | None
    idle_ttl_seconds: float | None
    floor: float | None


def view(session_id: str, segment: str | None = None) -> Steps[SessionView]:
    """View a session, or one of its segments.

    Parameters
    ----------
    session_id : of the session
    segment : None for the whole session
    """
    query = {} if segment is None else {"segment": segment}
    return read(view_of, (yield Call("GET", session_path(session_id), query=query)))


def create(session_id: str | None, options: Mapping[str, Any]) -> Steps[SessionView]:
    """Create a session, or find the one that was created with the same fields.

    Parameters
    ----------
    session_id : None lets the service choose one
    options : the other fields of ``POST /v1/sessions``

    Raises
    ------
    SessionExistsError
        where a session has this id and other fields.
    ValueError
        for an id that no session can have.
    """
    body = dict(options)
    if session_id is not None:
        session_path(session_id)
        body["session_id"] = session_id
    return (yield from _changed("POST", SESSIONS, body))


def ensure(session_id: str, options: Mapping[str, Any]) -> Steps[SessionView]:
    """Create a session, or bring its arms and the options that are named in line.

    Parameters
    ----------
    session_id : of the session
    options : those that are not named stay as they are

    Raises
    ------
    SessionExistsError
        where the session differs in what can't change.
    """
    try:
        found = yield from create(session_id, options)
    except SessionExistsError as error:
        found = yield from view(session_id)
        fixed = options.keys() - {"learner", *CHANGEABLE}
        if fixed & {each.get("field") for each in error.errors} or _differ(found, options):
            raise
    wanted = options["learner"].get("arms")
    if wanted is not None and set(wanted) != set(found.arms):
        found = yield from set_arms(session_id, wanted)
    changes = {name: options[name] for name in CHANGEABLE if name in options}
    if changes := {name: value for name, value in changes.items() if not _same(value, found.fields.get(name))}:
        found = yield from update(session_id, changes)
    return found


def _differ(found: SessionView, options: Mapping[str, Any]) -> bool:
    """Return whether what was named differs from the session in a way that can't change."""
    if (options["learner"].get("arms") is not None) != bool(found.arms):
        return True
    learner = {name: value for name, value in options["learner"].items() if name != "arms"}
    named = {name: options[name] for name in _COMPARED if name in options}
    return any(not _same(value, found.learner.get(name)) for name, value in learner.items()) or any(
        not _same(value, found.fields.get(name)) for name, value in named.items()
    )


def _same(wanted: Any, present: Any) -> bool:
    """Return whether a value is in force; a provisional default that is not named is as it is."""
    if isinstance(wanted, Mapping) and isinstance(present, Mapping):
        names = wanted.keys() | (present.keys() - {"provisional"})
        return all(_same(wanted.get(name), present.get(name)) for name in names)
    if isinstance(wanted, tuple | list) and isinstance(present, list):
        return list(wanted) == present
    return bool(wanted == present)


def set_arms(session_id: str, arms: Iterable[str]) -> Steps[SessionView]:
    """Exchange the arms for these; those that stay keep what they have learned.

    Parameters
    ----------
    session_id : of the session, whose arms have labels
    arms : labels of all arms that it is to have
    """
    return (yield from _changed("PUT", session_path(session_id, "arms"), {"arms": list(arms)}))


def change_arms(session_id: str, changes: Mapping[str, Any]) -> Steps[SessionView]:
    """Remove, add, resume and pause arms.

    Parameters
    ----------
    session_id : of the session, whose arms have labels
    changes : fields of ``ArmChanges``
    """
    return (yield from _changed("PATCH", session_path(session_id, "arms"), changes))


def update(session_id: str, changes: Mapping[str, Any]) -> Steps[SessionView]:
    """Change options of a session.

    Parameters
    ----------
    session_id : of the session
    changes : fields of ``SessionChanges``
    """
    return (yield from _changed("PATCH", session_path(session_id), changes))


def _changed(method: str, path: str, body: Mapping[str, Any]) -> Steps[SessionView]:
    answer = yield Call(method, path, encode(body), key=uuid.uuid4().hex)
    return read(view_of, answer)


def delete(session_id: str) -> Steps[None]:
    """Delete a session."""
    yield Call("DELETE", session_path(session_id), absent_ok=True)


def page(path: str, items: str, reader: Reader[T], query: Mapping[str, Any]) -> Steps[tuple[list[T], str | None]]:
    """Ask for one page: what is on it, and where the next one begins.

    Parameters
    ----------
    path : below the service's address
    items : the field of a page that lists them
    reader : makes an item of its JSON
    query : parameters, ``cursor`` among them; those that are None are not sent

    Returns
    -------
    The items, and the cursor of the next page; None for it after the last one.
    """
    answer = yield Call("GET", path, query={name: value for name, value in query.items() if value is not None})
    return read(lambda found: ([reader(each) for each in found[items]], found["next_cursor"]), answer)


# -- Acting and reporting: what is called, and how it is read. No I/O, so the same for both kinds of clients.
#
# What a docstring does not name is as in the method of the same name in ``service/client/blocking/``.

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
