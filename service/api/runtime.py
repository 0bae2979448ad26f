"""What the requests of one process share."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from fastapi import Request

from ..api_keys import KeyRing
from ..sessions.service import Readiness, Sessions
from ..settings import Settings
from ..telemetry.metrics import Metrics
from .connection_errors import ConnectionErrorResponder


@dataclass(frozen=True)
class Runtime:
    """What handlers and middleware work with; on ``app.state.runtime``, made with the application.

    Parameters
    ----------
    request_ids : for requests that bring none
    connection_errors : answers to bytes that are no request
    check_origin : gets the address and headers of a request; raises a ServiceError where another site may have
        sent it
    draining : whether the service is about to stop, and still serves
    """

    settings: Settings
    api_keys: KeyRing
    metrics: Metrics
    sessions: Sessions
    readiness: Readiness
    request_ids: Iterator[bytes]
    connection_errors: ConnectionErrorResponder
    check_origin: Callable[[bytes, Sequence[tuple[bytes, bytes]]], None]
    draining: Callable[[], bool] = lambda: False


def runtime_of(request: Request) -> Runtime:
    """Return what the process that serves a request shares among its requests."""
    runtime: Runtime = request.app.state.runtime
    return runtime
