"""Shared parts of the commands that start a service and break it."""

from __future__ import annotations

import platform
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from loadtest.commands.output import errors_reported
from loadtest.errors import LoadTestError


@contextmanager
def own_processes(out: Path) -> Iterator[None]:
    """Report errors as ``errors_reported`` does, make the folder ``out``, and exit on SIGTERM too.

    The exit unwinds the block, so that the processes started within it end.

    Raises
    ------
    LoadTestError
        on systems other than Linux.
    """
    with errors_reported():
        if platform.system() != "Linux":
            raise LoadTestError("this needs Linux: workers are found in /proc, and end with their supervisor")
        out.mkdir(parents=True, exist_ok=True)
        before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
        try:
            yield
        finally:
            signal.signal(signal.SIGTERM, before)
