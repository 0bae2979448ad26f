"""One way for every call of the API: found once, read strictly, answered by its path operation.

FastAPI describes the path operations in the OpenAPI document. Their requests are served here, from a table that is
made of the same signatures at the start: FastAPI's own way takes a dependency solver, two stacks of middleware and
a match of one route after the other, more than an act takes. What is not below ``/v1`` is left to FastAPI.
"""

from __future__ import annotations

import asyncio
import itertools
import random
import re
import secrets
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from functools import partial
from http import HTTPMethod
from typing import TYPE_CHECKING, Any, NamedTuple

from fastapi import FastAPI, Request, Response
from fastapi.routing import APIRoute
from starlette.routing import Match, Mount
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ..api_keys import ApiKey
from ..cooperative import LARGE_INPUT_BYTES, STREAMED_FROM_BYTES, Body, FairYield, Turns, joined, run_in_thread
from ..errors import InvalidRequestError, NotFoundError, OverloadedError, PayloadTooLargeError, ServiceError
from ..models.events import PRINTABLE_ASCII, Event, Idempotency, digest, digest_of
from ..sessions.views import ALL, Rights
from ..telemetry import logs
from ..telemetry.logs import ERROR_IN_SCOPE, ID_IN_SCOPE, IS_GONE, KEY_IN_SCOPE, NOTED_IN_SCOPE, OWNED
from ..telemetry.metrics import OTHER
from . import json_body
from .path_operations import REQUIRED, Field, PathOperation, table_of
from .problems import from_pydantic_errors
from .runtime import Logged, Runtime, access_of
from .schemas import Feedbacks

if TYPE_CHECKING:
    from ..telemetry.tracing import Spans

_JSON = json_body.JSON.encode()

IDEMPOTENCY_KEY = "Idempotency-Key"
_KEY = b"idempotency-key"
MAX_KEY_LENGTH = 255


Headers = Sequence[tuple[bytes, bytes]]


class Reply(NamedTuple):
    """A success: JSON, as bytes or in pieces of text that are sent as they are made."""

    body: Body = b""
    status: int = 200
    replayed: bool = False
    """Whether the answer was stored under an idempotency key before."""
    headers: Headers = ()
    """Further ones."""
    media_type: bytes = _JSON


Answer = tuple[int, Headers, Body]
"""Status, headers but for the request's id, and body."""


class Call(Request):
    """A request to a path operation.

    Parameters
    ----------
    runtime : of this process
    operation : what is called
    scope : of the request, with the path's parameters and the API key
    given : the headers, of each name the first
    """

    posted: dict[str, Any] | None = None
    """The object in the body as it was parsed; None without a body."""
    requests: Requests
    """What received it, for operations that read their bodies themselves."""

    def __init__(
        self, runtime: Runtime, operation: PathOperation, scope: Scope, given: Mapping[bytes, bytes]
    ) -> None:
        # Not starlette's, which makes what only its own way of reading a body needs.
        self.runtime, self.operation, self.scope, self.given = runtime, operation, scope, given

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
        if _KEY not in self.given:
            return None
        scope, key = self.scope, self.given[_KEY].decode("latin-1")
        is_repeated = sum(name == _KEY for name, _ in scope["headers"]) > 1
        if is_repeated or len(key) > MAX_KEY_LENGTH or not re.fullmatch(PRINTABLE_ASCII, key):
            text = f"must be 1 to {MAX_KEY_LENGTH} printable ASCII characters"
            raise InvalidRequestError.of(IDEMPOTENCY_KEY, text)
        apart = [scope["method"], self.operation.route.path, scope["path_params"].get("session_id", "")]
        if (api_key := self.api_key) is not None:
            apart.append(api_key.name)
        query = scope["query_string"].decode("latin-1")
        asked = itertools.chain([query, "\n"], json_body.in_order(self.posted or {}))
        return Idempotency(digest(key, *apart), await digest_of(asked, FairYield()))


