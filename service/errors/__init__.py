"""The tree of all errors that clients can get.

ServiceError
├── InvalidRequestError        422 invalid_request
├── UnknownSessionError        404 unknown_session
├── NotFoundError              404 not_found
├── MethodNotAllowedError      405 method_not_allowed
├── SessionExistsError         409 session_exists
├── SurplusFeedbackError       409 surplus_feedback
├── NoLabelsError              409 no_labels
├── NoDecisionLogError         409 no_decision_log
├── UnknownSegmentError        404 unknown_segment
├── NoEligibleArmError         409 no_eligible_arm
├── OlderSchemaError           409 older_schema
├── IdempotencyConflictError   422 idempotency_conflict
├── PayloadTooLargeError       413 payload_too_large
├── UnsupportedMediaTypeError  415 unsupported_media_type
├── RequestTimeoutError        408 request_timeout
├── BadRequestError            400 bad_request
├── HeadTooLargeError          431 head_too_large
├── ClientGoneError            499 client_gone
├── UnauthorizedError          401 unauthorized
├── ForbiddenError             403 forbidden
├── CrossSiteError             403 cross_site
├── ForeignHostError           421 foreign_host
├── StateCorruptError          500 state_corrupt
├── InternalError              500 internal_error
├── OverloadedError            503 overloaded
└── StoreUnavailableError      503 store_unavailable
"""

from __future__ import annotations

from .access import CrossSiteError, ForbiddenError, ForeignHostError, UnauthorizedError
from .base import MAX_ANSWER, MAX_INDEXES, MAX_LISTED, MAX_MESSAGE, FieldError, FieldValueError, ServiceError
from .faults import InternalError, OverloadedError, StateCorruptError, StoreUnavailableError
from .requests import (
    BadRequestError,
    ClientGoneError,
    HeadTooLargeError,
    InvalidRequestError,
    MethodNotAllowedError,
    NotFoundError,
    PayloadTooLargeError,
    RequestTimeoutError,
    UnsupportedMediaTypeError,
)
from .sessions import (
    IdempotencyConflictError,
    NoDecisionLogError,
    NoEligibleArmError,
    NoLabelsError,
    OlderSchemaError,
    SessionExistsError,
    SurplusFeedbackError,
    UnknownSegmentError,
    UnknownSessionError,
)

__all__ = [
    "MAX_ANSWER",
    "MAX_INDEXES",
    "MAX_LISTED",
    "MAX_MESSAGE",
    "BadRequestError",
    "ClientGoneError",
    "CrossSiteError",
    "FieldError",
    "FieldValueError",
    "ForbiddenError",
    "ForeignHostError",
    "HeadTooLargeError",
    "IdempotencyConflictError",
    "InternalError",
    "InvalidRequestError",
    "MethodNotAllowedError",
    "NoDecisionLogError",
    "NoEligibleArmError",
    "NoLabelsError",
    "NotFoundError",
    "OlderSchemaError",
    "OverloadedError",
    "PayloadTooLargeError",
    "RequestTimeoutError",
    "ServiceError",
    "SessionExistsError",
    "StateCorruptError",
    "StoreUnavailableError",
    "SurplusFeedbackError",
    "UnauthorizedError",
    "UnknownSegmentError",
    "UnknownSessionError",
    "UnsupportedMediaTypeError",
]
