"""The tree of all errors that clients can get.

ServiceError
├── InvalidRequestError        422 invalid_request
│   └── InvalidTokenError      422 invalid_token
├── UnknownSessionError        404 unknown_session
├── NotFoundError              404 not_found
├── MethodNotAllowedError      405 method_not_allowed
├── SurplusFeedbackError       409 surplus_feedback
├── SessionExistsError         409 session_exists
├── NoLabelsError              409 no_labels
├── NoDecisionLogError         409 no_decision_log
├── SessionHaltedError         409 session_halted
├── UnknownSegmentError        404 unknown_segment
├── NoEligibleArmError         409 no_eligible_arm
├── IdempotencyConflictError   422 idempotency_conflict
├── PayloadTooLargeError       413 payload_too_large
├── UnsupportedMediaTypeError  415 unsupported_media_type
├── RequestTimeoutError        408 request_timeout
├── BadRequestError            400 bad_request
├── HeadTooLargeError          431 head_too_large
├── ClientGoneError            499 client_gone
├── UnauthorizedError          401 unauthorized
├── ForbiddenError             403 forbidden
├── RateLimitedError           429 rate_limited
│   └── TooManyClicksError     429 too_many_clicks
├── BadTokenError              403 bad_token
├── ExpiredTokenError          410 expired_token
├── CrossSiteError             403 cross_site
├── ForeignHostError           421 foreign_host
├── StateCorruptError          500 state_corrupt
├── InternalError              500 internal_error
├── StoreUnavailableError      503 store_unavailable
├── OverloadedError            503 overloaded
└── NewerSchemaError           503 newer_schema
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

# -- What all errors have in common, and how wrong fields are named.

MAX_LISTED = 20
"""Errors listed at most in one answer."""
MAX_INDEXES = 1000
"""Indexes of events listed at most in one answer."""
MAX_ANSWER = 10_000
"""Bytes of the answer that lists them: errors that do not fit are left out."""
MAX_MESSAGE = 200
"""Characters of one listed message."""


@dataclass(frozen=True, slots=True)
class FieldError:
    """What is wrong with one field; ``index`` is the event's place in its batch, from 0."""

    field: str
    message: str
    index: int | None = None
    logged_as: str | None = None
    """What logs call a field whose name is the client's, as it may be anything."""
    logged_message: str | None = None
    """What logs say in place of a message that has text of the client's."""
    code: str = "invalid_request"
    """Of the problem that an event alone would have."""

    @property
    def place(self) -> str:
        """The path of the field in the body."""
        event = f"events[{self.index}]"
        return self.field if self.index is None or self.field == event else f"{event}.{self.field}"


class FieldValueError(ValueError):
    """A value that does not go with the others of its object.

    Parameters
    ----------
    field : the path of the value below the object that raises this
    message : what is wrong, for the client
    """

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field


class ServiceError(Exception):
    """An error with a stable code, its HTTP status and a short title.

    Parameters
    ----------
    detail : text for the client; that of the class, or its title, if None
    errors : what is wrong with which fields
    indexes : places of the wrong events in the request, from 0
    reason : what logs say in place of ``detail``, where that has text of the client's
    """

    status: ClassVar[int]
    code: ClassVar[str]
    title: ClassVar[str]
    text: ClassVar[str] = ""
    """For the client, if the title is not enough."""
    retry: ClassVar[bool] = False
    """Whether the same request may succeed soon: the answer then carries ``Retry-After``."""
    fields: Mapping[str, Any] = {}
    """What the answer says beside all else."""

    def __init__(
        self,
        detail: str | None = None,
        *,
        errors: Sequence[FieldError] = (),
        indexes: Sequence[int] = (),
        reason: str | None = None,
    ) -> None:
        self.detail = detail or self.text or self.title
        self.reason = reason or self.detail
        self.errors = errors
        self.indexes = indexes
        super().__init__(self.detail)


# -- Requests that the service does not serve for who sends them.


class UnauthorizedError(ServiceError):
    """The request carries no valid API key."""

    status, code, title = 401, "unauthorized", "A valid API key is needed"

    @classmethod
    def of(cls, found: str) -> Self:
        """Make the error for what the request has in place of one valid key; its text names the headers.

        Parameters
        ----------
        found : a clause, such as ``and the request has none``
        """
        return cls(f"{cls.title}, {found}: send it as `X-API-Key: <key>` or as `Authorization: Bearer <key>`")


