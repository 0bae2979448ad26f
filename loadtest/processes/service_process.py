"""The service of the load test."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import httpx

from loadtest.errors import LoadTestError
from loadtest.processes.ports import free_port, is_free
from loadtest.processes.running import RunningProcess
from loadtest.processes.waiting import wait_until


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
        """Process ids of its workers (Linux)."""
        return self.children()

    def children(self) -> Sequence[int]:
        """Process ids of its workers and of its embedded server (Linux)."""
        children = Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()
        return [int(child) for child in children]


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
