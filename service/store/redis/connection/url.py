"""Settings of connections from redis URLs; no error shows a password."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import SplitResult, urlsplit, urlunsplit

from redis.asyncio import Connection, SSLConnection
from redis.asyncio.connection import parse_url
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError

from ...options import StoreOptions

MAX_STORE_PORT = 65_535
SENTINEL, CLUSTER = "sentinel", "cluster"
_PORTS = {SENTINEL: 26379, CLUSTER: 6379}
_ALLOWED = {"db", "username", "password", "client_name", "sentinel_username", "sentinel_password"}
_ADVICE = "percent-encode special characters of user and password (@ : / ? # %)"


class RedisUrl(NamedTuple):
    """The parts of a URL."""

    settings: dict[str, Any]
    """redis-py's settings of a connection."""
    hosts: Sequence[tuple[str, int]]
    """Sentinels or nodes of the cluster, host and port; empty for other schemes."""
    service: str
    """The sentinels' name for the master; empty for other schemes."""


def read_url(url: str, options: StoreOptions) -> RedisUrl:
    """Read the URL of a server, of sentinels or of a cluster.

    Parameters
    ----------
    url : with one of the schemes of ``open_store`` but memory:// and embedded:
    options : its timeouts for connecting and for replies go into the settings

    Raises
    ------
    ValueError
        if the URL is invalid; the text contains no part of it.
    """
    _check_ports(url)
    try:
        plain, hosts, service = plain_url(url)
        parts = urlsplit(plain)
        settings: dict[str, Any] = dict(parse_url(plain))
    except ValueError:
        # The original text may quote a part of the password.
        raise ValueError(f"the store URL can't be read: {_ADVICE}") from None
    _check(parts, settings)
    _check_tls(settings)
    if issubclass(settings.get("connection_class", Connection), Connection):
        settings.setdefault("socket_keepalive", True)
    settings |= {
        "socket_timeout": options.reply_seconds,
        "socket_connect_timeout": options.connect_seconds,
        "retry": Retry(NoBackoff(), 0),
        "protocol": 2,
        "decode_responses": False,
    }
    return RedisUrl(settings, hosts, service)


def plain_url(url: str) -> tuple[str, Sequence[tuple[str, int]], str]:
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
    if not hosts or bool(service) != (kind == SENTINEL) or "@" in service or (path and kind == CLUSTER):
        raise ValueError("a host or the name of the sentinels' service is missing, or a cluster has a database")
    addresses = [_address(host, _PORTS[kind]) for host in hosts.split(",")]
    return urlunsplit(parts._replace(path=f"/{path}")), addresses, service


def _address(text: str, port: int) -> tuple[str, int]:
    host, _, given = text.rpartition(":") if not text.endswith("]") and ":" in text else (text, "", "")
    return host.strip("[]"), int(given) if given else port


def _check_ports(url: str) -> None:
    hosts = url.partition("://")[2].partition("/")[0].partition("?")[0].rpartition("@")[2]
    ports = [port for _, colon, port in (host.rpartition(":") for host in hosts.split(",")) if colon]
    if any(port.isdecimal() and (len(port) > 5 or not 0 < int(port) <= MAX_STORE_PORT) for port in ports):
        raise ValueError(
            f"a port in the store URL is not one of 1 to {MAX_STORE_PORT}; if that is part of a password, {_ADVICE}"
        )


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


def _check_tls(settings: Mapping[str, Any]) -> None:
    """Load the files that the URL names, so that a missing one is reported at the start."""
    options = {name: value for name, value in settings.items() if name.startswith("ssl_")}
    if not _is_tls(settings):
        if options:
            raise ValueError("the store URL has options of TLS (ssl_...) but not its scheme: rediss")
        return
    try:
        SSLConnection(**options).ssl_context.get()
    except (TypeError, ValueError, RedisError):
        raise ValueError("an option of TLS (ssl_...) in the store URL makes no sense") from None
    except OSError as error:
        given = ", ".join(sorted(options))
        raise ValueError(f"the store URL's TLS files ({given}) can't be used: {error.strerror}") from None


def _is_tls(settings: Mapping[str, Any]) -> bool:
    return issubclass(settings.get("connection_class", Connection), SSLConnection)
