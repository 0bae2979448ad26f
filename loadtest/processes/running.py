"""A program as a child process that can be killed, frozen and started again."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from loadtest.processes.waiting import START_SECONDS


class RunningProcess:
    """A process with its log in a file, at most one alive at a time.

    Parameters
    ----------
    environment : its variables; this process's if not given
    with_children : whether ``end`` also ends the processes it has started
    """

    def __init__(
        self,
        command: Sequence[str],
        log: Path,
        environment: Mapping[str, str] | None = None,
        *,
        with_children: bool = False,
    ) -> None:
        self.command_line = command
        self._environment = environment
        self._with_children = with_children
        self._process: subprocess.Popen[bytes] | None = None
        self.log = log

    def start(self) -> None:
        """Start the process, without waiting until it serves."""
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(  # noqa: S603 - programs of this project
                self.command_line, stdout=log, stderr=log, env=self._environment, process_group=self._group
            )

    @property
    def _group(self) -> int | None:
        return 0 if self._with_children else None

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
        code = self._process.wait(START_SECONDS)
        if self._with_children:
            with suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)
        return code

    def last_words(self) -> str:
        """Return the end of its log."""
        return self.log.read_text("utf-8", "replace")[-1000:] if self.log.exists() else ""
