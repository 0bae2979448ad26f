"""Calls to a Redis server: every wait has a timeout, and only calls that are safe to repeat are retried."""

from __future__ import annotations

import asyncio
import random
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

from redis.exceptions import DataError, RedisError

from ...base import StoreFullError, StoreUnavailableError
from ...options import StoreOptions
from ..scripts import Script
from .failures import failure_of
from .replicas import ReplicaWatch
from .roundtrip import Attempt, RedisArgument, info_of

FIRST_PAUSE, LONGEST_PAUSE = 0.02, 0.25
"""Seconds; the upper limit of the random pause before a retry, which doubles from the first to the longest."""


class RedisClient(ABC):
    """Calls with retries.

    A call is retried after a transient failure, with random back-off, until ``retry_seconds`` after its first
    attempt. In an outage that has lasted longer than that it is tried once. redis-py itself retries nothing.
    """

    def __init__(self, options: StoreOptions) -> None:
        self._options = options
        self._free = asyncio.Semaphore(options.max_connections)
        self._down_since: float | None = None
        self._watches: dict[tuple[str, int], ReplicaWatch] = {}

    @abstractmethod
    async def _send(self, commands: Sequence[Sequence[RedisArgument]], attempt: Attempt) -> Any:
        """Send the first command, or the next one if the server does not know the script, and return the reply."""

    @abstractmethod
    async def ask_each(self, *command: RedisArgument) -> Sequence[Any]:
        """Return the reply to a command of each server that accepts commits."""

    async def servers(self) -> Sequence[Mapping[str, object]]:
        """Return the lines of INFO, by name, of each server that accepts commits."""
        return [info_of(reply) for reply in await self.ask_each("INFO")]

    @abstractmethod
    async def close(self) -> None:
        """Close all connections."""

    async def script(
        self,
        script: Script,
        keys: Sequence[str],
        args: Sequence[RedisArgument] = (),
        *,
        retry: bool = True,
        retry_seconds: float | None = None,
        replica_seconds: float = 0.0,
    ) -> Any:
        """Run a script and return its reply.

        Parameters
        ----------
        keys, args : KEYS and ARGV of the script
        retry : False if running the script twice could give a wrong answer: it is retried only if it was not sent
        retry_seconds : how long to retry; by default the option of the same name
        replica_seconds : timeout for ``min_replicas`` replicas to have what the reply is based on; 0 waits for none

        Raises
        ------
        StoreUnavailableError
            for any failure of the store; the script may or may not have run.
        """
        replicated = self._options.min_replicas > 0 and replica_seconds > 0
        tail = (len(keys), *keys, *args, b"replicated" if replicated else b"")
        commands = (("EVALSHA", script.sha, *tail), ("EVAL", script.source, *tail))
        return await self._send_with_retries(
            partial(self._send, commands), retry=retry, retry_seconds=retry_seconds, replica_seconds=replica_seconds
        )

    async def _send_with_retries(
        self,
        send: Callable[[Attempt], Awaitable[Any]],
        *,
        retry: bool = True,
        retry_seconds: float | None = None,
        replica_seconds: float = 0.0,
    ) -> Any:
        started, pause = time.monotonic(), FIRST_PAUSE
        retry_seconds = self._options.retry_seconds if retry_seconds is None else retry_seconds
        while True:
            attempt = Attempt(self._options.min_replicas if replica_seconds else 0, replica_seconds, self._watches)
            try:
                async with self._connection_slot():
                    reply = await send(attempt)
            except DataError:
                raise
            except RedisError as error:
                failure = failure_of(error)
                may_retry = failure.is_transient and (retry or not attempt.sent)
                if not may_retry or not self._may_wait(started, retry_seconds):
                    raise (StoreFullError if failure.is_full else StoreUnavailableError)(failure.reason) from error
            else:
                self._down_since = None
                return reply
            await asyncio.sleep(random.uniform(0, pause))  # noqa: S311 - spreads load, guards nothing
            pause = min(2 * pause, LONGEST_PAUSE)

    def _may_wait(self, started: float, retry_seconds: float) -> bool:
        now = time.monotonic()
        self._down_since = now if self._down_since is None else self._down_since
        return now < min(started, self._down_since) + retry_seconds

    @asynccontextmanager
    async def _connection_slot(self) -> AsyncIterator[None]:
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
