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
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, NamedTuple, TypeGuard, TypeVar, Union, get_args, get_origin

from fastapi import APIRouter, Request, Response, params
from fastapi.routing import APIRoute
from pydantic import BaseModel, ConfigDict, RootModel, TypeAdapter, ValidationError
from starlette.convertors import Convertor, PathConvertor, StringConvertor
from starlette.datastructures import QueryParams
from starlette.routing import Route, compile_path

from ..cooperative import run_in_thread_if_large
from ..settings import Settings
from .problems import from_pydantic_errors
from .request_body import JSON, check_lengths, read_object
from .runtime import runtime_of

# -- What values an annotation is of: known from its types where they are plain, else from its JSON schema.
#
# JSON schemas take long to make, and every start would wait for them.

_PLAIN = {str, int, float, bool, NoneType}
_UNIONS = {Union, UnionType}


def is_model(annotation: Any) -> TypeGuard[type[BaseModel]]:
    """Return whether an annotation is a model, without marks."""
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)


def is_one_value(annotation: Any, adapter: TypeAdapter[Any]) -> bool:
    """Return whether an annotation is of plain values only, neither of lists nor of objects.

    Parameters
    ----------
    annotation : with its marks
    adapter : made of it
    """
    if all(get_origin(each) is Literal or each in _PLAIN for each in _members(annotation)):
        return True
    schema = adapter.json_schema()
    parts = (schema, *schema.get("anyOf", ()), *schema.get("$defs", {}).values())
    return not {"array", "object"} & {part.get("type") for part in parts}


def is_object(annotation: Any, adapter: TypeAdapter[Any]) -> bool:
    """Return whether an annotation is of JSON objects only.

    Parameters
    ----------
    annotation : with its marks
    adapter : made of it
    """
    if all(is_model(each) and not issubclass(each, RootModel) for each in _members(annotation)):
        return True
    return bool(adapter.json_schema().get("type", "object") == "object")


def _members(annotation: Any) -> list[Any]:
    """Return the members of a union, or the annotation alone; all without marks."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _members(arguments[0])
    if origin in _UNIONS:
        return [member for each in arguments for member in _members(each)]
    return [annotation]


# -- What a handler takes from a request: read from its signature once, when its route is made.

Errors = list[dict[str, Any]]
"""Errors of a request, in pydantic's form."""
REQUIRED = inspect.Parameter.empty
"""The default of parameters without a default."""
_MARKS = (params.Param, params.Body, params.Depends)
"""What FastAPI puts into annotations to say where a parameter comes from."""
_BY_NAME = {inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY}


class Field(NamedTuple):
    """A query parameter or a body: its name, default and annotation in the handler, and what its values are."""

    name: str
    default: Any
    annotation: Any
    adapter: TypeAdapter[Any]

    def validate(self, value: Any, place: tuple[str, ...], errors: Errors) -> Any:
        """Return the validated value; None where it is wrong, with the reasons added to ``errors``.

        Parameters
        ----------
        value : as it was parsed
        place : what the places of errors begin with
        errors : of the request so far; is extended
        """
        try:
            return self.adapter.validate_python(value)
        except ValidationError as error:
            found = error.errors(include_url=False, include_input=False)
            errors += [{**each, "loc": (*place, *each["loc"])} for each in found]
            return None


class HandlerParameters:
    """The parameters of a handler by where they come from.

    Parameters
    ----------
    handler : of the route, with annotations of all its parameters
    convertors : the parameters in the route's path

    Attributes
    ----------
    request : name of the parameter that takes the request; None where there is none
    query : query parameters by name
    refused : what strict routes do not carry out, in words
    returned : the annotation of what the handler returns
    """

    def __init__(self, handler: Callable[..., Any], convertors: Mapping[str, Convertor[Any]]) -> None:
        self.request: str | None = None
        self.query: dict[str, Field] = {}
        self.body: Field | None = None
        self.refused: list[str] = []
        signature = inspect.signature(handler, eval_str=True)
        taken, self.returned = signature.parameters, signature.return_annotation
        for parameter in taken.values():
            self._add(parameter, convertors)
        self.refused += [f"path parameter {name} the handler does not take" for name in convertors.keys() - taken]

    def _add(self, parameter: inspect.Parameter, convertors: Mapping[str, Convertor[Any]]) -> None:
        name, annotation = parameter.name, parameter.annotation
        kind, *marks = get_args(annotation) if get_origin(annotation) is Annotated else (annotation,)
        sources = [mark for mark in marks if isinstance(mark, _MARKS)]
        if parameter.kind not in _BY_NAME:
            self.refused.append(f"parameter {parameter}")
        elif name in convertors:
            if kind is not str or marks or not isinstance(convertors[name], StringConvertor | PathConvertor):
                self.refused.append(f"path parameter {name} that is not plain text")
        elif kind is Request and not marks and self.request is None:
            self.request = name
        elif len(sources) == 1 and not isinstance(parameter.default, _MARKS):
            self._add_marked(parameter, sources[0])
        else:
            self.refused.append(f"parameter {name}, which is not Annotated with one Query() or Body()")

    def _add_marked(self, parameter: inspect.Parameter, source: Any) -> None:
        name, kind = parameter.name, type(source)
        if kind is params.Query:
            field = self.query[name] = _field(parameter)
            self.refused += _refused_of_query(source, field)
        elif kind is params.Body and self.body is None:
            self.body = _field(parameter)
            self.refused += _refused_of_body(source, self.body)
        else:
            second = "a second " if kind is params.Body else ""
            self.refused.append(f"parameter {name}, which is {second}{kind.__name__}")


def _field(parameter: inspect.Parameter) -> Field:
    kind = get_args(parameter.annotation)[0]
    if is_model(kind):  # Its marks change nothing of what it takes.
        adapter = TypeAdapter(kind)
    else:  # Most parameters of queries are given by few clients or by none: each is compiled when one is.
        adapter = TypeAdapter(parameter.annotation, config=ConfigDict(defer_build=True))
    return Field(parameter.name, parameter.default, parameter.annotation, adapter)


def _refused_of_query(source: params.Query, field: Field) -> list[str]:
    if not is_one_value(field.annotation, field.adapter):
        return [f"query parameter {field.name} of several values"]
    return _refused_of_both(source, field)


def _refused_of_body(source: params.Body, field: Field) -> list[str]:
    if source.embed:
        return [f"body {field.name} embedded in an object"]
    if source.media_type != JSON or not is_object(field.annotation, field.adapter):
        return [f"body {field.name} that is not a JSON object"]
    return _refused_of_both(source, field)


def _refused_of_both(source: params.Query | params.Body, field: Field) -> list[str]:
    ignored = {
        "an alias": source.alias is not None or source.validation_alias is not None,
        "a default factory": source.default_factory is not None,
    }
    return [f"parameter {field.name} with {what}" for what, given in ignored.items() if given]


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
