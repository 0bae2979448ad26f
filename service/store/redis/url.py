"""What a redis URL says: settings of connections, the master that sentinels name; no failure shows a password."""

import asyncio
import re
import time
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple
from urllib.parse import SplitResult, urlsplit, urlunsplit

from redis import exceptions
from redis.asyncio import Connection, SSLConnection
from redis.asyncio.connection import parse_url
from redis.asyncio.retry import Retry
from redis.asyncio.sentinel import MasterNotFoundError, Sentinel
from redis.backoff import NoBackoff
from redis.exceptions import RedisError

from ...errors import StoreUnavailableError
from .. import base
from ..base import StoreOptions

MAX_STORE_PORT = 65_535
SENTINEL, CLUSTER = "sentinel", "cluster"
_PORTS = {SENTINEL: 26379, CLUSTER: 6379}
_ALLOWED = {"db", "username", "password", "client_name", "sentinel_username", "sentinel_password"}
_ADVICE = "percent-encode special characters of user and password (@ : / ? # %)"


Address = tuple[str, int]


def read_url(url: str, options: StoreOptions) -> tuple[dict[str, Any], Sequence[Address], str]:
    """Read the URL of a server, of sentinels or of a cluster; the timeouts of the options go into the settings.

    Returns
    -------
    redis-py's settings of a connection; host and port of the sentinels, or of nodes of the cluster; and the
    sentinels' name for the master. Both are empty for other schemes.

    Raises
    ------
    ValueError
        if the URL is invalid; the text contains no part of it.
    """
    hosts_given = url.partition("://")[2].partition("/")[0].partition("?")[0].rpartition("@")[2]
    ports = [port for _, colon, port in (host.rpartition(":") for host in hosts_given.split(",")) if colon]
    if any(port.isdecimal() and (len(port) > 5 or not 0 < int(port) <= MAX_STORE_PORT) for port in ports):
        wrong = f"a port in the store URL is not one of 1 to {MAX_STORE_PORT}"
        raise ValueError(f"{wrong}; if that is part of a password, {_ADVICE}")
    try:
        plain, hosts, service = plain_url(url)
        parts = urlsplit(plain)
        settings: dict[str, Any] = dict(parse_url(plain))
    except ValueError:
        # The original text may quote a part of the password.
        raise ValueError(f"the store URL can't be read: {_ADVICE}") from None
    if hosts and not service and "@" not in parts.path + parts.query + parts.fragment:
        if url.partition("://")[0].lower().endswith(SENTINEL):
            text = "the store URL lacks the sentinels' name of the master: redis+sentinel://host:port/NAME"
            raise ValueError(text)
        if parts.path.strip("/"):
            text = "a cluster has no numbered databases: the path behind the hosts of its store URL must go"
            raise ValueError(text)
    _check(parts, settings)
    if issubclass(settings.get("connection_class", Connection), Connection):
        settings.setdefault("socket_keepalive", True)
    settings |= {"socket_timeout": options.reply_seconds, "socket_connect_timeout": options.connect_seconds}
    settings |= {"retry": Retry(NoBackoff(), 0), "protocol": 2, "decode_responses": False}
    return settings, hosts, service


def plain_url(url: str) -> tuple[str, Sequence[Address], str]:
    """Split a URL with several hosts into a redis:// URL, the hosts, and the sentinels' name for the master.

    ``redis+sentinel://[user:password@]host[:port][,host[:port]...]/service[/database][?options]`` or
    ``redis+cluster://[user:password@]host[:port][,host[:port]...][?options]`` are split.
    With ``rediss`` in place of ``redis`` the result is a rediss:// URL, and sentinels use TLS too.

    Returns
    -------
    The redis:// URL, host and port of each host, and the name. Other URLs are returned unchanged, without hosts.

    Raises
    ------
    ValueError
        if a part is missing or invalid.
    """
    scheme, _, rest = url.partition("://")
    scheme, _, kind = scheme.lower().partition("+")
    if kind not in _PORTS:
        return url, (), ""
    authority = re.split("[/?#]", rest, maxsplit=1)[0]
    user, at, hosts = authority.rpartition("@")
    if hosts.count("[") != hosts.count("]"):
        raise ValueError("a host has a bracket too many")
    # Newer patch releases of Python accept an IPv6 address in brackets only as the single host of a URL.
    parts = urlsplit(f"{scheme}://{user}{at}hosts{rest[len(authority) :]}")
    path, service = parts.path.strip("/"), ""
    if kind == SENTINEL:
        service, _, path = path.partition("/")
    if not hosts or "@" in service:
        raise ValueError("a host is missing")
    addresses = []
    for one in hosts.split(","):
        host, _, port = one.rpartition(":") if not one.endswith("]") and ":" in one else (one, "", "")
        addresses.append((host.strip("[]"), int(port) if port else _PORTS[kind]))
    return urlunsplit(parts._replace(path=f"/{path}")), addresses, service


