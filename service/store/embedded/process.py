"""One server process on a data folder: how it is started, asked and stopped."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

from .folder_lock import EmbeddedStoreError

DAMAGED = "the append-only file is damaged: copy the whole folder first, then restore a backup"
_CHUNK = 1 << 16


class ServerProcess:
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
        self, program: Path, folder: Path, socket_path: str, lock: int, *, fsync: str, appendonly: bool = True
    ) -> None:
        self._folder = folder
        self._socket_path = socket_path
        launcher = [sys.executable, "-I", "-S", str(Path(__file__).with_name("child.py")), str(os.getpid())]
        with self._log.open("ab") as log:
            self._popen = subprocess.Popen(  # noqa: S603 - our own program and arguments
                [*launcher, str(program), *self._arguments(fsync, "yes" if appendonly else "no")],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=(lock,),
                start_new_session=True,  # Ctrl-C reaches the service only, which stops the server last
            )

    def _arguments(self, fsync: str, appendonly: str) -> list[str]:
        settings = {
            "port": "0",
            "unixsocket": self._socket_path,
            "unixsocketperm": "700",
            "dir": str(self._folder),
            "logfile": str(self._log),
            "daemonize": "no",
            "databases": "1",
            "save": "",
            "appendonly": appendonly,
            "appendfsync": fsync,
            "maxmemory-policy": "noeviction",
        }
        return [argument for name, value in settings.items() for argument in (f"--{name}", value)]

    @property
    def _log(self) -> Path:
        return self._folder / "server.log"

    @property
    def pid(self) -> int:
        """The server's process id."""
        return self._popen.pid

    def poll(self) -> int | None:
        """Return the exit code if the server has ended, else None."""
        return self._popen.poll()

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
                raise EmbeddedStoreError(
                    f"the store's server ended at once (exit code {self.poll()}){self.last_words()}"
                )
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

    def terminate(self, timeout: float) -> None:
        """Send SIGTERM and wait until the server has written its data and ended.

        Parameters
        ----------
        timeout : seconds

        Raises
        ------
        subprocess.TimeoutExpired
            if it goes on.
        """
        self._popen.terminate()
        self._popen.wait(timeout)

    def stop(self, timeout: float) -> None:
        """Let the server write its data and end; kill it after ``timeout`` seconds."""
        try:
            self.terminate(timeout)
        except subprocess.TimeoutExpired:
            self._popen.kill()
            self._popen.wait()
