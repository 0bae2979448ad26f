"""How routes describe their answers: successes by a model and an example, and all problems."""

from __future__ import annotations

from typing import Any

from fastapi import Response
from pydantic import BaseModel

from ...errors import (
    BadRequestError,
    CrossSiteError,
    FieldError,
    ForbiddenError,
    ForeignHostError,
    HeadTooLargeError,
    IdempotencyConflictError,
    InternalError,
    InvalidRequestError,
    NoDecisionLogError,
    NoEligibleArmError,
    NoLabelsError,
    OlderSchemaError,
    OverloadedError,
    PayloadTooLargeError,
    RequestTimeoutError,
    SessionExistsError,
    StateCorruptError,
    StoreUnavailableError,
    SurplusFeedbackError,
    UnauthorizedError,
    UnknownSegmentError,
    UnknownSessionError,
    UnsupportedMediaTypeError,
)
from ..parsing.dependencies import KEYED
from ..parsing.json_body import JSON
from ..problems import MEDIA_TYPE, Problem, problem_fields


def describe_answers(
    model: type[BaseModel], example: Any, descriptions: dict[int, str], *, keyed: bool = False
) -> dict[str, Any]:
    """Make the options of a route's decorator that describe its successes.

    Parameters
    ----------
    model, example : of the body of every success
    descriptions : of the answers, by status
    keyed : whether the route takes an Idempotency-Key
    """
    content = {JSON: {"example": example}}
    responses = {
        status: {"model": model, "description": text, "content": content} for status, text in descriptions.items()
    }
    route = {"response_model": model, "response_class": Response, "responses": responses}
    return route | ({"openapi_extra": KEYED} if keyed else {})


_OUTSIDE = "loss must lie in [-10.0, 10.0]"


_ERRORS = {
    "bad_request": BadRequestError(),
    "unauthorized": UnauthorizedError.of("and the request has none"),
    "forbidden": ForbiddenError(),
    "cross_site": CrossSiteError(),
    "foreign_host": ForeignHostError(),
    "unknown_session": UnknownSessionError(),
    "unknown_segment": UnknownSegmentError(),
    "request_timeout": RequestTimeoutError(),
    "surplus_feedback": SurplusFeedbackError(
        "2 events for 1 outstanding decision: 1 too many for their arms; act first, or leave such events out with "
        "?on_surplus=skip",
        indexes=[1],
    ),
    "session_exists": SessionExistsError(),
    "no_labels": NoLabelsError(),
    "no_decision_log": NoDecisionLogError(),
    "no_eligible_arm": NoEligibleArmError(),
    "older_schema": OlderSchemaError.of("loss", 1),
    "payload_too_large": PayloadTooLargeError(),
    "unsupported_media_type": UnsupportedMediaTypeError(),
    "invalid_request": InvalidRequestError(
        f"events[1].loss: {_OUTSIDE}", errors=[FieldError("loss", _OUTSIDE, 1)], indexes=[1]
    ),
    "idempotency_conflict": IdempotencyConflictError(),
    "head_too_large": HeadTooLargeError(),
    "state_corrupt": StateCorruptError(),
    "internal_error": InternalError(),
    "store_unavailable": StoreUnavailableError(),
    "overloaded": OverloadedError(),
}


def _problem(status: int, note: str = "") -> dict[str, Any]:
    errors = {code: error for code, error in _ERRORS.items() if error.status == status}
    examples = {code: {"value": problem_fields(error)} for code, error in errors.items()}
    schema = {"$ref": f"#/components/schemas/{Problem.__name__}"}
    description = ", ".join(errors) + note
    return {"description": description, "content": {MEDIA_TYPE: {"schema": schema, "examples": examples}}}


_NOTES = {
    401: ", if the service has API keys",
    403: ": the API key does not allow it, or, without keys, a page of another site sent the request",
    421: ", if the service has no API keys",
    503: "; carries Retry-After",
}


PROBLEMS: dict[int | str, dict[str, Any]] = {
    status: _problem(status, _NOTES.get(status, ""))
    for status in sorted({error.status for error in _ERRORS.values()})
}
