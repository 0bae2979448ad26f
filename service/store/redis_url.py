"""Connection pools from redis URLs, whose passwords no error ever shows."""

from __future__ import annotations

from typing import Any
from urllib.parse import SplitResult, urlsplit

from redis.asyncio import Connection, ConnectionPool
from redis.asyncio.connection import parse_url
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from service.store import sentinel
from service.store.options import StoreOptions

_ALLOWED = {"db", "username", "password", "client_name", "sentinel_username", "sentinel_password"}
_ADVICE = "percent-encode special characters of user and password (@ : / ? # %)"


def connection_pool(url: str, options: StoreOptions) -> ConnectionPool:
    """A pool that sends nothing twice by itself.

    Raises
    ------
    ValueError
        for a URL that makes no sense; the text shows nothing of it.
    """
    sentinels, service = None, ""
    try:
        if urlsplit(url).scheme == sentinel.SCHEME:
            url, sentinels, service = sentinel.plain_url(url)
        parts = urlsplit(url)
        settings: dict[str, Any] = dict(parse_url(url))
    except ValueError:
        # The original text may quote a piece of the password.
        raise ValueError(f"the store URL can't be read: {_ADVICE}") from None
    _check(parts, settings)
    if issubclass(settings.get("connection_class", Connection), Connection):
        settings.setdefault("socket_keepalive", True)
    settings |= {
        "socket_timeout": options.reply_seconds,
        "socket_connect_timeout": options.connect_seconds,
        "retry": Retry(NoBackoff(), 0),
        "protocol": 2,
        "decode_responses": False,
    }
    if sentinels is not None:
        return sentinel.master_pool(sentinels, service, settings, options.max_connections)
    return ConnectionPool(max_connections=options.max_connections, **settings)


def _check(parts: SplitResult, settings: dict[str, Any]) -> None:
    if parts.fragment or ("@" in parts.path + parts.query and parts.scheme != "unix"):
        raise ValueError(f"the store URL has a part too many: {_ADVICE}")
    if parts.scheme == "unix" and not settings.get("path"):
        raise ValueError("a unix:// store URL needs the path of a socket")
    if parts.scheme != "unix" and not (parts.path.strip("/").isdigit() or parts.path in ("", "/")):
        raise ValueError("the path of a redis store URL is the number of a database")
    extra = set(settings) - _ALLOWED - {"host", "port", "path", "connection_class"}
    if any(not name.startswith("ssl_") for name in extra):
        raise ValueError(f"the store URL takes only these options: {', '.join(sorted(_ALLOWED))}, ssl_...")
