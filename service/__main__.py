"""``python -m service``."""

from __future__ import annotations

import signal
import sys
from types import FrameType


def _end(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 - as signals are handled
    sys.exit(0)


def run() -> int:
    """Run the service; the exit code.

    SIGTERM ends it before everything else is imported, too: the first process of a container is not ended by
    a signal that it does not handle.
    """
    signal.signal(signal.SIGTERM, _end)
    from .server.cli import main

    return main(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(run())
