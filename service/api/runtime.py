"""What the requests of one process share, and what each route says of who may call it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from operator import attrgetter
from typing import Any, NamedTuple, TypeVar

from starlette.routing import BaseRoute, Mount, Route
from starlette.types import Scope

from ..api_keys import KeyRing, Role
from ..sessions.clicks import ClickRates
from ..sessions.service import Readiness, Sessions
from ..settings import Settings
from ..telemetry.metrics import Metrics


@dataclass(frozen=True)
class Runtime:
    """What handlers and middleware work with; on ``app.state.runtime``, made with the application.

    Parameters
    ----------
    clicks : bound those of an address
    check_origin : gets the address and headers of a request; raises a ServiceError where another site may have
        sent it, and returns whether it would for another address
    draining : whether the service is about to stop, and still serves
    """

    settings: Settings
    api_keys: KeyRing
    metrics: Metrics
    sessions: Sessions
    readiness: Readiness
    clicks: ClickRates
    check_origin: Callable[[bytes, Sequence[tuple[bytes, bytes]]], bool]
    draining: Callable[[], bool] = lambda: False


CLICKS, CLICKS_SCRIPT = "/v1/clicks", "/v1/clicks.js"
"""What pages of any site may ask for: a token is the right."""


# -- Who may call a route, and which of its successes are logged: declared beside its path, by ``@access``.
#
# Authentication, the request log and the OpenAPI document read it from the routes; a route that says nothing ends
# the start of the service.

VIEWERS: frozenset[Role] = frozenset({"reader", "client", "admin"})
"""Every key: views of one session."""
READERS: frozenset[Role] = frozenset({"reader", "admin"})
"""For what is read of all sessions."""
CLIENTS: frozenset[Role] = frozenset({"client", "admin"})
"""For what services do with sessions all day: acts and events."""
ADMINS: frozenset[Role] = frozenset({"admin"})
"""For what makes, changes, exports or deletes sessions."""

_ATTRIBUTE = "bandit_access"
_Handler = TypeVar("_Handler")


class Logged(Enum):
    """Which of a route's successes get a line in the log; errors of all routes do."""

    ALL = "all"
    SAMPLE = "sample"
    """The share of them that the settings give."""
    CHANGES = "changes"
    """Each answer with another status than the one before it; of all other answers, errors too, a sample."""


class Access(NamedTuple):
    """What a route says of itself.

    Parameters
    ----------
    roles : of the keys that may call it
    keyless : whether it asks for no key at all
    opened_by : whether the settings make it ask for no key
    max_body_bytes : largest body, by the settings
    headers : that its answers have in any case, those to refused requests too; None for none
    names_no_session : whether its path looks like that of a session and is not
    session_of : finds the session in the body, if that names one alone; None if no body does
    of_all_sessions : whether its answers contain data of all sessions, so that keys with a prefix may not call it
    """

    roles: frozenset[Role]
    logged: Logged = Logged.ALL
    keyless: bool = False
    opened_by: Callable[[Settings], bool] = lambda _: False
    of_all_sessions: bool = False
    max_body_bytes: Callable[[Settings], int] = attrgetter("max_body_bytes")
    names_no_session: bool = False
    headers: Callable[[Scope, Settings], Sequence[tuple[bytes, bytes]]] | None = None
    session_of: Callable[[bytes], str | None] | None = None


RouteAccess = Sequence[tuple[BaseRoute, Access]]
"""Routes in the order in which they are tried, with what they say."""


def access(roles: frozenset[Role], **options: Any) -> Callable[[_Handler], _Handler]:
    """Say of a handler, or of a mounted application, who may call it; the options are those of ``Access``."""
    declared = Access(roles, **options)

    def say(handler: _Handler) -> _Handler:
        vars(handler)[_ATTRIBUTE] = declared
        return handler

    return say


def access_of(route: BaseRoute) -> Access:
    """Return what a route says of itself.

    Raises
    ------
    TypeError
        where it says nothing.
    """
    handler = route.endpoint if isinstance(route, Route) else route.app if isinstance(route, Mount) else None
    declared = getattr(handler, _ATTRIBUTE, None)
    if not isinstance(declared, Access):
        raise TypeError(f"{route} does not say who may call it: put @access between its path and its handler")
    return declared
