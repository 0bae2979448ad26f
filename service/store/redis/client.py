"""Calls to Redis: every wait has a timeout, and only calls that are safe to repeat are retried.

A reply also tells something for the next call: the time by the store's clock, the room that the store has, and
which buckets a session has. In a cluster the slot of its first key says where a call is sent.
"""

import asyncio
import logging
import os
import random
import re
import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from sys import intern
from typing import Any, NamedTuple

from redis import crc, exceptions
from redis.exceptions import AskError, ClusterDownError, MovedError, NoScriptError, RedisError

from ...errors import StateCorruptError, StoreUnavailableError
from ..base import StoreFullError, StoreOptions, WrongTypeError
from . import scripts
from .connection import LARGE_BYTES, Call, Pipeline, RedisArgument, ServerConnections, packed, wait_for_place
from .scripts import Keys, Left, Script
from .url import NO_PERMISSION, Address, Master, failure_of, read_url

log = logging.getLogger(__name__)

# -- A worker's estimate of the store's clock.

STEP_SECONDS = 1.0
"""A clock that goes back by less is not reported: clocks are corrected by so much, and those of servers differ."""
SILENT_SECONDS = 60.0
"""Steps are counted each, but logged at most so often: the masters of a cluster may have different clocks."""


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
        on_step_back: Callable[[], None] = lambda: None,
    ) -> None:
        self.monotonic, self._on_step_back = monotonic, on_step_back
        self._offset = wall() - monotonic()
        self._observed, self._silent_until = False, float("-inf")

    def observe(self, seconds: float, sent: float | None = None) -> None:
        """Set the clock to the time in a reply.

        Parameters
        ----------
        seconds : Unix seconds in the reply
        sent : when the call was sent, by ``monotonic``; the store's clock showed no less when it read the time,
            unless it was set back; None where no step back is to be found
        """
        step = 0.0 if sent is None or not self._observed else sent + self._offset - seconds
        now = self.monotonic()
        self._offset = seconds - now
        self._observed = True
        if step <= STEP_SECONDS:
            return
        self._on_step_back()
        if now >= self._silent_until:
            self._silent_until = now + SILENT_SECONDS
            advice = "all servers of the store need synchronised clocks"
            text = "the store's clock went back by %.1f s: what it stamped before falls due so much later; %s"
            log.warning(text, step, advice)

    def now(self) -> float:
        """Return Unix seconds by the store's clock; they decrease if that clock was set back."""
        return self.monotonic() + self._offset


# -- Whether the store has room for another commit: what was refused, and what the embedded store's disk has left.

RESERVED_BYTES = 64 * 1024
"""Left free on the disk: a server with ``appendfsync always`` ends when it can't write to it."""
OVERHEAD_BYTES = 1024
"""Of a call beside its arguments, in memory and on the disk."""


Arguments = Sequence[RedisArgument]
Send = Callable[[Call], Awaitable[Any]]


def size_of(args: Arguments) -> int:
    """Return about how many bytes a call with these arguments needs: of interest where room is or was scarce."""
    return OVERHEAD_BYTES + sum(len(arg) if isinstance(arg, (str, bytes)) else 8 for arg in args)


class Room:
    """What a store has room for, as far as this worker knows.

    Attributes
    ----------
    folder : to which an embedded store writes, on the disk of this machine; None for other stores
    refused : size of the largest call that was refused because the store is full; 0 once one of that size fits
    """

    def __init__(self, folder: Path | None = None) -> None:
        self.folder, self.refused = folder, 0

    def check(self, size: int) -> None:
        """Raise StoreFullError where the embedded store's disk has not so many and ``RESERVED_BYTES`` free."""
        if self.folder is None:
            return
        disk = os.statvfs(self.folder)
        if (free := disk.f_bavail * disk.f_frsize) < size + RESERVED_BYTES:
            self.refused = max(self.refused, size)
            raise StoreFullError(f"the store's disk is full: {free:,} bytes are free")

    def on_written(self, size: int) -> None:
        """Note that a call of ``size`` bytes was carried out."""
        if size >= self.refused:
            self.refused = 0


# -- Calls with retries.

CALLS_PER_CONNECTION = 32
"""Calls under way for each connection that a worker may open; so many share one on average."""
FIRST_PAUSE, LONGEST_PAUSE = 0.02, 0.25
"""Seconds; the upper limit of the random pause before a retry, which doubles from the first to the longest."""
MAX_KEY_CORRECTIONS = 5
"""Attempts to send the keys of all buckets of a session before the store counts as unavailable."""
MAX_LEFT = 20_000
"""Sessions of which a worker remembers what its last call found."""


class SlotRange(NamedTuple):
    """A range of slots, both ends included, and the master that serves it."""

    first: int
    last: int
    master: Address


