"""Routes that read requests strictly, by this service's rules.

FastAPI describes them once the OpenAPI document is asked for, as it is of few workers: that takes a tenth of the
time of the import. Their requests skip its dependency solver, which costs more than acting does. A handler is a
coroutine function that returns a ``Response`` and takes the ``Request``, path parameters (plain texts), query
parameters (one value each, ``Annotated[..., Query()]``) and at most one JSON object (``Annotated[..., Body()]``).
Whatever else FastAPI offers would be ignored: a route that asks for it is refused when it is made.
"""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from functools import lru_cache
from threading import Lock
from typing import Any, TypeVar

from fastapi import APIRouter, Request, Response
from fastapi.routing import APIRoute
from starlette.datastructures import QueryParams
from starlette.routing import Route, compile_path

from ...cooperative import run_in_thread_if_large
from ...settings import Settings
from ..runtime import runtime_of
from .handler_parameters import REQUIRED, Errors, Field, HandlerParameters
from .json_body import read_object
from .list_limits import check_lengths
from .validation_errors import from_pydantic_errors

_CARRIED_OUT = frozenset(
    {
        *("methods", "name", "status_code", "response_class", "response_model", "responses", "openapi_extra"),
        *("tags", "summary", "description", "response_description", "deprecated", "operation_id", "callbacks"),
        *("include_in_schema", "generate_unique_id_function", "dependency_overrides_provider"),
    }
)
"""Options of a route that find it or describe it. All others change how FastAPI would read or answer a request."""
_KNOWN = inspect.signature(APIRoute).parameters
_FROM_ROUTER: tuple[Any, ...] = (None, [], {})
"""What a router passes on for options that nobody gave."""
_DESCRIBING = Lock()
"""Two threads may make the OpenAPI document at once."""
_Handler = TypeVar("_Handler", bound=Callable[..., Any])


