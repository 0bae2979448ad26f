"""Real servers for tests, each in a folder of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from loadtest.processes import free_port
from service.store import embedded_child as child
from tests.support.programs import WHEEL, program
from tests.support.waiting import wait_until


class RedisServer:
    """A server on a loopback port, with an append-only file; it ends with the tests."""

    program = WHEEL
    """What it is started from: ``redis-server``, or the wheel's Valkey; set by fixture ``server_program``."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self.folder = folder
        self.port = free_port()
        self.url = f"redis://127.0.0.1:{self.port}/0"
        self._arguments = arguments
        at = f"--port {self.port} --bind 127.0.0.1 --dir {folder} --logfile server.log"
        self._settings = [*at.split(), "--save", "", "--appendonly", "yes", "--appendfsync", "everysec"]
        self.environment: dict[str, str] = {}
        """Variables of its process beside those of the tests."""
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
        words = [*launcher, program(self.program), *self._settings, *self._arguments]
        self._process = subprocess.Popen(words, env=os.environ | self.environment)
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
        self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    def has_unread(self) -> bool:
        """Whether something waits for it while it is frozen."""
        lines = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
        return any(int(line[1].rpartition(":")[2], 16) == self.port and line[4][-8:] != "0" * 8 for line in lines)

    def close(self) -> None:
        self.kill()
        self.client.close()
