"""Calls to a Redis server: every wait has a timeout, and only calls that are safe to repeat are retried."""

from __future__ import annotations

import asyncio
import logging
import os
import random
import re
import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from redis import crc, exceptions
from redis.exceptions import AskError, ClusterDownError, MovedError, RedisError

from ...errors import StateCorruptError, StoreUnavailableError
from ..base import StoreFullError, StoreOptions, WrongTypeError
from . import scripts
from . import scripts as messages
from .connection import Attempt, CallLimit, RedisArgument, ServerConnections
from .scripts import Keys, Script
from .url import Master, failure_of, read_url

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


# -- Calls to a Redis cluster: each goes to the master that serves the slot of its first key.

MAX_REDIRECTIONS = 5

Address = tuple[str, int]


class SlotRange(NamedTuple):
    """A range of slots, both ends included, and the master that serves it."""

    first: int
    last: int
    master: Address


class ClusterClient(RedisClient):
    """Sends each call to the master that serves the slot of its first key.

    A redirection (MOVED, ASK) means that nothing was done, so the client follows it at once. After a connection
    error, a timeout or CLUSTERDOWN it reads the map of slots again before the next attempt.

    Parameters
    ----------
    url : redis+cluster:// or rediss+cluster://, with one or more of the cluster's nodes
    options : as for every client; connections are counted for each master
    """

    def __init__(self, url: str, options: StoreOptions) -> None:
        super().__init__(options, self._send_by_slot)
        settings, self._seeds, _ = read_url(url, options)
        self._settings = settings
        self._servers: dict[Address, ServerConnections] = {}
        self._ranges: Sequence[SlotRange] = ()
        self._reading = asyncio.Lock()

    async def masters(self) -> Sequence[SlotRange]:
        """Return the widest range of each master, ordered by lowest slot, which a failover does not change."""
        ranges: Sequence[SlotRange] = await self._send_with_retries(self._map)
        places = dict.fromkeys(each.master for each in ranges)
        return [max((one for one in ranges if one.master == master), key=_width) for master in places]

    async def ask_each(self, *command: RedisArgument) -> Sequence[Any]:
        masters = [one.master for one in await self.masters()]
        return [await self._send_with_retries(partial(self._on, master, (command,))) for master in masters]

    async def close(self) -> None:
        for server in self._servers.values():
            await server.close()

    async def _send_by_slot(self, commands: Sequence[Sequence[RedisArgument]], attempt: Attempt) -> Any:
        slot = slot_of(str(commands[0][3]))
        ranges = await self._map(attempt)
        address = next((one.master for one in ranges if one.first <= slot <= one.last), None)
        for _ in range(MAX_REDIRECTIONS if address else 0):
            assert address is not None  # noqa: S101 - without an address the loop does not run
            try:
                return await self._on(address, commands, attempt)
            except AskError as error:
                attempt.asking = not isinstance(error, MovedError)
                address = (error.host or address[0], error.port)
                self._ranges = self._ranges if attempt.asking else ()
            except (exceptions.ConnectionError, exceptions.TimeoutError, ClusterDownError):
                self._ranges = ()
                raise
        raise ClusterDownError("no node serves the slot")

    async def _on(self, address: Address, commands: Sequence[Sequence[RedisArgument]], attempt: Attempt) -> Any:
        if address not in self._servers:
            settings = {**self._settings, "host": address[0], "port": address[1]}
            self._servers[address] = ServerConnections(settings, self._options)
        return await self._servers[address].call(commands, attempt)

    async def _map(self, _attempt: Attempt) -> Sequence[SlotRange]:
        async with self._reading:
            if not self._ranges:
                self._ranges = await self._read_map()
            return self._ranges

    async def _read_map(self) -> Sequence[SlotRange]:
        known = list(self._servers)
        random.shuffle(known)
        last_error: RedisError = ClusterDownError("no node knows the slots")
        for address in dict.fromkeys([*known, *self._seeds]):
            try:
                reply = await self._on(address, (("CLUSTER", "SLOTS"),), Attempt())
            except RedisError as error:
                last_error = error
                continue
            if reply:
                return sorted(_range(row, address[0]) for row in reply)
        raise last_error


def slot_of(key: str) -> int:
    """Return the slot of a key: a hash of the part in its first braces."""
    slot: int = crc.key_slot(key.encode())
    return slot


def _range(row: Sequence[Any], answering_host: str) -> SlotRange:
    first, last, (host, port, *_) = row[0], row[1], row[2]
    return SlotRange(first, last, (host.decode() if host else answering_host, port))


def _width(one: SlotRange) -> int:
    return one.last - one.first


# -- What an operator should know about the servers of a store, read from them without changing anything.

_CALLED = re.compile(rb"redis\.call\('([A-Z]+)'")
_SCRIPTS = [each for each in vars(scripts).values() if isinstance(each, scripts.Script)]


