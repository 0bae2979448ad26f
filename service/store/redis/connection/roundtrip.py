"""Send one command to a Redis server and read its reply, on a connection from a pool."""

from __future__ import annotations

import asyncio
import builtins
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from redis.asyncio.connection import AbstractConnection, ConnectionPool
from redis.exceptions import (
    ConnectionError,  # noqa: A004 - redis-py's own
    DataError,
    NoScriptError,
    ReadOnlyError,
    ResponseError,
    TimeoutError,  # noqa: A004 - redis-py's own
)

from .failures import ReplicasBehindError
from .replicas import ReplicaWatch
from .sentinel import MasterPool

RedisArgument = str | bytes | int
CLOSED_HANDLE = "the handler is closed"
"""Part of the RuntimeError that uvloop raises when a connection that was just lost is used."""
UNDECIDED = frozenset({b"CONFLICT", b"KNOWN", b"KEYS"})
"""Outcomes after which the caller calls again; no client gets an answer based on them, so no replica needs them."""


class Attempt:
    """One attempt to carry out a call.

    Parameters
    ----------
    replicas : number of replicas that must have what the reply is based on before it is returned
    replica_seconds : timeout for these replicas
    watches : by address, the replicas of the servers that were called
    """

    def __init__(
        self,
        replicas: int = 0,
        replica_seconds: float = 0.0,
        watches: dict[tuple[str, int], ReplicaWatch] | None = None,
    ) -> None:
        self.watches = {} if watches is None else watches
        self.sent = False
        """Whether the server may have received the call."""
        self.replicas = replicas
        self.replica_seconds = replica_seconds


async def round_trip(
    pool: ConnectionPool, commands: Sequence[Sequence[RedisArgument]], attempt: Attempt, *, asking: bool = False
) -> Any:
    """Send the first command, or the next one if the server does not know the script, and return the reply.

    A connection is closed if its reply was not read to the end (timeout, cancellation): otherwise the next call on
    it would read that reply.

    Parameters
    ----------
    commands : not empty
    asking : whether a cluster redirected this one call to this server (ASK)

    Raises
    ------
    ReplicasBehindError
        if the call was carried out, but too few replicas acknowledged it in time.
    RedisError
        for any other failure; ``attempt.sent`` says whether the server may have received the call.
    """
    try:
        return await _round_trip(pool, commands, attempt, asking)
    except RuntimeError as error:
        if CLOSED_HANDLE not in str(error):
            raise
        raise ConnectionError("connection lost while it was used") from error


async def _round_trip(
    pool: ConnectionPool, commands: Sequence[Sequence[RedisArgument]], attempt: Attempt, asking: bool
) -> Any:
    connection = await pool.get_connection()  # type: ignore[no-untyped-call]
    attempt.sent = True
    # One timer for both ways: redis-py's own, one for each, and a task to send, take a tenth of a call's time.
    seconds, connection.socket_timeout = connection.socket_timeout, None
    try:
        async with asyncio.timeout(seconds):
            reply = await _reply(connection, commands, asking)
        if attempt.replicas and reply[2] not in UNDECIDED:
            async with asyncio.timeout(seconds):
                await _replicated(pool, connection, attempt)
        return reply
    except builtins.TimeoutError as error:
        await connection.disconnect(nowait=True)
        raise TimeoutError("no reply in time") from error
    except ReplicasBehindError:
        raise
    except ReadOnlyError:
        # Another server is the primary now; a new connection may reach it.
        await connection.disconnect(nowait=True)
        raise
    except ResponseError:
        raise
    except BaseException:
        await connection.disconnect(nowait=True)
        raise
    finally:
        connection.socket_timeout = seconds
        await pool.release(connection)


async def _reply(connection: AbstractConnection, commands: Sequence[Sequence[RedisArgument]], asking: bool) -> Any:
    *known, last = commands
    for command in known:
        with suppress(NoScriptError):
            return await _reply_to(connection, command, asking)
    return await _reply_to(connection, last, asking)


async def _replicated(pool: ConnectionPool, connection: AbstractConnection, attempt: Attempt) -> None:
    """Wait until enough replicas have what the reply is based on.

    Redis 7.0 waits for everything that the primary had written when it ran this connection's last command. Valkey
    waits only for this connection's last write, so scripts write even if they change nothing (see lua/prelude.lua).
    """
    replicas = max(attempt.replicas, await _watch(pool, connection, attempt).needed(connection))
    wait = ("WAIT", replicas, max(1, int(attempt.replica_seconds * 1000)))
    if await _reply_to(connection, wait, asking=False) < replicas:
        raise ReplicasBehindError


def _watch(pool: ConnectionPool, connection: AbstractConnection, attempt: Attempt) -> ReplicaWatch:
    address = (str(getattr(connection, "host", "")), int(getattr(connection, "port", 0)))
    if address not in attempt.watches:
        confirm = partial(pool.names, address) if isinstance(pool, MasterPool) else _always
        attempt.watches[address] = ReplicaWatch(confirm)
    return attempt.watches[address]


async def _always() -> bool:
    return True


async def _reply_to(connection: AbstractConnection, command: Sequence[RedisArgument], asking: bool) -> Any:
    if asking:
        await connection.send_command("ASKING")
        await connection.read_response()
    await connection.send_packed_command(packed(command))
    return await connection.read_response()


def packed(command: Sequence[RedisArgument]) -> bytes:
    """Return a command as it is sent: a commit has some forty arguments, and redis-py takes 1 us for each.

    Raises
    ------
    DataError
        for an argument of another type.
    """
    parts = [b"*%d\r\n" % len(command)]
    for argument in command:
        if isinstance(argument, bytes):
            data = argument
        elif isinstance(argument, str):
            data = argument.encode()
        elif type(argument) is int:
            data = b"%d" % argument
        else:
            raise DataError(f"no argument of a command: {type(argument).__name__}")
        parts.append(b"$%d\r\n%b\r\n" % (len(data), data))
    return b"".join(parts)


def info_of(reply: bytes) -> Mapping[str, object]:
    """Return the lines of an INFO reply by name."""
    return dict(line.split(":", 1) for line in reply.decode().splitlines() if ":" in line)
