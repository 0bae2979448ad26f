"""What a server's own words mean for the sessions it stores. Arithmetic on INFO: nothing is called here."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

from ...settings import Settings
from ...store.redis.client import Examination, Server
from .finding import Finding, error, ok, warning

OLDEST = (6, 2)
CLOCK_SECONDS = 1.0
"""Difference of clocks from which a window or a log is misread."""
FULL = 0.8
"""Share of the memory from which a store is soon full."""
GIB = 2**30


def check(found: Examination, settings: Settings, now: float | None = None) -> Iterator[Finding]:
    """Judge what the servers say.

    Parameters
    ----------
    found : what the servers were asked, of all servers of the store
    settings : of the service, as it would use them
    now : Unix seconds of this machine's clock; by default now
    """
    for server in found.servers:
        yield _version(server)
        yield from _persistence(server, embedded=settings.store_url.scheme == "embedded")
        yield from _memory(server)
        yield _replicas(server, settings)
        yield from _clock(server, time.time() if now is None else now)
    yield _rights(found.missing)


def _version(server: Server) -> Finding:
    info = server.info
    name = "valkey" if "valkey_version" in info else "redis"
    text = str(info.get("valkey_version") or info.get("redis_version", ""))
    numbers = tuple(int(part) for part in text.split(".")[:2] if part.isdecimal())
    if numbers < OLDEST:
        return error("server", f"{name} {text or 'of unknown version'}", "use Redis 6.2 or newer, or any Valkey")
    return ok("server", f"{name} {text}")


def _persistence(server: Server, *, embedded: bool) -> Iterator[Finding]:
    if str(server.info.get("aof_enabled")) != "1":
        yield error("append-only file", "off: a restart loses what was acknowledged", "set appendonly yes")
        return
    if server.info.get("aof_last_write_status", "ok") != "ok":
        yield error("append-only file", "the last write failed", "give its disk room, or mend it")
    where = "BANDIT_APPENDFSYNC" if embedded else "appendfsync"
    if server.appendfsync is None:
        text = "on; this user may not read appendfsync"
        yield warning("append-only file", text, "see that it is `always` in the server's own settings")
    elif server.appendfsync == "always":
        yield ok("append-only file", "on, and written to disk before each answer")
    elif server.appendfsync == "everysec":
        text = "on, written to disk once a second: a machine that dies loses up to two seconds"
        yield warning("append-only file", text, f"set {where} to always if that is too much")
    else:
        yield error("append-only file", "on, written to disk when the system likes", f"set {where} to always")


def _memory(server: Server) -> Iterator[Finding]:
    info = server.info
    used, most = int(str(info.get("used_memory", 0))), int(str(info.get("maxmemory", 0)))
    policy = info.get("maxmemory_policy", "noeviction")
    if policy != "noeviction":
        yield error("eviction", f"{policy}: a full store drops sessions", "set maxmemory-policy noeviction")
    else:
        yield ok("eviction", "none: a full store refuses writes and loses nothing")
    if not most:
        yield ok("memory", f"{used / GIB:.2f} GiB used, without a limit (maxmemory)")
    elif used > FULL * most:
        yield warning("memory", f"{used / most:.0%} of maxmemory are used", "raise maxmemory, or delete sessions")
    else:
        yield ok("memory", f"{used / GIB:.2f} of {most / GIB:.2f} GiB used")


def _replicas(server: Server, settings: Settings) -> Finding:
    attached, wanted = int(str(server.info.get("connected_slaves", 0))), settings.min_replicas
    if server.info.get("role") == "slave":
        return error("replicas", "this server is a replica, which accepts no commits", "name the master in the URL")
    if attached < wanted:
        text = f"{attached} attached, BANDIT_MIN_REPLICAS is {wanted}: every commit is refused"
        return error("replicas", text, "attach replicas, or lower the setting")
    if attached and not wanted:
        text = f"{attached} attached, and commits wait for none: a failover may lose the last ones"
        return warning("replicas", text, "set BANDIT_MIN_REPLICAS to 1")
    return ok("replicas", f"{attached} attached, commits wait for {wanted}")


def _clock(server: Server, now: float) -> Iterator[Finding]:
    told = server.info.get("server_time_usec")
    if told is None:
        return
    ahead = int(str(told)) / 1e6 - now
    if abs(ahead) > CLOCK_SECONDS:
        text = f"the store's differs from this machine's by {ahead:+.1f} s; windows go by the store's"
        yield warning("clock", text, "run a time service (NTP) on both machines")
    else:
        yield ok("clock", "the store's and this machine's agree")


def _rights(missing: Sequence[str] | None) -> Finding:
    if missing is None:
        return ok("rights", "a server before Redis 7 can't tell them; see docs/security.md for the list")
    if missing:
        rights = " ".join(f"+{name.lower()}" for name in missing)
        return error("rights", f"the store's user may not run {', '.join(missing)}", f"ACL SETUSER ... {rights}")
    return ok("rights", "the store's user may run all commands that are needed")
