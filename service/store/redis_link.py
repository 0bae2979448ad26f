"""Calls to a Redis server: bounded waits, and a second sending only where that is safe."""

from __future__ import annotations

import asyncio
import random
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any

from redis.asyncio.connection import AbstractConnection, ConnectionPool
from redis.exceptions import (
    ConnectionError,  # noqa: A004 - redis-py's own
    DataError,
    NoScriptError,
    ReadOnlyError,
    RedisError,
    ResponseError,
)

from service.store.base import StoreUnavailableError
from service.store.options import StoreOptions
from service.store.redis_url import connection_pool
from service.store.scripts import Script
from service.store.troubles import ReplicasBehindError, trouble

FIRST_PAUSE, LONGEST_PAUSE = 0.02, 0.25
"""Seconds; each pause before a further sending is drawn between 0 and twice the limit before."""

Word = str | bytes | int
CLOSED_HANDLE = "the handler is closed"
"""In what uvloop raises, a RuntimeError, where a connection is used that was lost a moment ago."""
UNDECIDED = frozenset({b"CONFLICT", b"KNOWN", b"CLOCK"})
"""Outcomes of scripts that nobody is told: what they led to is asked about again."""


class Attempt:
    """One sending of a call.

    Parameters
    ----------
    replicas : how many must have what was done, and what had been done before, before the reply counts
    replica_seconds : how long they may take
    """

    def __init__(self, replicas: int = 0, replica_seconds: float = 0.0) -> None:
        self.sent = False
        """Whether the server may have got it."""
        self.replicas = replicas
        self.replica_seconds = replica_seconds


class RedisLink(ABC):
    """Calls, each sent until it is through or not worth another try.

    A call is sent again after a passing trouble, with random pauses, until ``resend_seconds`` after its first
    sending; and only once in an outage that has lasted longer than that already. redis-py itself repeats nothing.
    """

    def __init__(self, options: StoreOptions) -> None:
        self._options = options
        self._free = asyncio.Semaphore(options.max_connections)
        self._down_since: float | None = None

    @abstractmethod
    async def _send(self, commands: Sequence[Sequence[Word]], attempt: Attempt) -> Any:
        """Send one of the commands: the first, or where the server doesn't know the script, the next."""

    @abstractmethod
    async def servers(self) -> Sequence[Mapping[str, object]]:
        """What INFO says of each server that takes commits."""

    @abstractmethod
    async def close(self) -> None:
        """Close all connections."""

    async def script(
        self,
        script: Script,
        keys: Sequence[str],
        args: Sequence[Word] = (),
        *,
        resend: bool = True,
        patience: float | None = None,
        replica_seconds: float = 0.0,
    ) -> Any:
        """Run a script.

        Parameters
        ----------
        resend : False where running it twice would give a wrong answer
        patience : seconds in place of ``resend_seconds``
        replica_seconds : how long ``min_replicas`` may take to have all that led to the reply; 0 asks none

        Raises
        ------
        StoreUnavailableError
            whatever the reason; the script may or may not have run.
        """
        tail = (len(keys), *keys, *args)
        commands = (("EVALSHA", script.sha, *tail), ("EVAL", script.source, *tail))
        return await self._through(
            partial(self._send, commands), resend=resend, patience=patience, replica_seconds=replica_seconds
        )

    async def _through(
        self,
        send: Callable[[Attempt], Awaitable[Any]],
        *,
        resend: bool = True,
        patience: float | None = None,
        replica_seconds: float = 0.0,
    ) -> Any:
        started, pause = time.monotonic(), FIRST_PAUSE
        patience = self._options.resend_seconds if patience is None else patience
        while True:
            attempt = Attempt(self._options.min_replicas if replica_seconds else 0, replica_seconds)
            try:
                async with self._turn():
                    reply = await send(attempt)
            except DataError:
                raise
            except RedisError as error:
                what = trouble(error)
                if not what.passing or (attempt.sent and not resend) or not self._may_wait(started, patience):
                    raise StoreUnavailableError(what.reason) from error
            else:
                self._down_since = None
                return reply
            await asyncio.sleep(random.uniform(0, pause))  # noqa: S311 - spreads load, guards nothing
            pause = min(2 * pause, LONGEST_PAUSE)

    def _may_wait(self, started: float, patience: float) -> bool:
        now = time.monotonic()
        self._down_since = now if self._down_since is None else self._down_since
        return now < min(started, self._down_since) + patience

    @asynccontextmanager
    async def _turn(self) -> AsyncIterator[None]:
        """Wait until one of the connections is free."""
        try:
            async with asyncio.timeout(self._options.pool_wait_seconds if self._free.locked() else None):
                await self._free.acquire()
        except TimeoutError:
            raise StoreUnavailableError("all connections to the store are busy") from None
        try:
            yield
        finally:
            self._free.release()


