"""What an operator should know about the servers of a store, read from them without changing anything."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ...base import StoreUnavailableError
from ...options import StoreOptions
from .. import scripts
from ..keys import Keys
from .client import RedisClient, ServerClient
from .cluster_client import ClusterClient

_CALLED = re.compile(rb"redis\.call\('([A-Z]+)'")
_SCRIPTS = [each for each in vars(scripts).values() if isinstance(each, scripts.Script)]


class Server(NamedTuple):
    """One server that accepts commits.

    Attributes
    ----------
    info : the lines of INFO
    appendfsync : None where this user may not read it
    """

    info: Mapping[str, object]
    appendfsync: str | None


class Examination(NamedTuple):
    """What the servers of a store say.

    Attributes
    ----------
    missing : commands that the store's user may not run; None where the server can't tell (before Redis 7)
    """

    servers: Sequence[Server]
    missing: Sequence[str] | None


async def examine(url: str, options: StoreOptions) -> Examination:
    """Read what the servers at a store URL say.

    Parameters
    ----------
    url : of a Redis, sentinels or a cluster, or with unix://, as in ``open_store``
    options : timeouts; key prefix and replicas to wait for, on which depends which commands are needed

    Raises
    ------
    StoreUnavailableError
        where one can't be reached, or lets this user read nothing.
    ValueError
        if the URL is invalid; the text contains no part of it.
    """
    client = (ClusterClient if "+cluster:" in url.partition("//")[0] else ServerClient)(url, options)
    try:
        missing = await _missing(client, options)
        infos = await client.servers()
        fsyncs = await _appendfsync(client)
        servers = [Server(info, None if fsyncs is None else fsyncs[number]) for number, info in enumerate(infos)]
        return Examination(servers, missing)
    finally:
        await client.close()


async def _missing(client: RedisClient, options: StoreOptions) -> Sequence[str] | None:
    needed = {name.decode() for script in _SCRIPTS for name in _CALLED.findall(script.source)}
    names = sorted(needed | {"EVALSHA", "INFO"} | ({"WAIT"} if options.min_replicas else set()))
    key = Keys.of(options.prefix, options.dedupe_window_seconds).server_probe
    reply = await client.script(scripts.MAY_RUN, (key,), names)
    return None if reply[2] == b"UNKNOWN" else [name.decode() for name in reply[3:]]


async def _appendfsync(client: RedisClient) -> Sequence[str] | None:
    try:
        replies: Sequence[Any] = await client.ask_each("CONFIG", "GET", "appendfsync")
    except StoreUnavailableError:
        return None
    return [reply[1].decode() for reply in replies]
