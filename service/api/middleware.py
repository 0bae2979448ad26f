"""What surrounds every request: where it comes from, its API key, its id, log line and labels."""

from __future__ import annotations

import asyncio
import ipaddress
import random
import re
import time
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from http import HTTPMethod
from typing import TYPE_CHECKING, Any

from fastapi import FastAPI, Request, Response
from fastapi.routing import APIRoute
from starlette.routing import Match
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from .. import api_keys
from ..api_keys import ApiKey, Role, needs_keys
from ..errors import (
    CrossSiteError,
    ForbiddenError,
    ForeignHostError,
    NotFoundError,
    OverloadedError,
    ServiceError,
    UnauthorizedError,
    UnknownSessionError,
)
from ..learners import REGISTRY
from ..settings import Settings
from ..telemetry import logs
from ..telemetry.logs import ERROR_IN_SCOPE, ID_IN_SCOPE, KEY_IN_SCOPE
from ..telemetry.metrics import OTHER, Labels
from .calls import Calls, send_but_last
from .json_body import JSON
from .path_operations import PathOperation
from .problems import REQUEST_ID, problem, reason_of
from .routes import ROUTES, service_routes
from .routes.sessions import router as sessions
from .runtime import ADMINS, Access, Logged, RouteAccess, Runtime, access_of

if TYPE_CHECKING:
    from ..telemetry.tracing import Spans


# -- Which requests a service without API keys serves: none that a page of another site made a browser send.
#
# Any page may send requests to addresses that only its visitor reaches. A browser says where they come from:
# ``Host`` is the name that it looked up (an attacker's own name may lead to this machine: DNS rebinding),
# ``Origin`` and ``Sec-Fetch-Site`` tell the page. With API keys nothing of this is checked, as such a page knows
# no key.

ANY = "*"
"""As a setting: every host, or every origin."""
_PRIVATE = (".local", ".internal", ".test", ".home.arpa")
"""Ends of names that nobody can register: RFC 6762, RFC 8375, RFC 6761 and ICANN's .internal."""
_ORIGIN = re.compile(r"https?://(?P<host>[^/?#@\s,\\]+)")


class LocalRequests:
    """Accepts requests to local names, and from pages of local names, and those that the settings add.

    On a loopback address the local names are ``localhost``, those below it, and loopback addresses. On any other
    address they are also IP addresses and names that nobody can register: a browser can't be led from such a name
    to another machine.
    """

    def __init__(self, settings: Settings) -> None:
        self._hosts = frozenset(map(_plain_host, _listed(settings.allowed_hosts)))
        self._origins = frozenset(_listed(settings.allowed_origins))
        self._own = _plain_host(settings.host)
        self._on_loopback = is_local(self._own)

    def check(self, url: bytes, headers: Iterable[tuple[bytes, bytes]]) -> None:
        """Refuse what another site may have sent.

        Parameters
        ----------
        url : the address as it was sent; of one with a host, that is checked like ``Host``
        headers : names in small letters. One without ``Host`` (HTTP/1.0) comes from no browser

        Raises
        ------
        ForeignHostError, CrossSiteError
        """
        given = [(name, value.strip().decode("latin-1").lower()) for name, value in headers]
        named = {host_name(value) for name, value in given if name == b"host"}
        if not url.startswith(b"/") and url != b"*":
            authority = re.split(rb"[/?#]", url.partition(b"://")[2], maxsplit=1)[0]  # Neither a path nor ``*``.
            named.add(host_name(authority.decode("latin-1")))
        if not all(map(self._is_served, named)):
            raise ForeignHostError
        origins = {value for name, value in given if name == b"origin"}
        if not all(self._is_welcome(origin, named) for origin in origins):
            raise CrossSiteError
        listed = ANY in self._origins or (origins and origins <= self._origins)
        if (b"sec-fetch-site", "cross-site") in given and not listed:
            raise CrossSiteError

    def _is_served(self, host: str) -> bool:
        known = is_local(host) or host == self._own or ANY in self._hosts or host in self._hosts
        return known or (not self._on_loopback and _is_private(host))

    def _is_welcome(self, origin: str, named: set[str]) -> bool:
        """Return whether a page may send requests: one of this service, a local name, or an allowed origin."""
        if ANY in self._origins or origin in self._origins:
            return True
        found = _ORIGIN.fullmatch(origin)
        host = "" if found is None else host_name(found["host"])
        return is_local(host) or (host != "" and host in named)