class Server(NamedTuple):
    """One server that accepts commits.

    Attributes
    ----------
    info : the lines of INFO
    appendfsync : None where this user may not read it
    """

    info: Mapping[str, object]
    appendfsync: str | None


class Examination(NamedTuple):
    """What the servers of a store say.

    Attributes
    ----------
    missing : commands that the store's user may not run; None where the server can't tell (before Redis 7)
    """

    servers: Sequence[Server]
    missing: Sequence[str] | None


async def examine(url: str, options: StoreOptions) -> Examination:
    """Read what the servers at a store URL say.

    Parameters
    ----------
    url : of a Redis, sentinels or a cluster, or with unix://, as in ``open_store``
    options : timeouts; key prefix and replicas to wait for, on which depends which commands are needed

    Raises
    ------
    StoreUnavailableError
        where one can't be reached, or lets this user read nothing.
    ValueError
        if the URL is invalid; the text contains no part of it.
    """
    client = (ClusterClient if "+cluster:" in url.partition("//")[0] else ServerClient)(url, options)
    try:
        missing = await _missing(client, options)
        infos = await client.servers()
        fsyncs = await _appendfsync(client)
        servers = [Server(info, None if fsyncs is None else fsyncs[number]) for number, info in enumerate(infos)]
        return Examination(servers, missing)
    finally:
        await client.close()


async def _missing(client: RedisClient, options: StoreOptions) -> Sequence[str] | None:
    needed = {name.decode() for script in _SCRIPTS for name in _CALLED.findall(script.source)}
    names = sorted(needed | {"EVALSHA", "INFO"} | ({"WAIT"} if options.min_replicas else set()))
    key = Keys(options.prefix, options.dedupe_window_seconds).server_probe
    reply = await client.script(scripts.MAY_RUN, (key,), names)
    return None if reply[2] == b"UNKNOWN" else [name.decode() for name in reply[3:]]


async def _appendfsync(client: RedisClient) -> Sequence[str] | None:
    try:
        replies: Sequence[Any] = await client.ask_each("CONFIG", "GET", "appendfsync")
    except StoreUnavailableError:
        return None
    return [reply[1].decode() for reply in replies]


# -- Whether the store has room for another commit: what was refused, and what the embedded store's disk has left.

RESERVED_BYTES = 64 * 1024
"""Left free on the disk: a server with ``appendfsync always`` ends when it can't write to it."""
OVERHEAD_BYTES = 1024
"""Of a call beside its arguments, in memory and on the disk."""


def size_of(args: Sequence[RedisArgument]) -> int:
    """Return about how many bytes a call with these arguments needs: of interest where room is or was scarce."""
    return OVERHEAD_BYTES + sum(len(arg) if isinstance(arg, (str, bytes)) else 8 for arg in args)


class Room:
    """What a store has room for, as far as this worker knows.

    Parameters
    ----------
    folder : the folder to which an embedded store writes, on the disk of this machine; None for other stores

    Attributes
    ----------
    refused : size of the largest call that was refused because the store is full; 0 once one of that size fits
    """

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder
        self.refused = 0

    def check(self, size: int) -> None:
        """Refuse a call for which the embedded store's disk has no room, before it is sent.

        Parameters
        ----------
        size : bytes that the call needs, as ``size_of`` estimates them

        Raises
        ------
        StoreFullError
            where the disk has fewer than ``RESERVED_BYTES`` and these bytes free.
        """
        if self.folder is None:
            return
        disk = os.statvfs(self.folder)
        free = disk.f_bavail * disk.f_frsize
        if free < size + RESERVED_BYTES:
            raise StoreFullError(f"the store's disk is full: {free:,} bytes are free")

    def on_refused(self, size: int) -> None:
        """Note that a call of ``size`` bytes was refused for want of room."""
        self.refused = max(self.refused, size)

    def on_written(self, size: int) -> None:
        """Note that a call of ``size`` bytes was carried out."""
        if size >= self.refused:
            self.refused = 0


# -- A worker's estimate of the store's clock.

STEP_SECONDS = 1.0
"""A clock that goes back by less is not reported: clocks are corrected by so much, and those of servers differ."""
SILENT_SECONDS = 60.0
"""Steps are counted each, but logged at most so often: the masters of a cluster may have different clocks."""

log = logging.getLogger(__name__)


