"""What goes wrong in the service itself, or in its store."""

from __future__ import annotations

from .base import ServiceError


class StateCorruptError(ServiceError):
    """The stored state can't be read: it was changed by hand or written by a newer version."""

    status, code, title = 500, "state_corrupt", "The stored state of this session can't be read"


class InternalError(ServiceError):
    """The service failed unexpectedly; its log has the reason."""

    status, code, title = 500, "internal_error", "The service failed to answer"


class OverloadedError(ServiceError):
    """Too many requests wait in this worker, or it is stopping. Retry with the same ids."""

    status, code, title, retry = 503, "overloaded", "Too many requests are waiting", True


class StoreUnavailableError(ServiceError):
    """The store does not answer or refuses commands. Retry with the same ids.

    The text says why, and names no secret.
    """

    status, code, title, retry = 503, "store_unavailable", "The store is not available", True
