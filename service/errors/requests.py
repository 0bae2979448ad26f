"""Requests that can not be read, or name nothing that the service has."""

from __future__ import annotations

from collections.abc import Sequence

from .base import FieldError, ServiceError


class InvalidRequestError(ServiceError):
    """The request does not match its schema, or does not fit its session."""

    status, code, title = 422, "invalid_request", "The request is not valid"

    @classmethod
    def of(
        cls, field: str, message: str, index: int | None = None, logged_message: str | None = None
    ) -> InvalidRequestError:
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
    def of_all(cls, errors: Sequence[FieldError]) -> InvalidRequestError:
        """Make the error for one or more wrong fields; its text names the first.

        Parameters
        ----------
        errors : not empty
        """
        first = errors[0]
        indexes = sorted({error.index for error in errors if error.index is not None})
        reason = f"{first.logged_as or first.place}: {first.logged_message or first.message}"
        return cls(f"{first.place}: {first.message}", errors=errors, indexes=indexes, reason=reason)


class NotFoundError(ServiceError):
    """There is no such route."""

    status, code, title = 404, "not_found", "There is no such resource"

    def __init__(self, detail: str | None = None) -> None:
        super().__init__(detail or f"{self.title}; /docs lists all")


class MethodNotAllowedError(ServiceError):
    """The route exists, but does not offer this method."""

    status, code, title = 405, "method_not_allowed", "The resource does not offer this method"

    @classmethod
    def of(cls, methods: str) -> MethodNotAllowedError:
        """Make the error for a route that offers these methods.

        Parameters
        ----------
        methods : with commas between them; empty where they are not known
        """
        return cls(f"{cls.title}; it offers {methods}" if methods else None)


class PayloadTooLargeError(ServiceError):
    """The body is larger than the limit."""

    status, code, title = 413, "payload_too_large", "The body is too large"


class UnsupportedMediaTypeError(ServiceError):
    """The body is not application/json in UTF-8 without content encoding."""

    status, code, title = (
        415,
        "unsupported_media_type",
        "The body must be application/json, without Content-Encoding",
    )


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
