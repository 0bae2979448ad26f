"""Errors as application/problem+json (RFC 9457): those of this service, of FastAPI, and faults."""

import json
import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any, TypeVar

from fastapi import FastAPI, Request, Response
from pydantic import BaseModel, ValidationError
from starlette.exceptions import HTTPException
from starlette.routing import Match
from starlette.types import Scope

from .. import errors
from ..learners import REGISTRY
from ..learners.fixed import BY_LABEL, BY_POSITION
from ..learners.specs import FEASIBLE_SETS
from ..models.events import EVENT_TAGS, OUTCOMES, PRINTABLE_ASCII
from ..models.specification import SESSION_ID_PATTERN
from ..telemetry.logs import ERROR_IN_SCOPE, ID_IN_SCOPE
from ..telemetry.metrics import Metrics
from .schemas import Described

# -- Pydantic's errors as this service reports them: field, event index, message.

M = TypeVar("M", bound=BaseModel)
_TAGS: Mapping[str, Collection[str]] = {
    "body": EVENT_TAGS,
    "event": EVENT_TAGS,
    "learner": REGISTRY.keys(),
    "feasible_set": FEASIBLE_SETS,
    "probabilities": {BY_LABEL, BY_POSITION},
}
"""Tags that pydantic puts into the path of a field: the member of a union that it tried."""
_FEATURE_TAG = 3
"""Where the path of a declared feature has its kind, a tag of a union."""
_FIELDS = frozenset({"extra_forbidden", "missing"})
"""Types of errors with a path that ends in a field's name, even if a tag has the same name."""
_UNKNOWN = "a field or parameter that is not known"
_PATTERNS: Mapping[str, str] = {
    SESSION_ID_PATTERN: "must be 1 to 128 letters (A-Z, a-z), digits, '.', '_' and '-', a letter or digit first",
    PRINTABLE_ASCII: "must be printable ASCII",
}
"""What a text must be, in words, by its pattern."""
_OUTCOMES = "Field required: loss, reward in a session with reward_range, or goal; over points losses or gradient"
_LOSS = ("ArmEvent", "loss")
"""Path of the outcome in an event that has none: it is read as one of an arm with a loss."""
_NO_OBJECT = frozenset({"model_type", "model_attributes_type", "dict_type"})


def from_pydantic_errors(wrong: Iterable[Mapping[str, Any]]) -> errors.InvalidRequestError:
    """Make one error of all that pydantic found; its text is about the first.

    Parameters
    ----------
    wrong : with ``type``, ``loc``, ``msg`` and, for unions, ``ctx``, as ``ValidationError.errors()`` gives them
    """
    found = [_field_error(error) for error in wrong]
    return errors.InvalidRequestError.of_all(found) if found else errors.InvalidRequestError()


def validated(model: type[M], posted: Any) -> M:
    """Return a body as its model has it.

    Raises
    ------
    InvalidRequestError
    """
    try:
        return model.model_validate(posted)
    except ValidationError as error:
        found = error.errors(include_url=False, include_input=False)
        raise from_pydantic_errors({**each, "loc": ("body", *each["loc"])} for each in found) from None


def _field_error(error: Mapping[str, Any]) -> errors.FieldError:
    place: Sequence[Any] = error["loc"]
    index = None
    if len(place) > 2 and place[1] == "events" and isinstance(place[2], int):
        index, place = place[2], ("event", *place[3:])
    names, message = _names(place, error["type"]), _message(error)
    if error["type"].startswith("union_tag_"):
        names.append("kind")
    cause = error.get("ctx", {}).get("error")
    if isinstance(cause, errors.FieldValueError):
        names.append(cause.field)
    if not names:
        names = [f"events[{index}]" if index is not None else str(place[0])]
        message = "a JSON object is required" if error["type"] == "missing" else message
    if error["type"] == "missing" and tuple(place[1:]) == _LOSS:
        message = _OUTCOMES
    if error["type"] == "int_type" and names[-1] == "arm":
        message += ", the index of an arm; or use label"
    unknown = error["type"] == "extra_forbidden"
    if unknown and place[1] in EVENT_TAGS and names[-1] in OUTCOMES:
        message = f"stands beside another outcome: an event has one of {', '.join(OUTCOMES)}"
    return errors.FieldError(".".join(names), message, index, logged_as=_UNKNOWN if unknown else None)


def _names(place: Sequence[Any], kind: str) -> list[str]:
    """Return the names of the fields in a path, without the tags of unions."""
    last = len(place) - 1
    return [
        str(part)
        for n, (before, part) in enumerate(pairwise(place), 1)
        if (part not in _TAGS.get(before, ()) or (n == last and kind in _FIELDS))
        and (n != _FEATURE_TAG or place[1] != "features")
    ]


