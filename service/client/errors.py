"""What can go wrong in a call, as exceptions: by cause, and for refusals by the service's ``code``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


class BanditsError(Exception):
    """Base of all errors of this client; its text says what to do."""


class NoAnswerError(BanditsError):
    """No answer came in time: the service is away, or too slow."""

    def __str__(self) -> str:
        """Say what to do, too."""
        text = "start a service with `delayed-bandits serve`, or name its address with url= (--url in commands)"
        return f"{super().__str__()}; {text}"


class BadAnswerError(BanditsError):
    """The answer does not come from this service, but from a proxy, for instance."""


class ClosedError(BanditsError):
    """The client has been closed."""


class QueueFullError(BanditsError):
    """A report was dropped because too many wait."""


class ApiError(BanditsError):
    """The service refused the call.

    Attributes
    ----------
    status : of HTTP
    code : what to decide by; it stays the same, while texts may change
    detail : what was wrong, in words
    indexes : positions of the wrong events of a batch
    errors : ``{"index", "field", "message"}`` of what was wrong
    request_id : by which the service's log names the request
    retry_after : seconds that the service asks to wait
    """

    def __init__(
        self, status: int, problem: Mapping[str, Any], request_id: str | None = None, retry_after: float = 0.0
    ) -> None:
        self.status = status
        self.code = str(problem.get("code", "unknown"))
        self.detail = str(problem.get("detail") or problem.get("title") or "")
        self.indexes: Sequence[int] = problem.get("indexes") or ()
        self.errors: Sequence[Mapping[str, Any]] = problem.get("errors") or ()
        self.request_id = request_id
        self.retry_after = retry_after
        super().__init__(f"{status} {self.code}: {self.detail}")


class InvalidRequestError(ApiError):
    """The request does not match its schema or its session, or is too large."""


class AuthenticationError(ApiError):
    """There is no API key, or one that the service does not know."""

    def __str__(self) -> str:
        """Say what to do, too."""
        return f"{super().__str__()}; give api_key=, or set DELAYED_BANDITS_API_KEY"


class PermissionDeniedError(ApiError):
    """The API key, or the address that was used, does not allow this."""


class NotFoundError(ApiError):
    """There is no such thing."""


class UnknownSessionError(NotFoundError):
    """There is no session with this id; it may have expired."""


class UnknownSegmentError(NotFoundError):
    """The session does not keep this segment."""


class ConflictError(ApiError):
    """The request does not fit the state of the session."""


class SessionExistsError(ConflictError):
    """The session was created with other fields."""


class SurplusFeedbackError(ConflictError):
    """Some events match no outstanding decision."""


class NoEligibleArmError(ConflictError):
    """None of the eligible arms can be drawn."""


class IdempotencyConflictError(ConflictError):
    """The idempotency key was used before with another body."""


class UnavailableError(ApiError):
    """The service or its store can't answer at the moment."""


class InternalError(ApiError):
    """The service failed; its log has the reason."""


_BY_CODE: Mapping[str, type[ApiError]] = {
    "unknown_session": UnknownSessionError,
    "unknown_segment": UnknownSegmentError,
    "session_exists": SessionExistsError,
    "surplus_feedback": SurplusFeedbackError,
    "no_eligible_arm": NoEligibleArmError,
    "idempotency_conflict": IdempotencyConflictError,
    "foreign_host": PermissionDeniedError,
}
_BY_STATUS: Mapping[int, type[ApiError]] = {
    **dict.fromkeys((400, 405, 413, 415, 422, 431), InvalidRequestError),
    401: AuthenticationError,
    403: PermissionDeniedError,
    404: NotFoundError,
    409: ConflictError,
    500: InternalError,
    **dict.fromkeys((408, 429, 502, 503, 504), UnavailableError),
}


def api_error(
    status: int, problem: Mapping[str, Any], request_id: str | None = None, retry_after: float = 0.0
) -> ApiError:
    """Return the error of a problem: of its code's class, else of its status' class.

    Parameters
    ----------
    status : of HTTP, 300 or more
    problem : the JSON object of the answer; empty where it has none
    request_id : of the answer's header; None where it has none
    retry_after : seconds that the answer asks to wait for; 0 where it does not
    """
    kind = _BY_CODE.get(str(problem.get("code"))) or _BY_STATUS.get(status, ApiError)
    return kind(status, problem, request_id, retry_after)