class RedisClient(ABC):
    """Calls with retries.

    A call is retried after a transient failure, with random back-off, until ``retry_seconds`` after its first
    attempt. In an outage that has lasted longer than that it is tried once. redis-py itself retries nothing. Every
    failure of the store is raised as StoreUnavailableError; a script may then have run or not.

    Parameters
    ----------
    send : sends a call once, to the server that its first key says, and returns the reply
    ready : returns the open connection that calls on a key share; None if one has to be opened first

    Attributes
    ----------
    keys : names of the keys of sessions
    clock : the store's, set by every reply
    room : what the store has room for, as calls have found it
    """

    def __init__(self, options: StoreOptions, send: Send, ready: Callable[[str], Pipeline | None]) -> None:
        self._send, self._ready = send, ready
        self.keys = Keys(options.prefix, options.dedupe_window_seconds)
        self.clock = StoreClock(on_step_back=options.on_clock_step_back)
        self.room = Room(options.data_folder)
        self._options = options
        # A reply that waits for replicas must come before the connection is given up.
        self._replica_seconds = min(options.replica_seconds, options.reply_seconds / 2)
        self._places = asyncio.Semaphore(options.max_connections * CALLS_PER_CONNECTION)
        self._down_since: float | None = None
        self.left: dict[str, Left] = {}
        """Session to what is known of its buckets."""

    @abstractmethod
    async def ask_each(self, *command: RedisArgument) -> Sequence[Any]:
        """Return the replies to a command, one of each server that accepts commits."""

    @abstractmethod
    async def masters(self) -> Sequence[SlotRange]:
        """Return a range of each server that accepts commits, ordered by lowest slot."""

    @abstractmethod
    async def close(self) -> None:
        """Close all connections."""

    async def servers(self) -> Sequence[Mapping[str, str]]:
        """Return the lines of INFO, by name, of each server that accepts commits."""
        replies = [reply.decode().splitlines() for reply in await self.ask_each("INFO")]
        return [dict(line.split(":", 1) for line in lines if ":" in line) for lines in replies]

    async def run_on_session(
        self,
        script: Script,
        session_id: str,
        tail: Arguments,
        others: Sequence[str] = (),
        remember_seconds: float = 0,
    ) -> Sequence[Any]:
        """Run a script on all keys of a session, and return its reply from the outcome on.

        Which buckets they are depends on the time, and on what other workers have written. Where keys were missing
        it writes nothing; its reply names the buckets and corrects this worker's clock, and it is run again.

        Parameters
        ----------
        script : takes the keys of ``Keys.at``
        tail : arguments behind the numbers and the width of the buckets
        others : keys that are not the session's; they come before the last one
        remember_seconds : for which the session asks that ids are kept; 0 where none is written
        """
        width = self.keys.width(remember_seconds)
        for _ in range(MAX_KEY_CORRECTIONS):
            left = self.left.get(session_id)
            listed = left.listed if left is not None else ""
            keys, numbers = self.keys.at(session_id, self.clock.now(), listed, width)
            every = (*keys[:-1], *others, keys[-1])
            reply = await self.run(script, every, (numbers, width, *tail), replicated=True)
            if reply[0] != b"KEYS":
                return reply
            self.leave(session_id, "", reply[1])
        raise StoreUnavailableError("the store's clock jumps")

    def leave(self, session_id: str, version: str, listed: bytes, expires: bool = False) -> None:
        """Remember what a session has: see ``Left``."""
        if session_id not in self.left and len(self.left) >= MAX_LEFT:
            del self.left[next(iter(self.left))]
        self.left[session_id] = Left(version, intern(scripts.text(listed)), expires)

    async def run_plain(self, keys: Sequence[str], args: Arguments) -> bool:
        """Run ``commit_plain.lua`` once, on an open connection; return whether it has certainly written.

        There are no retries, places or timers here. If anything is not as it mostly is, the caller sends
        ``commit.lua``, which finds what has become of this; the time that it took counts as that of an outage.

        Raises
        ------
        StoreUnavailableError
            where a lost reply has taken all the time for retries, or the disk is full.
        """
        script, replicas, started = scripts.COMMIT_PLAIN, self._options.min_replicas, self.clock.monotonic()
        pipeline, call = self._ready(keys[0]), ("EVALSHA", script.sha, len(keys), *keys, *args)
        command = packed(call)
        if self._down_since is not None or self.room.refused or len(command) >= LARGE_BYTES:
            return False
        self.room.check(len(command))
        try:
            if replicas:
                reply = await self._send(Call(call, script.source, replicas, self._replica_seconds))
            elif pipeline is None:
                return False
            else:
                try:
                    reply = await pipeline.send(command)
                except NoScriptError:  # This server has not seen it yet.
                    reply = await pipeline.send(packed(("EVAL", script.source, *call[2:])))
        except RedisError as error:
            if (failure := failure_of(error)).is_transient:
                self._down_since = self._down_since or started
                if time.monotonic() >= started + self._options.retry_seconds:
                    raise failure.kind(failure.reason) from error
            return False
        self.clock.observe(int(reply[0]) + int(reply[1]) / 1e6, started)
        return bool(reply[2] == b"OK")

    async def run(
        self, script: Script, keys: Sequence[str], args: Arguments = (), *, replicated: bool = False
    ) -> Sequence[Any]:
        """Run a script, and return its reply from the outcome on.

        Parameters
        ----------
        keys : KEYS of the script, one or more; in a cluster all of one slot
        args : ARGV of the script, without the last one, which says whether the call waits for replicas
        replicated : whether to wait until ``min_replicas`` replicas have what the reply is based on

        Raises
        ------
        StateCorruptError
            where the first key is a session's, and one of the keys is of another type than any call makes it.
        """
        room, sent = self.room, self.clock.monotonic()
        replicas = self._options.min_replicas if replicated else 0
        command = ("EVALSHA", script.sha, len(keys), *keys, *args, b"replicated" if replicas else b"")
        call = Call(command, script.source, replicas, self._replica_seconds)
        try:
            if script.writes and room.folder is not None:
                room.check(size_of(args))
            reply: Sequence[Any] = await self._retried(self._send, call, script)
        except StoreFullError:
            room.refused = max(room.refused, size_of(args) if script.writes else 0)
            raise
        except WrongTypeError as error:
            if keys[0].startswith(self.keys.before_id):
                raise StateCorruptError from error
            raise
        if script.writes and room.refused:
            room.on_written(size_of(args))
        self.clock.observe(int(reply[0]) + int(reply[1]) / 1e6, sent)
        return reply[2:]

    async def _retried(self, send: Send, call: Call, script: Script | None = None) -> Any:
        limit = (script and script.retry_seconds) or self._options.retry_seconds
        started, pause, may_repeat = time.monotonic(), FIRST_PAUSE, script is None or script.is_repeatable
        while True:
            try:
                if self._places.locked():
                    await wait_for_place(self._places, self._options.pool_wait_seconds)
                else:  # It is there at once: a timer would take longer.
                    await self._places.acquire()
                try:
                    reply = await send(call)
                finally:
                    self._places.release()
            except RedisError as error:
                failure, now = failure_of(error), time.monotonic()
                # A server that answers with a transient failure, such as LOADING, has carried out nothing.
                answered = isinstance(error, exceptions.ResponseError | exceptions.BusyLoadingError)
                may_retry = failure.is_transient and (may_repeat or answered or not call.sent)
                if may_retry and self._down_since is None:
                    self._down_since = now
                if not may_retry or now >= min(started, self._down_since or started) + limit:
                    raise failure.kind(failure.reason) from error
            else:
                self._down_since = None
                return reply
            await asyncio.sleep(random.uniform(0, pause))  # noqa: S311 - spreads load, guards nothing
            pause = min(2 * pause, LONGEST_PAUSE)