class ForbiddenError(ServiceError):
    """The API key does not allow this."""

    status, code, title = 403, "forbidden", "The API key does not allow this"


class RateLimitedError(ServiceError):
    """The API key has sent its requests of this second; nothing was done. Retry after `Retry-After`."""

    status, code, title = 429, "rate_limited", "The API key has sent its requests of this second"
    retry_after: int = 1
    """Seconds."""


class TooManyClicksError(RateLimitedError):
    """The address has posted its tokens of this second; none was counted. Retry after `Retry-After`."""

    status, code, title = 429, "too_many_clicks", "This address has posted its tokens of this second"


class BadTokenError(ServiceError):
    """A token is forged, or of another service. No click of the request was counted."""

    status, code, title = 403, "bad_token", "A token was not made by this service"


class ExpiredTokenError(ServiceError):
    """A token is too old, or its session was deleted. No click of the request was counted."""

    status, code, title = 410, "expired_token", "A token has expired"


class CrossSiteError(ServiceError):
    """A page of another site sent the request, and this service has no API keys."""

    status, code, title = 403, "cross_site", "The request comes from a page of another site"
    text = (
        "A service without API keys serves no requests of other sites' pages, but for their clicks "
        "(POST /v1/clicks): use API keys"
    )


class ForeignHostError(ServiceError):
    """The request's host is no local name, and this service has no API keys."""

    status, code, title = 421, "foreign_host", "The request's host is no local name"
    text = (
        "A service without API keys serves local names only: add the host to BANDIT_ALLOWED_HOSTS, or use API keys"
    )


# -- What goes wrong in the service itself, or in its store.


class StateCorruptError(ServiceError):
    """The stored state can't be read: it was changed by hand."""

    status, code, title = 500, "state_corrupt", "The stored state of this session can't be read"


class InternalError(ServiceError):
    """The service failed unexpectedly; its log has the reason."""

    status, code, title = 500, "internal_error", "The service failed to answer"


class StoreUnavailableError(ServiceError):
    """The store does not answer or refuses commands. Retry with the same ids.

    The text says why, and names no secret.
    """

    status, code, title, retry = 503, "store_unavailable", "The store is not available", True


class OverloadedError(ServiceError):
    """Too many requests wait in this worker, or this one too long, or it is stopping. Retry with the same ids."""

    status, code, title, retry = 503, "overloaded", "Too many requests are waiting", True


class NewerSchemaError(ServiceError):
    """A newer version stored or exported this session, which is left as it is. Retry with the same ids.

    During an upgrade, or the way back, a worker of that version answers, or writes it as others can read it.
    """

    status, code, title, retry = 503, "newer_schema", "A newer version of the service wrote this session", True


# -- Requests that can not be read, or name nothing that the service has.


class InvalidRequestError(ServiceError):
    """The request does not match its schema, or does not fit its session."""

    status, code, title = 422, "invalid_request", "The request is not valid"

    @classmethod
    def of(cls, field: str, message: str, index: int | None = None, logged_message: str | None = None) -> Self:
        """Make the error for one wrong field.

        Parameters
        ----------
        field : path in the body, below the event where ``index`` names one
        message : what is wrong, for the client
        index : position of the event in its batch; None outside batches
        logged_message : what the log line says in place of ``message``, where that repeats what the client sent
        """
        return cls.of_all([FieldError(field, message, index, logged_message=logged_message)])

    @classmethod
    def of_all(cls, errors: Sequence[FieldError]) -> Self:
        """Make the error for one or more wrong fields; its text names the first.

        Parameters
        ----------
        errors : not empty
        """
        first = errors[0]
        indexes = sorted({error.index for error in errors if error.index is not None})
        reason = f"{first.logged_as or first.place}: {first.logged_message or first.message}"
        return cls(f"{first.place}: {first.message}", errors=errors, indexes=indexes, reason=reason)


class InvalidTokenError(InvalidRequestError):
    """A token is forged, of another session, or of an earlier one with this id."""

    status, code, title = 422, "invalid_token", "A token is not one of this session"