def _message(error: Mapping[str, Any]) -> str:
    if error["type"] in _NO_OBJECT:
        return "must be a JSON object"
    if error["type"] == "union_tag_not_found":
        return "Field required"
    if error["type"] == "union_tag_invalid":
        return f"must be one of {error['ctx']['expected_tags']}"
    if error["type"] == "string_pattern_mismatch" and (words := _PATTERNS.get(error["ctx"]["pattern"])):
        return words
    return str(error["msg"]).removeprefix("Value error, ")


MEDIA_TYPE = "application/problem+json"
log = logging.getLogger(__name__)


class ProblemError(Described):
    """One wrong field."""

    index: int | None
    """Position of the event in its batch, from 0."""
    field: str
    message: str


class Problem(Described):
    """An error; decide by ``code``."""

    type: str = "about:blank"
    title: str
    status: int
    code: str
    detail: str
    indexes: list[int] | None = None
    errors: list[ProblemError] | None = None


def problem_fields(error: errors.ServiceError) -> dict[str, Any]:
    """Return the fields of a problem: below 10 kB as JSON but for its own ones, and never the input in full."""
    body: dict[str, Any] = {"type": "about:blank", "title": error.title, "status": error.status, "code": error.code}
    body["detail"] = _clipped(error.detail, 2 * errors.MAX_MESSAGE)
    if error.indexes:
        body["indexes"] = list(error.indexes[: errors.MAX_INDEXES])
    if error.errors:
        listed = error.errors[: errors.MAX_LISTED]
        body["errors"] = [
            {"index": e.index, "field": _clipped(e.field), "message": _clipped(e.message)} for e in listed
        ]
        while len(body["errors"]) > 1 and len(json.dumps(body)) >= errors.MAX_ANSWER:
            body["errors"].pop()
    return {**body, **error.fields}


def _clipped(text: str, size: int = errors.MAX_MESSAGE) -> str:
    """Cut a text to what takes at most ``size`` bytes in the answer, escapes included."""
    text = text[:size]
    while (takes := len(json.dumps(text)) - 2) > size:
        text = text[: len(text) * size // takes]
    return text


def _methods(scope: Scope) -> str:
    """List the methods of all routes with the plainest path that fits; the router names those of one only."""
    fitting = [route for route in scope["app"].routes if route.matches(scope)[0] is not Match.NONE]
    path = min((route.path for route in fitting), key=lambda path: path.count("{"), default="")
    methods = {method for route in fitting if route.path == path for method in getattr(route, "methods", ())}
    return ", ".join(sorted(methods))


def install(app: FastAPI, metrics: Metrics, retry_after: int) -> Callable[[Scope, Exception], Response]:
    """Answer every exception with a problem, and count it; return what makes the answer.

    Parameters
    ----------
    app : gets a handler of exceptions
    metrics : count the problems by code
    retry_after : seconds in ``Retry-After``, for errors after which the same request may succeed
    """

    def answer(scope: Scope, error: Exception) -> Response:
        headers: dict[str, str] = {}
        if isinstance(error, HTTPException):
            if error.status_code == errors.MethodNotAllowedError.status:
                headers["Allow"] = methods = _methods(scope)
                text = f"{errors.MethodNotAllowedError.title}; it offers {methods}"
                error = errors.MethodNotAllowedError(text if methods else None)
            else:  # Of a file that can't be read, or is not there.
                error = errors.NotFoundError()
        elif isinstance(error, errors.StateCorruptError):
            log.error("%s: session %.128s", error.title, scope.get("path_params", {}).get("session_id", ""))
        elif not isinstance(error, errors.ServiceError):
            fields = {"request_id": scope[ID_IN_SCOPE].decode("ascii")}
            log.error("request failed", exc_info=error, extra={"fields": fields})
            error = errors.InternalError()
        metrics.problems[error.code]()
        scope[ERROR_IN_SCOPE] = error  # For the log line.
        # The scope is kept as long as the connection is idle, and the error's frames would keep the body.
        error.__traceback__ = error.__context__ = error.__cause__ = None
        if isinstance(error, errors.UnauthorizedError):
            headers["WWW-Authenticate"] = 'Bearer realm="delayed-bandits"'
        if error.retry:
            headers["Retry-After"] = str(retry_after)
        elif isinstance(error, errors.RateLimitedError):
            headers["Retry-After"] = str(error.retry_after)
        if error.status in (408, 413):
            # The rest of the body may still come: it is not read as the next request.
            headers["Connection"] = "close"
        return Response(json.dumps(problem_fields(error)), error.status, headers, MEDIA_TYPE)

    async def handle(request: Request, error: Exception) -> Response:
        return answer(request.scope, error)

    for kind in (errors.ServiceError, HTTPException, Exception):
        app.add_exception_handler(kind, handle)
    return answer
