"""The service of the demo: a process of its own on a free port, with its sessions in memory."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

from ..screen import CommandError

START_SECONDS = 60.0
STOP_SECONDS = 30.0
_LISTENING = re.compile(r"listening on (http://[^\s,]+)")
PACKAGE = (__package__ or "").partition(".")[0]


@contextmanager
def running_service(port: int) -> Iterator[str]:
    """Start a service, yield its address, and stop it.

    Parameters
    ----------
    port : 0 for a free one

    Raises
    ------
    CommandError
        where it does not start.
    """
    kept = {name: value for name, value in os.environ.items() if not name.startswith("BANDIT_")}
    flags = ("--store-url", "memory://", "--port", str(port), "--log-sample", "0")
    command = [sys.executable, "-m", PACKAGE, *flags]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=kept) as process:  # noqa: S603 - ourselves
        try:
            yield _Start(process).address()
        finally:
            process.terminate()
            process.wait(STOP_SECONDS)


class _Start:
    """Reads what the service logs, so that its pipe never fills, until it says where it listens, and after."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self._said = threading.Event()
        self._url = ""
        self._last: deque[str] = deque(maxlen=3)
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        for line in self._process.stderr or ():
            self._last.append(line.strip())
            if (found := _LISTENING.search(line)) and not self._url:
                self._url = found[1]
                self._said.set()
        self._said.set()

    def address(self) -> str:
        """Return where it listens."""
        if not self._said.wait(START_SECONDS) or not self._url:
            raise CommandError(f"the service did not start: {' '.join(self._last) or 'it said nothing'}")
        return self._url
