"""Become another program that ends when the process that started this one ends (Linux; elsewhere it only starts).

Run as a file: ``child.py PARENT_PID PROGRAM ARGUMENT...``. Asking for the signal before the program takes over
needs no code between fork and exec in the parent, which may have threads.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def main() -> None:  # pragma: no cover - runs as a process of its own
    """Ask for SIGTERM at the parent's end, then become the program."""
    parent, program = int(sys.argv[1]), sys.argv[2]
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:
        sys.exit("the parent ended before its server started")
    os.execv(program, sys.argv[2:])  # noqa: S606 - no shell wanted


if __name__ == "__main__":
    main()
