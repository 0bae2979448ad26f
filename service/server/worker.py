"""A worker process: serves one of the supervisor's sockets with uvicorn, and ends with the supervisor.

The supervisor runs it as ``python -m service.server.worker SOCKET_FD PARENT_PID NUMBER`` and writes the settings as
JSON to its stdin; ``NUMBER`` is its place among the workers, from 0. The worker writes one byte to stdout when it
serves; from then on its stdout is its stderr.
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
"""Python's switch interval: how long a thread may hold the interpreter while the event loop waits."""


def die_with_parent(parent: int) -> None:
    """Let the kernel kill this process when its parent's main thread ends (Linux); exit if the parent has ended.

    Parameters
    ----------
    parent : process id of the supervisor
    """
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        sys.exit(1)


def limit_event_loop_waits() -> None:
    """Keep the event loop from long waits: switch threads often, and don't scan imported objects for garbage.

    A collection that scans all imported objects takes some 50 ms.
    """
    sys.setswitchinterval(SWITCH_SECONDS)
    gc.collect()
    gc.freeze()


class Server(uvicorn.Server):
    """uvicorn's server; it reports to the supervisor when it serves."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        limit_event_loop_waits()
        os.write(sys.stdout.fileno(), b".")
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())


def serve(settings: Settings, listener: socket.socket, number: int) -> None:
    """Serve until SIGTERM, then finish the accepted requests.

    Parameters
    ----------
    number : the worker's place among the workers, from 0
    """
    app = create_app(settings, metrics_folder=multiprocess.share(number), spans=open_traces())
    app.openapi()  # Takes 80 ms; otherwise the first requests would wait for it.
    protocol = partial(
        LimitedHttpProtocol,
        check_origin=app.state.runtime.check_origin,
        head_seconds=settings.body_timeout_seconds,
        refuse=app.state.runtime.connection_errors,
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
        proxy_headers=bool(settings.trusted_proxies),
        forwarded_allow_ips=settings.trusted_proxies,
        timeout_keep_alive=math.ceil(settings.keep_alive_seconds),
        timeout_graceful_shutdown=math.ceil(settings.grace_seconds),
    )
    signal.signal(signal.SIGHUP, lambda *_: app.state.runtime.api_keys.read_again())
    Server(config).run(sockets=[listener])


def main() -> None:
    """Read arguments and settings from the supervisor, and serve."""
    descriptor, parent, number = map(int, sys.argv[1:])
    die_with_parent(parent)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # Until the keys are read, which are those of the file then.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    settings = Settings(**json.load(sys.stdin))
    logs.configure(settings.log_level)
    serve(settings, socket.socket(fileno=descriptor), number)


if __name__ == "__main__":
    main()
