"""Worked examples of the OpenAPI document: one session that recommends three jokes."""

from __future__ import annotations

from typing import Any

from fastapi import Response
from fastapi.openapi.models import Example
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
    StoreDownError,
    SurplusFeedbackError,
    UnauthorizedError,
    UnknownSessionError,
    UnsupportedMediaTypeError,
)
from ..parsing.dependencies import KEYED
from ..parsing.json_body import JSON
from ..problems import MEDIA_TYPE, Problem, problem_fields

CREATE: dict[str, Example] = {
    "control": Example(
        summary="A control group: jokes told as often as the editors want, at random",
        value={
            "session_id": "jokes-control",
            "learner": {
                "kind": "fixed",
                "arms": ["pun", "riddle", "limerick"],
                "probabilities": {"pun": 0.5, "riddle": 0.25, "limerick": 0.25},
            },
        },
    ),
    "segments": Example(
        summary="Jokes by country and device, of which the 500 last asked for are kept",
        value={
            "session_id": "jokes-by-segment",
            "learner": {"kind": "multiscale_tsallis", "arms": ["pun", "riddle", "limerick"]},
            "segments": {"max": 500},
        },
    ),
    "floor": Example(
        summary="One joke in twenty is told at random, whatever has been learned",
        value={
            "session_id": "jokes-with-floor",
            "learner": {"kind": "multiscale_tsallis", "arms": ["pun", "riddle", "limerick"]},
            "floor": 0.05,
        },
    ),
    "arms": Example(
        summary="Three jokes, rated from -10 (worst) to 10 (best)",
        value={
            "session_id": "jokes",
            "learner": {"kind": "dexp3", "n_arms": 3},
            "loss_range": [10, -10],
            "seed": 7,
        },
    ),
    "rewards": Example(
        summary="Clicks as rewards; a decision without a click counts as none after a day",
        value={
            "session_id": "teasers",
            "learner": {"kind": "multiscale_tsallis", "arms": ["pun", "riddle"]},
            "reward_range": [0, 1],
            "expiry": {"after_seconds": 86400, "default_reward": 0},
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
    "floor": 0.0,
    "slot": 0,
    "feedbacks": 0,
    "outstanding": 0,
    "expired": 0,
    "removed": 0,
    "voided": 0,
    "total_delay": 0,
    "mean_loss": None,
    "last_act_at": None,
    "last_event_at": None,
    "effective_arms": 3.0,
    "hints": [],
    "version": "9c1f0f0d5f6f4b1e-1",
    "created_at": "2026-01-01T12:00:00.000Z",
    "expires_at": None,
    "paused": [],
    "probabilities": [0.3333333333333333, 0.3333333333333333, 0.3333333333333333],
}
CHANGE: dict[str, Example] = {
    "fresh": Example(summary="A joke comes and another goes", value={"add": ["knock-knock"], "remove": ["riddle"]}),
    "pause": Example(
        summary="A joke rests, and one that has rested is told again",
        value={"pause": ["pun"], "resume": ["limerick"]},
    ),
}
REPLACE: dict[str, Example] = {
    "catalogue": Example(summary="The jokes of today", value={"arms": ["pun", "limerick", "knock-knock"]})
}
CHANGE_SESSION: dict[str, Example] = {
    "window": Example(
        summary="Wait an hour for a rating, and learn nothing where none comes",
        value={"expiry": {"after_seconds": 3600, "default_loss": None}},
    ),
    "permanent": Example(summary="Keep the session for ever", value={"idle_ttl_seconds": None}),
}
SESSION_CHANGED = VIEW | {"expiry": {"after_seconds": 3600.0, "default_loss": None}}
CHANGED = VIEW | {
    "learner": VIEW["learner"] | {"arms": ["pun", None, "limerick", "knock-knock"]},  # type: ignore[operator]
    "slot": 5,
    "feedbacks": 2,
    "outstanding": 2,
    "removed": 1,
    "mean_loss": -2.5,
    "last_act_at": "2026-01-01T12:03:10.000Z",
    "last_event_at": "2026-01-01T12:03:12.000Z",
    "effective_arms": 2.9623,
    "version": "9c1f0f0d5f6f4b1e-9",
    "probabilities": [0.4, 0.0, 0.26666666666666666, 0.3333333333333333],
}
_SUMMARY = {name: value for name, value in VIEW.items() if name not in {"paused", "probabilities"}}
LIST = {"sessions": [_SUMMARY], "next_cursor": None}
ACT: dict[str, Example] = {
    "any": Example(summary="Any joke that is not paused", value={}),
    "eligible": Example(summary="One of two jokes", value={"eligible": ["pun", "limerick"]}),
    "exclude": Example(summary="Any joke but the one just told", value={"exclude": ["pun"]}),
    "by_index": Example(summary="Arms by their indexes, where the session named none", value={"eligible": [0, 2]}),
    "segment": Example(summary="For a phone in Germany, in a session with segments", value={"segment": "de/phone"}),
}
ACTS: dict[str, Example] = {
    "row": Example(summary="Two slots in a row; an arm may come twice", value={"count": 2}),
    "slate": Example(
        summary="Two different jokes for one page, none of them told before",
        value={"count": 2, "distinct": True, "exclude": ["pun"]},
    ),
}
EXPORTED = {
    "counts": [],
    "created_at": 1767268800.25,
    "event_ids": [],
    "format": 1,
    "records": [],
    "session_id": "jokes",
    "specification": {"specification": {"learner": {"kind": "dexp3", "n_arms": 3}}, "seed": 7},
    "state": [{"part": "AQ=="}],
    "version": "9c1f0f0d5f6f4b1e-1",
    "sha256": "0" * 64,
}
IMPORT: dict[str, Example] = {"exported": Example(summary="What an export gave", value=EXPORTED)}
ACTION = {"slot": 1, "arm": 2, "probability": 0.3333333333333333}
ACTIONS = {"actions": [ACTION, {"slot": 2, "arm": 0, "probability": 0.3333333333333333}]}
EVENT: dict[str, Example] = {
    "rating": Example(summary="A rating of arm 2", value={"arm": 2, "loss": 7.25, "event_id": "rating-1"}),
    "reward": Example(
        summary="A reward of arm 2, in a session with reward_range",
        value={"arm": 2, "reward": 1, "event_id": "click-1"},
    ),
    "segment": Example(
        summary="A rating from a phone in Germany", value={"arm": 2, "loss": 7.25, "segment": "de/phone"}
    ),
    "void": Example(
        summary="Arm 2 was not shown after all", value={"arm": 2, "loss": None, "event_id": "hidden-1"}
    ),
    "losses": Example(summary="Losses at a point and its two query points", value={"losses": [0.5, 0.51, 0.49]}),
}
EVENTS: dict[str, Example] = {
    "ratings": Example(
        summary="Two ratings, in the order they came",
        value={"events": [EVENT["rating"]["value"], {"arm": 0, "loss": -3.0, "event_id": "rating-2"}]},
    )
}
SETTLEMENT = {"applied": 1, "duplicates": 0, "slot": 2, "outstanding": 1}


ARMS = {
    "arms": [
        {
            "arm": 2,
            "paused": False,
            "probability": 0.41,
            "acts": 40,
            "outstanding": 3,
            "feedbacks": 37,
            "expired": 0,
            "mean_loss": -2.5,
        }
    ],
    "next_cursor": "-acts~1",
}
SEGMENTS = {
    "segments": [
        {
            "segment": "de/phone",
            "slots": 40,
            "feedbacks": 37,
            "mean_loss": -2.5,
            "effective_arms": 1.9,
            "last_act_at": "2026-01-01T12:00:00.000Z",
        }
    ],
    "next_cursor": "segment~ZGUvcGhvbmU=",
}
DECISIONS = {
    "decisions": [
        {"kind": "act", **ACTION, "eligible": 3, "at": "2026-01-01T12:00:00.000Z"},
        {
            "kind": "event",
            "arm": 2,
            "loss": 7.25,
            "outcome": "applied",
            "event_id": "rating-1",
            "at": "2026-01-01T12:00:05.250Z",
        },
    ],
    "next_cursor": None,
}
KEY = {"name": "board", "role": "reader", "session_prefix": ""}
HISTORY = {
    "period_seconds": 5.0,
    "samples": [
        {
            "at": "2026-01-01T12:00:05.000Z",
            "slot": 120,
            "feedbacks": 100,
            "outstanding": 20,
            "expired": 0,
            "removed": 0,
            "voided": 0,
            "total_delay": 2100,
            "counted": 100,
            "mean_loss": -1.5,
            "effective_arms": 2.4,
            "arms": [{"arm": 2, "probability": 0.52}, {"arm": 0, "probability": 0.3}],
        }
    ],
}


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
    "unauthorized": UnauthorizedError(),
    "forbidden": ForbiddenError(),
    "cross_site": CrossSiteError(),
    "foreign_host": ForeignHostError(),
    "unknown_session": UnknownSessionError(),
    "request_timeout": RequestTimeoutError(),
    "surplus_feedback": SurplusFeedbackError(
        "2 events for 1 outstanding decisions: 1 too many for their arms", indexes=[1]
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
    "store_unavailable": StoreDownError(),
    "overloaded": OverloadedError(),
}


def _problem(status: int, note: str = "") -> dict[str, Any]:
    errors = {code: error for code, error in _ERRORS.items() if error.status == status}
    examples = {code: {"value": problem_fields(error)} for code, error in errors.items()}
    schema = {"$ref": f"#/components/schemas/{Problem.__name__}"}
    description = ", ".join(errors) + note
    return {"description": description, "content": {MEDIA_TYPE: {"schema": schema, "examples": examples}}}


_NOTES = {
    401: ", where the service has API keys",
    403: ": the API key does not allow it, or, without keys, a page of another site asks",
    421: ", where the service has no API keys",
    503: "; carries Retry-After",
}
PROBLEMS: dict[int | str, dict[str, Any]] = {
    status: _problem(status, _NOTES.get(status, ""))
    for status in sorted({error.status for error in _ERRORS.values()})
}