# -- Gives every request an id, counts and times it, logs it, and answers it when a stop cancels it.
#
# Plain ASGI, as Starlette's middleware classes cost more time than an act.

_SANE_ID = re.compile(rb"[!-~](?:[ -~]{0,126}[!-~])?")
"""An id that a client may give its request: short and printable."""
REPLAYED = (b"idempotent-replayed", b"true")
"""Header of an answer that an earlier request with the same key got."""
REQUEST_ID = b"x-request-id"
"""Header of every answer, and of requests that bring an id."""
STOPPING = "The service is stopping; what this request asked may have been done or not: send it again"


class Requests:
    """What a server calls: answers calls of the API, and hands all other requests on.

    It gives each request an id, asks for its API key, and counts, times and logs its answer.

    Parameters
    ----------
    app : answers what is no call of the API
    described : FastAPI's application, with the routes, which say who may call them and what successes are logged
    runtime : has metrics, and the share of successes to log
    spans : gets the status and route of each request; None if requests are not traced
    admit : refuses those that may not call an operation, or what else they ask for; None if there are no API keys
    problem : counts an error, and makes its answer
    """

    def __init__(
        self,
        app: ASGIApp,
        described: FastAPI,
        runtime: Runtime,
        spans: Spans | None,
        admit: Callable[[Scope, PathOperation | None], None] | None,
        problem: Callable[[Scope, Exception], Response],
    ) -> None:
        self._app, self._runtime, self._admit, self._spans = app, runtime, admit, spans
        self.limits = json_body.PartLimits.of(runtime.settings)
        routes = [route for route in described.routes if isinstance(route, APIRoute)]
        self._routes = [route for route in routes if route.path.startswith("/v1/")]
        self._operations = table_of(self._routes, Reply)
        self.hand_over: Callable[[Scope, Any], Coroutine[Any, Any, Any]] | None = None
        """Returns the answer of the worker that owns the session; None if the call is to be carried out here."""
        self._metrics, self._settings, self._problem = runtime.metrics, runtime.settings, problem
        process = secrets.token_hex(8).encode()  # No other process makes the same ids.
        self._new_ids = (b"%b-%x" % (process, number) for number in itertools.count(1))
        self._logged = {
            (method, route.path): access_of(route).logged for route in routes for method in route.methods or ()
        }
        self._mounted = {route.path for route in described.routes if isinstance(route, Mount)}
        self._last_status: dict[str, int] = {}
        self._turns = Turns()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, but no path with an encoded slash."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started, app = time.perf_counter(), self._app
        beside: Headers = ()
        given = dict(reversed(scope["headers"]))  # Of each name the first.
        if (request_id := given.get(REQUEST_ID)) is None or not _SANE_ID.fullmatch(request_id):
            request_id = next(self._new_ids)
        scope[ID_IN_SCOPE] = request_id
        try:
            operation = self._find(scope)
            if operation is not None and operation.access.headers is not None:
                beside = operation.access.headers(scope, self._settings)
            if self._admit is not None:
                self._admit(scope, operation)
            if b"%2f" in (scope.get("raw_path") or b"").lower():  # Proxies may see other parts of the path there.
                raise NotFoundError
            if operation is not None:
                body = await self._receive(operation, scope, given, receive)
                if operation.access.session_of is not None:
                    scope[OWNED] = operation.access.session_of(body)
                if self.hand_over is not None and (answered := await self.hand_over(scope, body)) is not None:
                    status, headers, answer = answered
                else:
                    reply = await self._reply(operation, scope, given, body)
                    status, headers, answer = reply.status, _headers(reply), reply.body
        except asyncio.CancelledError:
            operation, app = None, self._stopping(scope)
            app.raw_headers += beside
        except Exception as error:
            operation, app = None, self._problem(scope, error)
            app.raw_headers += beside
        if operation is None:
            await self._hand_on(app, scope, receive, send, started)
            return
        headers = [*headers, *beside, (REQUEST_ID, request_id)]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        if not isinstance(answer, bytes):
            answer = await send_but_last(answer, scope, send)
        self._answered(scope, status, time.perf_counter() - started)
        await send({"type": "http.response.body", "body": answer})

    async def carry_out(self, scope: Scope, body: bytes) -> Answer:
        """Carry out a call that another worker has received."""
        try:
            if (operation := self._find(scope)) is None:
                raise NotFoundError
            reply = await self._reply(operation, scope, dict(scope["headers"]), body)
        except Exception as error:
            response = self._problem(scope, error)
            return response.status_code, response.raw_headers, bytes(response.body)
        return reply.status, _headers(reply), await joined(reply.body, FairYield())

    def refuse(self, error: ServiceError, client: object, method: str = "", path: str = "") -> Response:
        """Answer bytes that are no request, counted and logged; the connection ends.

        Parameters
        ----------
        client : its address and port; None if it has none
        method, path : of the head; empty if none was read
        """
        request_id = next(self._new_ids)
        scope: Scope = {"type": "http", "method": method, "path": path, "headers": (), "client": client}
        scope[ID_IN_SCOPE] = request_id
        self._find(scope)
        answer = self._problem(scope, error)
        answer.headers.update({"Connection": "close", REQUEST_ID.decode(): request_id.decode()})
        self._answered(scope, error.status, 0.0)
        return answer

    def _stopping(self, scope: Scope) -> Response:
        answer = self._problem(scope, OverloadedError(STOPPING))
        answer.headers["Connection"] = "close"
        return answer

    async def _hand_on(self, app: ASGIApp, scope: Scope, receive: Receive, send: Send, started: float) -> None:
        """Let an application, or a response, answer a request; the answer gets the request's id."""
        status, complete = 0, False

        async def answer(message: Message) -> None:
            nonlocal status, complete
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message.get("headers", ()), (REQUEST_ID, scope[ID_IN_SCOPE])]
            elif not message.get("more_body", False):
                complete = True
                self._answered(scope, status, time.perf_counter() - started)
            await send(message)

        try:
            async with self._turns.of(scope["path"]):
                await app(scope, receive, answer)
        except asyncio.CancelledError:
            if status:
                raise
            await self._stopping(scope)(scope, receive, answer)
        except Exception:
            # A fault is raised on behind its answer, which ``problems`` has logged; uvicorn would log it again.
            if not complete:
                raise

    def _find(self, scope: Scope) -> PathOperation | None:
        """Find the operation of a request, and note its route and the path's parameters in the scope."""
        path: str = scope["path"]
        if (root := scope.get("root_path", "")) and path.startswith(f"{root}/"):
            path = path[len(root) :]
        given = path.split("/")
        for places, operations in self._operations.get(len(given), {}).items():
            parts, texts = given.copy(), []
            for place in places:
                texts.append(parts[place])
                parts[place] = ""
            sought = scope["method"] + "/".join(parts)
            # Starlette's patterns take a line feed behind a last part that is no parameter.
            found = operations.get(sought) or operations.get(sought.removesuffix("\n"))
            if found is not None and all(texts):
                operation, names = found
                scope["route"], scope["path_params"] = operation.route, dict(zip(names, texts, strict=True))
                return operation
        if given[1:3] == ["v1", "sessions"] and len(given) > 3:  # The log line of what is no call has them too.
            scope["path_params"] = {"session_id": given[3]}
            scope["route"] = next((each for each in self._routes if each.matches(scope)[0] is not Match.NONE), None)
        return None

    async def _receive(
        self, operation: PathOperation, scope: Scope, given: Mapping[bytes, bytes], receive: Receive
    ) -> bytes:
        """Receive the body of a call; an operation that takes none leaves it.

        Raises
        ------
        PayloadTooLargeError, RequestTimeoutError, InvalidRequestError
            for one that is too large, too slow, or cut off.
        """
        declared = given.get(b"content-length", b"0")
        if operation.body is None or (declared == b"0" and b"transfer-encoding" not in given):
            return b""
        limit = operation.access.max_body_bytes(self._settings)
        if (key := scope.get(KEY_IN_SCOPE)) is not None and key.max_body_bytes is not None:
            limit = min(limit, key.max_body_bytes)
        if declared.isdigit() and int(declared[:20]) > limit:
            raise PayloadTooLargeError(f"The body may have {limit} bytes")
        # Mostly the whole body is there already, and needs no timer, which costs 5 us.
        waiting: Any = receive()
        try:
            waiting.send(None)
        except StopIteration as there:
            message: Message = there.value
        else:
            waiting.close()
            message = {"type": "http.request", "more_body": True}
        body: bytes = message.get("body", b"")
        if message.get("more_body") or message["type"] != "http.request" or len(body) > limit:
            return await json_body.receive_rest(message, limit, receive, self._settings.body_timeout_seconds)
        return body

    async def _reply(
        self, operation: PathOperation, scope: Scope, given: Mapping[bytes, bytes], body: bytes
    ) -> Reply:
        """Read query and body of a call, and run its operation.

        Parameters
        ----------
        scope : has method, query, headers, and what ``_find`` noted
        given : the headers, of each name the first
        body : as it was received

        Raises
        ------
        ServiceError
            as the body, or the operation, is refused.
        """
        call = Call(self._runtime, operation, scope, given)
        query, found = operation.read_query(scope["query_string"])
        values, errors = scope["path_params"] | query, [*found]
        field = operation.body
        if field is not None and field.reader is not None:
            call.requests = self
            values[field.name] = await field.reader(call, body)
        elif field is not None:
            if query.get("on_invalid") == "skip":
                field = field._replace(columns=json_body.each_event)
            is_plain = given.get(b"content-type") == _JSON and len(given) == len(scope["headers"])
            if body and (not is_plain or b"content-encoding" in given):
                json_body.check_media_type(scope["headers"], body)
            values[field.name] = field.default
            if not body and field.default is REQUIRED:
                errors.append({"type": "missing", "loc": ("body",), "msg": ""})
            elif len(body) >= LARGE_INPUT_BYTES:
                values[field.name] = await self._read_large(call, field, body, errors)
            elif body and (body != b"{}" or field.default is REQUIRED):
                call.posted, read = json_body.read_small(body, field.columns, self._settings, self.limits)
                values[field.name] = read if read is not None else self._validate(call, field, call.posted, errors)
        if errors:
            raise from_pydantic_errors(errors)
        if operation.takes_call is not None:
            values[operation.takes_call] = call
        if scope["method"] != "GET":  # What changes a session takes turns in its queue.
            reply: Reply = await operation.handler(**values)
        else:
            async with self._turns.of(scope["path"]):
                reply = await operation.handler(**values)
        if call.posted and scope["method"] in {"PATCH", "PUT"} and not reply.replayed:
            scope[NOTED_IN_SCOPE] = {"changed": list(call.posted)}
        return reply

    async def _read_large(self, call: Call, field: Field, body: bytes, errors: list[dict[str, Any]]) -> Any:
        if field.columns in (json_body.plain_events, json_body.each_event) and _KEY not in call.given:
            read = partial(self._read_events, call, field)
            if (events := await json_body.read_in_pieces(read, self._settings.max_events, body)) is not None:
                return json_body.batch_of(events)
        call.posted = await run_in_thread(json_body.parse, body, self.limits)
        return await run_in_thread(self._validate, call, field, call.posted, errors)

    def _validate(self, call: Call, field: Field, posted: dict[str, Any], errors: list[dict[str, Any]]) -> Any:
        if not call.scope["path_params"] and isinstance(session := posted.get("session_id"), str):
            call.scope[NOTED_IN_SCOPE] = {"session": session}
        if field.columns is json_body.each_event and (read := field.columns(posted, self._settings)) is not None:
            return read
        json_body.check_lengths(posted, self._settings)
        return field.validate(posted, ("body",), errors)

    def _read_events(self, call: Call, field: Field, piece: bytes) -> Sequence[Event] | None:
        """Read the events of a piece of a batch; None if anything is wrong with it."""
        try:
            posted, read = json_body.read_small(piece, field.columns, self._settings, self.limits)
            batch: Feedbacks | None = read if read is not None else self._validate(call, field, posted, [])
        except ServiceError:
            return None
        return None if batch is None else batch.events

    def _answered(self, scope: Scope, status: int, seconds: float) -> None:
        if (route := scope.get("route")) is not None:
            template = route.path
        else:  # The path of what is mounted there, or of the request.
            mounted = "/" + str(scope.get("root_path") or "").rpartition("/")[2]
            template = mounted if mounted in self._mounted else str(scope["path"])
        method, path = self._metrics.answered(scope["method"], template, status, seconds)
        logged = self._logged.get((method, path), Logged.ALL)
        if logged is Logged.CHANGES:
            is_sampled = self._last_status.get(path, 200) == status
            self._last_status[path] = status
        else:
            is_sampled = logged is Logged.SAMPLE and status < 400
        skipped = is_sampled and random.random() >= self._settings.log_sample  # noqa: S311 - a sample is no secret
        if skipped and self._spans is None:
            return
        request_id = scope[ID_IN_SCOPE].decode("ascii")
        noted, error = scope.get(NOTED_IN_SCOPE) or {}, scope.get(ERROR_IN_SCOPE)
        session = logs.shown(noted.get("session", (scope.get("path_params") or {}).get("session_id")))
        if self._spans is not None:
            self._spans.answered(method=method, route=path, status=status, request_id=request_id, session=session)
        if not skipped:
            sent, peer = scope["method"], scope.get("client")  # The method may be long.
            logs.request(
                request_id=request_id,
                method=sent if sent in HTTPMethod.__members__ else OTHER,
                route=path if route is None else template,  # A method that the route lacks has no counter.
                status=status,
                duration_ms=round(seconds * 1000, 3),
                api_key=None if (key := scope.get(KEY_IN_SCOPE)) is None else key.name,
                session=session,
                changed=noted.get("changed"),
                client=logs.shown(peer[0]) if peer and self._settings.log_clients else None,
                trace_id=logs.trace_id(scope["headers"]) if self._spans is None else self._spans.trace_id(),
                code=error and error.code,
                reason=error and logs.shown(error.reason, logs.MAX_REASON_CHARS),
            )


def _headers(reply: Reply) -> list[tuple[bytes, bytes]]:
    """Return the headers of a success, but for the request's id."""
    headers = [REPLAYED, *reply.headers] if reply.replayed else [*reply.headers]
    if reply.status not in {204, 304}:
        if isinstance(reply.body, bytes):
            headers.append((b"content-length", b"%d" % len(reply.body)))
        headers.append((b"content-type", reply.media_type))
    return headers


async def send_but_last(pieces: Iterator[str], scope: Scope, send: Send) -> bytes:
    """Send an answer as it is made, so that a slow client never keeps all of it; return its last bytes."""
    is_gone, fair_yield = scope.get("extensions", {}).get(IS_GONE), FairYield()
    chunk, size = [], 0
    for piece in pieces:
        chunk.append(piece)
        size += len(piece)
        if size >= STREAMED_FROM_BYTES:
            await send({"type": "http.response.body", "body": "".join(chunk).encode(), "more_body": True})
            chunk, size = [], 0
            if is_gone is not None and is_gone():
                break
        await fair_yield()
    return "".join(chunk).encode()
