"""Errors as application/problem+json (RFC 9457), whoever raised them."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException

from service.errors import (
    MAX_LISTED,
    MAX_MESSAGE,
    FieldError,
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
from service.events import EVENT_TAGS
from service.learners import REGISTRY

MEDIA_TYPE = "application/problem+json"
_TAGS = EVENT_TAGS | REGISTRY.keys()
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

log = logging.getLogger(__name__)


class ProblemError(BaseModel):
    """One wrong field."""

    index: int | None = Field(description="The event's place in its batch, from 0.")
    field: str
    message: str


class Problem(BaseModel):
    """What every error looks like; switch on ``code``."""

    type: str = "about:blank"
    title: str
    status: int
    code: str
    detail: str
    indexes: list[int] | None = None
    errors: list[ProblemError] | None = None


def problem(error: ServiceError, retry_after: int, headers: Mapping[str, str] | None = None) -> Response:
    """The answer that tells of an error: below 10 kB, and never the input in full."""
    body: dict[str, Any] = {
        "type": "about:blank",
        "title": error.title,
        "status": error.status,
        "code": error.code,
        "detail": error.detail[: 2 * MAX_MESSAGE],
    }
    if error.indexes:
        body["indexes"] = list(error.indexes[:MAX_LISTED])
    if error.errors:
        body["errors"] = [
            {"index": each.index, "field": each.field[:MAX_MESSAGE], "message": each.message[:MAX_MESSAGE]}
            for each in error.errors[:MAX_LISTED]
        ]
    extra = dict(headers or {})
    if error.retry:
        extra["Retry-After"] = str(retry_after)
    if error.status in (408, 413):
        extra["Connection"] = "close"
    return Response(json.dumps(body), error.status, extra, MEDIA_TYPE)


def of_validation(errors: Iterable[Mapping[str, Any]]) -> InvalidRequestError:
    """Tell pydantic's findings in this service's words: field, event index, message."""
    found = [_field_error(error) for error in errors]
    if not found:
        return InvalidRequestError()
    first = found[0]
    where = first.field if first.index is None else f"events[{first.index}].{first.field}"
    indexes = sorted({each.index for each in found if each.index is not None})
    return InvalidRequestError(f"{where}: {first.message}", errors=found, indexes=indexes)


def _field_error(error: Mapping[str, Any]) -> FieldError:
    place: Sequence[Any] = error["loc"]
    index = None
    if len(place) > 2 and place[1] == "events" and isinstance(place[2], int):
        index, place = place[2], place[2:]
    names = [str(part) for part in place[1:] if part not in _TAGS] or [str(place[0])]
    message = str(error["msg"]).removeprefix("Value error, ")
    if error["type"] == "missing" and names == ["body"]:
        message = "a JSON object is required"
    return FieldError(".".join(names), message, index)


def install(app: FastAPI, retry_after: int) -> None:
    """Answer every exception with a problem."""

    async def on_service_error(request: Request, error: Exception) -> Response:
        assert isinstance(error, ServiceError)  # noqa: S101 - registered for it
        if isinstance(error, StateCorruptError):
            log.error("%s: session %.128s", error.title, request.path_params.get("session_id", ""))
        return problem(error, retry_after)

    async def on_validation(_: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)  # noqa: S101 - registered for it
        return problem(of_validation(error.errors()), retry_after)

    async def on_http(_: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)  # noqa: S101 - registered for it
        known = _BY_STATUS.get(error.status_code, InvalidRequestError if error.status_code < 500 else InternalError)
        return problem(known(), retry_after, error.headers)

    async def on_fault(_: Request, error: Exception) -> Response:
        log.error("request failed", exc_info=error)
        return problem(InternalError(), retry_after)

    app.add_exception_handler(ServiceError, on_service_error)
    app.add_exception_handler(RequestValidationError, on_validation)
    app.add_exception_handler(HTTPException, on_http)
    app.add_exception_handler(Exception, on_fault)