def check_origin(settings: Settings) -> Callable[[bytes, Iterable[tuple[bytes, bytes]]], None]:
    """Return ``LocalRequests.check`` for a service without API keys, and for another one what refuses nothing."""
    return (lambda _url, _headers: None) if needs_keys(settings) else LocalRequests(settings).check


def _listed(setting: str) -> list[str]:
    return [each.strip().lower() for each in setting.split(",") if each.strip()]


@lru_cache(maxsize=64)
def host_name(text: str) -> str:
    """Return the host of a host and a port: names without their last dot, addresses in one form.

    Parameters
    ----------
    text : as ``Host`` has it: IPv6 in brackets, the port after a colon, or none
    """
    text = text.lower()
    host = text.partition("]")[0] + "]" if text.startswith("[") else text.partition(":")[0].removesuffix(".")
    address = _address(host.strip("[]"))
    return host if address is None else str(address)


def _plain_host(text: str) -> str:
    """Return what ``host_name`` does, of a host without a port: IPv6 may lack its brackets."""
    return host_name(f"[{text}]" if ":" in text and not text.startswith("[") else text)


@lru_cache(maxsize=64)
def is_local(host: str) -> bool:
    """Return whether a host, as ``host_name`` returns it, is this machine whoever looks it up."""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    address = _address(host)
    mapped = getattr(address, "ipv4_mapped", None)
    return address is not None and (mapped or address).is_loopback


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def _is_private(host: str) -> bool:
    return host != "" and ("." not in host or _address(host) is not None or host.endswith(_PRIVATE))


# -- Asks every request for its API key before anything of it is read.

_MAY_ONLY: Mapping[Role, str] = {
    "reader": "This API key may only read",
    "client": "This API key may only act, send feedback and view sessions",
    "admin": ForbiddenError.title,
}


class KeyCheck:
    """Admits holders of keys; routes that are open serve everybody.

    Parameters
    ----------
    routes : of the application, with who may call them
    runtime : has the keys, which may change while it runs
    """

    def __init__(self, routes: RouteAccess, runtime: Runtime) -> None:
        self._routes = routes
        self._runtime = runtime

    def admit(self, scope: Scope, call: PathOperation | None) -> None:
        """Note the key of a request in its scope, or refuse the request.

        Parameters
        ----------
        scope : of the request
        call : its operation; None where it is no call of the API
        """
        match, access = self._find(scope) if call is None else (Match.FULL, call.access)
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
        """Return what the request's route says: the first with path and method, else the first with the path."""
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


# -- Gives every request an id, counts and times it, logs it, and answers it when a stop cancels it.
#
# Plain ASGI, as Starlette's middleware classes cost more time than an act.

_TRACE = re.compile(rb"[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}(-.*)?", re.DOTALL)
"""A ``traceparent``: https://www.w3.org/TR/trace-context. Later versions may add parts."""
_SANE_ID = re.compile(rb"[!-~](?:[ -~]{0,126}[!-~])?")
"""An id that a client may give its request: short and printable."""
_MOUNTED = frozenset({service_routes.ASSETS, service_routes.ASSETS_OF_DASHBOARD})
_REPLAYED = (b"idempotent-replayed", b"true")
"""Header of an answer that an earlier request with the same key got."""
_JSON_TYPE = (b"content-type", JSON.encode())
STOPPING = "The service is stopping; what this request asked may have been done or not: send it again"


