"""What a request must bring to be served, by where it comes from and by its API key; and the labels of metrics."""

import ipaddress
import re
from collections.abc import Callable, Iterable, Mapping
from typing import get_args

from fastapi.routing import APIRoute
from starlette.routing import Match
from starlette.types import Scope

from .. import api_keys, errors
from ..api_keys import Role, needs_keys
from ..learners import REGISTRY
from ..sessions.pages import HintCode
from ..settings import Settings
from ..telemetry.logs import KEY_IN_SCOPE
from ..telemetry.metrics import Labels
from .path_operations import PathOperation
from .routes import ROUTES
from .routes.sessions import router as sessions
from .runtime import ADMINS, CLICKS, CLICKS_SCRIPT, Access, RouteAccess, Runtime

# -- Which requests a service without API keys serves: none that a page of another site made a browser send.
#
# Any page may send requests to addresses that only its visitor reaches. A browser says where they come from:
# ``Host`` is the name that it looked up (an attacker's own name may lead to this machine: DNS rebinding),
# ``Origin`` and ``Sec-Fetch-Site`` tell the page. With API keys nothing of this is checked, as such a page knows
# no key.

ANY = "*"
"""As a setting: every host."""
_PRIVATE = (".local", ".internal", ".test", ".home.arpa")
"""Ends of names that nobody can register: RFC 6762, RFC 8375, RFC 6761 and ICANN's .internal."""
_ORIGIN = re.compile(r"https?://(?P<host>[^/?#@\s,\\]+)")


class LocalRequests:
    """Accepts requests to local names and those that the settings add, from pages of local names; clicks of all.

    On a loopback address the local names are ``localhost``, those below it, and loopback addresses. On any other
    address they are also IP addresses and names that nobody can register: a browser can't be led from such a name
    to another machine.
    """

    def __init__(self, settings: Settings) -> None:
        allowed = [each.strip().lower() for each in settings.allowed_hosts.split(",")]
        self._hosts = frozenset(_plain_host(each) for each in allowed if each)
        root = (settings.root_path or "").encode()
        self._open = {path for each in (CLICKS, CLICKS_SCRIPT) for path in (each.encode(), root + each.encode())}
        self._own = _plain_host(settings.host)
        self._on_loopback = is_local(self._own)

    def check(self, url: bytes, headers: Iterable[tuple[bytes, bytes]]) -> bool:
        """Refuse what another site may have sent; return False for what any site may send.

        Parameters
        ----------
        url : the address as it was sent; one with a host is checked in place of ``Host``: RFC 9112, section 3.2.2
        headers : names in small letters. One without ``Host`` (HTTP/1.0) comes from no browser

        Raises
        ------
        ForeignHostError, CrossSiteError
        """
        given = [(name, value.strip().decode("latin-1").lower()) for name, value in headers]
        named = {host_name(value) for name, value in given if name == b"host"}
        if not url.startswith(b"/") and url != b"*":
            url = url.partition(b"://")[2]  # Neither a path nor ``*``.
            authority = re.split(rb"[/?#]", url, maxsplit=1)[0]
            named, url = {host_name(authority.decode("latin-1"))}, url.removeprefix(authority)
        if url.partition(b"?")[0] in self._open:
            return False
        for host in named - self._hosts - {self._own}:
            is_private = host != "" and ("." not in host or _address(host) is not None or host.endswith(_PRIVATE))
            is_here = is_local(host) or (is_private and not self._on_loopback)
            if not is_here and ANY not in self._hosts:
                raise errors.ForeignHostError
        for origin in [value for name, value in given if name == b"origin"]:
            found = _ORIGIN.fullmatch(origin)
            host = "" if found is None else host_name(found["host"])
            if not is_local(host) and (not host or host not in named):  # Neither of here nor of this service.
                raise errors.CrossSiteError
        if (b"sec-fetch-site", "cross-site") in given:
            raise errors.CrossSiteError
        return True


def check_origin(settings: Settings) -> Callable[[bytes, Iterable[tuple[bytes, bytes]]], bool]:
    """Return ``LocalRequests.check`` for a service without API keys, and for another one what refuses nothing."""
    return (lambda _url, _headers: True) if needs_keys(settings) else LocalRequests(settings).check


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


def is_local(host: str) -> bool:
    """Return whether a host, as ``host_name`` returns it, is this machine whoever looks it up."""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    address = _address(host)
    return address is not None and (getattr(address, "ipv4_mapped", None) or address).is_loopback


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


# -- Asks every request for its API key before anything of it is read.

_MAY_ONLY: Mapping[Role, str] = {
    "reader": "This API key may only read",
    "client": "This API key may only act, send feedback and view sessions",
    "admin": errors.ForbiddenError.title,
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
        if access is not None and (access.keyless or access.opened_by(self._runtime.settings)):
            return
        secrets = _secrets(scope)
        if len(secrets) > 1:
            raise errors.UnauthorizedError("The request carries more than one API key")
        if not any(secrets):
            raise errors.UnauthorizedError.of("and the request has none")
        if (key := api_keys.find(secrets[0], self._runtime.api_keys.keys)) is None:
            raise errors.UnauthorizedError.of("and the service does not know the one in the request")
        scope[KEY_IN_SCOPE] = key
        self._runtime.api_keys.take(key)
        # The router answers calls of no route, and shows which paths exist, so only admins get its answer.
        roles = access.roles if access is not None and match is Match.FULL else ADMINS
        if key.role not in roles:
            raise errors.ForbiddenError(_MAY_ONLY[key.role])
        if key.session_prefix:
            _check_prefix(key.session_prefix, scope["path"], access)

    def _find(self, scope: Scope) -> tuple[Match, Access | None]:
        """Return what the request's route says: the first with path and method, else the first with the path."""
        matches = ((route.matches(scope)[0], access) for route, access in self._routes)
        match, access = max(matches, key=lambda found: found[0].value)  # Of several like it, the first.
        return match, None if match is Match.NONE else access


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
        raise errors.UnknownSessionError
    if access is not None and access.of_all_sessions:
        raise errors.ForbiddenError("Metrics cover all sessions; this API key has a session prefix")


# -- The values that labels of metrics can have: known from the code, so that requests add none.


def labels() -> Labels:
    """Collect the routes, problem codes, learners and hints; of what is not in the OpenAPI document, GET alone."""
    routes: list[tuple[str, str]] = []
    for route in ROUTES:
        methods = route.methods if isinstance(route, APIRoute) else ("GET",)
        routes += [(method, getattr(route, "path", "")) for method in methods or ()]
    kinds = errors.ServiceError.__subclasses__()
    kinds += [each for kind in kinds for each in kind.__subclasses__()]
    return Labels(routes, sorted({error.code for error in kinds}), REGISTRY, get_args(HintCode))