class StoreClock:
    """The monotonic clock of this process plus an offset that each reply of the store updates.

    Until the first reply the offset is that of this machine's wall clock.

    Parameters
    ----------
    monotonic : returns seconds since any moment
    wall : returns Unix seconds
    on_step_back : called each time the store's clock turns out to have been set back; None for nobody
    """

    def __init__(
        self,
        monotonic: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
        on_step_back: Callable[[], None] | None = None,
    ) -> None:
        self.monotonic = monotonic
        self._offset = wall() - monotonic()
        self._on_step_back = on_step_back
        self._observed = False
        self._silent_until = float("-inf")

    def observe(self, seconds: float, sent: float | None = None) -> None:
        """Set the clock to the time in a reply.

        Parameters
        ----------
        seconds : Unix seconds in the reply
        sent : when the call was sent, by ``monotonic``; the store's clock showed no less when it read the time,
            unless it was set back; None where no step back is to be found
        """
        step = 0.0 if sent is None or not self._observed else sent + self._offset - seconds
        self._offset = seconds - self.monotonic()
        self._observed = True
        if step > STEP_SECONDS:
            self._report(step)

    def _report(self, step: float) -> None:
        if self._on_step_back is not None:
            self._on_step_back()
        if self.monotonic() >= self._silent_until:
            self._silent_until = self.monotonic() + SILENT_SECONDS
            log.warning(
                "the store's clock went back by %.1f s: what it stamped before falls due so much later; "
                "all servers of the store need synchronised clocks",
                step,
            )

    def now(self) -> float:
        """Return Unix seconds by the store's clock; they decrease if that clock was set back."""
        return self.monotonic() + self._offset


# -- Scripts run with what one call learns for the next: the store's clock, its room, and the buckets of sessions.

MAX_KEY_CORRECTIONS = 5
"""Attempts to send the keys of all buckets of a session before the store counts as unavailable."""
MAX_LISTED = 10_000
"""Sessions whose other buckets a worker remembers."""


class ScriptRunner:
    """Runs the scripts of one store.

    Parameters
    ----------
    client : sends them
    keys : names of the keys of sessions
    options : of the store: timeouts for replicas and replies, the data folder, and who hears of steps of the clock

    Attributes
    ----------
    clock : the store's, set by every reply
    room : what the store has room for, as calls have found it
    """

    def __init__(self, client: RedisClient, keys: Keys, options: StoreOptions) -> None:
        self.clock = StoreClock(on_step_back=options.on_clock_step_back)
        self.room = Room(options.data_folder)
        self._client = client
        self._keys = keys
        self._listed: dict[str, Sequence[int]] = {}
        """Session to the numbers of its buckets, where they were other than the time suggests."""
        # A reply that waits for replicas must come before the connection is given up.
        self._replica_seconds = min(options.replica_seconds, options.reply_seconds / 2)

    async def run_on_session(
        self, script: Script, session_id: str, tail: Sequence[RedisArgument], others: Sequence[str] = ()
    ) -> Sequence[Any]:
        """Run a script on all keys of a session.

        Which buckets they are depends on the time, and on what other workers have written. Where keys were missing
        it writes nothing; its reply names the buckets and corrects this worker's clock, and it is run again.

        Parameters
        ----------
        script : takes the keys of ``Keys.at``
        session_id : of the session
        tail : arguments behind the numbers and the width of the buckets
        others : keys that are not the session's; they come before the last one

        Returns
        -------
        The reply from the outcome on.

        Raises
        ------
        StoreUnavailableError
            for any failure of the store.
        StateCorruptError
            where a key of the session is of another type than any call makes it.
        """
        for _ in range(MAX_KEY_CORRECTIONS):
            keys = self._keys.at(session_id, self.clock.now(), self._listed.get(session_id, ()))
            args = (keys.numbers, self._keys.bucket_ms, *tail)
            every = (*keys.all[:-1], *others, keys.all[-1]) if others else keys.all
            reply = await self.run(script, every, args, replica_seconds=self._replica_seconds)
            if reply[0] != b"KEYS":
                return reply
            if len(self._listed) >= MAX_LISTED:
                self._listed.clear()
            self._listed[session_id] = messages.bucket_numbers(reply[1])
        raise StoreUnavailableError("the store's clock jumps")

    async def run(
        self,
        script: Script,
        keys: Sequence[str],
        args: Sequence[RedisArgument] = (),
        *,
        replica_seconds: float = 0.0,
    ) -> Sequence[Any]:
        """Run a script on these keys.

        Parameters
        ----------
        script : to run
        keys : KEYS of the script, one or more
        args : ARGV of the script
        replica_seconds : as ``RedisClient.script`` has it

        Returns
        -------
        The reply from the outcome on.

        Raises
        ------
        StoreUnavailableError
            for any failure of the store.
        StateCorruptError
            where the first key is a session's, and one of the keys is of another type than any call makes it.
        """
        sent, room = self.clock.monotonic(), self.room
        try:
            if script.writes and room.folder is not None:
                room.check(size_of(args))
            reply: Sequence[Any] = await self._client.script(script, keys, args, replica_seconds=replica_seconds)
        except StoreFullError:
            room.on_refused(size_of(args) if script.writes else 0)
            raise
        except WrongTypeError as error:
            if keys[0].startswith(self._keys.before_id):
                raise StateCorruptError from error
            raise
        if script.writes and room.refused:
            room.on_written(size_of(args))
        self.clock.observe(int(reply[0]) + int(reply[1]) / 1e6, sent)
        return reply[2:]
