"""What a worker process does: it serves the socket that all workers share, with uvicorn.

It writes one byte to stdout when it serves; from then on its stdout is its stderr.
"""

import asyncio
import gc
import math
import os
import signal
import socket
import sys
import time
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
from .owners import Owners
from .pool import BEAT_SECONDS, Acceptor, Board, listen

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
    settings : of the service, with its keys hashed
    listener : the socket that all workers share, bound
    board : where the worker says that it lives, and how many connections it has
    number : the worker's place among the workers, from 0
    """

    def __init__(self, settings: Settings, listener: socket.socket, board: Board, number: int) -> None:
        folder, spans = multiprocess.share(number), open_traces()
        app = create_app(
            settings, metrics_folder=folder, spans=spans, draining=board.is_draining, full_at=board.full_at
        )
        others = settings.store_connections + settings.workers * (2 + len(multiprocess.KINDS))
        allowed = allowed_connections(settings.max_connections, others)
        self.runtime, self._limit = app.state.runtime, ConnectionLimit(allowed, time.monotonic)
        self._listener, self._board, self._number = listener, board, number
        protocol = partial(
            HttpConnection,
            check_origin=self.runtime.check_origin,
            draining=board.is_draining,
            limit=self._limit,
            head_seconds=settings.body_timeout_seconds,
            refuse=app.requests.refuse,
        )
        config = uvicorn.Config(
            app.outermost,
            http=protocol,  # type: ignore[arg-type]
            ws="none",
            workers=1,  # Else uvicorn reads WEB_CONCURRENCY.
            lifespan="on",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=bool(settings.trusted_proxies),
            forwarded_allow_ips=settings.trusted_proxies,
            timeout_keep_alive=math.ceil(settings.keep_alive_seconds),
            timeout_graceful_shutdown=math.ceil(settings.grace_seconds),
        )
        super().__init__(config)
        self._owners = Owners(board, number, self, app.requests, spans)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        limit_event_loop_waits()
        protocol: Any = self.config.http_protocol_class
        make = partial(protocol, self.config, self.server_state, self.lifespan.state)
        acceptor = Acceptor(self._listener, make, self._board, self._number, lambda: self._limit.count)
        self.servers = [acceptor]  # type: ignore[list-item]
        await self._owners.start()
        self._beat()
        acceptor.start()
        os.write(sys.stdout.fileno(), b".")
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self.runtime.sessions.logs.stop()
        acceptor = self.servers.pop()  # uvicorn would not tell those that it accepts last that they are to end.
        acceptor.close()
        await acceptor.wait_closed()
        await super().shutdown(sockets)

    def _beat(self) -> None:
        self._board.beat(self._number, self._limit.count)
        self.runtime.metrics.connections.set(self._limit.count)
        self._owners.look()
        if not self.should_exit:
            listen(self._listener)  # Again, where the supervisor ended it just when this worker began.
        asyncio.get_running_loop().call_later(BEAT_SECONDS, self._beat)


def serve(settings: Settings, listener: socket.socket, board: Board, number: int) -> None:
    """Serve as ``Server`` says until SIGTERM, then finish the accepted requests."""
    server = Server(settings, listener, board, number)
    keys = (server.runtime.api_keys, server.runtime.sessions.tokens)
    signal.signal(signal.SIGHUP, lambda *_: [each.read_again() for each in keys])
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))  # uvicorn raises it again when it has ended.
    with asyncio.Runner(loop_factory=EventLoop) as runner:
        runner.run(server.serve(sockets=[]))