class StrictRoute(APIRoute):
    """Reads the body strictly, validates what the handler takes, and calls it.

    It has itself what requests are found and answered by. All else that FastAPI's routes have describes them.

    Raises
    ------
    TypeError
        for a handler or an option that asks for what is not carried out; the text names the route and what it is.
    """

    _description: APIRoute | None = None

    def __init__(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        self._parameters = _parameters_of(path, endpoint)
        of_handler = _refused_handlers(endpoint, self._parameters.returned)
        if refused := [*_refused_options(options), *of_handler, *self._parameters.refused]:
            raise _not_carried_out(path, options.get("methods"), refused)
        self._options = options
        name = options.get("name") or getattr(endpoint, "__name__", None)
        shown = options.get("include_in_schema", True)
        Route.__init__(self, path, handler_of(endpoint, self._parameters), name=name, include_in_schema=shown)
        self.endpoint = endpoint
        self.methods = {method.upper() for method in options.get("methods") or ["GET"]}

    def __getattr__(self, name: str) -> Any:
        """Return what FastAPI's route has, which is made for the first who asks for any of it."""
        if name.startswith("__"):  # Python asks for these of objects that are not made yet.
            raise AttributeError(name)
        with _DESCRIBING:
            if self._description is None:
                self._description = APIRoute(self.path, self.endpoint, **self._options)
        return getattr(self._description, name)

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Refuse to be included in another router: FastAPI asks for it then.

        Raises
        ------
        TypeError
            as that router's dependencies would be ignored.
        """
        raise _not_carried_out(self.path, self.methods, ["routers included in others"])


def handler_of(
    endpoint: Callable[..., Coroutine[Any, Any, Response]], parameters: HandlerParameters
) -> Callable[[Request], Coroutine[Any, Any, Response]]:
    """Make what reads a request, and hands what it finds to the route's own function.

    Parameters
    ----------
    endpoint : the route's own function
    parameters : what it takes
    """
    request_name, query, body = parameters.request, parameters.query, parameters.body
    defaults = {name: field.default for name, field in query.items()}
    needs_query = REQUIRED in defaults.values()

    async def answer(request: Request) -> Response:
        errors: Errors = []
        given = request.scope["query_string"]
        found = _read_query(query, request.query_params, errors) if given or needs_query else defaults
        values = request.path_params | found
        if body is not None:
            values[body.name] = await _read_body(body, request, errors)
        if errors:
            raise from_pydantic_errors(errors)
        if request_name is not None:
            values[request_name] = request
        return await endpoint(**values)

    async def handle(request: Request) -> Response:
        try:
            return await answer(request)
        finally:
            # The server keeps a connection's last request until the next one comes.
            request.state.body = None

    return handle


class StrictRouter(APIRouter):
    """A router of strict routes, in which what answers GET answers HEAD too, without being described twice."""

    def __init__(self, **options: Any) -> None:
        super().__init__(route_class=StrictRoute, **options)

    def get(self, path: str, **options: Any) -> Callable[[_Handler], _Handler]:
        """Add a handler of GET, and of HEAD."""
        read = super().get(path, **options)
        head = super().head(path, response_class=Response, include_in_schema=False)
        return lambda handler: head(read(handler))


@lru_cache(1)
def _parameters_of(path: str, handler: Callable[..., Any]) -> HandlerParameters:
    """Read what a handler takes; that of HEAD, which is made right after that of GET, is the same."""
    _, _, convertors = compile_path(path)
    return HandlerParameters(handler, convertors)


def _not_carried_out(path: str, methods: Iterable[str] | None, refused: Iterable[str]) -> TypeError:
    return TypeError(
        f"{', '.join(sorted(methods or ['GET']))} {path}: strict routes do not carry out {'; '.join(refused)}"
    )


def _refused_options(options: Mapping[str, Any]) -> Iterator[str]:
    for name, value in options.items():
        default = _KNOWN[name].default if name in _KNOWN else None
        if name not in _CARRIED_OUT and value not in (*_FROM_ROUTER, default):
            yield name
    kind = options.get("response_class", Response)
    if kind not in (Response, _KNOWN["response_class"].default):
        yield f"response_class {kind.__name__}"


def _refused_handlers(handler: Callable[..., Any], returned: Any) -> Iterator[str]:
    name = getattr(handler, "__name__", str(handler))
    if not inspect.iscoroutinefunction(handler):
        yield f"handler {name} that is no coroutine function"
    if not (isinstance(returned, type) and issubclass(returned, Response)):
        yield f"handler {name} that is not annotated to return a Response"


def _read_query(fields: Mapping[str, Field], given: QueryParams, errors: Errors) -> dict[str, Any]:
    """Read query parameters by name, with defaults; each may be given once, and unknown ones are errors."""
    counts = Counter(name for name, _ in given.multi_items())
    errors += [
        {"type": "extra_forbidden", "loc": ("query", name), "msg": "there is no such query parameter"}
        for name in counts
        if name not in fields
    ]
    values = {}
    for name, field in fields.items():
        values[name] = field.default
        if counts[name] > 1:
            errors.append({"type": "repeated", "loc": ("query", name), "msg": "may be given once"})
        elif name in given:
            values[name] = field.validate(given[name], ("query", name), errors)
        elif field.default is REQUIRED:
            errors.append({"type": "missing", "loc": ("query", name), "msg": "Field required"})
    return values


async def _read_body(field: Field, request: Request, errors: Errors) -> Any:
    """Read and validate the body; large ones in a thread."""
    body = await read_object(request)
    size = request.state.body_bytes
    if size == 0 and field.default is not REQUIRED:
        return field.default
    return await run_in_thread_if_large(size, _validate, field, body, runtime_of(request).settings, errors)


def _validate(field: Field, body: dict[str, Any] | None, settings: Settings, errors: Errors) -> Any:
    if body is None:
        errors.append({"type": "missing", "loc": ("body",), "msg": ""})
        return None
    check_lengths(body, settings)
    return field.validate(body, ("body",), errors)
