"""What surrounds every request: its id, its count and time, its line in the log, its end at a stop.

Plain ASGI, as Starlette's middleware classes cost more than acting does.
"""

from __future__ import annotations

import asyncio
import itertools
import random
import re
import secrets
import time
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from fastapi import FastAPI, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ...api_keys import IN_SCOPE, read_keys
from ...errors import NotFoundError, OverloadedError, ServiceError
from ...settings import Settings
from ...telemetry import logs
from ...telemetry.metrics import Metrics
from ..problems import ID_IN_SCOPE, problem
from ..routes.docs import ASSETS
from .authentication import ApiKeyMiddleware

if TYPE_CHECKING:
    from ...telemetry.tracing import Spans

REQUEST_ID = b"x-request-id"
_SANE_ID = re.compile(rb"[!-~](?:[ -~]{0,126}[!-~])?")
STOPPING = "The service is stopping; what this request asked may have been done or not: send it again"


def install(app: FastAPI, metrics: Metrics, settings: Settings, spans: Spans | None) -> None:
    """Put it around everything else, Starlette's own handler of faults included."""
    build = app.build_middleware_stack
    keys = read_keys(settings)
    ids = _ids()
    app.state.refuse = ConnectionErrorResponder(metrics, settings, ids)

    def surrounded() -> ASGIApp:
        inner = ApiKeyMiddleware(build(), keys, metrics, settings) if keys else build()
        surroundings = RequestLogMiddleware(inner, metrics, settings, ids, spans)
        return surroundings if spans is None else spans.around(surroundings)

    app.build_middleware_stack = surrounded  # type: ignore[method-assign]


class ConnectionErrorResponder:
    """Answers to what never became a request: counted, logged and shaped like those to requests."""

    def __init__(self, metrics: Metrics, settings: Settings, new_ids: Iterator[bytes]) -> None:
        self._metrics = metrics
        self._retry_after = settings.retry_after_seconds
        self._new_ids = new_ids

    def __call__(self, error: ServiceError) -> Response:
        """Tell of an error; the connection ends with it."""
        self._metrics.problems[error.code]()
        method, route = self._metrics.answered("", "", error.status, 0.0)
        request_id = next(self._new_ids).decode("ascii")
        logs.request(
            request_id=request_id,
            method=method,
            route=route,
            status=error.status,
            duration_ms=0.0,
            api_key=None,
            session=None,
        )
        headers = {"Connection": "close", REQUEST_ID.decode("ascii"): request_id}
        return problem(error, self._retry_after, headers)


class RequestLogMiddleware:
    """The outermost application but for spans."""

    def __init__(
        self, app: ASGIApp, metrics: Metrics, settings: Settings, new_ids: Iterator[bytes], spans: Spans | None
    ) -> None:
        self._app = app
        self._metrics = metrics
        self._sample = settings.log_sample
        self._retry_after = settings.retry_after_seconds
        self._new_ids = new_ids
        self._spans = spans
        self._readiness = 200

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = time.perf_counter()
        scope[ID_IN_SCOPE] = request_id = _given(scope["headers"]) or next(self._new_ids)
        status, complete = 0, False

        async def answer(message: Message) -> None:
            nonlocal status, complete
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message.get("headers", ()), (REQUEST_ID, request_id)]
            elif not message.get("more_body", False):
                complete = True
                self._answered(scope, status, time.perf_counter() - started)
            await send(message)

        try:
            await self._serve(scope, receive, answer)
        except asyncio.CancelledError:
            if status:
                raise
            self._metrics.problems[OverloadedError.code]()
            response = problem(OverloadedError(STOPPING), self._retry_after, {"Connection": "close"})
            await response(scope, receive, answer)
        except Exception:
            if not complete:
                raise

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve it, unless a slash within a part of its path was hidden from whoever looked at the path before."""
        if b"%2f" in (raw := scope.get("raw_path") or b"") or b"%2F" in raw:
            self._metrics.problems[NotFoundError.code]()
            await problem(NotFoundError(), self._retry_after)(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    def _answered(self, scope: Scope, status: int, seconds: float) -> None:
        method, route = self._metrics.answered(scope["method"], _template(scope), status, seconds)
        no_news = self._is_no_news(route, status) and random.random() >= self._sample  # noqa: S311 - a sample is no secret
        if no_news and self._spans is None:
            return
        request_id = scope[ID_IN_SCOPE].decode("ascii")
        session = logs.shown((scope.get("path_params") or {}).get("session_id"))
        if self._spans is not None:
            self._spans.answered(method=method, route=route, status=status, request_id=request_id, session=session)
        if not no_news:
            logs.request(
                request_id=request_id,
                method=method,
                route=route,
                status=status,
                duration_ms=round(seconds * 1000, 3),
                api_key=None if (key := scope.get(IN_SCOPE)) is None else key.name,
                session=session,
            )

    def _is_no_news(self, route: str, status: int) -> bool:
        if route == logs.READINESS:
            before, self._readiness = self._readiness, status
            return status == before
        return status < 400 and route in logs.HOT_ROUTES


def _template(scope: Scope) -> str:
    """The route's template; of what FastAPI serves without a route, the path."""
    route: Any = scope.get("route")
    if route is not None:
        return str(route.path)
    return f"/{ASSETS}" if scope.get("root_path") else str(scope["path"])


def _given(headers: Iterable[tuple[bytes, bytes]]) -> bytes | None:
    """The client's own id where it may stand in a header and in a line of the log."""
    for name, value in headers:
        if name == REQUEST_ID:
            return value if _SANE_ID.fullmatch(value) else None
    return None


def _ids() -> Iterator[bytes]:
    """Ids no other process makes."""
    process = secrets.token_hex(8)
    return (f"{process}-{number:x}".encode() for number in itertools.count(1))
