"""Run another program that ends when its parent ends (on Linux; elsewhere it only runs the program).

Run as a file: ``child.py PARENT_PID PROGRAM ARGUMENT...``. This process asks the kernel for the signal and then
becomes the program, so the parent, which may have threads, runs no code between fork and exec.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def main() -> None:  # pragma: no cover - runs as another process
    """Ask the kernel for SIGTERM at the parent's end, then become the program."""
    parent, program = int(sys.argv[1]), sys.argv[2]
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:
        sys.exit("the parent ended before its server started")
    os.execv(program, sys.argv[2:])  # noqa: S606 - no shell wanted


if __name__ == "__main__":
    main()
