"""The OpenAPI document and its examples."""

import ast
import inspect
import json
import re
import sys
from collections.abc import Mapping
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Response
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from .. import errors
from ..api_keys import needs_keys
from ..learners import REGISTRY
from ..learners.base import Posted
from ..learners.specs import ArmsSpec
from ..models.events import PRINTABLE_ASCII
from ..models.specification import SESSION_ID_PATTERN
from ..sessions.views import ALL, Limits
from ..settings import Settings
from .calls import IDEMPOTENCY_KEY, MAX_KEY_LENGTH
from .json_body import JSON
from .path_operations import CallRoute
from .problems import MEDIA_TYPE, Problem, ProblemError, problem_fields
from .runtime import CLICKS, access_of
from .schemas import Described

# -- How routes describe their answers: successes by a model and an example, and all problems.


EXAMPLES: dict[str, Any] = json.loads(Path(__file__).with_name("examples.json").read_text("utf-8"))
"""Bodies and answers of one session that recommends three jokes, by name."""


_AGAIN = "A request with the same key and body gets the first answer again and changes nothing."
_KEY = {"type": "string", "minLength": 1, "maxLength": MAX_KEY_LENGTH, "pattern": PRINTABLE_ASCII}
_HEADER = {"name": IDEMPOTENCY_KEY, "in": "header", "required": False, "description": _AGAIN, "schema": _KEY}
KEYED: dict[str, Any] = {"parameters": [_HEADER]}
"""What the OpenAPI document says of the header."""
EMPTY: dict[str, Any] = {"status_code": 204, "response_class": Response, "response_model": None}
"""Options of a route whose success has no body."""


def describe_answers(
    model: type[BaseModel], example: str | None, descriptions: dict[int, str], *, keyed: bool = False
) -> dict[str, Any]:
    """Make the options of a route's decorator that describe its successes.

    Parameters
    ----------
    model : of the body of every success
    example : its name in ``EXAMPLES``; None for that in the model's ``json_schema_extra``, if there is one
    descriptions : of the answers, by status
    keyed : whether the route takes an Idempotency-Key
    """
    extra: Any = model.model_config.get("json_schema_extra") or {}
    shown = extra.get("example") if example is None else EXAMPLES[example]
    content = {} if shown is None else {JSON: {"example": shown}}
    told = {"model": model, "content": content}
    responses = {status: told | {"description": text} for status, text in descriptions.items()}
    route = {"response_model": model, "response_class": Response, "responses": responses}
    return route | ({"openapi_extra": KEYED} if keyed else {})


_SHOWN = (
    errors.UnauthorizedError.of("and the request has none"),
    errors.SurplusFeedbackError.of(2, [1]),
    errors.InvalidRequestError.of("loss", "loss must lie in [-10.0, 10.0]", 1),
    errors.InvalidTokenError(),
)
_OF_CLICKS = (errors.BadTokenError, errors.ExpiredTokenError, errors.TooManyClicksError)
_NO_ROUTES = {errors.NotFoundError, errors.MethodNotAllowedError, errors.ClientGoneError, *_OF_CLICKS}
"""Errors that no described route answers, or only that for clicks."""
_ERRORS = {each.code: each() for each in errors.ServiceError.__subclasses__() if each not in _NO_ROUTES}
# Those of one status are described in the order of their classes.
_ERRORS |= {error.code: error for error in _SHOWN}


def _problem(status: int, note: str, among: Mapping[str, errors.ServiceError] = _ERRORS) -> dict[str, Any]:
    known = {code: error for code, error in among.items() if error.status == status}
    examples = {code: {"value": problem_fields(error)} for code, error in known.items()}
    schema = {"$ref": f"#/components/schemas/{Problem.__name__}"}
    description = ", ".join(known) + note
    return {"description": description, "content": {MEDIA_TYPE: {"schema": schema, "examples": examples}}}


_NOTES = {
    401: ", if the service has API keys",
    403: ": the API key does not allow it, or, without keys, a page of another site sent the request",
    421: ", if the service has no API keys",
    429: ", if the API key has requests_per_second; carries Retry-After",
    503: "; carries Retry-After",
}


PROBLEMS: dict[int | str, dict[str, Any]] = {
    status: _problem(status, _NOTES.get(status, ""))
    for status in sorted({error.status for error in _ERRORS.values()})
}
CLICK_PROBLEMS: dict[int | str, dict[str, Any]] = {
    **{status: PROBLEMS[status] for status in (408, 413, 415, 422, 503)},
    **{each.status: _problem(each.status, "", {each.code: each()}) for each in _OF_CLICKS},
}


# -- The OpenAPI document: what FastAPI writes, with this service's problems, limits and API keys.

_OF_ALL, _OF_KEYS, _OF_BODIES = ("400", "403", "421", "431", "500"), ("401", "429"), ("408", "409", "413", "415")
"""Statuses that any route, those that ask for keys, and only those with a body can answer."""
_OF_ANY_PAGE = ("400", "431", "500")


