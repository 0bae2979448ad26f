"""The calls that services make all day, answered before FastAPI's middleware and Starlette's router.

Of the time of an act, FastAPI and Starlette take more around the handler than the session takes in it: two stacks
of middleware, a match of one route after the other, an object for the request and one for the response. ``act``,
``acts``, ``feedback``, ``feedbacks``, views and creations of sessions skip them where the request is plain: a body
of JSON, whose length is known and, but for ``feedbacks``, below 16 kB, and no header or parameter that asks for
more. Everything else, wrong requests among them, goes on to the routes, with what has been read of the body. A
plain request gets the answer that they would give, byte for byte: ``tests/api/test_hot_routes.py`` and, for large
bodies, ``test_large_batches.py`` send a corpus of requests through both.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Container, Coroutine, Mapping, Sequence
from functools import lru_cache, partial
from math import isfinite
from typing import Any, Literal, NamedTuple, cast

from fastapi import FastAPI, Request
from pydantic import TypeAdapter, ValidationError
from pydantic_core import from_json
from starlette.routing import BaseRoute
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ..asgi_scope import KEY_IN_SCOPE, is_gone_of
from ..cooperative import LARGE_INPUT_BYTES, FairYield
from ..errors import RequestTimeoutError, ServiceError
from ..learners.specs import MAX_COUNT
from ..models.events import Event, PlainEvents, Surplus
from ..models.specification import Specification
from ..sessions.act import Act
from ..sessions.create import Created
from ..sessions.feedback import SettleFeedback
from ..sessions.service import Answer, Sessions
from ..settings import Settings
from . import schemas
from .request_body import EMPTY, JSON, PartLimits, check_lengths, parse, rights_of_key
from .responses import json_response
from .routes import sessions as session_routes
from .routes import slots
from .routes.slots import ANY_ARM, act_of, acts_of, feedback_of, feedbacks_of
from .runtime import Runtime
from .schemas import CreateSession

# -- Bodies of plain feedback, read in one pass of pydantic's JSON parser.
#
# Reading one event strictly takes 8 us: Python looks at each object and number, and pydantic validates the event.
# Most events are an arm by its index and a number, and for these this file takes 1 us, in batches less. It never
# judges: whatever is not plain, wrong or only unusual, is left to ``json_body`` and the models, and what it does
# read is exactly what they would.

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


# -- Large batches of events, read as several small ones, with pauses.
#
# They are read on the event loop and not in a thread: whenever the event loop wakes up, and it wakes up several
# times for each request, it would have to wait until the thread hands over the interpreter, and on a busy machine
# until the thread is run at all.

PIECE_BYTES = 4_096
"""Bytes of events read between two pauses: some 100 events, which take 2 ms where each is validated."""
MAX_EVENT_BYTES = 4_096
"""Bytes of an event; a batch with a longer one is left to the route."""
MAX_ENDS_BYTES = 100
"""Bytes before the first event, and behind the last."""

_HEAD = re.compile(rb'[ \t\n\r]*\{[ \t\n\r]*"events"[ \t\n\r]*:[ \t\n\r]*\[')
_TAIL = re.compile(rb"\][ \t\n\r]*\}[ \t\n\r]*\Z")


async def read_in_pieces(
    read: Callable[[bytes], Sequence[Event] | None], most: int, body: bytes
) -> Sequence[Event] | None:
    """Read a large batch of events; None where it is too long or can't be divided, or where a piece can't be read.

    Parameters
    ----------
    read : reads a small batch
    most : events that the batch may have
    body : as it was received
    """
    fair_yield, parts, count = FairYield(), list[Sequence[Event]](), 0
    for piece in _pieces(body):
        part = read(b'{"events":[%b]}' % body[piece])
        if part is None:
            return None
        parts.append(part)
        count += len(part)
        if count > most:
            return None
        await fair_yield()
    return await _joined(parts, fair_yield)


def _pieces(body: bytes) -> Sequence[slice]:
    """Divide the events of a batch; no pieces where they can't be divided.

    What looks like the end of an event may be part of a text, but a list that ends within a text is no JSON. So if
    each piece can be read as a list, all of them together are the list of the body.
    """
    head, tail = _HEAD.match(body[:MAX_ENDS_BYTES]), _TAIL.search(body[-MAX_ENDS_BYTES:])
    if head is None or tail is None:
        return ()
    found, at, end = [], head.end(), max(len(body) - MAX_ENDS_BYTES, 0) + tail.start()
    while end - at > PIECE_BYTES + MAX_EVENT_BYTES:
        cut = body.find(b"},", at + PIECE_BYTES, at + PIECE_BYTES + MAX_EVENT_BYTES) + 1
        if not cut:
            return ()
        found.append(slice(at, cut))
        at = cut + 1
    return [*found, slice(at, end)]


async def _joined(parts: Sequence[Sequence[Event]], fair_yield: FairYield) -> Sequence[Event] | None:
    """Make one batch of several; None where there are none."""
    plain = [part for part in parts if isinstance(part, PlainEvents)]
    if len(plain) == len(parts) and len({part.word for part in plain}) == 1:
        return PlainEvents.joined(plain)
    events = list[Event]()
    for part in parts:
        events += part
        await fair_yield()
    return events or None


# -- Bodies of plain creations: those that differ in the session's id alone are checked once.
#
# Services create a session for each user, and all of them alike: checking such a body takes 25 us.

_KEY = b'"session_id"'
_FIRST = re.compile(rb'\{ *"session_id" *: *"([A-Za-z0-9][A-Za-z0-9._-]{0,127})" *,')
_LAST = re.compile(rb', *"session_id" *: *"([A-Za-z0-9][A-Za-z0-9._-]{0,127})" *\}')
"""An id that is the first or the last field of the body, and so no part of another one."""


class Creation(NamedTuple):
    """A session to create."""

    session_id: str | None
    specification: Specification


def creations(read: Callable[[bytes], CreateSession | None]) -> Callable[[bytes], Creation | None]:
    """Make what reads bodies of creations, and remembers some.

    Parameters
    ----------
    read : reads a body; None where it is left to the route
    """

    @lru_cache(maxsize=64)
    def remembered(body: bytes) -> Creation | None:
        found = read(body)
        return None if found is None else Creation(found.session_id, found.specification)

    def read_creation(body: bytes) -> Creation | None:
        session_id, rest = _taken_apart(body)
        found = remembered(rest)
        return found if found is None or session_id is None else found._replace(session_id=session_id)

    return read_creation


def _taken_apart(body: bytes) -> tuple[str | None, bytes]:
    """Return the id of a session and the body without it; None and all of the body where that is not plain."""
    if b"\\" in body or body.count(_KEY) != 1:  # Without escapes each quote begins or ends a text.
        return None, body
    if found := _FIRST.match(body):
        return found[1].decode(), b"{" + body[found.end() :]
    if (start := body.rfind(b",")) > 0 and (found := _LAST.fullmatch(body, start)):
        return found[1].decode(), body[:start] + b"}"
    return None, body


# -- How plain requests of the calls that ``hot_routes`` answers are read, and what carries them out.

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


PREFIX = f"{SESSIONS}/"
_JSON = JSON.encode()
_ELSEWHERE = frozenset({b"transfer-encoding", b"content-encoding", b"idempotency-key", b"expect"})
"""Headers that only the routes read."""
MAX_SIZE_DIGITS = 12
"""Digits of a Content-Length; a longer one is left to the routes."""


class HotRoutes:
    """Answers plain requests of the calls, and hands all others on.

    Parameters
    ----------
    app : what the others go to
    described : the application with the routes, and with the answers to errors
    runtime : of the same application
    """

    def __init__(self, app: ASGIApp, described: FastAPI, runtime: Runtime) -> None:
        self._app = app
        self._runtime = runtime
        self._on_error: Mapping[Any, Callable[..., Any]] = described.exception_handlers
        self._calls = plain_calls(described.routes, runtime)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request."""
        call, session_id = self._find(scope)
        size = None if call is None else self._size(scope, call)
        if call is None or size is None:
            await self._app(scope, receive, send)
            return
        messages: list[Message] = []
        scope["route"], scope["path_params"] = call.route, {"session_id": session_id} if session_id else {}
        try:
            messages = await self._received(receive) if size else []
            body = b"".join([each.get("body", b"") for each in messages])
            read, answer = None, None
            # A body that was cut off is shorter than it was said to be.
            if len(body) == size:
                in_pieces = call.read_large if size >= LARGE_INPUT_BYTES else None
                read = call.read(body) if in_pieces is None else await in_pieces(body)
            del body  # Large bodies are held no longer than needed.
            if read is not None:
                messages.clear()
                answer = await call.ask(session_id, read, scope)
        except ServiceError as error:
            await self._answer_error(ServiceError, error, scope, receive, send)
        except Exception as error:
            await self._answer_error(Exception, error, scope, receive, send)
            raise
        else:
            if answer is None:
                del scope["route"], scope["path_params"]
                await self._app(scope, _again(messages, receive), send)
            else:
                await _send(answer, scope, receive, send)

    def _find(self, scope: Scope) -> tuple[PlainCall | None, str]:
        """Find the call and the id of its session, if it has one, by method, path and query."""
        if scope["type"] == "http" and not scope.get("root_path"):
            path: str = scope["path"]
            session_id, behind, name = path[len(PREFIX) :].partition("/")
            if path.startswith(PREFIX):
                call = self._calls.get(scope["method"] + behind + name) if session_id else None
            else:
                session_id, call = "", self._calls.get(f"{scope['method']} {path}")
            if call and scope["query_string"] in call.queries:
                return call, session_id
        return None, ""

    def _size(self, scope: Scope, call: PlainCall) -> int | None:
        """Return how many bytes the body of a plain request has, by its headers; None for all other requests."""
        size, types = b"0", []
        for name, value in scope["headers"]:
            if name == b"content-length":
                size = value
            elif name == b"content-type":
                types.append(value)
            elif name in _ELSEWHERE:
                return None
        if size == b"0":
            return 0
        if types != [_JSON] or not size.isdigit() or len(size) > MAX_SIZE_DIGITS:
            return None
        limit = self._runtime.settings.max_body_bytes
        if (key := scope.get(KEY_IN_SCOPE)) is not None and key.max_body_bytes is not None:
            limit = min(limit, key.max_body_bytes)
        if call.read_large is None:
            limit = min(limit, LARGE_INPUT_BYTES)
        return found if (found := int(size)) < limit else None

    async def _received(self, receive: Receive) -> list[Message]:
        """Receive a whole body; mostly it is there already, and needs no timer, which costs 5 us.

        Raises
        ------
        RequestTimeoutError
        """
        messages: list[Message] = []
        waiting = cast("Coroutine[Any, Any, Message]", receive())
        try:
            waiting.send(None)
        except StopIteration as there:
            messages = [there.value]
            if not there.value.get("more_body"):
                return messages
        else:
            waiting.close()
        return await self._waited_for(messages, receive)

    async def _waited_for(self, messages: list[Message], receive: Receive) -> list[Message]:
        """Wait for the rest of a body; return all of its messages."""
        try:
            async with asyncio.timeout(self._runtime.settings.body_timeout_seconds):
                while not messages or messages[-1].get("more_body"):
                    messages.append(await receive())
        except TimeoutError as error:
            raise RequestTimeoutError from error
        return messages

    async def _answer_error(
        self, kind: type[Exception], error: Exception, scope: Scope, receive: Receive, send: Send
    ) -> None:
        response = await self._on_error[kind](Request(scope), error)
        await response(scope, receive, send)


def _again(messages: list[Message], receive: Receive) -> Receive:
    """Let the messages be received once more, and then what comes after them; none is kept."""
    messages.reverse()

    async def again() -> Message:
        return messages.pop() if messages else await receive()

    return again


async def _send(found: Answer | Created, scope: Scope, receive: Receive, send: Send) -> None:
    answer, status = (found.answer, 201 if found.new else 200) if isinstance(found, Created) else (found, 200)
    body = answer.body
    if not isinstance(body, bytes):
        await json_response(answer, status)(scope, receive, send)
        return
    headers = [(b"content-length", b"%d" % len(body)), (b"content-type", _JSON)]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
