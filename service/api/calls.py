"""One way for every call of the API: found once, read strictly, answered by its path operation.

Path operations stand in ``routes`` as FastAPI has them, and FastAPI describes them in the OpenAPI document. Their
requests are served here, from a table that is made of the same signatures at the start: FastAPI's own way takes a
dependency solver, two stacks of middleware and a match of one route after the other, more than an act takes.

A path operation is a coroutine function. It takes the ``Call``, path parameters (plain texts), query parameters
(one value each, ``Annotated[..., Query()]``) and at most one JSON object (``Annotated[..., Body()]``), and returns
a ``Reply``. What else FastAPI offers (dependencies, headers, cookies, forms) is not carried out: a route that asks
for it ends the start, which names the route. What is not below ``/v1`` is left to FastAPI.
"""

from __future__ import annotations

import asyncio
import inspect
import re
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from itertools import chain
from threading import Lock
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, NamedTuple, Union, cast, get_args, get_origin

from fastapi import FastAPI, Request, Response, params
from fastapi.routing import APIRoute
from pydantic import BaseModel, ConfigDict, RootModel, TypeAdapter, ValidationError
from starlette.datastructures import QueryParams
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ..api_keys import ApiKey
from ..asgi_scope import KEY_IN_SCOPE, is_gone_of
from ..cooperative import LARGE_INPUT_BYTES, STREAMED_FROM_BYTES, Body, FairYield, json_chunks, run_in_thread
from ..errors import InvalidRequestError, PayloadTooLargeError, RequestTimeoutError, ServiceError
from ..models.events import PRINTABLE_ASCII, Event, Idempotency, digest, digest_of
from ..sessions.service import Answer
from ..sessions.views import ALL, Rights
from .json_body import (
    JSON,
    MAX_FIELDS,
    SORTED,
    PartLimits,
    batch_of,
    check_lengths,
    check_media_type,
    parse,
    parse_small,
    plain_events,
    read_in_pieces,
)
from .problems import from_pydantic_errors
from .runtime import Access, Runtime, access_of
from .schemas import Feedbacks

PREFIX = "/v1/"
REPLAYED = (b"idempotent-replayed", b"true")
"""Header of an answer that an earlier request with the same key got."""
CALL_IN_SCOPE = "bandit.call"
"""Name in the ASGI scope under which a request keeps the operation that was found for it."""

# -- What path operations take and return.

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

    @classmethod
    def of(cls, answer: Answer, status: int = 200) -> Reply:
        """Reply with what a session answered."""
        return cls(answer.body, status, answer.replayed)


class Call(Request):
    """A request to a path operation."""

    def __init__(self, scope: Scope, runtime: Runtime) -> None:
        super().__init__(scope)
        self.runtime = runtime
        self.posted: dict[str, Any] | None = None
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
        return is_gone_of(self.scope)

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


Handler = Callable[..., Coroutine[Any, Any, Reply]]


class CallRoute(APIRoute):
    """A path operation that FastAPI describes once the OpenAPI document is asked for.

    Few workers are ever asked for it, and describing all routes takes a tenth of the time of the import.
    """

    _described: APIRoute | None = None
    _describing = Lock()

    def __init__(self, path: str, endpoint: Handler, **options: Any) -> None:
        self.options = options
        shown = options.get("include_in_schema", True)
        name = options.get("name") or getattr(endpoint, "__name__", None)
        Route.__init__(self, path, endpoint, methods=options.get("methods"), name=name, include_in_schema=shown)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # Python asks for these of objects that are not made yet.
            raise AttributeError(name)
        return getattr(self.described, name)

    @property
    def described(self) -> APIRoute:
        """The same as FastAPI makes it."""
        with self._describing:
            if self._described is None:
                self._described = APIRoute(self.path, self.endpoint, **self.options)
        return self._described


# -- What an operation takes from a request: read from its signature once, at the start.

