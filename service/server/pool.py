"""What the workers of one service share: the listening socket, and a board on which each says that it lives.

It imports nothing else of the service.
"""

from __future__ import annotations

import asyncio
import errno
import ipaddress
import logging
import mmap
import os
import re
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import cast

# -- A board in shared memory: every worker says that it lives and how many connections it holds.
#
# All processes of a service read it at any moment, without messages that a process which stands still could hold
# up. Each number is written by one process, as eight bytes at once, but those of API keys.

BEAT_SECONDS = 0.25
"""How often a worker's event loop says that it lives."""
FRESH_SECONDS = 4 * BEAT_SECONDS
"""A worker that has said nothing for so long is not expected to take a connection."""
_DRAINING, _FIRST_ROW = 0, 1
"""Places of the numbers: one for all, then a row for each worker: time of the last beat, connections, and what
``Board.of_owner`` returns; then ``Board.full_at``."""
API_KEYS = 1000
"""As many as a service may have."""


class Board:
    """The numbers of all processes of one service; the supervisor makes it, and workers inherit its descriptor.

    Parameters
    ----------
    descriptor : of the shared memory
    workers : number of rows; the methods name a worker by its place, from 0
    clock : seconds, the same for all processes of the machine

    Attributes
    ----------
    descriptor : for the workers' processes
    workers : number of rows
    full_at : of each API key, by its place, when its bucket of requests is full again; all workers write it
    """

    def __init__(self, descriptor: int, workers: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._numbers = memoryview(mmap.mmap(descriptor, _bytes(workers))).cast("d")
        self.full_at = self._numbers[_row(workers, workers) :]
        self.descriptor, self.workers, self._clock = descriptor, workers, clock
        # Whether the service is about to stop, and still serves: asked for every request.
        self.is_draining = cast("Callable[[], bool]", partial(self._numbers.__getitem__, _DRAINING))

    @classmethod
    def create(cls, workers: int) -> Board:
        """Make an empty board, in memory that no other program finds, and that ends with its processes."""
        if sys.platform == "linux":
            descriptor = os.memfd_create("bandit-workers")
        else:
            with tempfile.TemporaryFile() as file:
                descriptor = os.dup(file.fileno())
        os.truncate(descriptor, _bytes(workers))
        return cls(descriptor, workers)

    def drain(self) -> None:
        """Let every worker say that it is not ready."""
        self._numbers[_DRAINING] = 1.0

    def beat(self, worker: int, connections: int) -> None:
        """Say that a worker's event loop runs, and how many connections it holds."""
        self.count(worker, connections)
        self._numbers[_row(worker, self.workers)] = self._clock()

    def count(self, worker: int, connections: int) -> None:
        """Say how many connections a worker holds."""
        self._numbers[_row(worker, self.workers) + 1] = connections

    def last_beat(self, worker: int) -> float:
        """Return when a worker's event loop ran last, in seconds of the clock; 0 before it serves."""
        return self._numbers[_row(worker, self.workers)]

    def forget(self, worker: int) -> None:
        """Clear the row of a worker that has ended."""
        self._numbers[_row(worker, self.workers)] = self._numbers[_row(worker, self.workers) + 1] = 0.0

    def is_fresh(self, worker: int) -> bool:
        """Return whether a worker has said lately that it lives."""
        return self.last_beat(worker) >= self._clock() - FRESH_SECONDS

    def of_owner(self, worker: int) -> memoryview[float]:
        """Return what ``owners`` keeps of a worker.

        That is, for each worker, its last request that this one has read, and then the name of this one's socket.
        """
        return self._numbers[_row(worker, self.workers) + 2 : _row(worker + 1, self.workers)]

    def serving(self) -> Sequence[int]:
        """Return the workers that serve, or did before they stood still."""
        return [worker for worker in range(self.workers) if self.last_beat(worker)]

    def least_connections(self, but: int) -> float:
        """Return the connections of that other worker which holds fewest; infinite where no other lives."""
        others = (each for each in range(self.workers) if each != but and self.is_fresh(each))
        return min((self._numbers[_row(each, self.workers) + 1] for each in others), default=float("inf"))


def _row(worker: int, workers: int) -> int:
    return _FIRST_ROW + (3 + workers) * worker


def _bytes(workers: int) -> int:
    return 8 * (_row(workers, workers) + API_KEYS)


# -- Whether the shared socket listens: only while a worker can answer, so that clients are refused at once
# otherwise.
#
# The supervisor binds the socket, and every worker inherits it. A worker lets it listen when it can answer; when
# no worker is left, the supervisor ends that. Connections that wait in the kernel are reset then, and new ones
# refused.

BACKLOG = 2048
"""Connections that may wait for a worker; the kernel may allow fewer."""


def listen(listener: socket.socket) -> None:
    """Let the socket listen; without effect where it does."""
    # Connections inherit it. Without it those that have ended would keep the address from the next service.
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if not listener.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
        listener.listen(BACKLOG)


def refuse(listener: socket.socket) -> None:
    """Refuse connections from now on, and keep the address (Linux; elsewhere connections wait)."""
    if sys.platform != "linux":
        return
    # Linux lets another service bind the address of a socket that does not listen, unless this is off.
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 0)
    if listener.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
        listener.shutdown(socket.SHUT_RD)