class ServerLink(RedisLink):
    """Connections to one server, or to the one that sentinels name."""

    def __init__(self, url: str, options: StoreOptions) -> None:
        super().__init__(options)
        self._pool = connection_pool(url, options)

    async def servers(self) -> Sequence[Mapping[str, object]]:
        return [info_of(await self._through(partial(self._send, (("INFO",),))))]

    async def close(self) -> None:
        await self._pool.aclose()

    async def _send(self, commands: Sequence[Sequence[Word]], attempt: Attempt) -> Any:
        return await exchange(self._pool, commands, attempt)


async def exchange(
    pool: ConnectionPool, commands: Sequence[Sequence[Word]], attempt: Attempt, *, asking: bool = False
) -> Any:
    """Send the first command, and the next one where the server doesn't know the script.

    A connection whose reply was not read to its end (timeout, cancellation) is closed, so that nobody reads
    another's reply.

    Parameters
    ----------
    asking : whether a cluster has sent us here for this call only
    """
    try:
        return await _exchange(pool, commands, attempt, asking)
    except RuntimeError as error:
        if CLOSED_HANDLE not in str(error):
            raise
        raise ConnectionError("connection lost while it was used") from error


async def _exchange(
    pool: ConnectionPool, commands: Sequence[Sequence[Word]], attempt: Attempt, asking: bool
) -> Any:
    connection = await pool.get_connection()  # type: ignore[no-untyped-call]
    attempt.sent = True
    try:
        reply = await _reply(connection, commands, asking)
        if attempt.replicas and reply[2] not in UNDECIDED:
            await _replicated(connection, attempt)
        return reply
    except ReplicasBehindError:
        raise
    except ReadOnlyError:
        # The master is elsewhere by now; a new connection may lead there.
        await connection.disconnect(nowait=True)
        raise
    except ResponseError:
        raise
    except BaseException:
        await connection.disconnect(nowait=True)
        raise
    finally:
        await pool.release(connection)


async def _reply(connection: AbstractConnection, commands: Sequence[Sequence[Word]], asking: bool) -> Any:
    *known, last = commands
    for command in known:
        with suppress(NoScriptError):
            return await _answer(connection, command, asking)
    return await _answer(connection, last, asking)


async def _replicated(connection: AbstractConnection, attempt: Attempt) -> None:
    """Wait for replicas; WAIT covers whatever the master had done when it ran the connection's last command."""
    wait = ("WAIT", attempt.replicas, max(1, int(attempt.replica_seconds * 1000)))
    if await _answer(connection, wait, asking=False) < attempt.replicas:
        raise ReplicasBehindError


async def _answer(connection: AbstractConnection, command: Sequence[Word], asking: bool) -> Any:
    if asking:
        await connection.send_command("ASKING")
        await connection.read_response()
    await connection.send_command(*command)
    return await connection.read_response()


def info_of(reply: bytes) -> Mapping[str, object]:
    """The lines of INFO by name."""
    return dict(line.split(":", 1) for line in reply.decode().splitlines() if ":" in line)
