"""Takes connections from the socket that all workers share.

Every idle worker wakes up for a new connection, and whoever comes first takes it: a worker that is dead, stopped
or busy is not waited for. (With a socket for each worker, among which the kernel chooses, a share of the clients
waits for exactly that worker. If one worker alone woke up, a client would wait where that one stops before it
comes.) A worker with more connections than another that lives lets the others come first.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
from collections.abc import Callable
from functools import partial

from .board import Board
from .listening import listen

DEFER_SECONDS = 0.005
"""How long a worker with many connections leaves a new one to the others."""
_AHEAD = 4
"""Connections that a worker may hold more than another, plus an eighth of the other's, before it waits."""
_FULL_SECONDS = 0.1
"""Pause after the process or the machine has no file or memory left for a connection."""
_FULL = {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM}

log = logging.getLogger(__name__)


class Acceptor:
    """Accepts connections, one at a turn of the event loop; has the methods that uvicorn calls on its servers.

    Parameters
    ----------
    listener : the shared socket
    make_protocol : makes the protocol of one connection
    board, worker : where this worker says how many connections it holds, and its place there
    connections : how many it holds
    """

    def __init__(
        self,
        listener: socket.socket,
        make_protocol: Callable[[socket.socket], asyncio.Protocol],
        board: Board,
        worker: int,
        connections: Callable[[], int],
    ) -> None:
        self._listener = listener
        self._make_protocol = make_protocol
        self._board, self._worker = board, worker
        self._connections = connections
        self._loop = asyncio.get_running_loop()
        self._opening: set[asyncio.Task[object]] = set()
        # Set while the listener is not watched: another worker, or memory, is waited for.
        self._pause: asyncio.TimerHandle | None = None
        self._deferred = False

    def start(self) -> None:
        """Listen, and accept from now on."""
        self._listener.setblocking(False)
        listen(self._listener)
        self._watch()

    def keep_listening(self) -> None:
        """Listen again, where the supervisor ended it just when this worker began."""
        listen(self._listener)

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
        if not self._deferred and self._is_ahead():
            self._deferred = True
            self._wait(DEFER_SECONDS)
            return
        self._deferred = False
        self._accept()

    def _is_ahead(self) -> bool:
        least = self._board.least_connections(but=self._worker)
        return self._held() > least + _AHEAD + least // 8

    def _held(self) -> int:
        return self._connections() + len(self._opening)

    def _accept(self) -> bool:
        try:
            connection, _ = self._listener.accept()
        except (BlockingIOError, ConnectionAbortedError):
            return False
        except OSError as error:
            self._on_error(error)
            return False
        connection.setblocking(False)
        opening = self._loop.create_task(
            self._loop.connect_accepted_socket(lambda: self._make_protocol(connection), connection)
        )
        self._opening.add(opening)
        opening.add_done_callback(partial(self._opened, connection))
        self._board.count(self._worker, self._held())
        return True

    def _opened(self, connection: socket.socket, opening: asyncio.Task[object]) -> None:
        self._opening.discard(opening)
        if not opening.cancelled() and (error := opening.exception()) is not None:
            connection.close()
            log.info("a connection ended before it began: %s", error)

    def _on_error(self, error: OSError) -> None:
        if error.errno == errno.EINVAL:
            self.keep_listening()
        elif error.errno in _FULL:
            log.warning("no connection can be taken: %s", error.strerror)
            self._wait(_FULL_SECONDS)
        else:
            log.warning("a connection can't be taken: %s", error)