def document(app: FastAPI, settings: Settings) -> dict[str, Any]:
    """Make the document of an application, with the limits that the settings give.

    Parameters
    ----------
    app : with all its routes
    settings : of the service: prefix of its paths, limits of fields, and whether keys are needed
    """
    routes = [route.described() if isinstance(route, CallRoute) else route for route in app.routes]
    servers = [{"url": settings.root_path}] if settings.root_path else None
    described: dict[str, Any] = get_openapi(
        title=app.title, version=app.version, routes=routes, description=app.description, servers=servers
    )
    for route in routes:
        if isinstance(route, APIRoute) and route.include_in_schema:
            for method in route.methods or ():
                _complete(described["paths"][route.path_format][method.lower()], route, method)
    schemas = described["components"]["schemas"]
    for name in ("HTTPValidationError", "ValidationError"):  # FastAPI's own.
        schemas.pop(name, None)
    kinds: Any = [(Problem, "validation"), (ProblemError, "validation")]
    schemas |= models_json_schema(kinds, ref_template="#/components/schemas/{model}")[1]["$defs"]
    _describe_fields(schemas)
    # Pydantic leaves its own words where a validator comes before a bound.
    described = json.loads(_BOUND.sub(lambda found: f'"{_BOUNDS[found[1]]}":', json.dumps(described)))
    _add_limits(described["components"]["schemas"], settings)
    # How API keys are sent; a service without keys takes requests without one.
    described["components"]["securitySchemes"] = {
        "bearer": {"type": "http", "scheme": "bearer"},
        "header": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
    }
    described["security"] = [{"bearer": []}, {"header": []}, *([] if needs_keys(settings) else [{}])]
    return described


_BOUNDS = {"ge": "minimum", "gt": "exclusiveMinimum", "le": "maximum", "lt": "exclusiveMaximum"}
_BOUND = re.compile('"(ge|gt|le|lt)":')


def _complete(call: dict[str, Any], route: APIRoute, method: str) -> None:
    """Give a call its name, whole examples (FastAPI's lack what is null), and the errors that it can answer."""
    call["operationId"] = f"head_{route.name}" if method == "HEAD" else route.name
    responses, is_keyless = call["responses"], access_of(route).keyless
    for status, response in route.responses.items():
        for media_type, content in response.get("content", {}).items():
            examples = {name: content[name] for name in ("example", "examples") if name in content}
            responses[str(status)]["content"][media_type].update(examples)
    for body in route.dependant.body_params:
        if shown := getattr(body.field_info, "openapi_examples", None):
            call["requestBody"]["content"][JSON]["examples"] = shown
    if "requestBody" not in call:  # A log can be missing without a body, too.
        for status in _OF_BODIES:
            if status != "409" or route.path != "/v1/sessions/{session_id}/decisions":
                responses.pop(status, None)
    of_all = _OF_ALL if is_keyless else (*_OF_ALL, *_OF_KEYS)
    for status in _OF_ANY_PAGE if route.path == CLICKS else of_all:
        responses.setdefault(status, PROBLEMS[int(status)])
    if method == "HEAD":  # Its answers have the headers of those to GET, and no bodies.
        for status, response in responses.items():
            responses[status] = {name: part for name, part in response.items() if name != "content"}
    for parameter in call.get("parameters", ()):
        if parameter["name"] == "session_id":
            parameter["schema"]["pattern"] = SESSION_ID_PATTERN
    if is_keyless:
        call["security"] = []


def _describe_fields(schemas: dict[str, Any]) -> None:
    """Describe fields by the docstrings below them, which pydantic would read at each start: a tenth of it."""
    models: list[type[BaseModel]] = [Posted, Described]
    for model in models:
        models += model.__subclasses__()
    for model in models:
        fields = schemas.get(model.__name__, {}).get("properties", {})
        for kind in [each for each in model.__mro__ if each in models]:
            texts = _docstrings(kind.__module__)
            for name in fields:
                if (text := texts.get((kind.__name__, name))) is not None:
                    fields[name].setdefault("description", text)


@cache
def _docstrings(module: str) -> dict[tuple[str, str], str]:
    """Return what stands below the fields of a module's classes, by the names of class and field."""
    found: dict[tuple[str, str], str] = {}
    tree = ast.parse(inspect.getsource(sys.modules[module]))
    for each in (node for node in tree.body if isinstance(node, ast.ClassDef)):
        for pair in pairwise(each.body):
            match pair:
                case ast.AnnAssign(target=ast.Name(field)), ast.Expr(ast.Constant(str(text))):
                    found[each.name, field] = " ".join(text.split())
    return found


def _add_limits(schemas: dict[str, Any], settings: Settings) -> None:
    """Add the limits that the settings give."""
    size = settings.max_label_bytes
    of_labels = {"maxLength": size, "description": f"Printable; at most {size} bytes of UTF-8."}
    for name, field, limit in (
        ("Acts", "count", {"maximum": settings.max_acts}),
        ("Feedbacks", "events", {"maxItems": settings.max_events}),
        ("LossesEvent", "losses", {"maxItems": settings.max_dim + 1}),
        ("GradientEvent", "gradient", {"maxItems": settings.max_dim}),
        ("ChangeArms", "add", {"maxItems": settings.max_arms}),
        ("ReplaceArms", "arms", {"maxItems": settings.max_arms}),
    ):
        schemas[name]["properties"][field] |= limit
    for name, field in (("ChangeArms", "add"), ("ReplaceArms", "arms")):
        _given(schemas[name]["properties"][field])["items"] |= of_labels
    for spec in REGISTRY.values():
        fields = schemas[spec.__name__]["properties"]
        if issubclass(spec, ArmsSpec):
            most = Limits(settings).max_arms(spec, ALL)
            _given(fields["n_arms"])["maximum"] = most
            _given(fields["arms"])["maxItems"] = most
            _given(fields["arms"])["items"] |= of_labels
        else:
            _given(fields["dim"])["maximum"] = settings.max_dim


def _given(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of an optional field's values other than null."""
    given: dict[str, Any] = schema.get("anyOf", [schema])[0]
    return given