def _check(parts: SplitResult, settings: dict[str, Any]) -> None:
    if parts.fragment or ("@" in parts.path + parts.query and parts.scheme != "unix"):
        raise ValueError(f"the store URL has a part too many: {_ADVICE}")
    if parts.scheme == "unix" and (not settings.get("path") or parts.netloc.rpartition("@")[2]):
        raise ValueError(f"a unix:// store URL needs the whole path of a socket: {_ADVICE}")
    if parts.scheme != "unix" and not (parts.path.strip("/").isdigit() or parts.path in ("", "/")):
        raise ValueError("the path of a redis store URL is the number of a database")
    extra = set(settings) - _ALLOWED - {"host", "port", "path", "connection_class"}
    if any(not name.startswith("ssl_") for name in extra):
        raise ValueError(f"the store URL takes only these options: {', '.join(sorted(_ALLOWED))}, ssl_...")
    options = {name: value for name, value in settings.items() if name.startswith("ssl_")}
    if not issubclass(settings.get("connection_class", Connection), SSLConnection):
        if options:
            raise ValueError("the store URL has options of TLS (ssl_...) but not its scheme: rediss")
        return
    try:  # The files that the URL names are loaded, so that a missing one is reported at the start.
        SSLConnection(**options).ssl_context.get()
    except (TypeError, ValueError, RedisError):
        raise ValueError("an option of TLS (ssl_...) in the store URL makes no sense") from None
    except OSError as error:
        given = ", ".join(sorted(options))
        raise ValueError(f"the store URL's TLS files ({given}) can't be used: {error.strerror}") from None


# -- The meaning of Redis errors: a short reason without secrets, and whether a retry may succeed.


class StoreFailure(NamedTuple):
    """Why the store can't serve a call."""

    reason: str
    is_transient: bool = False
    """Whether a retry may succeed."""
    kind: type[StoreUnavailableError] = StoreUnavailableError
    """What is raised of it."""


NO_MASTER = StoreFailure("the sentinels know no master now", is_transient=True)
FULL = StoreFailure("the store is full (OOM)", kind=base.StoreFullError)
READ_ONLY = StoreFailure("the store is a read-only replica (READONLY)")
NO_PERMISSION = StoreFailure("the store's user lacks a permission (NOPERM)")


class ReplicasBehindError(exceptions.RedisError):
    """A call was carried out, but too few replicas acknowledged it before the timeout."""


_APART = "the server is one of a cluster and keeps these keys apart (CROSSSLOT)"
# The first match counts, so a subclass comes before its base.
_BY_CLASS: tuple[tuple[type[exceptions.RedisError], StoreFailure], ...] = (
    (ReplicasBehindError, StoreFailure("too few replicas of the store have the commit (BANDIT_MIN_REPLICAS)")),
    (exceptions.BusyLoadingError, StoreFailure("the store is loading its data (LOADING)", is_transient=True)),
    (exceptions.TryAgainError, StoreFailure("the store is moving this session (TRYAGAIN)", is_transient=True)),
    (exceptions.MasterDownError, StoreFailure("the replica has lost its master (MASTERDOWN)", is_transient=True)),
    (exceptions.ClusterDownError, StoreFailure("the cluster is down (CLUSTERDOWN)", is_transient=True)),
    (exceptions.AskError, StoreFailure("the server is one of a cluster and keeps this session elsewhere (MOVED)")),
    (exceptions.ClusterCrossSlotError, StoreFailure(_APART, kind=base.KeysApartError)),
    (exceptions.OutOfMemoryError, FULL),
    (exceptions.ReadOnlyError, READ_ONLY),
    (exceptions.NoPermissionError, NO_PERMISSION),
    (exceptions.TimeoutError, StoreFailure(base.NO_ANSWER, is_transient=True, kind=base.NoAnswerError)),
    (MasterNotFoundError, NO_MASTER),
)
_BY_TEXT = {
    "BUSY ": StoreFailure("the store is busy with a script (BUSY)", is_transient=True),
    "MISCONF ": StoreFailure("the store can't write to its disk (MISCONF)", kind=base.StoreFullError),
    "NOREPLICAS ": StoreFailure("the store has too few replicas (NOREPLICAS)"),
    "WRONGTYPE ": StoreFailure("a key of the store has another type (WRONGTYPE)", kind=base.WrongTypeError),
    "specified in XADD is": StoreFailure("a log has entries of others (XADD)", kind=base.WrongTypeError),
    "max number of clients": StoreFailure("the store has too many clients", is_transient=True),
    "unauthenticated ": StoreFailure("the store refused the credentials: it needs a password"),
    "user executing the script": NO_PERMISSION,
    "can't access at least one of the keys": NO_PERMISSION,
    "-OOM ": FULL,
    "-READONLY ": READ_ONLY,
}
"""By part of the text: errors without a class in redis-py, or that some servers wrap into a script's error."""


_REFUSED_COMMAND = re.compile(r"permissions to run the '([A-Za-z|-]{1,40})' command")
"""The command that an access list lacks."""


