"""The service as a user starts it: real processes, found by what they print."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from tests.support.http import http_client
from tests.support.waiting import SECONDS, wait_until

CHECKOUT = (sys.executable, "-m", "service")


class RunningService:
    """A service on a free port, its log in a file; ends with the ``with`` block.

    Parameters
    ----------
    flags : beside those for port and data folder
    command : how it is started
    cwd : where; by default here
    """

    def __init__(
        self,
        folder: Path,
        *flags: str,
        environment: dict[str, str] | None = None,
        command: Sequence[str] = CHECKOUT,
        cwd: Path | None = None,
    ) -> None:
        self.log = folder / "service.log"
        kept = {name: value for name, value in os.environ.items() if not name.startswith("BANDIT_")}
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [*command, "--port", "0", "--data-dir", str(folder / "data"), *flags],
                stderr=log,
                cwd=cwd,
                env=kept | (environment or {}),
            )

    def __enter__(self) -> RunningService:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.terminate()
        try:
            self.process.wait(SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise

    def messages(self) -> list[str]:
        """What was logged so far, lines that are no JSON as they are."""
        return [json.loads(line)["message"] if line.startswith("{") else line for line in self.text().splitlines()]

    def text(self) -> str:
        """The whole log so far."""
        return self.log.read_text()

    @property
    def url(self) -> str:
        """Where it listens, as it says."""

        def listening() -> re.Match[str] | None:
            assert self.process.poll() is None, self.text()
            return re.search(r"listening on (http://\S+),", self.text())

        return wait_until(listening)[1]

    @contextmanager
    def client(self) -> Iterator[httpx.Client]:
        """A client, once the store can commit."""
        with http_client(self.url) as client:
            wait_until(lambda: is_ready(client))
            yield client

    def wait_ready(self) -> None:
        """Return once the store can commit."""
        with self.client():
            pass

    def children(self, what: str) -> list[int]:
        """Process ids of the service's children whose command line contains ``what``."""
        return [pid for pid in _children(self.process.pid) if what in _command(pid)]

    def workers(self, count: int = 1) -> list[int]:
        """Process ids of the workers, once there are so many."""
        return wait_until(lambda: len(found := self.children(".server.worker")) == count and found)

    def wait_serving(self, count: int) -> None:
        """Return once so many workers, counted since the start, have begun to serve."""
        wait_until(lambda: self.text().count(" serves") >= count)

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        """The exit code after a signal."""
        self.process.send_signal(number)
        return self.process.wait(SECONDS)


def is_ready(client: httpx.Client) -> bool:
    """Whether the service is ready; it refuses connections while no worker serves."""
    try:
        return client.get("/readyz").status_code == 200
    except httpx.ConnectError:
        return False


def alive(pid: int) -> bool:
    """Whether a process exists and is no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def _children(parent: int) -> list[int]:
    try:
        return [int(pid) for pid in Path(f"/proc/{parent}/task/{parent}/children").read_text().split()]
    except (FileNotFoundError, ProcessLookupError):
        return []


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    except (FileNotFoundError, ProcessLookupError):
        return ""


def create(client: httpx.Client, **fields: Any) -> str:
    """The id of a new session of three arms."""
    answer = client.post("/v1/sessions", json={"learner": {"kind": "dexp3", "n_arms": 3}, "seed": 1} | fields)
    assert answer.status_code == 201, answer.text
    return str(answer.json()["session_id"])


def act(client: httpx.Client, session: str) -> dict[str, Any]:
    """One act of a session."""
    answer = client.post(f"/v1/sessions/{session}/act")
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def slot(service: RunningService, session: str = "s") -> int:
    """How many acts a session has had."""
    with service.client() as client:
        return int(client.get(f"/v1/sessions/{session}").json()["slot"])
