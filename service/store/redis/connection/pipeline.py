"""One connection for many calls: commands of one turn of the event loop leave together, replies come in order.

With a connection for each call, redis-py's pool, locks and timers took more of a commit's processor time than all
else that a worker does for it; docs/performance.md has the figures. redis-py still opens the connection: it knows
TLS, credentials and databases. Its pipelines are lists of commands whose replies come together, not this.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

import hiredis
from redis._parsers.base import BaseParser
from redis.asyncio import Connection
from redis.asyncio.connection import AbstractConnection
from redis.exceptions import (
    ConnectionError,  # noqa: A004 - redis-py's own
    InvalidResponse,
    RedisError,
    TimeoutError,  # noqa: A004 - redis-py's own
)

from .failures import lost_connections_told

RedisArgument = str | bytes | int
CLOSED = "Connection closed by server."
_INCOMPLETE = object()


class Pipeline(asyncio.Protocol):
    """An open connection on which any number of calls are under way.

    The first call that is not answered in time closes it, so that a frozen server is noticed as soon as if each
    call had a timer. All calls under way fail with the connection: the server may have carried them out or not. A
    caller that leaves keeps its place, and its reply is dropped.

    Parameters
    ----------
    connection : connected; not to be used elsewhere
    reply_seconds : timeout for a reply

    Attributes
    ----------
    address : host and port of the server; of a socket "" and 0
    is_open : whether calls may be sent
    """

    def __init__(self, connection: AbstractConnection, reply_seconds: float) -> None:
        self.address = (str(getattr(connection, "host", "")), int(getattr(connection, "port", 0)))
        self._reply_seconds = reply_seconds
        self._loop = asyncio.get_running_loop()
        self._calls: deque[tuple[asyncio.Future[Any], float]] = deque()
        """Calls under way, oldest first, and when each is late."""
        self._outgoing: list[bytes] = []
        """Commands of this turn of the event loop."""
        self._replies = hiredis.Reader(InvalidResponse, BaseParser.parse_error, notEnoughData=_INCOMPLETE)
        self._timer: asyncio.TimerHandle | None = None
        self.is_open = True
        # Without its stream redis-py neither reads nor closes the connection.
        self._stream = connection._writer  # noqa: SLF001
        connection._writer = None  # noqa: SLF001
        self._transport: Any = self._stream.transport  # type: ignore[union-attr]
        self._transport.set_protocol(self)

    @classmethod
    async def open(cls, settings: Mapping[str, Any], reply_seconds: float) -> Pipeline:
        """Connect with redis-py's settings of a connection.

        Parameters
        ----------
        settings : redis-py's, as ``read_url`` gives them
        reply_seconds : timeout of each call from its sending to its reply

        Raises
        ------
        RedisError
            if that fails.
        """
        settings = dict(settings)
        connection = settings.pop("connection_class", Connection)(**settings)
        try:
            with lost_connections_told():
                await connection.connect()
                return cls(connection, reply_seconds)
        finally:
            await connection.disconnect(nowait=True)

    @property
    def is_idle(self) -> bool:
        """Whether no call is under way."""
        return not self._calls

    def send(self, command: bytes) -> asyncio.Future[Any]:
        """Send a command; its reply comes in the future, or a RedisError.

        Parameters
        ----------
        command : as ``packed`` makes it

        Raises
        ------
        ConnectionError
            if the connection was just lost.
        """
        if self._transport.is_closing():
            raise ConnectionError(CLOSED)
        if not self._outgoing:
            self._loop.call_soon(self._flush)
        self._outgoing.append(command)
        reply, late = self._loop.create_future(), self._loop.time() + self._reply_seconds
        self._calls.append((reply, late))
        if self._timer is None:
            self._timer = self._loop.call_at(late, self._look)
        return reply

    def retire(self) -> None:
        """Close when the calls under way have their replies."""
        self.is_open = False
        if self.is_idle:
            self.close()

    def close(self, error: RedisError | None = None) -> None:
        """Close now; calls under way fail with ``error``, by default a ConnectionError."""
        self.is_open = False
        self._transport.abort()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        calls, self._calls = self._calls, deque()
        for reply, _ in calls:
            if not reply.done():
                reply.set_exception(error or ConnectionError(CLOSED))

    def data_received(self, data: bytes) -> None:
        try:
            self._replies.feed(data)
            while (reply := self._replies.gets()) is not _INCOMPLETE:
                future, _ = self._calls.popleft()
                if future.done():
                    continue  # Its caller has left.
                if isinstance(reply, RedisError):
                    future.set_exception(reply)
                else:
                    future.set_result(reply)
        except (InvalidResponse, IndexError):
            self.close(ConnectionError("the server sent what is no reply to a call"))
        if not self.is_open and not self._calls:
            self.close()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's name
        self.close()

    def _flush(self) -> None:
        commands, self._outgoing = self._outgoing, []
        if not self._transport.is_closing():
            self._transport.writelines(commands)

    def _look(self) -> None:
        """Close the connection if the oldest call is late, else look again when it will be."""
        self._timer = None
        if self._calls:
            late = self._calls[0][1]
            if self._loop.time() >= late:
                self.close(TimeoutError("no reply in time"))
            else:
                self._timer = self._loop.call_at(late, self._look)


def packed(command: Sequence[RedisArgument]) -> bytes:
    """Return a command as it is sent.

    Parameters
    ----------
    command : its name and arguments

    Raises
    ------
    TypeError
        for an argument of another type.
    """
    return hiredis.pack_command(tuple(command))  # type: ignore[arg-type,no-any-return] # Its stub allows one argument.
