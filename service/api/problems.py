"""Errors as application/problem+json (RFC 9457): those of this service, of FastAPI, and faults."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from pydantic import Field
from starlette.exceptions import HTTPException
from starlette.routing import Match
from starlette.types import Receive, Scope, Send

from ..asgi_scope import ERROR_IN_SCOPE, ID_IN_SCOPE
from ..errors import (
    MAX_ANSWER,
    MAX_INDEXES,
    MAX_LISTED,
    MAX_MESSAGE,
    ForbiddenError,
    InternalError,
    InvalidRequestError,
    MethodNotAllowedError,
    NotFoundError,
    PayloadTooLargeError,
    RequestTimeoutError,
    ServiceError,
    StateCorruptError,
    UnsupportedMediaTypeError,
)
from ..telemetry.metrics import Metrics
from .parsing.validation_errors import from_pydantic_errors
from .schemas.described import Described

MEDIA_TYPE = "application/problem+json"
_BY_STATUS: dict[int, type[ServiceError]] = {
    error.status: error
    for error in (
        NotFoundError,
        MethodNotAllowedError,
        ForbiddenError,
        PayloadTooLargeError,
        RequestTimeoutError,
        UnsupportedMediaTypeError,
    )
}

_METHODS = ("DELETE", "GET", "HEAD", "PATCH", "POST", "PUT")

log = logging.getLogger(__name__)


class ProblemError(Described):
    """One wrong field."""

    index: int | None = Field(description="Position of the event in its batch, from 0.")
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


def problem_fields(error: ServiceError) -> dict[str, Any]:
    """Return the fields of a problem: below 10 kB as JSON, and never the input in full."""
    body: dict[str, Any] = {
        "type": "about:blank",
        "title": error.title,
        "status": error.status,
        "code": error.code,
        "detail": _clipped(error.detail, 2 * MAX_MESSAGE),
    }
    if error.indexes:
        body["indexes"] = list(error.indexes[:MAX_INDEXES])
    if error.errors:
        body["errors"] = [
            {"index": each.index, "field": _clipped(each.field), "message": _clipped(each.message)}
            for each in error.errors[:MAX_LISTED]
        ]
        while len(body["errors"]) > 1 and len(json.dumps(body)) >= MAX_ANSWER:
            body["errors"].pop()
    return body


def problem(error: ServiceError, retry_after: int, headers: Mapping[str, str] | None = None) -> Response:
    """Make the response for an error.

    Parameters
    ----------
    error : which the client gets
    retry_after : seconds in ``Retry-After``, for errors after which the same request may succeed
    headers : further ones; None for none
    """
    extra = dict(headers or {})
    if error.retry:
        extra["Retry-After"] = str(retry_after)
    if error.status in (408, 413):
        # The rest of the body may still come: it is not read as the next request.
        extra["Connection"] = "close"
    return ProblemResponse(error, extra)


class ProblemResponse(Response):
    """The response for an error; it leaves the error in the scope, for the log line of the request.

    Parameters
    ----------
    error : which the client gets
    headers : beside ``Content-Type``
    """

    def __init__(self, error: ServiceError, headers: Mapping[str, str]) -> None:
        super().__init__(json.dumps(problem_fields(error)), error.status, headers, MEDIA_TYPE)
        self._error = error

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the response."""
        scope[ERROR_IN_SCOPE] = self._error
        await super().__call__(scope, receive, send)


def _clipped(text: str, size: int = MAX_MESSAGE) -> str:
    """Cut a text to what takes at most ``size`` bytes in the answer, escapes included."""
    text = text[:size]
    while (takes := len(json.dumps(text)) - 2) > size:
        text = text[: len(text) * size // takes]
    return text


def _methods(request: Request) -> str:
    """List the methods of all routes with the plainest path that fits; the router names those of one only."""
    scope = {name: request.scope[name] for name in ("type", "path", "root_path", "headers")}
    fitting = [
        route for route in request.app.routes if route.matches(scope | {"method": "GET"})[0] is not Match.NONE
    ]
    path = min((getattr(route, "path", "") for route in fitting), key=lambda path: path.count("{"), default="")
    asked = (
        (method, route.matches(scope | {"method": method})[0])
        for method in _METHODS
        for route in fitting
        if getattr(route, "path", "") == path
    )
    return ", ".join(dict.fromkeys(method for method, match in asked if match is Match.FULL))


def install(app: FastAPI, metrics: Metrics, retry_after: int) -> None:
    """Answer every exception with a problem, and count it.

    Parameters
    ----------
    app : gets the handlers of exceptions
    metrics : count the problems by code
    retry_after : seconds in ``Retry-After``, for errors after which the same request may succeed
    """

    def answer(error: ServiceError, headers: Mapping[str, str] | None = None) -> Response:
        metrics.problems[error.code]()
        return problem(error, retry_after, headers)

    async def on_service_error(request: Request, error: Exception) -> Response:
        assert isinstance(error, ServiceError)  # noqa: S101 - registered for it
        if isinstance(error, StateCorruptError):
            log.error("%s: session %.128s", error.title, request.path_params.get("session_id", ""))
        return answer(error)

    async def on_validation(_: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)  # noqa: S101 - registered for it
        return answer(from_pydantic_errors(error.errors()))

    async def on_http(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)  # noqa: S101 - registered for it
        known = _BY_STATUS.get(error.status_code, InvalidRequestError if error.status_code < 500 else InternalError)
        if known is MethodNotAllowedError:
            methods = _methods(request)
            return answer(MethodNotAllowedError.of(methods), {"Allow": methods})
        return answer(known(), error.headers)

    async def on_fault(request: Request, error: Exception) -> Response:
        fields = {"request_id": request.scope[ID_IN_SCOPE].decode("ascii")}
        log.error("request failed", exc_info=error, extra={"fields": fields})
        return answer(InternalError())

    app.add_exception_handler(ServiceError, on_service_error)
    app.add_exception_handler(RequestValidationError, on_validation)
    app.add_exception_handler(HTTPException, on_http)
    app.add_exception_handler(Exception, on_fault)
