"""Gives every request an id, counts and times it, logs it, and answers it when a stop cancels it.

Plain ASGI, as Starlette's middleware classes cost more time than an act.
"""

from __future__ import annotations

import asyncio
import random
import re
import time
from collections.abc import Iterable
from http import HTTPMethod
from typing import TYPE_CHECKING, Any

from fastapi.routing import APIRoute
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ...asgi_scope import ERROR_IN_SCOPE, ID_IN_SCOPE, KEY_IN_SCOPE
from ...errors import NotFoundError, OverloadedError
from ...telemetry import logs
from ...telemetry.metrics import OTHER
from ..access import Logged, RouteAccess
from ..connection_errors import REQUEST_ID, reason_of
from ..problems import problem
from ..routes import dashboard, docs
from ..runtime import Runtime

if TYPE_CHECKING:
    from ...telemetry.tracing import Spans

_TRACE = re.compile(rb"[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}(-.*)?", re.DOTALL)
"""A ``traceparent``: https://www.w3.org/TR/trace-context. Later versions may add parts."""
_SANE_ID = re.compile(rb"[!-~](?:[ -~]{0,126}[!-~])?")
"""An id that a client may give its request: short and printable."""
_MOUNTED = frozenset({docs.ASSETS, dashboard.ASSETS})
STOPPING = "The service is stopping; what this request asked may have been done or not: send it again"


class RequestLogMiddleware:
    """Wraps an application: gives each request an id, and counts, times and logs it.

    Parameters
    ----------
    app : the application
    routes : those of the application, which say what successes are logged
    runtime : has metrics, ids for requests that bring none, and the share of successes to log
    spans : gets the status and route of each request; None if requests are not traced
    """

    def __init__(self, app: ASGIApp, routes: RouteAccess, runtime: Runtime, spans: Spans | None) -> None:
        self._app = app
        self._metrics = runtime.metrics
        self._sample = runtime.settings.log_sample
        self._retry_after = runtime.settings.retry_after_seconds
        self._new_ids = runtime.request_ids
        self._spans = spans
        self._logged = {
            (method, route.path): declared.logged
            for route, declared in routes
            if isinstance(route, APIRoute)
            for method in route.methods or ()
        }
        self._last_status: dict[str, int] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, but no path with an encoded slash."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = time.perf_counter()
        given = next((value for name, value in scope["headers"] if name == REQUEST_ID), b"")
        scope[ID_IN_SCOPE] = request_id = given if _SANE_ID.fullmatch(given) else next(self._new_ids)
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

        raw = scope.get("raw_path") or b""
        try:
            if b"%2f" in raw or b"%2F" in raw:  # Proxies may see other parts of the path there.
                self._metrics.problems[NotFoundError.code]()
                await problem(NotFoundError(), self._retry_after)(scope, receive, answer)
            else:
                await self._app(scope, receive, answer)
        except asyncio.CancelledError:
            if status:
                raise
            self._metrics.problems[OverloadedError.code]()
            response = problem(OverloadedError(STOPPING), self._retry_after, {"Connection": "close"})
            await response(scope, receive, answer)
        except Exception:
            # A fault is raised on behind its answer, which ``problems`` has logged; uvicorn would log it again.
            if not complete:
                raise

    def _answered(self, scope: Scope, status: int, seconds: float) -> None:
        route: Any = scope.get("route")
        template = _path_of_other(scope) if route is None else route.path
        method, path = self._metrics.answered(scope["method"], template, status, seconds)
        logged = self._logged.get((method, path), Logged.ALL)
        if logged is Logged.CHANGES:
            is_sampled = self._is_as_before(path, status)
        else:
            is_sampled = logged is Logged.SAMPLE and status < 400
        skipped = is_sampled and random.random() >= self._sample  # noqa: S311 - a sample is no secret
        if not skipped or self._spans is not None:
            self._report(scope, method, path, status, seconds, is_logged=not skipped)

    def _report(
        self, scope: Scope, method: str, route: str, status: int, seconds: float, *, is_logged: bool
    ) -> None:
        request_id = scope[ID_IN_SCOPE].decode("ascii")
        session = logs.shown((scope.get("path_params") or {}).get("session_id"))
        if self._spans is not None:
            self._spans.answered(method=method, route=route, status=status, request_id=request_id, session=session)
        if is_logged:
            logs.request(
                request_id=request_id,
                method=_shown_method(scope["method"]),
                route=route,
                status=status,
                duration_ms=round(seconds * 1000, 3),
                api_key=None if (key := scope.get(KEY_IN_SCOPE)) is None else key.name,
                session=session,
                client=logs.shown(peer[0]) if (peer := scope.get("client")) else None,
                trace_id=_trace_id(scope["headers"]) if self._spans is None else self._spans.trace_id(),
                **reason_of(scope.get(ERROR_IN_SCOPE)),
            )

    def _is_as_before(self, route: str, status: int) -> bool:
        """Return whether the route's answer before had the same status."""
        before = self._last_status.get(route, 200)
        self._last_status[route] = status
        return status == before


def _shown_method(method: str) -> str:
    """Return a method of the HTTP standards as it is, and any other text as ``other``, as it may be long."""
    return method if method in HTTPMethod.__members__ else OTHER


def _path_of_other(scope: Scope) -> str:
    """Return the path of a request without a route, or of what is mounted there."""
    mounted = str(scope.get("root_path") or "").rpartition("/")[2]
    return f"/{mounted}" if mounted in _MOUNTED else str(scope["path"])


def _trace_id(headers: Iterable[tuple[bytes, bytes]]) -> str | None:
    """Return the trace that the client is in, by its ``traceparent``."""
    for name, value in headers:
        if name == b"traceparent" and (found := _TRACE.fullmatch(value)) and found[1].strip(b"0"):
            return found[1].decode("ascii")
    return None