# -- Takes connections from the socket that all workers share.
#
# Every idle worker wakes up for a new connection, and whoever comes first takes it: a worker that is dead,
# stopped or busy is not waited for. (With a socket for each worker, among which the kernel chooses, a share of
# the clients waits for exactly that worker. If one worker alone woke up, a client would wait where that one stops
# before it comes.) A worker with more connections than another that lives lets the others come first.

DEFER_SECONDS = 0.005
"""How long a worker with many connections leaves a new one to the others."""
_AHEAD = 4
"""Connections that a worker may hold more than another, plus an eighth of the other's, before it waits."""
_FULL_SECONDS = 0.1
"""Pause after the process or the machine has no file or memory left for a connection."""
_FULL = {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM}

log = logging.getLogger(__name__)


@dataclass(eq=False)
class Acceptor:
    """Accepts connections, one at a turn of the event loop; has the methods that uvicorn calls on its servers.

    Parameters
    ----------
    listener : the shared socket
    make_protocol : makes the protocol of one ``connection``, a socket
    board, worker : where this worker says how many connections it holds, and its place there
    connections : how many it holds
    """

    _listener: socket.socket
    _make_protocol: Callable[..., asyncio.Protocol]
    _board: Board
    _worker: int
    _connections: Callable[[], int]
    _loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.get_running_loop)
    _opening: set[asyncio.Task[object]] = field(default_factory=set)
    _pause: asyncio.TimerHandle | None = None
    """Set while the listener is not watched: another worker, or memory, is waited for."""
    _deferred: bool = False

    def start(self) -> None:
        """Listen, and accept from now on."""
        self._listener.setblocking(False)
        listen(self._listener)
        self._watch()

    def close(self) -> None:
        """Take what waits already, and no more."""
        if self._pause is not None:
            self._pause.cancel()
        self._loop.remove_reader(self._listener)
        while self._accept():
            pass
        self._listener.close()

    async def wait_closed(self) -> None:
        """Return when every accepted connection has its protocol."""
        while self._opening:
            await asyncio.wait(self._opening)

    def _watch(self) -> None:
        self._pause = None
        self._loop.add_reader(self._listener, self._on_connection)

    def _wait(self, seconds: float) -> None:
        self._loop.remove_reader(self._listener)
        self._pause = self._loop.call_later(seconds, self._watch)

    def _on_connection(self) -> None:
        least = self._board.least_connections(but=self._worker)
        self._deferred = not self._deferred and self._held() > least + _AHEAD + least // 8
        if self._deferred:
            self._wait(DEFER_SECONDS)
        else:
            self._accept()

    def _held(self) -> int:
        return self._connections() + len(self._opening)

    def _accept(self) -> bool:
        try:
            connection, _ = self._listener.accept()
        except (BlockingIOError, ConnectionAbortedError):
            return False
        except OSError as error:
            if error.errno == errno.EINVAL:
                listen(self._listener)  # The supervisor ended it just when this worker began.
            elif error.errno in _FULL:
                log.warning("no connection can be taken: %s", error.strerror)
                self._wait(_FULL_SECONDS)
            else:
                log.warning("a connection can't be taken: %s", error)
            return False
        connection.setblocking(False)
        make_protocol = partial(self._make_protocol, connection=connection)
        opening = self._loop.create_task(self._loop.connect_accepted_socket(make_protocol, connection))
        self._opening.add(opening)
        opening.add_done_callback(partial(self._opened, connection))
        self._board.count(self._worker, self._held())
        return True

    def _opened(self, connection: socket.socket, opening: asyncio.Task[object]) -> None:
        self._opening.discard(opening)
        if not opening.cancelled() and (error := opening.exception()) is not None:
            connection.close()
            log.info("a connection ended before it began: %s", error)