class NotFoundError(ServiceError):
    """There is no such route."""

    status, code, title = 404, "not_found", "There is no such resource"
    text = f"{title}; /docs lists all"


class MethodNotAllowedError(ServiceError):
    """The route exists, but does not offer this method."""

    status, code, title = 405, "method_not_allowed", "The resource does not offer this method"


class PayloadTooLargeError(ServiceError):
    """The body is larger than the limit."""

    status, code, title = 413, "payload_too_large", "The body is too large"


class UnsupportedMediaTypeError(ServiceError):
    """The body is not application/json in UTF-8 without content encoding."""

    status, code = 415, "unsupported_media_type"
    title = "The body must be application/json, without Content-Encoding"


class RequestTimeoutError(ServiceError):
    """The body did not arrive in time."""

    status, code, title = 408, "request_timeout", "The body did not arrive in time"


class BadRequestError(ServiceError):
    """The bytes are no valid HTTP request, or an ambiguous one."""

    status, code, title = 400, "bad_request", "This is not a valid HTTP request"


class HeadTooLargeError(ServiceError):
    """The request line and headers are larger than the limit."""

    status, code, title = 431, "head_too_large", "The request's head is too large"


class ClientGoneError(ServiceError):
    """The client has reset its connection, and the act was not done. Only logs and metrics show this code."""

    status, code, title = 499, "client_gone", "The client has left before the act was done"


# -- Requests that do not fit the session that they are about.


class UnknownSessionError(ServiceError):
    """There is no session with this id, or it has expired or been deleted."""

    status, code, title = 404, "unknown_session", "There is no session with this id"


class SurplusFeedbackError(ServiceError):
    """Some events match no outstanding decision. No event of the request was applied."""

    status, code, title = 409, "surplus_feedback", "Some events answer no outstanding decision"
    events: int = 0
    """Events in the request."""

    @classmethod
    def of(cls, events: int, indexes: Sequence[int]) -> Self:
        """Make the error for a request of which some events are surplus.

        Parameters
        ----------
        events : number of events in the request
        indexes : places of the surplus ones in the request, from 0
        """
        text = f"Events that answer no outstanding decision: {len(indexes)} of {events}"
        error = cls(f"{text}; act first, or leave them out with ?on_surplus=skip", indexes=indexes)
        error.events = events
        return error


class SessionExistsError(ServiceError):
    """A session with this id exists, and it was created with other fields."""

    status, code, title = 409, "session_exists", "A session with this id and another specification exists"

    @classmethod
    def of(cls, errors: Sequence[FieldError], paths: Sequence[str]) -> Self:
        """Make the error for a session that differs in one or more fields; its text names them, and what to do.

        Parameters
        ----------
        errors : of whole fields
        paths : of what differs, as deep as can be told
        """
        return cls(f"{cls.title}; it differs in {', '.join(paths)}. {_TO_CHANGE}", errors=errors)


_TO_CHANGE = (
    "PATCH the session to change expiry, idle_ttl_seconds, floor or goals, PUT its arms (the client's `ensure` "
    "does both), or choose another session_id"
)


class NoLabelsError(ServiceError):
    """The session has no arm labels; its arms can't be changed."""

    status, code, title = 409, "no_labels", "The session has no labelled arms"


class NoDecisionLogError(ServiceError):
    """The session was created without a decision log."""

    status, code, title = 409, "no_decision_log", "The session keeps no decision log"


class SessionHaltedError(ServiceError):
    """The session is halted: `{"halted": false}` first, which lets the learner act again."""

    status, code, title = 409, "session_halted", "The session is halted"


class UnknownSegmentError(ServiceError):
    """The session does not keep this segment: it was never played, or others were played since."""

    status, code, title = 404, "unknown_segment", "The session does not keep this segment"


class NoEligibleArmError(ServiceError):
    """None of the arms that may be drawn can be drawn. No slot was opened."""

    status, code, title = 409, "no_eligible_arm", "No arm that may be drawn is left"


class IdempotencyConflictError(ServiceError):
    """The idempotency key was used before with another body."""

    status, code, title = 422, "idempotency_conflict", "The Idempotency-Key was used with another body"