def failure_of(error: exceptions.RedisError) -> StoreFailure:
    """Return the meaning of an error of redis-py: a short reason without secrets, and whether it is transient."""
    # After these words servers quote the arguments of an unknown command; those of AUTH are the password.
    text = str(error).partition(", with args beginning with")[0]
    if refused := _REFUSED_COMMAND.search(text):
        return StoreFailure(f"{NO_PERMISSION.reason}: {refused[1]}")
    if isinstance(error, MasterNotFoundError) and " : " in text:  # what follows are errors of sentinels
        named = ", ".join(map(":".join, re.findall(r"\bhost=([^,]+),port=(\d+)", text)))
        return NO_MASTER._replace(reason=f"sentinels are out of reach ({named}), and no other knows the master")
    for kind, known in _BY_CLASS:
        if isinstance(error, kind):
            return known
    for part, known in _BY_TEXT.items():
        if part in text:
            return known
    if isinstance(error, exceptions.AuthenticationError):
        return StoreFailure(f"the store refused the credentials: {text}")
    if isinstance(error, exceptions.ConnectionError):
        return StoreFailure(f"{base.NO_CONNECTION}: {text}", is_transient=True)
    return StoreFailure(f"the store refused a call: {text[:200]}")


@contextmanager
def lost_connections_told() -> Iterator[None]:
    """Raise redis-py's ConnectionError for a connection that was just lost, where uvloop raises a RuntimeError."""
    try:
        yield
    except RuntimeError as error:
        if "the handler is closed" not in str(error):
            raise
        raise exceptions.ConnectionError("connection lost while it was used") from error


# -- The master that Redis sentinels name.

MASTER_CHECK_SECONDS = 1.0
"""Time between two questions to the sentinels; commits to a replaced master are lost until the next one."""


class Master:
    """Asks the sentinels for the master.

    They are asked every ``MASTER_CHECK_SECONDS``, since a replaced master that is cut off from them goes on
    accepting commits.

    Parameters
    ----------
    sentinels : host and port of each
    service : the sentinels' name for the master
    settings : redis-py's settings of connections to the master; connections to sentinels have the same timeouts,
        retries and TLS, but the user and password in ``sentinel_username`` and ``sentinel_password``
    """

    def __init__(self, sentinels: Sequence[Address], service: str, settings: Mapping[str, Any]) -> None:
        given = ("username", "password")
        own = {name: settings[f"sentinel_{name}"] for name in given if f"sentinel_{name}" in settings}
        shared = {"socket_timeout", "socket_connect_timeout", "retry", "protocol"}
        own |= {name: value for name, value in settings.items() if name in shared or name.startswith("ssl")}
        own["ssl"] = settings.get("connection_class") is SSLConnection
        self._sentinel = Sentinel(sentinels, sentinel_kwargs=own)  # type: ignore[no-untyped-call]
        self._service = service
        self._address: Address | None = None
        self._next_check = 0.0

    def is_current(self, address: Address) -> bool:
        """Return whether this was the master lately; False also when it is time to ask again."""
        return address == self._address and time.monotonic() < self._next_check

    def forget(self) -> None:
        """Ask again before the next call."""
        self._next_check = 0.0

    async def where(self) -> dict[str, Any]:
        """Ask for the master, and return redis-py's settings that lead there.

        Raises
        ------
        MasterNotFoundError
            if no sentinel knows one.
        ConnectionError
            if the connection to a sentinel was just lost.
        """
        try:
            with lost_connections_told():
                self._address = await self._sentinel.discover_master(self._service)
        finally:
            self._next_check = time.monotonic() + MASTER_CHECK_SECONDS
        return dict(zip(("host", "port"), self._address, strict=True))

    async def replicas_down(self, address: Address) -> Collection[Address] | None:
        """Return the replicas that more than half of the sentinels in the URL call down.

        None unless as many answer in time that this is the master. A sentinel whose user may not list replicas
        calls none down.
        """
        sentinels = list(self._sentinel.sentinels)

        async def ask(sentinel: Any) -> Sequence[Any]:
            name = self._service
            asked = (sentinel.sentinel_get_master_addr_by_name(name), sentinel.sentinel_slaves(name))
            with suppress(TimeoutError):  # Who died with a replica holds nobody up.
                async with asyncio.timeout(MASTER_CHECK_SECONDS):
                    return await asyncio.gather(*asked, return_exceptions=True)
            return None, ()

        names, lists = zip(*await asyncio.gather(*map(ask, sentinels)), strict=True)
        named = [(name[0].decode(), name[1]) for name in names if isinstance(name, tuple)]
        if 2 * named.count(address) <= len(sentinels):
            return None
        replicas = [each for found in lists if isinstance(found, list) for each in found]
        down = Counter((each["ip"], each["port"]) for each in replicas if each["is_sdown"])
        return [each for each, sentinels_agreed in down.items() if 2 * sentinels_agreed > len(sentinels)]

    async def close(self) -> None:
        """Close the connections to the sentinels."""
        for sentinel in self._sentinel.sentinels:
            await sentinel.aclose()