class ServerClient(RedisClient):
    """Sends calls to the server of a redis://, rediss:// or unix:// URL, or to the master that sentinels name."""

    def __init__(self, url: str, options: StoreOptions) -> None:
        settings, sentinels, service = read_url(url, options)
        master = Master(sentinels, service, settings) if sentinels else None
        self._server = ServerConnections(settings, options, master)
        super().__init__(options, self._server.send, lambda _: self._server.ready)

    async def ask_each(self, *command: RedisArgument) -> Sequence[Any]:
        return [await self._retried(self._send, Call(command))]

    async def masters(self) -> Sequence[SlotRange]:
        return [SlotRange(0, 2**14 - 1, ("", 0))]

    async def close(self) -> None:
        await self._server.close()


# -- Calls to a Redis cluster: each goes to the master that serves the slot of its first key.

MAX_REDIRECTIONS = 5


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
        super().__init__(options, self._send_by_slot, self._ready_by_slot)
        self._settings, self._seeds, _ = read_url(url, options)
        self._servers: dict[Address, ServerConnections] = {}
        self._ranges: Sequence[SlotRange] = ()
        self._reading = asyncio.Lock()

    async def masters(self) -> Sequence[SlotRange]:
        """Return the widest range of each master, ordered by lowest slot, which a failover does not change."""
        ranges: Sequence[SlotRange] = await self._retried(self._map, Call(()))
        widest: dict[Address, SlotRange] = {}
        for one in ranges:
            known = widest.setdefault(one.master, one)
            if one.last - one.first > known.last - known.first:
                widest[one.master] = one
        return list(widest.values())

    async def ask_each(self, *command: RedisArgument) -> Sequence[Any]:
        masters = [one.master for one in await self.masters()]
        return [await self._retried(partial(self._send_to, master), Call(command)) for master in masters]

    async def close(self) -> None:
        for server in self._servers.values():
            await server.close()

    def _ready_by_slot(self, key: str) -> Pipeline | None:
        address = self._master_of(key)
        return self._servers[address].ready if address in self._servers else None

    def _master_of(self, key: str) -> Address | None:
        slot = slot_of(key)
        return next((one.master for one in self._ranges if one.first <= slot <= one.last), None)

    async def _send_by_slot(self, call: Call) -> Any:
        call.asking = False
        await self._map(call)
        address = self._master_of(str(call.command[3]))
        for _ in range(MAX_REDIRECTIONS if address else 0):
            assert address is not None  # noqa: S101 - without an address the loop does not run
            try:
                return await self._send_to(address, call)
            except AskError as error:
                call.asking = not isinstance(error, MovedError)
                address = (error.host or address[0], error.port)
                self._ranges = self._ranges if call.asking else ()
            except (exceptions.ConnectionError, exceptions.TimeoutError, ClusterDownError):
                self._ranges = ()
                raise
        raise ClusterDownError("no node serves the slot")

    async def _send_to(self, address: Address, call: Call) -> Any:
        if address not in self._servers:
            settings = {**self._settings, "host": address[0], "port": address[1]}
            self._servers[address] = ServerConnections(settings, self._options, is_in_cluster=True)
        return await self._servers[address].send(call)

    async def _map(self, _call: Call) -> Sequence[SlotRange]:
        """Return which master serves which slots, asked of the nodes where it is not known."""
        async with self._reading:
            if self._ranges:
                return self._ranges
            known = list(self._servers)
            random.shuffle(known)
            last_error: RedisError = ClusterDownError("no node knows the slots")
            for address in dict.fromkeys([*known, *self._seeds]):
                try:
                    reply = await self._send_to(address, Call(("CLUSTER", "SLOTS")))
                except RedisError as error:
                    last_error = error
                    continue
                if reply:
                    self._ranges = sorted(
                        SlotRange(first, last, (host.decode() if host else address[0], port))
                        for first, last, (host, port, *_), *_ in reply
                    )
                    return self._ranges
            raise last_error


