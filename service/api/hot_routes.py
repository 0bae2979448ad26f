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
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, cast

from fastapi import FastAPI, Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ..asgi_scope import KEY_IN_SCOPE
from ..cooperative import LARGE_INPUT_BYTES
from ..errors import RequestTimeoutError, ServiceError
from ..sessions.create import Created
from ..sessions.service import Answer
from .parsing.json_body import JSON
from .plain.calls import SESSIONS, PlainCall, plain_calls
from .responses import json_response
from .runtime import Runtime

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
