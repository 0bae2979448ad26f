"""Asks every request for its API key before anything of it is read."""

from __future__ import annotations

from collections.abc import Mapping

from starlette.routing import Match
from starlette.types import ASGIApp, Receive, Scope, Send

from ... import api_keys
from ...api_keys import ApiKey, Role
from ...asgi_scope import KEY_IN_SCOPE
from ...errors import ForbiddenError, ServiceError, UnauthorizedError, UnknownSessionError
from ..access import ADMINS, Access, RouteAccess
from ..problems import problem
from ..routes.sessions import router as sessions
from ..runtime import Runtime

_CHALLENGE: Mapping[str, str] = {"WWW-Authenticate": 'Bearer realm="delayed-bandits"'}


_MAY_ONLY: Mapping[Role, str] = {
    "reader": "This API key may only read",
    "client": "This API key may only act, send feedback and view sessions",
    "admin": ForbiddenError.title,
}


class ApiKeyMiddleware:
    """Another application for holders of keys; routes that are open serve everybody.

    Parameters
    ----------
    app : what is asked once a request may pass
    routes : of that application, with who may call them
    runtime : has the keys, which may change while it runs
    """

    def __init__(self, app: ASGIApp, routes: RouteAccess, runtime: Runtime) -> None:
        self._app = app
        self._routes = routes
        self._runtime = runtime

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request, or refuse it."""
        if scope["type"] == "http":
            try:
                self._admit(scope)
            except ServiceError as error:
                self._runtime.metrics.problems[error.code]()
                challenge = _CHALLENGE if isinstance(error, UnauthorizedError) else None
                retry_after = self._runtime.settings.retry_after_seconds
                await problem(error, retry_after, challenge)(scope, receive, send)
                return
        await self._app(scope, receive, send)

    def _admit(self, scope: Scope) -> None:
        match, access = self._find(scope)
        if access is not None and access.is_open(self._runtime.settings):
            return
        scope[KEY_IN_SCOPE] = key = self._identify(scope)
        # The router answers calls of no route, and shows which paths exist, so only admins get its answer.
        roles = access.roles if access is not None and match is Match.FULL else ADMINS
        if key.role not in roles:
            raise ForbiddenError(_MAY_ONLY[key.role])
        if key.session_prefix:
            _check_prefix(key.session_prefix, scope["path"], access)

    def _find(self, scope: Scope) -> tuple[Match, Access | None]:
        """Return what the router's route says: the first with path and method, else the first with the path."""
        with_path = None
        for route, access in self._routes:
            match, _ = route.matches(scope)
            if match is Match.FULL:
                return match, access
            if match is Match.PARTIAL and with_path is None:
                with_path = access
        return (Match.NONE if with_path is None else Match.PARTIAL), with_path

    def _identify(self, scope: Scope) -> ApiKey:
        secrets = _secrets(scope)
        if len(secrets) > 1:
            raise UnauthorizedError("The request carries more than one API key")
        if not any(secrets):
            raise UnauthorizedError.of("and the request has none")
        key = api_keys.find(secrets[0], self._runtime.api_keys.keys)
        if key is None:
            raise UnauthorizedError.of("and the service does not know the one in the request")
        return key


def _secrets(scope: Scope) -> list[bytes]:
    """Return what the request gives as keys, once each."""
    found = []
    for name, value in scope["headers"]:
        if name == b"authorization":
            scheme, _, secret = value.partition(b" ")
            found.append(secret.strip() if scheme.lower() == b"bearer" else b"")
        elif name == b"x-api-key":
            found.append(value)
    return list(dict.fromkeys(found))


def _check_prefix(prefix: str, path: str, access: Access | None) -> None:
    """Refuse paths of sessions outside the prefix, and routes with data of all sessions."""
    below = path.removeprefix(f"{sessions.prefix}/")
    session_id = below.partition("/")[0] if below != path else ""
    if access is not None and access.names_no_session:
        return
    if session_id and not session_id.startswith(prefix):
        raise UnknownSessionError
    if access is not None and access.of_all_sessions:
        raise ForbiddenError("Metrics cover all sessions; this API key has a session prefix")
