"""How plain requests of the calls that ``hot_routes`` answers are read, and what carries them out."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Container, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from pydantic import TypeAdapter, ValidationError
from starlette.routing import BaseRoute
from starlette.types import Scope

from ...asgi_scope import KEY_IN_SCOPE, is_gone_of
from ...errors import ServiceError
from ...models.events import Event, Surplus
from ...sessions.act import Act
from ...sessions.create import Created
from ...sessions.feedback import SettleFeedback
from ...sessions.service import Answer, Sessions
from ...settings import Settings
from .. import schemas
from ..parsing.dependencies import rights_of_key
from ..parsing.json_body import EMPTY, PartLimits, parse
from ..parsing.list_limits import check_lengths
from ..routes import sessions as session_routes
from ..routes import slots
from ..runtime import Runtime
from ..slot_operations import ANY_ARM, act_of, acts_of, feedback_of, feedbacks_of
from .bodies import plain_event, plain_events
from .creations import Creation, creations
from .large_batches import read_in_pieces

SESSIONS = "/v1/sessions"
_NO_QUERY = frozenset({b""})
_ON_SURPLUS: Mapping[bytes, Surplus | None] = {
    b"": None,
    b"on_surplus=skip": "skip",
    b"on_surplus=refuse": "refuse",
}


class PlainCall(NamedTuple):
    """One of the calls, as plain requests make it."""

    route: BaseRoute
    read: Callable[[bytes], Any]
    """Reads a body; None where that is left to the route."""
    ask: Callable[[str, Any, Scope], Awaitable[Answer | Created]]
    """Asks the session with this id, or none, for what was read, and for what the scope says."""
    queries: Container[bytes] = _NO_QUERY
    """Query strings of plain requests."""
    read_large: Callable[[bytes], Awaitable[Any]] | None = None
    """Reads a body of ``LARGE_INPUT_BYTES`` and more, with pauses; without it the route does."""


def plain_calls(routes: Sequence[BaseRoute], runtime: Runtime) -> Mapping[str, PlainCall]:
    """Make the calls by method and the path behind that of a session; by ``POST /v1/sessions`` where there is none.

    Parameters
    ----------
    routes : of the application
    runtime : of the same
    """
    found, sessions, settings = (
        {getattr(each, "endpoint", None): each for each in routes},
        runtime.sessions,
        runtime.settings,
    )
    kinds: Sequence[Any] = (schemas.Act, schemas.Acts, Event, schemas.Feedbacks, schemas.CreateSession)
    limits = PartLimits.of(settings)
    act, acts, event, events, new = (partial(_read, TypeAdapter(kind), settings, limits) for kind in kinds)
    read_event, read_events = partial(_read_event, event), partial(_read_events, settings.max_events, events)
    read_large = partial(read_in_pieces, read_events, settings.max_events)
    acting, acting_often = partial(act_of, settings), partial(acts_of, settings)
    settle, settle_all = (_submit(sessions, make, _on_surplus) for make in (feedback_of, feedbacks_of))
    return {
        "GET": PlainCall(found[session_routes.view_session], _read_nothing, partial(_view, sessions)),
        f"POST {SESSIONS}": PlainCall(
            found[session_routes.create_session], creations(new), partial(_create, sessions)
        ),
        "POST/act": PlainCall(found[slots.act], partial(_read_act, act), _submit(sessions, acting, is_gone_of)),
        "POST/acts": PlainCall(found[slots.acts], acts, _submit(sessions, acting_often, is_gone_of)),
        "POST/feedback": PlainCall(found[slots.feedback], read_event, settle, _ON_SURPLUS),
        "POST/feedbacks": PlainCall(found[slots.feedbacks], read_events, settle_all, _ON_SURPLUS, read_large),
    }


def _submit(
    sessions: Sessions, operation: Callable[[Any, Any], Act | SettleFeedback], known: Callable[[Scope], Any]
) -> Callable[[str, Any, Scope], Awaitable[Answer]]:
    """Make what submits an operation: one of what was read, and of what else is known of the request."""
    return lambda session_id, read, scope: sessions.submit(session_id, operation(read, known(scope)))


async def _view(sessions: Sessions, session_id: str, _read: bool, _scope: Scope) -> Answer:
    return Answer(await sessions.view(session_id))


async def _create(sessions: Sessions, _session_id: str, read: Creation, scope: Scope) -> Created:
    return await sessions.create(read.session_id, read.specification, None, rights_of_key(scope.get(KEY_IN_SCOPE)))


def _on_surplus(scope: Scope) -> Surplus | None:
    return _ON_SURPLUS[scope["query_string"]]


def _read_nothing(body: bytes) -> bool | None:
    return None if body else True


def _read_act(read: Callable[[bytes], Any], body: bytes) -> schemas.Act | None:
    act: schemas.Act | None = ANY_ARM if body in (b"", EMPTY) else read(body)
    return act


def _read_event(read: Callable[[bytes], Any], body: bytes) -> Sequence[Event] | None:
    if (plain := plain_event(body)) is not None:
        return plain
    return None if (event := read(body)) is None else [event]


def _read_events(most: int, read: Callable[[bytes], Any], body: bytes) -> Sequence[Event] | None:
    if (plain := plain_events(body, most)) is not None:
        return plain
    return None if (found := read(body)) is None else found.events


def _read(adapter: TypeAdapter[Any], settings: Settings, limits: PartLimits, body: bytes) -> Any:
    """Read a body as its route does; None where the route finds something wrong."""
    try:
        value = parse(body, limits)
        check_lengths(value, settings)
        return adapter.validate_python(value)
    except (ServiceError, ValidationError):
        return None
