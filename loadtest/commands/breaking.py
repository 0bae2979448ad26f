"""What commands have in common that break a service of their own."""

from __future__ import annotations

import platform
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from loadtest.commands.screen import reported
from loadtest.errors import LoadTestError


@contextmanager
def breaking(out: Path) -> Iterator[None]:
    """``reported``, with the folder ``out`` made; also a SIGTERM ends the processes that are started within."""
    with reported():
        if platform.system() != "Linux":
            raise LoadTestError("this needs Linux: workers are found in /proc, and end with their supervisor")
        out.mkdir(parents=True, exist_ok=True)
        before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
        try:
            yield
        finally:
            signal.signal(signal.SIGTERM, before)
