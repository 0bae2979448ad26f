"""What a path operation takes from a request, read from its signature, and what it may not ask for.

Path operations stand in ``routes`` as FastAPI has them: coroutine functions that take the ``Call``, path parameters
(plain texts), query parameters (one value each, ``Annotated[..., Query()]``) and at most one JSON object
(``Annotated[..., Body()]``), and return a ``Reply``. What else FastAPI offers (dependencies, headers, cookies,
forms) is not carried out: a route that asks for it ends the start, which names the route.
"""

import inspect
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, NamedTuple, Union, cast, get_args, get_origin

from fastapi import Request, Response, params
from fastapi.routing import APIRoute
from pydantic import BaseModel, ConfigDict, RootModel, TypeAdapter, ValidationError
from starlette.datastructures import QueryParams
from starlette.routing import Route

from .json_body import JSON
from .runtime import access_of

Handler = Callable[..., Coroutine[Any, Any, Any]]


class CallRoute(APIRoute):
    """A path operation that FastAPI describes once the OpenAPI document is asked for.

    Few workers are ever asked for it, and describing all routes takes a tenth of the time of the import.
    """

    def __init__(self, path: str, endpoint: Handler, **options: Any) -> None:
        self.options = options
        Route.__init__(self, path, endpoint, methods=options["methods"])

    def described(self) -> APIRoute:
        """Make the same as FastAPI does."""
        return APIRoute(self.path, self.endpoint, **self.options)


# -- What an operation takes from a request: read from its signature once, at the start.

_MARKS = (params.Param, params.Body, params.Depends)
"""What FastAPI puts into annotations to say where a parameter comes from."""
_BY_NAME = {inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY}
REQUIRED = inspect.Parameter.empty
_CARRIED_OUT = {
    *("methods", "name", "status_code", "response_class", "response_model", "responses", "openapi_extra"),
    *("tags", "summary", "description", "response_description", "deprecated", "operation_id", "callbacks"),
    *("include_in_schema", "generate_unique_id_function", "dependency_overrides_provider"),
}
"""Options of a route that find it or describe it. All others change how FastAPI would read or answer a request."""
_KNOWN = inspect.signature(APIRoute).parameters


class Field(NamedTuple):
    """A query parameter or a body."""

    name: str
    default: Any
    adapter: TypeAdapter[Any]
    columns: Callable[[Any, Any], Any] | None = None
    """Reads bodies without the model, those that it knows; marks the annotation of the body."""
    reader: Callable[[Any, bytes], Coroutine[Any, Any, Any]] | None = None
    """Reads bodies of any media type from the call and their bytes; a coroutine function in the same place."""

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

    def __init__(self, route: APIRoute, returns: type) -> None:
        self.route, self.access, self.handler = route, access_of(route), cast("Handler", route.endpoint)
        self.takes_call: str | None = None
        self.query: dict[str, Field] = {}
        self.body: Field | None = None
        names = route.param_convertors
        refused = list(_refused_options(route)) if isinstance(route, CallRoute) else ["a class but CallRoute"]
        signature = inspect.signature(self.handler, eval_str=True)
        if not inspect.iscoroutinefunction(self.handler) or signature.return_annotation is not returns:
            refused.append(f"a handler that is no coroutine function annotated to return a {returns.__name__}")
        for parameter in signature.parameters.values():
            refused += self._add(parameter, names)
        not_taken = names - signature.parameters.keys()
        refused += [f"path parameter {name} the handler does not take" for name in not_taken]
        if refused:
            methods = ", ".join(sorted(route.methods or ()))
            raise TypeError(f"{methods} {route.path}: the dispatcher does not carry out {'; '.join(refused)}")
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
            if not all(map(_is_one_value, _members(annotation))) or source.alias or source.validation_alias:
                yield f"query parameter {name} of several values or with an alias"
            if source.default_factory is not None:
                yield f"parameter {name} with a default factory"
        elif type(source) is params.Body and self.body is None:
            read = next((mark for mark in marks if inspect.isfunction(mark)), None)
            columns, reader = (None, read) if inspect.iscoroutinefunction(read) else (read, None)
            adapter = TypeAdapter(kind if _is_model(kind) else annotation)
            self.body = Field(name, parameter.default, adapter, columns, reader)
            is_object = all(map(_is_model, _members(annotation)))
            if source.embed or source.alias or source.media_type != JSON or not is_object:
                yield f"body {name} that is not one JSON object"
        else:
            yield f"parameter {name}, which is a second or other {type(source).__name__}"

    def _read_query(self, given: bytes) -> tuple[dict[str, Any], Sequence[dict[str, Any]]]:
        """Read query parameters by name, with defaults; each may be given once, and unknown ones are errors."""
        query = QueryParams(given)
        counts = Counter(name for name, _ in query.multi_items())
        told: dict[str, Any] = {"type": "extra_forbidden", "msg": "there is no such query parameter"}
        errors = [told | {"loc": ("query", name)} for name in counts if name not in self.query]
        values = {}
        for name, field in self.query.items():
            values[name] = field.default
            if counts[name] > 1:
                errors.append({"type": "repeated", "loc": ("query", name), "msg": "may be given once"})
            elif name in query:
                values[name] = field.validate(query[name], ("query", name), errors)
            elif field.default is REQUIRED:
                errors.append({"type": "missing", "loc": ("query", name), "msg": "Field required"})
        return values, errors


Table = dict[int, dict[tuple[int, ...], dict[str, tuple[PathOperation, Sequence[str]]]]]
"""Of paths with so many parts: the places of parameters, and by method and the path without them each operation and
the names of its parameters."""


def table_of(routes: Iterable[APIRoute], returns: type) -> Table:
    """Make the table of all operations; each is made once in a process, as unit tests make many applications.

    Parameters
    ----------
    routes : of the API
    returns : what their handlers return
    """
    table: Table = {}
    for route in routes:
        if (operation := vars(route).get("operation")) is None:
            operation = vars(route)["operation"] = PathOperation(route, returns)
        parts, methods = route.path.split("/"), route.methods or set()
        places = tuple([place for place, part in enumerate(parts) if part.startswith("{")])
        names = [parts[place][1:-1] for place in places]
        shape = table.setdefault(len(parts), {}).setdefault(places, {})
        for place in places:
            parts[place] = ""
        for method in methods | ({"HEAD"} if "GET" in methods else set()):  # What answers GET answers HEAD too.
            shape.setdefault(method + "/".join(parts), (operation, names))
    return table


def _refused_options(route: CallRoute) -> Iterator[str]:
    for name, value in route.options.items():
        if name not in _CARRIED_OUT and value not in (None, [], {}, _KNOWN[name].default):
            yield name
    kind = route.options.get("response_class", Response)
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


def _is_one_value(kind: Any) -> bool:
    return get_origin(kind) is Literal or kind in {str, int, float, bool, NoneType}


def _is_model(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, BaseModel) and not issubclass(kind, RootModel)
