"""Asks every request for its API key before anything of it is read."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from starlette.types import ASGIApp, Receive, Scope, Send

from ... import api_keys
from ...api_keys import ApiKey
from ...errors import ForbiddenError, ServiceError, UnauthorizedError, UnknownSessionError
from ...settings import Settings
from ...telemetry.metrics import Metrics
from ..problems import problem
from ..routes.docs import ASSETS

_OF_CLIENTS = re.compile(r"/v1/sessions/[^/]+(/act|/acts|/feedback|/feedbacks)?")
_OF_A_SESSION = re.compile(r"/v1/sessions/([^/]+)")
_METRICS = "/metrics"
_CHALLENGE: Mapping[str, str] = {"WWW-Authenticate": 'Bearer realm="delayed-bandits"'}


class ApiKeyMiddleware:
    """The application for holders of keys; health checks are open to all."""

    def __init__(self, app: ASGIApp, keys: Sequence[ApiKey], metrics: Metrics, settings: Settings) -> None:
        self._app = app
        self._keys = keys
        self._metrics = metrics
        self._retry_after = settings.retry_after_seconds
        self._open = {"/livez", "/readyz"} | ({_METRICS} if settings.open_metrics else set())
        if settings.open_docs:
            self._open |= {"/docs", "/openapi.json"}
        self._open_assets = settings.open_docs

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request, or refuse it."""
        if scope["type"] == "http" and not self._is_open(scope["path"]):
            try:
                scope[api_keys.IN_SCOPE] = key = self._identify(scope)
                _authorize(key, scope["method"], scope["path"])
            except ServiceError as error:
                self._metrics.problems[error.code]()
                challenge = _CHALLENGE if isinstance(error, UnauthorizedError) else None
                await problem(error, self._retry_after, challenge)(scope, receive, send)
                return
        await self._app(scope, receive, send)

    def _is_open(self, path: str) -> bool:
        return path in self._open or (self._open_assets and path.startswith(f"/{ASSETS}/"))

    def _identify(self, scope: Scope) -> ApiKey:
        secrets = _secrets(scope)
        if len(secrets) > 1:
            raise UnauthorizedError("The request carries more than one API key")
        key = api_keys.find(secrets[0], self._keys) if secrets else None
        if key is None:
            raise UnauthorizedError
        return key


def _secrets(scope: Scope) -> list[bytes]:
    """What the request gives as keys, once each."""
    found = []
    for name, value in scope["headers"]:
        if name == b"authorization":
            scheme, _, secret = value.partition(b" ")
            found.append(secret.strip() if scheme.lower() == b"bearer" else b"")
        elif name == b"x-api-key":
            found.append(value)
    return list(dict.fromkeys(found))


def _authorize(key: ApiKey, method: str, path: str) -> None:
    if key.role == "client":
        call = _OF_CLIENTS.fullmatch(path)
        if call is None or method != ("POST" if call[1] else "GET"):
            raise ForbiddenError("This API key may only act, send feedback and view sessions")
    if key.session_prefix:
        session = _OF_A_SESSION.match(path)
        if session is not None and not session[1].startswith(key.session_prefix):
            raise UnknownSessionError
        if path == _METRICS:
            raise ForbiddenError("Metrics cover all sessions; this API key has a session prefix")
