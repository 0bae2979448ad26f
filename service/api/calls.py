"""One way for every call of the API: found once, read strictly, answered by its path operation.

FastAPI describes the path operations in the OpenAPI document. Their requests are served here, from a table that is
made of the same signatures at the start: FastAPI's own way takes a dependency solver, two stacks of middleware and
a match of one route after the other, more than an act takes. What is not below ``/v1`` is left to FastAPI.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Any, NamedTuple, cast

from fastapi import FastAPI, Request
from fastapi.routing import APIRoute
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ..api_keys import ApiKey
from ..cooperative import LARGE_INPUT_BYTES, STREAMED_FROM_BYTES, Body, FairYield, json_chunks, run_in_thread
from ..errors import InvalidRequestError, PayloadTooLargeError, RequestTimeoutError, ServiceError
from ..models.events import PRINTABLE_ASCII, Event, Idempotency, digest, digest_of
from ..sessions.views import ALL, Rights
from ..telemetry.logs import IS_GONE, KEY_IN_SCOPE
from .json_body import (
    JSON,
    SORTED,
    PartLimits,
    batch_of,
    check_lengths,
    check_media_type,
    parse,
    plain_events,
    read_in_pieces,
    read_small,
)
from .path_operations import REQUIRED, Field, PathOperation
from .problems import from_pydantic_errors
from .runtime import Runtime
from .schemas import Feedbacks

PREFIX = "/v1/"
REPLAYED = (b"idempotent-replayed", b"true")
"""Header of an answer that an earlier request with the same key got."""
CALL_IN_SCOPE = "bandit.call"
"""Name in the ASGI scope under which a request keeps the operation that was found for it."""
_JSON_TYPE = (b"content-type", JSON.encode())

IDEMPOTENCY_KEY = "Idempotency-Key"
MAX_KEY_LENGTH = 255
KEYED: dict[str, Any] = {
    "parameters": [
        {
            "name": IDEMPOTENCY_KEY,
            "in": "header",
            "required": False,
            "description": "A request with the same key and body gets the first answer again and changes nothing.",
            "schema": {"type": "string", "minLength": 1, "maxLength": MAX_KEY_LENGTH, "pattern": PRINTABLE_ASCII},
        }
    ]
}
"""What the OpenAPI document says of the header."""


class Reply(NamedTuple):
    """A success: JSON, as bytes or in pieces of text that are sent as they are made."""

    body: Body = b""
    status: int = 200
    replayed: bool = False
    """Whether the answer was stored under an idempotency key before."""


class Call(Request):
    """A request to a path operation."""

    runtime: Runtime
    posted: dict[str, Any] | None
    """The object in the body as it was parsed; None without a body."""

    @property
    def api_key(self) -> ApiKey | None:
        """The API key; None if the service has no keys."""
        key: ApiKey | None = self.scope.get(KEY_IN_SCOPE)
        return key

    @property
    def rights(self) -> Rights:
        """What the holder of the API key may create; all if there are no keys."""
        key = self.api_key
        return ALL if key is None else Rights(key.session_prefix, key.max_sessions, key.max_arms)

    @property
    def is_gone(self) -> Callable[[], bool] | None:
        """What says whether the client has left; None if nobody knows."""
        found: Callable[[], bool] | None = self.scope.get("extensions", {}).get(IS_GONE)
        return found

    async def idempotency(self) -> Idempotency | None:
        """Read the Idempotency-Key, and digest it and what the request asks; None without the header.

        The same key counts apart for another API key, method, route or session. Bodies that differ in spaces or in
        the order of fields are the same.

        Raises
        ------
        InvalidRequestError
            for a key that is empty, too long, not printable ASCII, or sent twice.
        """
        scope = self.scope
        keys = [value.decode("latin-1") for name, value in scope["headers"] if name == b"idempotency-key"]
        if not keys:
            return None
        if len(keys) > 1 or len(keys[0]) > MAX_KEY_LENGTH or not re.fullmatch(PRINTABLE_ASCII, keys[0]):
            text = f"must be 1 to {MAX_KEY_LENGTH} printable ASCII characters"
            raise InvalidRequestError.of(IDEMPOTENCY_KEY, text)
        apart = [scope["method"], scope["route"].path, scope["path_params"].get("session_id", "")]
        if (api_key := self.api_key) is not None:
            apart.append(api_key.name)
        asked = chain([scope["query_string"].decode("latin-1"), "\n"], json_chunks(self.posted or {}, SORTED))
        return Idempotency(digest(keys[0], *apart), await digest_of(asked, FairYield()))


class Calls:
    """Serves the calls of the API, and leaves every other request to FastAPI's application."""

    def __init__(self, app: ASGIApp, described: FastAPI, runtime: Runtime) -> None:
        self._app = app
        self._runtime = runtime
        self._settings = runtime.settings
        self._limits = PartLimits.of(runtime.settings)
        self._on_error: Mapping[Any, Callable[..., Any]] = described.exception_handlers
        self._table: dict[tuple[str, int], list[tuple[list[str], PathOperation]]] = {}
        for route in described.routes:
            if isinstance(route, APIRoute) and route.path.startswith(PREFIX):
                self._add(PathOperation(route, Reply))

    def _add(self, operation: PathOperation) -> None:
        parts, methods = operation.route.path.split("/"), operation.route.methods or set()
        for method in methods | ({"HEAD"} if "GET" in methods else set()):  # What answers GET answers HEAD too.
            self._table.setdefault((method, len(parts)), []).append((parts, operation))

    def find(self, scope: Scope) -> PathOperation | None:
        """Find the operation of a request, once, and note it in the scope with its path parameters."""
        if CALL_IN_SCOPE in scope:
            found: PathOperation | None = scope[CALL_IN_SCOPE]
            return found
        path: str = scope["path"]
        if (root := scope.get("root_path", "")) and path.startswith(f"{root}/"):
            path = path[len(root) :]
        given = path.split("/")
        for parts, operation in self._table.get((scope["method"], len(given)), ()):
            parameters = {}
            for part, text in zip(parts, given, strict=True):
                if part != text:
                    if part.startswith("{") and text:
                        parameters[part[1:-1]] = text
                    elif (
                        text != f"{part}\n" or part is not parts[-1]
                    ):  # Starlette's patterns take a line feed there.
                        break
            else:
                scope[CALL_IN_SCOPE], scope["path_params"] = operation, parameters
                return operation
        scope[CALL_IN_SCOPE] = None
        return None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request."""
        operation = self.find(scope) if scope["type"] == "http" else None
        if operation is None:
            await self._app(scope, receive, send)
            return
        scope["route"] = operation.route
        call = Call(scope)
        call.runtime, call.posted = self._runtime, None
        try:
            values = scope["path_params"] | operation.defaults
            errors: list[dict[str, Any]] = []
            if scope["query_string"] or REQUIRED in operation.defaults.values():
                query, found = operation.read_query(scope["query_string"])
                values |= query
                errors += found
            if (field := operation.body) is not None:
                values[field.name] = await self._read_body(call, operation, field, receive, errors)
            if errors:
                raise from_pydantic_errors(errors)
            if operation.takes_call is not None:
                values[operation.takes_call] = call
            reply = await operation.handler(**values)
        except ServiceError as error:
            # The scope keeps it as long as the connection is idle, and its frames would keep the body.
            error.__traceback__ = error.__context__ = error.__cause__ = None
            response = await self._on_error[ServiceError](call, error)
            await response(scope, receive, send)
        except Exception as error:
            response = await self._on_error[Exception](call, error)
            await response(scope, receive, send)
            raise
        else:
            await _send(reply, scope, send)

    async def _read_body(
        self, call: Call, operation: PathOperation, field: Field, receive: Receive, errors: list[dict[str, Any]]
    ) -> Any:
        """Receive, parse and validate the body, unless it is too large or too slow."""
        settings, headers, declared, is_chunked = self._settings, call.scope["headers"], b"0", False
        is_plain: bool | None = None  # Whether it has one Content-Type, of plain JSON, and no Content-Encoding.
        for name, value in headers:
            if name == b"content-length":
                declared = value
            elif name == b"content-type":
                is_plain = is_plain is None and value == _JSON_TYPE[1]
            elif name == b"transfer-encoding":
                is_chunked = True
            elif name == b"content-encoding":
                is_plain = False
        body: bytes = b""
        if declared != b"0" or is_chunked:
            limit = operation.access.max_body_bytes(settings)
            if (key := call.scope.get(KEY_IN_SCOPE)) is not None and key.max_body_bytes is not None:
                limit = min(limit, key.max_body_bytes)
            if declared.isdigit() and int(declared[:20]) > limit:
                raise PayloadTooLargeError(f"The body may have {limit} bytes")
            # Mostly the whole body is there already, and needs no timer, which costs 5 us.
            waiting = cast("Coroutine[Any, Any, Message]", receive())
            try:
                waiting.send(None)
            except StopIteration as there:
                message: Message = there.value
            else:
                waiting.close()
                message = {"type": "http.request", "more_body": True}
            body = message.get("body", b"")
            if message.get("more_body") or message["type"] != "http.request" or len(body) > limit:
                body = await _rest(message, limit, receive, settings.body_timeout_seconds)
        if not body:
            if field.default is REQUIRED:
                errors.append({"type": "missing", "loc": ("body",), "msg": ""})
            return field.default
        if not is_plain:
            check_media_type(headers, body)
        if body == b"{}" and field.default is not REQUIRED:
            return field.default
        if len(body) < LARGE_INPUT_BYTES:
            call.posted, read = read_small(body, field.columns, settings, self._limits)
            return read if read is not None else self._validate(field, call.posted, errors)
        if field.columns is plain_events and not any(name == b"idempotency-key" for name, _ in headers):
            events = await read_in_pieces(partial(self._read_events, field), settings.max_events, body)
            if events is not None:
                return batch_of(events)
        call.posted = await run_in_thread(parse, body, self._limits)
        return await run_in_thread(self._validate, field, call.posted, errors)

    def _validate(self, field: Field, posted: dict[str, Any], errors: list[dict[str, Any]]) -> Any:
        check_lengths(posted, self._settings)
        return field.validate(posted, ("body",), errors)

    def _read_events(self, field: Field, piece: bytes) -> Sequence[Event] | None:
        """Read the events of a piece of a batch; None if anything is wrong with it."""
        try:
            posted, read = read_small(piece, field.columns, self._settings, self._limits)
            batch: Feedbacks | None = read if read is not None else self._validate(field, posted, [])
        except ServiceError:
            return None
        return None if batch is None else batch.events


async def _rest(message: Message, limit: int, receive: Receive, seconds: float) -> bytes:
    """Receive what follows on the first message of a body."""
    body = bytearray()
    try:
        async with asyncio.timeout(seconds):
            while True:
                if message["type"] == "http.disconnect":
                    raise InvalidRequestError("The body was cut off")
                body += message.get("body", b"")
                if len(body) > limit:
                    raise PayloadTooLargeError(f"The body may have {limit} bytes")
                if not message.get("more_body"):
                    return bytes(body)
                message = await receive()
    except TimeoutError as error:
        raise RequestTimeoutError from error


async def _send(reply: Reply, scope: Scope, send: Send) -> None:
    """Send an answer; one in pieces as it is made, so that a slow client never keeps all of it in memory."""
    body, more = reply.body, [REPLAYED] if reply.replayed else []
    if isinstance(body, bytes):
        headers = [] if reply.status == 204 else [*more, (b"content-length", b"%d" % len(body)), _JSON_TYPE]
        await send({"type": "http.response.start", "status": reply.status, "headers": headers})
        await send({"type": "http.response.body", "body": body})
        return
    is_gone, fair_yield = scope.get("extensions", {}).get(IS_GONE), FairYield()
    await send({"type": "http.response.start", "status": reply.status, "headers": [*more, _JSON_TYPE]})
    chunk, size = [], 0
    for piece in body:
        chunk.append(piece)
        size += len(piece)
        if size >= STREAMED_FROM_BYTES:
            await send({"type": "http.response.body", "body": "".join(chunk).encode(), "more_body": True})
            chunk, size = [], 0
            if is_gone is not None and is_gone():
                break
        await fair_yield()
    await send({"type": "http.response.body", "body": "".join(chunk).encode(), "more_body": False})
