"""Sessions and their arms: what is called, and how it is read. No I/O, so the same for both kinds of clients.

What a docstring does not name is as in the method of the same name in ``service/client/blocking/``.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Required, TypedDict

from ..answers import Reader, SessionView, read, view_of
from ..calls import Call, Steps, T, encode, session_path
from ..errors import SessionExistsError

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
