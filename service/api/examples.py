"""Worked examples of the OpenAPI document: one session that recommends three jokes."""

from __future__ import annotations

from typing import Any

from fastapi.openapi.models import Example
from pydantic import BaseModel

from service.api.problems import MEDIA_TYPE, Problem

CREATE: dict[str, Example] = {
    "arms": Example(
        summary="Three jokes, rated from -10 (worst) to 10 (best)",
        value={
            "session_id": "jokes",
            "learner": {"kind": "dexp3", "n_arms": 3},
            "loss_range": [10, -10],
            "seed": 7,
        },
    ),
    "points": Example(
        summary="Points of the unit ball",
        value={
            "session_id": "prices",
            "learner": {"kind": "dbgd", "dim": 2, "feasible_set": {"kind": "ball", "radius": 1.0}},
        },
    ),
}
VIEW = {
    "session_id": "jokes",
    "learner": {
        "kind": "dexp3",
        "n_arms": 3,
        "horizon": None,
        "max_delay": None,
        "total_delay": None,
        "learning_rate": 1.6727670842720892,
        "loss_clip": 0.5978118588070818,
        "probability_floor": 0.25,
        "max_outstanding": None,
        "rate_scale": None,
        "rates": "anytime",
    },
    "loss_range": [10.0, -10.0],
    "normalize_losses": True,
    "idle_ttl_seconds": None,
    "expiry": None,
    "slot": 0,
    "feedbacks": 0,
    "outstanding": 0,
    "expired": 0,
    "removed": 0,
    "total_delay": 0,
    "version": "9c1f0f0d5f6f4b1e-1",
    "created_at": "2026-01-01T12:00:00.000Z",
    "expires_at": None,
    "probabilities": [0.3333333333333333, 0.3333333333333333, 0.3333333333333333],
}
CHANGE: dict[str, Example] = {
    "fresh": Example(summary="A joke comes and another goes", value={"add": ["knock-knock"], "remove": ["riddle"]})
}
CHANGED = VIEW | {
    "learner": VIEW["learner"] | {"arms": ["pun", None, "limerick", "knock-knock"]},  # type: ignore[operator]
    "slot": 5,
    "feedbacks": 2,
    "outstanding": 2,
    "removed": 1,
    "version": "9c1f0f0d5f6f4b1e-9",
    "probabilities": [0.4, 0.0, 0.26666666666666666, 0.3333333333333333],
}
LIST = {"sessions": [{name: value for name, value in VIEW.items() if name != "probabilities"}], "next_cursor": None}
ACTION = {"slot": 1, "arm": 2, "probability": 0.3333333333333333}
ACTIONS = {"actions": [ACTION, {"slot": 2, "arm": 0, "probability": 0.3333333333333333}]}
EVENT: dict[str, Example] = {
    "rating": Example(summary="A rating of arm 2", value={"arm": 2, "loss": 7.25, "event_id": "rating-1"}),
    "losses": Example(summary="Losses at a point and its two query points", value={"losses": [0.5, 0.51, 0.49]}),
}
EVENTS: dict[str, Example] = {
    "ratings": Example(
        summary="Two ratings, in the order they came",
        value={"events": [EVENT["rating"]["value"], {"arm": 0, "loss": -3.0, "event_id": "rating-2"}]},
    )
}
SETTLEMENT = {"applied": 1, "duplicates": 0, "slot": 2, "outstanding": 1}
_PROBLEM = {
    "type": "about:blank",
    "title": "The request is not valid",
    "status": 422,
    "code": "invalid_request",
    "detail": "events[1].loss: loss must lie in [-10.0, 10.0]",
    "indexes": [1],
    "errors": [{"index": 1, "field": "loss", "message": "loss must lie in [-10.0, 10.0]"}],
}


def example(model: type[BaseModel], value: Any, description: str) -> dict[str, Any]:
    """A documented answer with a worked example."""
    return {
        "model": model,
        "description": description,
        "content": {"application/json": {"example": value}},
    }


def _problem(description: str) -> dict[str, Any]:
    schema = {"$ref": f"#/components/schemas/{Problem.__name__}"}
    return {"description": description, "content": {MEDIA_TYPE: {"schema": schema, "example": _PROBLEM}}}


PROBLEMS: dict[int | str, dict[str, Any]] = {
    400: _problem("bad_request"),
    401: _problem("unauthorized, where the service has API keys"),
    403: _problem("forbidden, by the API key"),
    404: _problem("unknown_session"),
    408: _problem("request_timeout"),
    409: _problem("session_exists, surplus_feedback, no_labels"),
    413: _problem("payload_too_large"),
    415: _problem("unsupported_media_type"),
    422: _problem("invalid_request, idempotency_conflict"),
    431: _problem("head_too_large"),
    500: _problem("state_corrupt, internal_error"),
    503: _problem("store_unavailable, overloaded; carries Retry-After"),
}
