"""A worker process: serves one of the supervisor's sockets with uvicorn, and dies with the supervisor.

Run by the supervisor as ``python -m service.server.worker SOCKET_FD PARENT_PID NUMBER`` with the settings as JSON
on stdin; ``NUMBER`` is its place among the workers. One byte on stdout says that it serves; from then on
stdout is stderr.
"""

from __future__ import annotations

import ctypes
import gc
import json
import math
import os
import signal
import socket
import sys
from functools import partial

import uvicorn

from ..app import create_app
from ..settings import Settings
from ..telemetry import logs, multiprocess
from ..telemetry.tracing_config import open_traces
from .http_protocol import LimitedHttpProtocol

_PR_SET_PDEATHSIG = 1
SWITCH_SECONDS = 0.001
"""How long a thread that works on a large input may keep the event loop waiting, where it can be interrupted."""


def die_with_parent(parent: int) -> None:
    """Ask the kernel for SIGKILL when the parent's main thread ends; go at once if it has ended."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        sys.exit(1)


def keep_turns_short() -> None:
    """Let work in threads be interrupted often, and look through what is there by now for garbage no more.

    Looking through all that was imported takes some 50 ms.
    """
    sys.setswitchinterval(SWITCH_SECONDS)
    gc.collect()
    gc.freeze()


class Server(uvicorn.Server):
    """uvicorn's server, telling the supervisor when it serves."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        keep_turns_short()
        os.write(sys.stdout.fileno(), b".")
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())


def serve(settings: Settings, listener: socket.socket, number: int) -> None:
    """Serve until SIGTERM, then finish what was accepted."""
    app = create_app(settings, metrics_folder=multiprocess.share(number), spans=open_traces())
    app.openapi()  # Makes what FastAPI else makes within the first requests, which takes 80 ms.
    protocol = partial(
        LimitedHttpProtocol, head_seconds=settings.body_timeout_seconds, refuse=app.state.runtime.connection_errors
    )
    config = uvicorn.Config(
        app,
        loop="uvloop",
        http=protocol,  # type: ignore[arg-type]
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_keep_alive=math.ceil(settings.keep_alive_seconds),
        timeout_graceful_shutdown=math.ceil(settings.grace_seconds),
    )
    Server(config).run(sockets=[listener])


def main() -> None:
    """Take over from the supervisor."""
    descriptor, parent, number = map(int, sys.argv[1:])
    die_with_parent(parent)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    settings = Settings(**json.load(sys.stdin))
    logs.configure(settings.log_level)
    serve(settings, socket.socket(fileno=descriptor), number)


if __name__ == "__main__":
    main()
