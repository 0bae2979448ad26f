"""The four calls that services make all day, answered before FastAPI's middleware and Starlette's router.

Of the time of an act, FastAPI and Starlette take more around the handler than the session takes in it: two stacks
of middleware, a match of one route after the other, an object for the request and one for the response. ``act``,
``acts``, ``feedback`` and ``feedbacks`` skip them where the request is plain: a body below 16 kB of JSON, whose
length is known, and no header or parameter that asks for more. Everything else, wrong requests among them, goes on
to the routes in ``routes/slots.py``, with what has been read of the body. A plain request gets the answer that they
would give, byte for byte: ``tests/api/test_hot_routes.py`` sends one corpus of requests through both.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Container, Coroutine, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, cast

from fastapi import FastAPI, Request
from pydantic import TypeAdapter, ValidationError
from starlette.routing import BaseRoute
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ..asgi_scope import KEY_IN_SCOPE, is_gone_of
from ..cooperative.offload import LARGE_INPUT_BYTES
from ..errors import RequestTimeoutError, ServiceError
from ..models.events import Event, Surplus
from ..sessions.operations import Act, SettleFeedback
from ..sessions.service import Answer
from ..settings import Settings
from . import schemas
from .parsing.json_body import EMPTY, JSON, PartLimits, parse
from .parsing.list_limits import check_lengths
from .parsing.plain_bodies import plain_event, plain_events
from .responses import json_response
from .routes import slots
from .runtime import Runtime
from .slot_operations import ANY_ARM, act_of, acts_of, feedback_of, feedbacks_of

PREFIX = "/v1/sessions/"
_JSON = JSON.encode()
_ELSEWHERE = frozenset({b"transfer-encoding", b"content-encoding", b"idempotency-key", b"expect"})
"""Headers that only the routes read."""
_NO_QUERY = frozenset({b""})
_ON_SURPLUS: Mapping[bytes, Surplus | None] = {
    b"": None,
    b"on_surplus=skip": "skip",
    b"on_surplus=refuse": "refuse",
}


class _Call(NamedTuple):
    """One of the calls, as plain requests make it."""

    route: BaseRoute
    read: Callable[[bytes], Any]
    """Reads a body; None where that is left to the route."""
    operation: Callable[[Any, Any], Act | SettleFeedback]
    """Makes the operation: of what was read, and of what else the call needs to know."""
    known: Callable[[Scope], Any]
    """Finds that: whether the client has left, or what the query says."""
    queries: Container[bytes]
    """Query strings of plain requests."""


class HotRoutes:
    """Answers plain requests of the four calls, and hands all others on.

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
        self._calls = _calls(described.routes, runtime.settings)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request."""
        call, session_id = self._find(scope)
        size = None if call is None else self._size(scope)
        if call is None or size is None:
            await self._app(scope, receive, send)
            return
        messages: list[Message] = []
        scope["route"], scope["path_params"] = call.route, {"session_id": session_id}
        try:
            messages = await self._received(receive) if size else []
            body = b"".join([each.get("body", b"") for each in messages])
            # A body that was cut off is shorter than it was said to be.
            read, answer = call.read(body) if len(body) == size else None, None
            if read is not None:
                operation = call.operation(read, call.known(scope))
                answer = await self._runtime.sessions.submit(session_id, operation)
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

    def _find(self, scope: Scope) -> tuple[_Call | None, str]:
        """Find the call and the id of its session by method, path and query."""
        if scope["type"] == "http" and scope["method"] == "POST" and not scope.get("root_path"):
            path: str = scope["path"]
            session_id, _, name = path[len(PREFIX) :].partition("/")
            call = self._calls.get(name)
            if call and session_id and path.startswith(PREFIX) and scope["query_string"] in call.queries:
                return call, session_id
        return None, ""

    def _size(self, scope: Scope) -> int | None:
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
        if types != [_JSON] or not size.isdigit() or len(size) > len(str(LARGE_INPUT_BYTES)):
            return None
        limit = self._runtime.settings.max_body_bytes
        if (key := scope.get(KEY_IN_SCOPE)) is not None and key.max_body_bytes is not None:
            limit = min(limit, key.max_body_bytes)
        return found if (found := int(size)) < min(limit, LARGE_INPUT_BYTES) else None

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


def _again(messages: Sequence[Message], receive: Receive) -> Receive:
    """Let the messages be received once more, and then what comes after them."""
    left = iter(messages)

    async def again() -> Message:
        return next(left, None) or await receive()

    return again


async def _send(answer: Answer, scope: Scope, receive: Receive, send: Send) -> None:
    body = answer.body
    if not isinstance(body, bytes):
        await json_response(answer)(scope, receive, send)
        return
    headers = [(b"content-length", b"%d" % len(body)), (b"content-type", _JSON)]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def _calls(routes: Sequence[BaseRoute], settings: Settings) -> Mapping[str, _Call]:
    """Make the calls by the last part of their paths."""
    found = {getattr(route, "endpoint", None): route for route in routes}
    kinds: Sequence[Any] = (schemas.Act, schemas.Acts, Event, schemas.Feedbacks)
    limits = PartLimits.of(settings)
    act, acts, event, events = (partial(_read, TypeAdapter(kind), settings, limits) for kind in kinds)
    read_events = partial(_read_events, settings.max_events, events)
    return {
        "act": _Call(found[slots.act], partial(_read_act, act), partial(act_of, settings), is_gone_of, _NO_QUERY),
        "acts": _Call(found[slots.acts], acts, partial(acts_of, settings), is_gone_of, _NO_QUERY),
        "feedback": _Call(
            found[slots.feedback], partial(_read_event, event), feedback_of, _on_surplus, _ON_SURPLUS
        ),
        "feedbacks": _Call(found[slots.feedbacks], read_events, feedbacks_of, _on_surplus, _ON_SURPLUS),
    }


def _on_surplus(scope: Scope) -> Surplus | None:
    return _ON_SURPLUS[scope["query_string"]]


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
