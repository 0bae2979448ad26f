"""Names under which the service keeps what it knows of a request in the ASGI scope."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

ID_IN_SCOPE = "bandit.request_id"
"""The id of the request, as bytes."""
KEY_IN_SCOPE = "bandit.api_key"
"""The API key of the request; it is not there where the service has no keys."""
ERROR_IN_SCOPE = "bandit.error"
"""The error that the request was answered with, if any."""
IS_GONE = "bandit.is_gone"
"""Among the extensions of the scope: a function that says whether the client has left. Not every server sets it."""


def is_gone_of(scope: Mapping[str, Any]) -> Callable[[], bool] | None:
    """Return what says whether the client of a request has left; None where nobody knows."""
    is_gone: Callable[[], bool] | None = scope.get("extensions", {}).get(IS_GONE)
    return is_gone
