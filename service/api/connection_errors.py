"""Answers to bytes that never became a request, shaped like those to requests."""

from __future__ import annotations

import itertools
import secrets
from collections.abc import Iterator

from fastapi import Response

from ..errors import ServiceError
from ..settings import Settings
from ..telemetry import logs
from ..telemetry.metrics import Metrics
from .problems import problem

REQUEST_ID = b"x-request-id"
"""Header of every answer, and of requests that bring an id."""


def request_ids() -> Iterator[bytes]:
    """Make ids that no other process makes, without end."""
    process = secrets.token_hex(8)
    return (f"{process}-{number:x}".encode() for number in itertools.count(1))


def reason_of(error: ServiceError | None) -> dict[str, str | None]:
    """Return what the log line of a request says of the error that answered it; nothing of a success."""
    return {} if error is None else {"code": error.code, "reason": logs.shown(error.reason, logs.MAX_REASON_CHARS)}


class ConnectionErrorResponder:
    """Makes the answer to a malformed request; it is counted and logged as an error of no route.

    Parameters
    ----------
    metrics : count the errors by code
    settings : say after how many seconds a client may try again
    ids : for answers; the same as for requests
    """

    def __init__(self, metrics: Metrics, settings: Settings, ids: Iterator[bytes]) -> None:
        self._metrics = metrics
        self._retry_after = settings.retry_after_seconds
        self._ids = ids

    def __call__(self, error: ServiceError, client: tuple[str, int] | None) -> Response:
        """Make the answer to an error; the connection ends with it.

        Parameters
        ----------
        client : address and port of who connected; None where it is unknown
        """
        self._metrics.problems[error.code]()
        method, route = self._metrics.answered("", "", error.status, 0.0)
        request_id = next(self._ids).decode("ascii")
        logs.request(
            request_id=request_id,
            method=method,
            route=route,
            status=error.status,
            duration_ms=0.0,
            client=client[0] if client else None,
            **reason_of(error),
        )
        headers = {"Connection": "close", REQUEST_ID.decode("ascii"): request_id}
        return problem(error, self._retry_after, headers)