def client_of(url: str, options: StoreOptions) -> RedisClient:
    """Return a client of the servers at a store URL; nothing is connected yet."""
    return (ClusterClient if "+cluster:" in url.lower().partition("//")[0] else ServerClient)(url, options)


def slot_of(key: str) -> int:
    """Return the slot of a key: a hash of the part in its first braces."""
    return int(crc.key_slot(key.encode()))


# -- What an operator should know about the servers of a store, read from them without changing anything.

_CALLED = re.compile(rb"redis\.call\('([A-Z]+)'")
_SCRIPTS = [each for each in vars(scripts).values() if isinstance(each, scripts.Script)]


async def examine(url: str, options: StoreOptions) -> tuple[Sequence[Mapping[str, str]], Sequence[str] | None]:
    """Read what the servers at a store URL say; which commands are needed depends on the options.

    Returns
    -------
    Of each server that accepts commits the lines of INFO, the Unix seconds at which it was ``asked`` and had
    ``answered``, and ``appendfsync`` if this user may read it; no server where this user may not run INFO. Then the
    commands that the store's user may not run; None where the server can't tell (before Redis 7).

    Raises
    ------
    StoreUnavailableError
        where one can't be reached, or lets this user read nothing.
    ValueError
        if the URL is invalid; the text contains no part of it.
    """
    needed = {name.decode() for script in _SCRIPTS for name in _CALLED.findall(script.source)}
    names = sorted(needed | {"EVALSHA"} | ({"INFO", "WAIT"} if options.min_replicas else set()))
    client = client_of(url, options)
    try:
        told, *missing = await client.run(scripts.MAY_RUN, (client.keys.server_probe,), names)
        servers: Sequence[Mapping[str, str]] = ()
        try:
            asked = time.time()
            servers = await client.servers()
            when = {"asked": str(asked), "answered": str(time.time())}
            servers = [{**info, **when} for info in servers]
        except StoreUnavailableError as error:
            if not str(error).startswith(NO_PERMISSION.reason):
                raise
        with suppress(StoreUnavailableError):
            replies = await client.ask_each("CONFIG", "GET", "appendfsync") if servers else ()
            pairs = zip(servers, replies, strict=True)
            servers = [{**info, "appendfsync": reply[1].decode()} for info, reply in pairs]
        return servers, None if told == b"UNKNOWN" else [name.decode() for name in missing]
    finally:
        await client.close()
