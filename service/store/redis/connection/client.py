"""Calls to a Redis server: every wait has a timeout, and only calls that are safe to repeat are retried."""

from __future__ import annotations

import asyncio
import random
import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any

from redis.exceptions import RedisError

from ...options import StoreOptions
from ..scripts import Script
from .failures import failure_of
from .pipeline import RedisArgument
from .sentinel import Master
from .server import Attempt, CallLimit, ServerConnections
from .url import read_url

CALLS_PER_CONNECTION = 32
"""Calls under way for each connection that a worker may open; so many share one on average."""
FIRST_PAUSE, LONGEST_PAUSE = 0.02, 0.25
"""Seconds; the upper limit of the random pause before a retry, which doubles from the first to the longest."""

Send = Callable[[Sequence[Sequence[RedisArgument]], Attempt], Awaitable[Any]]


class RedisClient(ABC):
    """Calls with retries.

    A call is retried after a transient failure, with random back-off, until ``retry_seconds`` after its first
    attempt. In an outage that has lasted longer than that it is tried once. redis-py itself retries nothing.

    Parameters
    ----------
    options : timeouts, how long to retry, most connections and replicas to wait for
    send : sends the first command, or the next one if the server does not know the script, and returns the reply
    """

    def __init__(self, options: StoreOptions, send: Send) -> None:
        self._options = options
        self._send = send
        self._limit = CallLimit(options.max_connections * CALLS_PER_CONNECTION, options.pool_wait_seconds)
        self._down_since: float | None = None

    @abstractmethod
    async def ask_each(self, *command: RedisArgument) -> Sequence[Any]:
        """Return the replies to a command, one of each server that accepts commits.

        Parameters
        ----------
        command : its name and arguments

        Raises
        ------
        StoreUnavailableError
            for any failure of one of them.
        """

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
        replica_seconds: float = 0.0,
    ) -> Any:
        """Run a script and return its reply.

        Parameters
        ----------
        script : is sent whole where the server does not know it yet; says whether and how long to retry
        keys : KEYS of the script, one or more; in a cluster all of one slot
        args : ARGV of the script, without the last one, which says whether the call waits for replicas
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
            partial(self._send, commands),
            retry=script.is_repeatable,
            retry_seconds=script.retry_seconds,
            replica_seconds=replica_seconds,
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
            attempt = Attempt(self._options.min_replicas if replica_seconds else 0, replica_seconds)
            try:
                async with self._limit:
                    reply = await send(attempt)
            except RedisError as error:
                failure = failure_of(error)
                may_retry = failure.is_transient and (retry or not attempt.sent)
                if not may_retry or not self._may_wait(started, retry_seconds):
                    raise failure.kind(failure.reason) from error
            else:
                self._down_since = None
                return reply
            await asyncio.sleep(random.uniform(0, pause))  # noqa: S311 - spreads load, guards nothing
            pause = min(2 * pause, LONGEST_PAUSE)

    def _may_wait(self, started: float, retry_seconds: float) -> bool:
        now = time.monotonic()
        self._down_since = now if self._down_since is None else self._down_since
        return now < min(started, self._down_since) + retry_seconds


class ServerClient(RedisClient):
    """Sends calls to the server of a URL, or to the master that its sentinels name.

    Parameters
    ----------
    url : redis://, rediss://, unix://, redis+sentinel:// or rediss+sentinel://
    options : as for every client
    """

    def __init__(self, url: str, options: StoreOptions) -> None:
        settings, sentinels, service = read_url(url, options)
        self._server = ServerConnections(
            settings, options, Master(sentinels, service, settings) if sentinels else None
        )
        super().__init__(options, self._server.call)

    async def ask_each(self, *command: RedisArgument) -> Sequence[Any]:
        return [await self._send_with_retries(partial(self._send, (command,)))]

    async def close(self) -> None:
        await self._server.close()


def info_of(reply: bytes) -> Mapping[str, object]:
    """Return the lines of an INFO reply by name."""
    return dict(line.split(":", 1) for line in reply.decode().splitlines() if ":" in line)