# -- Finds workers whose event loop stands still: hung, stopped by a signal, or waiting for a disk that is gone.

LOOK_SECONDS = 0.5
"""How often the supervisor looks at the board."""
_START_SECONDS = 60.0
"""What a worker has to begin to serve: on a busy machine its imports alone take ten."""


class Watchdog:
    """Counts for how long each worker has said nothing while the supervisor itself was running.

    A machine that slept, or a supervisor that was stopped, finds every beat old when it goes on: so a look counts
    for the usual pause, and workers that run again beat before the next. At most one worker is given up at a look.
    A worker under a debugger is never given up.

    Parameters
    ----------
    board : where the workers say that they live
    seconds : for how long a worker may say nothing
    """

    def __init__(self, board: Board, seconds: float) -> None:
        self._board, self._seconds = board, seconds
        self._silent: dict[int, tuple[int, float, float]] = {}
        """Worker to its process, its last beat and the seconds for which it has said nothing."""

    def stuck(self, processes: dict[int, int]) -> int | None:
        """Return the worker that has been silent for longest, where that is too long.

        Parameters
        ----------
        processes : process id of each worker, by its place among the workers
        """
        before, self._silent = self._silent, {}
        for worker, process in processes.items():
            beat, last = self._board.last_beat(worker), before.get(worker)
            silent = last[2] + LOOK_SECONDS if last is not None and last[:2] == (process, beat) else 0.0
            self._silent[worker] = process, beat, silent
        for worker, (process, beat, silent) in sorted(self._silent.items(), key=lambda item: -item[1][2]):
            if silent < (self._seconds if beat else max(self._seconds, _START_SECONDS)):
                continue
            if not is_traced(process):
                del self._silent[worker]
                return worker
            log.warning("worker %d does not answer and is being debugged: it stays", process)
            self._silent[worker] = process, self._board.last_beat(worker), 0.0
        return None


def is_traced(process: int) -> bool:
    """Return whether a debugger holds the process; always False where there is no ``/proc``."""
    with suppress(OSError):
        status = Path(f"/proc/{process}/status").read_text()
        return re.search(r"^TracerPid:\s*[1-9]", status, re.MULTILINE) is not None
    return False


# -- The address of the service: bound by the supervisor, shared by all workers.


class AddressError(Exception):
    """The service can't listen on the address; the text says why."""


def bind(host: str, port: int) -> socket.socket:
    """Bind the socket that all workers share, so that no other service can; it refuses until a worker listens.

    Parameters
    ----------
    host : name or address of this machine; IPv6 without brackets
    port : 0 chooses a free port

    Raises
    ------
    AddressError
        if the address is unknown, forbidden or in use.
    """
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, _, _, _, (address, *_) = found[0]
        listener = _bound(family, address, port)
        if port == 0:
            # Linux forgets a port that it chose itself when a socket ends to listen, so it is bound by its number.
            chosen, listener = listener, _bound(family, address, listener.getsockname()[1])
            chosen.close()
        # To listen for a moment finds out whether another service does, and makes Linux keep the address for it.
        listen(listener)
        refuse(listener)
        return listener
    except OSError as error:
        reason = error.strerror if isinstance(error, socket.gaierror) else os.strerror(error.errno or 0)
        advice = "; choose another with --port" if error.errno == errno.EADDRINUSE else ""
        raise AddressError(f"can't listen on {show(host, port)}: {reason}{advice}") from error


def show(host: str, port: int) -> str:
    """Return host and port as a URL has them.

    Parameters
    ----------
    host : name or address; IPv6 without brackets
    port : where the service listens
    """
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _bound(family: int, address: object, port: int) -> socket.socket:
    listener = socket.socket(family)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        listener.bind((address, port))
    except OSError:
        listener.close()
        raise
    return listener


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach the address.

    Parameters
    ----------
    host : address or name; of the names only ``localhost`` counts
    """
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