_MARKS = (params.Param, params.Body, params.Depends)
"""What FastAPI puts into annotations to say where a parameter comes from."""
_BY_NAME = {inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY}
_REQUIRED = inspect.Parameter.empty
_CARRIED_OUT = frozenset(
    {
        *("methods", "name", "status_code", "response_class", "response_model", "responses", "openapi_extra"),
        *("tags", "summary", "description", "response_description", "deprecated", "operation_id", "callbacks"),
        *("include_in_schema", "generate_unique_id_function", "dependency_overrides_provider"),
    }
)
"""Options of a route that find it or describe it. All others change how FastAPI would read or answer a request."""
_KNOWN = inspect.signature(APIRoute).parameters


class Field(NamedTuple):
    """A query parameter or a body."""

    name: str
    default: Any
    adapter: TypeAdapter[Any]
    columns: Callable[[Any, Any], Any] | None = None
    """Reads bodies without the model, those that it knows; marks the annotation of the body."""

    def validate(self, value: Any, place: tuple[str, ...], errors: list[dict[str, Any]]) -> Any:
        """Return the validated value; None if it is wrong, with the reasons added to ``errors``."""
        try:
            return self.adapter.validate_python(value)
        except ValidationError as error:
            found = error.errors(include_url=False, include_input=False)
            errors += [{**each, "loc": (*place, *each["loc"])} for each in found]
            return None


class PathOperation:
    """A row of the table: how the requests of a route are read, and what carries them out.

    Raises
    ------
    TypeError
        for a route that asks for what is not carried out; the text names it and what it asks for.
    """

    def __init__(self, route: APIRoute) -> None:
        self.route, self.access, self.handler = route, access_of(route), cast("Handler", route.endpoint)
        self.takes_call: str | None = None
        self.query: dict[str, Field] = {}
        self.body: Field | None = None
        names = route.param_convertors
        refused = list(_refused_options(route))
        signature = inspect.signature(self.handler, eval_str=True)
        if not inspect.iscoroutinefunction(self.handler) or signature.return_annotation is not Reply:
            refused.append("a handler that is no coroutine function annotated to return a Reply")
        for parameter in signature.parameters.values():
            refused += self._add(parameter, names)
        refused += [
            f"path parameter {name} the handler does not take" for name in names - signature.parameters.keys()
        ]
        if refused:
            methods = ", ".join(sorted(route.methods or ()))
            raise TypeError(f"{methods} {route.path}: the dispatcher does not carry out {'; '.join(refused)}")
        self.defaults = {name: field.default for name, field in self.query.items()}
        self.read_query = lru_cache(maxsize=64)(self._read_query)

    def _add(self, parameter: inspect.Parameter, in_path: Mapping[str, Any]) -> Iterator[str]:
        """Take in a parameter of the handler; yield what of it is not carried out."""
        name, annotation = parameter.name, parameter.annotation
        kind, *marks = get_args(annotation) if get_origin(annotation) is Annotated else (annotation,)
        sources = [mark for mark in marks if isinstance(mark, _MARKS)]
        if name in in_path:
            if kind is not str or marks or type(in_path[name]).__name__ != "StringConvertor":
                yield f"path parameter {name} that is not plain text"
        elif isinstance(kind, type) and issubclass(kind, Request) and not marks and self.takes_call is None:
            self.takes_call = name
        elif parameter.kind not in _BY_NAME or len(sources) != 1 or isinstance(parameter.default, _MARKS):
            yield f"parameter {parameter.name}, which is not Annotated with one Query() or Body()"
        elif type(source := sources[0]) is params.Query:
            # Most of these are given by few clients or by none: each is compiled when one is.
            adapter = TypeAdapter(annotation, config=None if _is_model(kind) else ConfigDict(defer_build=True))
            self.query[name] = Field(name, parameter.default, adapter)
            if not _is_one_value(annotation, adapter) or source.alias or source.validation_alias:
                yield f"query parameter {name} of several values or with an alias"
            if source.default_factory is not None:
                yield f"parameter {name} with a default factory"
        elif type(source) is params.Body and self.body is None:
            columns = next((mark for mark in marks if inspect.isfunction(mark)), None)
            adapter = TypeAdapter(kind if _is_model(kind) else annotation)
            self.body = Field(name, parameter.default, adapter, columns)
            if source.embed or source.alias or source.media_type != JSON or not _is_object(annotation, adapter):
                yield f"body {name} that is not one JSON object"
        else:
            yield f"parameter {name}, which is a second or other {type(source).__name__}"

    def _read_query(self, given: bytes) -> tuple[Mapping[str, Any], Sequence[dict[str, Any]]]:
        """Read query parameters by name, with defaults; each may be given once, and unknown ones are errors."""
        query = QueryParams(given)
        counts = Counter(name for name, _ in query.multi_items())
        errors: list[dict[str, Any]] = [
            {"type": "extra_forbidden", "loc": ("query", name), "msg": "there is no such query parameter"}
            for name in counts
            if name not in self.query
        ]
        values = {}
        for name, field in self.query.items():
            values[name] = field.default
            if counts[name] > 1:
                errors.append({"type": "repeated", "loc": ("query", name), "msg": "may be given once"})
            elif name in query:
                values[name] = field.validate(query[name], ("query", name), errors)
            elif field.default is _REQUIRED:
                errors.append({"type": "missing", "loc": ("query", name), "msg": "Field required"})
        return values, errors


