"""Requests that do not fit the session that they are about."""

from __future__ import annotations

from collections.abc import Sequence

from .base import FieldError, ServiceError


class UnknownSessionError(ServiceError):
    """There is no session with this id, or it has expired or been deleted."""

    status, code, title = 404, "unknown_session", "There is no session with this id"


class SessionExistsError(ServiceError):
    """A session with this id exists, and it was created with other fields."""

    status, code, title = 409, "session_exists", "A session with this id and another specification exists"

    @classmethod
    def of(cls, errors: Sequence[FieldError], paths: Sequence[str]) -> SessionExistsError:
        """Make the error for a session that differs in one or more fields; its text names them, and what to do.

        Parameters
        ----------
        errors : of whole fields
        paths : of what differs, as deep as can be told
        """
        return cls(f"{cls.title}; it differs in {', '.join(paths)}. {_TO_CHANGE}", errors=errors)


_TO_CHANGE = (
    "PATCH the session to change expiry, idle_ttl_seconds or floor, PUT its arms (the client's `ensure` does "
    "both), or choose another session_id"
)


class SurplusFeedbackError(ServiceError):
    """Some events match no outstanding decision. No event of the request was applied."""

    status, code, title = 409, "surplus_feedback", "Some events answer no outstanding decision"
    events: int = 0
    """Events in the request."""
    surplus: int = 0
    """How many of them are surplus."""

    @classmethod
    def of(cls, text: str, events: int, indexes: Sequence[int]) -> SurplusFeedbackError:
        """Make the error for a request of which some events are surplus.

        Parameters
        ----------
        text : for the client
        events : number of events in the request
        indexes : places of the surplus ones in the request, from 0
        """
        error = cls(text, indexes=indexes)
        error.events, error.surplus = events, len(indexes)
        return error


class NoLabelsError(ServiceError):
    """The session has no arm labels; its arms can't be changed."""

    status, code, title = 409, "no_labels", "The session has no labelled arms"


class NoDecisionLogError(ServiceError):
    """The session was created without a decision log."""

    status, code, title = 409, "no_decision_log", "The session keeps no decision log"


class UnknownSegmentError(ServiceError):
    """The session does not keep this segment: it was never played, or others were played since."""

    status, code, title = 404, "unknown_segment", "The session does not keep this segment"


class NoEligibleArmError(ServiceError):
    """None of the arms that may be drawn can be drawn. No slot was opened."""

    status, code, title = 409, "no_eligible_arm", "No arm that may be drawn is left"


class OlderSchemaError(ServiceError):
    """The service still writes an older schema of states (`BANDIT_WRITE_SCHEMA`), which can't hold this."""

    status, code, title = 409, "older_schema", "States are still written in an older schema, which can't hold this"

    @classmethod
    def of(cls, field: str, schema: int) -> OlderSchemaError:
        """Make the error for a field, or a value of it, that states of this schema can't hold.

        Parameters
        ----------
        field : its path in the body
        schema : the newest that may be written
        """
        message = f"needs states of a newer schema than {schema}, up to which BANDIT_WRITE_SCHEMA allows them"
        return cls(f"{field}: {message}", errors=[FieldError(field, message)])


class IdempotencyConflictError(ServiceError):
    """The idempotency key was used before with another body."""

    status, code, title = 422, "idempotency_conflict", "The Idempotency-Key was used with another body"
