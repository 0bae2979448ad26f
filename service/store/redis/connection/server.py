"""The connections of a worker to one Redis server, and calls on them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Literal

from redis.asyncio.sentinel import MasterNotFoundError
from redis.exceptions import (
    ConnectionError,  # noqa: A004 - redis-py's own
    NoScriptError,
    ReadOnlyError,
)

from ...base import StoreUnavailableError
from ...options import StoreOptions
from .failures import ReplicasBehindError
from .pipeline import Pipeline, RedisArgument, packed
from .replicas import ReplicaWatch
from .sentinel import Master

UNDECIDED = frozenset({b"CONFLICT", b"KNOWN", b"KEYS"})
"""Outcomes after which the caller calls again; no client gets an answer based on them, so no replica needs them."""
LARGE_BYTES = 65_536
"""A command as long as this does not hold up others on the connection that they share."""
ASKING = packed(("ASKING",))


@dataclass(slots=True)
class Attempt:
    """One attempt to carry out a call."""

    replicas: int = 0
    """Number of replicas that must have what the reply is based on before it is returned."""
    replica_seconds: float = 0.0
    """Timeout for these replicas."""
    sent: bool = False
    """Whether the server may have received the call."""
    asking: bool = False
    """Whether a cluster redirected this one call to the server (ASK)."""


class CallLimit(asyncio.Semaphore):
    """Bounds the calls under way: ``async with`` waits for a place.

    Parameters
    ----------
    number : of calls
    seconds : timeout for a place, after which StoreUnavailableError is raised
    """

    def __init__(self, number: int, seconds: float) -> None:
        super().__init__(number)
        self._seconds = seconds

    async def acquire(self) -> Literal[True]:
        if not self.locked():
            return await super().acquire()
        try:
            async with asyncio.timeout(self._seconds):
                return await super().acquire()
        except TimeoutError:
            raise StoreUnavailableError("all connections to the store are busy") from None


class ServerConnections:
    """One connection that calls share, and others for calls that need one alone.

    A call needs one alone if it waits for replicas, since ``WAIT`` is for what its own connection wrote and holds
    up what comes behind it, or if it is large.

    Parameters
    ----------
    settings : redis-py's settings of a connection
    options : most connections, and timeouts for one of them and for replies
    master : who names the server; None if the settings do
    """

    def __init__(self, settings: Mapping[str, Any], options: StoreOptions, master: Master | None = None) -> None:
        self._settings = {name: value for name, value in settings.items() if not name.startswith("sentinel_")}
        self._options = options
        self._master = master
        self._shared: Pipeline | None = None
        self._opening: asyncio.Task[Pipeline] | None = None
        self._free: list[Pipeline] = []
        """Open connections of calls that had one alone."""
        self._limit = CallLimit(max(1, options.max_connections - 1), options.pool_wait_seconds)
        self._watches: dict[tuple[str, int], ReplicaWatch] = {}

    async def call(self, commands: Sequence[Sequence[RedisArgument]], attempt: Attempt) -> Any:
        """Send the first command, or the next one if the server does not know the script, and return the reply.

        Parameters
        ----------
        commands : name and arguments of each; one or more
        attempt : says which replicas to wait for; its ``sent`` is set when the server may have received the call

        Raises
        ------
        ReplicasBehindError
            if the call was carried out, but too few replicas acknowledged it in time.
        RedisError
            for any other failure; ``attempt.sent`` says whether the server may have received the call.
        """
        first = packed(commands[0])
        if attempt.replicas or len(first) >= LARGE_BYTES:
            async with self._alone() as pipeline:
                reply = await self._reply(pipeline, first, commands[1:], attempt)
                if attempt.replicas and reply[2] not in UNDECIDED:
                    await self._replicated(pipeline, attempt)
                return reply
        shared = self._shared
        if shared is None or not shared.is_open or (self._master and not self._is_current(shared)):
            shared = await self._open_shared()
        return await self._reply(shared, first, commands[1:], attempt)

    async def close(self) -> None:
        """Close all connections."""
        if self._opening is not None:
            await asyncio.wait([self._opening])
        for pipeline in (self._shared, *self._free):
            if pipeline is not None:
                pipeline.close()
        if self._master is not None:
            await self._master.close()

    async def _reply(
        self,
        pipeline: Pipeline,
        command: bytes,
        others: Sequence[Sequence[RedisArgument]],
        attempt: Attempt,
    ) -> Any:
        try:
            while True:
                if attempt.asking:
                    pipeline.send(ASKING).cancel()  # Its reply has a place, and is dropped.
                reply = pipeline.send(command)
                attempt.sent = True
                try:
                    return await reply
                except NoScriptError:
                    if not others:
                        raise
                command, others = packed(others[0]), others[1:]
        except ReadOnlyError as error:
            # Another server is the primary now; a new connection may reach it.
            pipeline.retire()
            if self._master is None:
                raise
            self._master.forget()
            raise ConnectionError("The previous master is now a slave") from error

    def _is_current(self, pipeline: Pipeline) -> bool:
        return pipeline.is_open and (self._master is None or self._master.is_current(pipeline.address))

    async def _open_shared(self) -> Pipeline:
        """Open the shared connection once for all who wait for it, even if some of them leave."""
        if self._opening is None:
            self._opening = asyncio.create_task(self._open(self._shared))
            self._opening.add_done_callback(self._opened)
        opening = self._opening
        await asyncio.wait([opening])  # Newer versions of Python log a failure that shield keeps from who has left.
        return opening.result()

    def _opened(self, opening: asyncio.Task[Pipeline]) -> None:
        self._opening = None
        if not opening.cancelled() and opening.exception() is None:
            self._shared = opening.result()

    async def _open(self, old: Pipeline | None) -> Pipeline:
        """Return a connection to the server: the old one, if it leads there."""
        settings = dict(self._settings)
        if self._master is not None:
            try:
                settings |= await self._master.where()
            except MasterNotFoundError:
                if old is None or not old.is_open:
                    raise
                return old  # If no sentinel answers, the last known master may still work.
        if old is not None:
            if self._is_current(old):
                return old
            old.retire()
        return await Pipeline.open(settings, self._options.reply_seconds)

    @asynccontextmanager
    async def _alone(self) -> AsyncIterator[Pipeline]:
        async with self._limit:
            old = self._free.pop() if self._free else None
            pipeline = old if old is not None and self._is_current(old) else await self._open(old)
            try:
                yield pipeline
            finally:
                if not pipeline.is_idle:  # The caller left: what is under way would hold up the next.
                    pipeline.close()
                elif pipeline.is_open:
                    self._free.append(pipeline)

    async def _replicated(self, pipeline: Pipeline, attempt: Attempt) -> None:
        """Wait until enough replicas have what the reply is based on.

        Redis 7.0 waits for everything that the primary had written when it ran this connection's last command.
        Valkey waits only for this connection's last write, so scripts write even if they change nothing (see
        lua/prelude.lua).
        """
        replicas = max(attempt.replicas, await self._watch(pipeline.address).needed(pipeline))
        wait = ("WAIT", replicas, max(1, int(attempt.replica_seconds * 1000)))
        if await pipeline.send(packed(wait)) < replicas:
            raise ReplicasBehindError

    def _watch(self, address: tuple[str, int]) -> ReplicaWatch:
        if address not in self._watches:
            self._watches[address] = ReplicaWatch(lambda: self._confirms(address))
        return self._watches[address]

    async def _confirms(self, address: tuple[str, int]) -> bool:
        return self._master is None or await self._master.is_named(address)