def _refused_options(route: APIRoute) -> Iterator[str]:
    options = (
        route.options if isinstance(route, CallRoute) else {name: getattr(route, name, None) for name in _KNOWN}
    )
    for name, value in options.items():
        default = _KNOWN[name].default if name in _KNOWN else None
        if name not in {*_CARRIED_OUT, "path", "endpoint"} and value not in (None, [], {}, default):
            yield name
    kind = options.get("response_class", Response)
    if kind not in (Response, _KNOWN["response_class"].default):
        yield f"response_class {getattr(kind, '__name__', kind)}"


def _members(annotation: Any) -> list[Any]:
    """Return the members of a union, or the annotation alone; all without marks."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _members(arguments[0])
    if origin in (Union, UnionType):
        return [member for each in arguments for member in _members(each)]
    return [annotation]


def _is_model(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)


# JSON schemas take long to make, and every start would wait for them: they are asked only where types don't tell.


def _is_one_value(annotation: Any, adapter: TypeAdapter[Any]) -> bool:
    if all(
        get_origin(each) is Literal or each in {str, int, float, bool, NoneType} for each in _members(annotation)
    ):
        return True
    schema = adapter.json_schema()
    parts = (schema, *schema.get("anyOf", ()), *schema.get("$defs", {}).values())
    return not {"array", "object"} & {part.get("type") for part in parts}


def _is_object(annotation: Any, adapter: TypeAdapter[Any]) -> bool:
    if all(_is_model(each) and not issubclass(each, RootModel) for each in _members(annotation)):
        return True
    return bool(adapter.json_schema().get("type", "object") == "object")


# -- The dispatcher.


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
                self._add(PathOperation(route))

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
                    if not part.startswith("{") or not text:
                        break
                    parameters[part[1:-1]] = text
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
        call = Call(scope, self._runtime)
        try:
            values = scope["path_params"] | operation.defaults
            errors: list[dict[str, Any]] = []
            if scope["query_string"] or _REQUIRED in operation.defaults.values():
                query, found = operation.read_query(scope["query_string"])
                values |= query
                errors += found
            if (field := operation.body) is not None:
                values[field.name] = await self._read_body(call, operation.access, field, receive, errors)
            if errors:
                raise from_pydantic_errors(errors)
            if operation.takes_call is not None:
                values[operation.takes_call] = call
            reply = await operation.handler(**values)
        except ServiceError as error:
            response = await self._on_error[ServiceError](call, error)
            await response(scope, receive, send)
        except Exception as error:
            response = await self._on_error[Exception](call, error)
            await response(scope, receive, send)
            raise
        else:
            await _send(reply, scope, send)

    async def _read_body(
        self, call: Call, access: Access, field: Field, receive: Receive, errors: list[dict[str, Any]]
    ) -> Any:
        """Read and validate the body; a large one in pieces, or in a thread."""
        headers = call.scope["headers"]
        body = await self._received(headers, access, call.api_key, receive)
        if not body:
            if field.default is _REQUIRED:
                errors.append({"type": "missing", "loc": ("body",), "msg": ""})
            return field.default
        check_media_type(headers, body)
        if len(body) < LARGE_INPUT_BYTES:
            call.posted, read = self._parsed(body, field)
            return read if read is not None else self._validate(field, call.posted, errors)
        if field.columns is plain_events and not any(name == b"idempotency-key" for name, _ in headers):
            events = await read_in_pieces(partial(self._read_events, field), self._settings.max_events, body)
            if events is not None:
                return batch_of(events)
        call.posted = await run_in_thread(parse, body, self._limits)
        return await run_in_thread(self._validate, field, call.posted, errors)

    def _parsed(self, body: bytes, field: Field) -> tuple[dict[str, Any], Any]:
        """Parse a small body, and read it without its model if its columns can be."""
        posted = parse_small(body)
        if posted is not None:
            if field.columns is not None and (read := field.columns(posted, self._settings)) is not None:
                return posted, read
            if body.count(b":") <= MAX_FIELDS:
                return posted, None
        return parse(body, self._limits), None

    def _validate(self, field: Field, posted: dict[str, Any], errors: list[dict[str, Any]]) -> Any:
        check_lengths(posted, self._settings)
        return field.validate(posted, ("body",), errors)

    def _read_events(self, field: Field, piece: bytes) -> Sequence[Event] | None:
        """Read the events of a piece of a batch; None if anything is wrong with it."""
        errors: list[dict[str, Any]] = []
        try:
            posted, read = self._parsed(piece, field)
            batch: Feedbacks | None = read if read is not None else self._validate(field, posted, errors)
        except ServiceError:
            return None
        return None if batch is None else batch.events

    async def _received(
        self, headers: Iterable[tuple[bytes, bytes]], access: Access, key: ApiKey | None, receive: Receive
    ) -> bytes:
        """Receive the whole body, unless it is too large or too slow."""
        declared, is_chunked = b"0", False
        for name, value in headers:
            if name == b"content-length":
                declared = value
            elif name == b"transfer-encoding":
                is_chunked = True
        if declared == b"0" and not is_chunked:
            return b""
        limit = access.max_body_bytes(self._settings)
        if key is not None and key.max_body_bytes is not None:
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
        try:
            if message.get("more_body") or message["type"] != "http.request" or len(body) > limit:
                async with asyncio.timeout(self._settings.body_timeout_seconds):
                    return await _rest(message, limit, receive)
        except TimeoutError as error:
            raise RequestTimeoutError from error
        return bytes(body)


async def _rest(message: Message, limit: int, receive: Receive) -> bytes:
    body = bytearray()
    while True:
        if message["type"] == "http.disconnect":
            raise InvalidRequestError("The body was cut off")
        body += message.get("body", b"")
        if len(body) > limit:
            raise PayloadTooLargeError(f"The body may have {limit} bytes")
        if not message.get("more_body"):
            return bytes(body)
        message = await receive()


_JSON_TYPE = (b"content-type", JSON.encode())


async def _send(reply: Reply, scope: Scope, send: Send) -> None:
    """Send an answer; one in pieces as it is made, so that a slow client never keeps all of it in memory."""
    body, more = reply.body, [REPLAYED] if reply.replayed else []
    if isinstance(body, bytes):
        headers = [] if reply.status == 204 else [*more, (b"content-length", b"%d" % len(body)), _JSON_TYPE]
        await send({"type": "http.response.start", "status": reply.status, "headers": headers})
        await send({"type": "http.response.body", "body": body})
        return
    is_gone, fair_yield = is_gone_of(scope), FairYield()
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
