"""A worker process: it gets ready to end with the supervisor, and only then imports what it serves.

The supervisor runs it as ``python -m service.server.worker SOCKET_FD BOARD_FD PARENT_PID NUMBER`` and writes the
settings as JSON to its stdin; ``NUMBER`` is its place among the workers, from 0.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
import json
import math
import os
import signal
import socket
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import uvicorn
import uvloop

from ..app import create_app
from ..settings import Settings
from ..telemetry import multiprocess
from ..telemetry.tracing_config import open_traces
from .connection import HttpConnection
from .connection_limits import ConnectionLimit, allowed_connections
from .pool import BEAT_SECONDS, Acceptor, Board

# -- What a worker does: it serves the socket that all workers share with uvicorn.
#
# It writes one byte to stdout when it serves; from then on its stdout is its stderr.

SWITCH_SECONDS = 0.001
"""Python's switch interval: how long a thread may hold the interpreter while the event loop waits."""
YOUNG_OBJECTS = 10_000
"""New objects after which young ones are scanned for garbage; that takes a fraction of a millisecond."""


def limit_event_loop_waits() -> None:
    """Keep the event loop from long waits: switch threads often, and scan for garbage seldom.

    A collection that scans all imported objects takes some 50 ms, and finds a thousand small ones. By default one
    of young objects would begin with every few requests, while those that make most of them still run: 5 % of a
    request's time.
    """
    sys.setswitchinterval(SWITCH_SECONDS)
    gc.freeze()
    gc.set_threshold(YOUNG_OBJECTS, *gc.get_threshold()[1:])
    gc.enable()


class EventLoop(uvloop.Loop):
    """Looks names up before it connects.

    uvloop leaves the look-up behind when a connection is given up. Where the resolver hangs and fails later, that
    is logged as "Future exception was never retrieved", for each connection that was tried.
    """

    async def create_connection(
        self, protocol_factory: Any, host: Any = None, port: Any = None, **options: Any
    ) -> Any:
        """Connect to the first address of the host that accepts, else raise the error of the last.

        Parameters
        ----------
        protocol_factory, options : as asyncio takes them; ``server_hostname`` is ``host`` by default
        host : name or address; None where the options have a socket

        Raises
        ------
        OSError
            where no address accepts, or the name is not found.
        """
        connect: Any = super().create_connection
        if host is None:
            return await connect(protocol_factory, **options)
        if options.get("ssl"):
            options.setdefault("server_hostname", host)
        *others, last = await self.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        for *_, (address, *_) in others:
            try:
                return await connect(protocol_factory, address, port, **options)
            except OSError:
                continue
        return await connect(protocol_factory, last[-1][0], port, **options)


class Server(uvicorn.Server):
    """uvicorn's server on the shared socket; it listens once it can answer, and says again and again that it lives.

    Parameters
    ----------
    config : of uvicorn, with the application and the class of connections
    listener : the shared socket
    limit : counts the connections
    told : gets the number of connections at each beat
    board : where the worker says that it lives
    number : the worker's place among the workers, from 0
    """

    def __init__(
        self,
        config: uvicorn.Config,
        listener: socket.socket,
        limit: ConnectionLimit,
        told: Callable[[float], None],
        board: Board,
        number: int,
    ) -> None:
        super().__init__(config)
        self._listener = listener
        self._limit = limit
        self._told = told
        self._board, self._number = board, number

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        limit_event_loop_waits()
        acceptor = Acceptor(self._listener, self._protocol, self._board, self._number, lambda: self._limit.count)
        self.servers = [acceptor]  # type: ignore[list-item]
        self._beat(acceptor)
        acceptor.start()
        os.write(sys.stdout.fileno(), b".")
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())

    def _protocol(self, connection: socket.socket) -> asyncio.Protocol:
        made: asyncio.Protocol = self.config.http_protocol_class(  # type: ignore[call-arg]
            config=self.config, server_state=self.server_state, app_state=self.lifespan.state, connection=connection
        )
        return made

    def _beat(self, acceptor: Acceptor) -> None:
        self._board.beat(self._number, self._limit.count)
        self._told(self._limit.count)
        if not self.should_exit:
            acceptor.keep_listening()
        asyncio.get_running_loop().call_later(BEAT_SECONDS, self._beat, acceptor)


def serve(settings: Settings, listener: socket.socket, board: Board, number: int) -> None:
    """Serve until SIGTERM, then finish the accepted requests.

    Parameters
    ----------
    settings : of the service, with its keys hashed
    listener : the socket that all workers share, bound
    board : where the worker says that it lives
    number : the worker's place among the workers, from 0
    """
    folder = multiprocess.share(number)
    app = create_app(settings, metrics_folder=folder, spans=open_traces(), draining=board.is_draining)
    runtime = app.state.runtime
    allowed = allowed_connections(settings.max_connections, settings.store_connections)
    limit = ConnectionLimit(allowed, time.monotonic)
    protocol = partial(
        HttpConnection,
        check_origin=runtime.check_origin,
        draining=board.is_draining,
        limit=limit,
        head_seconds=settings.body_timeout_seconds,
        refuse=runtime.connection_errors,
    )
    config = uvicorn.Config(
        app.outermost,
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
    signal.signal(signal.SIGHUP, lambda *_: runtime.api_keys.read_again())
    server = Server(config, listener, limit, runtime.metrics.connections.set, board, number)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))  # uvicorn raises it again when it has ended.
    with asyncio.Runner(loop_factory=EventLoop) as runner:
        runner.run(server.serve(sockets=[]))


_PR_SET_PDEATHSIG = 1


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


def main() -> None:
    """Read arguments and settings from the supervisor, and serve."""
    descriptor, shared, parent, number = map(int, sys.argv[1:])
    die_with_parent(parent)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # Until the keys are read, which are those of the file then.
    # Nothing needs an end yet, and SystemExit may be lost: Python ignores what is raised while it collects objects.
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    # Collections would look through what is imported again and again, a tenth of the start; `serving` allows them.
    gc.disable()
    from ..settings import Settings
    from ..telemetry import logs
    from .pool import Board

    settings = Settings(**json.load(sys.stdin))
    logs.configure(settings.log_level)
    serve(settings, socket.socket(fileno=descriptor), Board(shared, settings.workers), number)


if __name__ == "__main__":
    main()
