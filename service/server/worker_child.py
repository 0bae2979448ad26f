"""A worker process: it gets ready to end with the supervisor, and only then imports what it serves.

The supervisor runs it as ``python -m service.server.worker_child SOCKET_FD BOARD_FD PARENT_PID NUMBER`` and writes
the settings as JSON to its stdin; ``NUMBER`` is its place among the workers, from 0.
"""

import ctypes
import gc
import json
import os
import signal
import socket
import sys


def main() -> None:
    """Read arguments and settings from the supervisor, and serve."""
    descriptor, shared, parent, number = map(int, sys.argv[1:])
    if sys.platform == "linux":  # The kernel kills this process when its parent's main thread ends.
        ctypes.CDLL(None, use_errno=True).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
    if os.getppid() != parent:
        sys.exit(1)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # Until the keys are read, which are those of the file then.
    # Nothing needs an end yet, and SystemExit may be lost: Python ignores what is raised while it collects objects.
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    # Collections would look through what is imported again and again, a tenth of the start; `worker` allows them.
    gc.disable()
    from ..settings import Settings
    from ..telemetry import logs
    from .pool import Board
    from .worker import serve

    settings = Settings(**json.load(sys.stdin))
    logs.configure(settings.log_level)
    serve(settings, socket.socket(fileno=descriptor), Board(shared, settings.workers), number)


if __name__ == "__main__":
    main()