class Requests:
    """What a server calls: answers calls of the API, and hands all other requests on.

    It gives each request an id, asks for its API key, and counts, times and logs its answer.

    Parameters
    ----------
    app : answers what is no call of the API
    described : FastAPI's application, with the routes, which say who may call them and what successes are logged
    runtime : has metrics, ids for requests that bring none, and the share of successes to log
    spans : gets the status and route of each request; None if requests are not traced
    """

    def __init__(self, app: ASGIApp, described: FastAPI, runtime: Runtime, spans: Spans | None) -> None:
        routes = [(route, access_of(route)) for route in described.routes]
        self._app = app
        self._calls = Calls(described, runtime)
        self._keys = KeyCheck(routes, runtime) if needs_keys(runtime.settings) else None
        self._on_error: Mapping[Any, Callable[..., Any]] = described.exception_handlers
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
        started, calls, app = time.perf_counter(), self._calls, self._app
        given = dict(reversed(scope["headers"]))  # Of each name the first.
        request_id = given.get(REQUEST_ID)
        if request_id is None or not _SANE_ID.fullmatch(request_id):
            request_id = next(self._new_ids)
        scope[ID_IN_SCOPE] = request_id
        try:
            raw = scope.get("raw_path") or b""
            if b"%2f" in raw or b"%2F" in raw:  # Proxies may see other parts of the path there.
                raise NotFoundError
            operation = calls.find(scope)
            if self._keys is not None:
                self._keys.admit(scope, operation)
            if operation is not None:
                scope["route"] = operation.route
                body = await calls.receive(operation, scope, given, receive)
                reply = await calls.reply(operation, scope, given, body)
        except ServiceError as error:
            # The scope keeps it as long as the connection is idle, and its frames would keep the body.
            error.__traceback__ = error.__context__ = error.__cause__ = None
            operation, app = None, await self._on_error[ServiceError](Request(scope), error)
        except asyncio.CancelledError:
            operation, app = None, self._stopping()
        except Exception as error:
            operation, app = None, await self._on_error[Exception](Request(scope), error)
        if operation is None:
            await self._hand_on(app, scope, receive, send, started)
            return
        answer, status = reply.body, reply.status
        headers = [_REPLAYED] if reply.replayed else []
        if status != 204:
            if isinstance(answer, bytes):
                headers.append((b"content-length", b"%d" % len(answer)))
            headers.append(_JSON_TYPE)
        headers.append((REQUEST_ID, request_id))
        await send({"type": "http.response.start", "status": status, "headers": headers})
        if not isinstance(answer, bytes):
            answer = await send_but_last(answer, scope, send)
        self._answered(scope, status, time.perf_counter() - started)
        await send({"type": "http.response.body", "body": answer})

    def _stopping(self) -> Response:
        self._metrics.problems[OverloadedError.code]()
        return problem(OverloadedError(STOPPING), self._retry_after, {"Connection": "close"})

    async def _hand_on(self, app: ASGIApp, scope: Scope, receive: Receive, send: Send, started: float) -> None:
        """Let an application, or a response, answer a request; the answer gets the request's id."""
        status, complete = 0, False

        async def answer(message: Message) -> None:
            nonlocal status, complete
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message.get("headers", ()), (REQUEST_ID, scope[ID_IN_SCOPE])]
            elif not message.get("more_body", False):
                complete = True
                self._answered(scope, status, time.perf_counter() - started)
            await send(message)

        try:
            await app(scope, receive, answer)
        except asyncio.CancelledError:
            if status:
                raise
            await self._stopping()(scope, receive, answer)
        except Exception:
            # A fault is raised on behind its answer, which ``problems`` has logged; uvicorn would log it again.
            if not complete:
                raise

    def _answered(self, scope: Scope, status: int, seconds: float) -> None:
        if (route := scope.get("route")) is not None:
            template = route.path
        else:  # The path of what is mounted there, or of the request.
            mounted = str(scope.get("root_path") or "").rpartition("/")[2]
            template = f"/{mounted}" if mounted in _MOUNTED else str(scope["path"])
        method, path = self._metrics.answered(scope["method"], template, status, seconds)
        logged = self._logged.get((method, path), Logged.ALL)
        if logged is Logged.CHANGES:
            is_sampled = self._last_status.get(path, 200) == status
            self._last_status[path] = status
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
            sent = scope["method"]  # Which may be long.
            logs.request(
                request_id=request_id,
                method=sent if sent in HTTPMethod.__members__ else OTHER,
                route=route,
                status=status,
                duration_ms=round(seconds * 1000, 3),
                api_key=None if (key := scope.get(KEY_IN_SCOPE)) is None else key.name,
                session=session,
                client=logs.shown(peer[0]) if (peer := scope.get("client")) else None,
                trace_id=_trace_id(scope["headers"]) if self._spans is None else self._spans.trace_id(),
                **reason_of(scope.get(ERROR_IN_SCOPE)),
            )


def _trace_id(headers: Iterable[tuple[bytes, bytes]]) -> str | None:
    """Return the trace that the client is in, by its ``traceparent``."""
    for name, value in headers:
        if name == b"traceparent" and (found := _TRACE.fullmatch(value)) and found[1].strip(b"0"):
            return found[1].decode("ascii")
    return None


# -- The values that labels of metrics can have: known from the code, so that requests add none.


def labels() -> Labels:
    """Collect the routes, problem codes and learners; of what is not in the OpenAPI document, GET alone."""
    routes: list[tuple[str, str]] = []
    for route in ROUTES:
        methods = route.methods if isinstance(route, APIRoute) else ("GET",)
        routes += [(method, getattr(route, "path", "")) for method in methods or ()]
    return Labels(routes, sorted({error.code for error in ServiceError.__subclasses__()}), REGISTRY)
