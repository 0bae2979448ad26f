"""The connections of a worker to one Redis server: how calls share them, and how replicas acknowledge commits."""

import asyncio
import math
import re
import time
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Self, cast

import hiredis
from redis._parsers.base import BaseParser
from redis.asyncio import Connection
from redis.asyncio.connection import AbstractConnection
from redis.asyncio.sentinel import MasterNotFoundError
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import InvalidResponse, NoPermissionError, NoScriptError, ReadOnlyError, RedisError
from redis.exceptions import TimeoutError as RedisTimeoutError

from ..base import NoAnswerError, StoreOptions
from .url import Address, Master, ReplicasBehindError, lost_connections_told

# -- One connection for many calls: commands of one turn of the event loop leave together, replies come in order.
#
# With a connection for each call, redis-py's pool, locks and timers took more of a commit's processor time than
# all else that a worker does for it; docs/performance.md has the figures. redis-py still opens the connection: it
# knows TLS, credentials and databases. Its pipelines are lists of commands whose replies come together, not this.

RedisArgument = str | bytes | int
packed = cast("Callable[[tuple[RedisArgument, ...]], bytes]", hiredis.pack_command)
"""Returns name and arguments of a command as they are sent. (hiredis' stub allows one argument.)"""
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
    async def open(cls, settings: Mapping[str, Any], reply_seconds: float) -> Self:
        """Connect with settings as ``read_url`` gives them; RedisError if that fails."""
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
        """Send a packed command; its reply comes in the future, or a RedisError.

        Raises
        ------
        RedisConnectionError
            if the connection was just lost.
        """
        if self._transport.is_closing():
            raise RedisConnectionError(CLOSED)
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
        """Close now; calls under way fail with ``error``, by default a RedisConnectionError."""
        self.is_open = False
        self._transport.abort()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        calls, self._calls = self._calls, deque()
        for reply, _ in calls:
            if not reply.done():
                reply.set_exception(error or RedisConnectionError(CLOSED))

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
            self.close(RedisConnectionError("the server sent what is no reply to a call"))
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
                self.close(RedisTimeoutError("no reply in time"))
            else:
                self._timer = self._loop.call_at(late, self._look)


# -- How many replicas have to acknowledge a commit, so that whichever is made the master has it.
#
# A replica that is promoted while its master lives (an ordered failover, a promotion by hand, a partition) leaves
# the master, which goes on accepting writes until it hears of it. Another replica may acknowledge these, and they
# are lost. So all replicas that are attached have to acknowledge, and one that has left is missed until those who
# appoint masters call it down, or name this master long after: by then the workers have gone to the new one. In a
# cluster a master knows what most masters call failed.

LOOK_SECONDS = 1.0
"""Time between two looks at the replicas of a server while none is away, and between two questions about one."""
LEFT_SECONDS = 1.5
"""A replica that has left is missed for so long at least: who calls it down may not know that it was back."""
MISSED_SECONDS = 20.0
"""Longer than sentinels, or a cluster with its default node timeout, take to name another master."""
MAX_LAG, USUAL_LAG = 3, 1
"""A replica that was silent for more seconds has left; one that was known for more than the usual is missed."""
_INFO, _STATS, _NODES = map(packed, (("INFO", "replication"), ("INFO", "stats"), ("CLUSTER", "NODES")))
_LISTED = re.compile(rb"^slave[0-9]+:ip=([^,\r]*),port=([0-9]+),state=(\w+),.*lag=(-?[0-9]+)", re.MULTILINE)
_FAILED = re.compile(rb"^\S+ (\S+):([0-9]+)@\S+ slave,fail[ ,]", re.MULTILINE)
"""A replica in CLUSTER NODES that most masters can't reach; one that this master alone misses is ``fail?``."""
_SYNCS = re.compile(rb"^sync_(?:full|partial_ok):([0-9]+)", re.MULTILINE)
Down = Callable[[Pipeline], Awaitable[Collection[Address] | None]]
"""Returns the replicas that those who appoint masters call down; None unless they name this master."""


class ReplicaWatch:
    """The replicas of one server.

    Parameters
    ----------
    down : None where nobody but this server knows: one that it no longer lists is down
    clock : monotonic seconds
    """

    def __init__(self, down: Down | None, clock: Callable[[], float] = time.monotonic) -> None:
        self._down = down
        self._clock = clock
        self._next_look = self._next_question = 0.0
        self._listed: frozenset[Address] = frozenset()
        self._attached: frozenset[Address] = frozenset()
        self._missed: dict[Address, float] = {}
        """Replicas that have left and count nevertheless, and when that was seen."""
        self._let_go: set[Address] = set()
        """Those that have left and no longer count."""
        self._syncs = 0

    async def needed(self, pipeline: Pipeline) -> int:
        """Return how many replicas have to acknowledge what this connection has written.

        Its server is asked for them every ``LOOK_SECONDS``, and at each call while one is away, or synchronises and
        does not count yet: one that came and was promoted before the next look would not be missed. RedisError if
        it can't be asked.
        """
        if self._clock() >= self._next_look or self._missed or self._let_go or self._listed - self._attached:
            replication, stats = await asyncio.gather(pipeline.send(_INFO), pipeline.send(_STATS))
            listed = replicas_in(replication)
            self._note(listed, sum(map(int, _SYNCS.findall(stats))))
            await self._let_some_go(listed, pipeline)
        return len(self._attached) + len(self._missed)

    def _note(self, listed: Mapping[Address, float], syncs: int) -> None:
        """Compare the replicas that are listed with those of the last look."""
        now, known = self._clock(), self._attached | self._missed.keys() | self._let_go
        # Who synchronised since then and is not here may have come, been promoted and left: it is missed anew.
        back = frozenset(self._let_go | self._missed.keys() if syncs != self._syncs else ()) - listed.keys()
        # A silent one whose connection ends now may have been promoted now, and so may one that never counted.
        left = self._listed - self._attached - listed.keys()
        attached = frozenset(one for one, lag in listed.items() if lag <= (USUAL_LAG if one in known else MAX_LAG))
        since = dict.fromkeys(self._attached, now) | self._missed | dict.fromkeys(back | left, now)
        self._missed = {each: when for each, when in since.items() if each not in attached}
        self._let_go -= attached | self._missed.keys()
        self._listed, self._attached, self._syncs = frozenset(listed), attached, syncs
        self._next_look = now + LOOK_SECONDS

    async def _let_some_go(self, listed: Collection[Address], pipeline: Pipeline) -> None:
        now = self._clock()
        due = {each: since for each, since in self._missed.items() if each in listed or now - since >= LEFT_SECONDS}
        if not due or now < self._next_question:
            return
        self._next_question = now + LOOK_SECONDS
        down = due.keys() - listed if self._down is None else await self._down(pipeline)
        if down is None:
            return
        for each, since in due.items():
            # It may have come back while others were asked.
            if self._missed.get(each) == since and (each in down or now - since >= MISSED_SECONDS):
                del self._missed[each]
                self._let_go.add(each)


def replicas_in(reply: bytes) -> dict[Address, float]:
    """Return the replicas in an INFO reply, and the seconds for which each was silent; infinite while it syncs.

    A server whose clocks of seconds and of microseconds change at different ticks can say -1: just heard.
    """
    return {
        (host.decode(), int(port)): max(int(lag), 0) if state == b"online" else math.inf
        for host, port, state, lag in _LISTED.findall(reply)
    }


def failed_in(reply: bytes) -> list[Address]:
    """Return the replicas in a CLUSTER NODES reply that most masters of the cluster can't reach."""
    return [(host.decode(), int(port)) for host, port in _FAILED.findall(reply)]


# -- The connections of a worker to one Redis server, and calls on them.

UNDECIDED = frozenset({b"CONFLICT", b"KNOWN", b"KEYS", b"OTHER"})
"""Outcomes after which the caller calls again; no client gets an answer based on them, so no replica needs them."""
LARGE_BYTES = 65_536
"""A command as long as this does not hold up others on the connection that they share."""
ASKING = packed(("ASKING",))


@dataclass(slots=True)
class Call:
    """A command that is to be carried out."""

    command: tuple[RedisArgument, ...]
    """Its name and arguments; of a script EVALSHA, its name there, and the arguments."""
    source: bytes = b""
    """The text of the script, for a server that does not know it."""
    replicas: int = 0
    """Number of replicas that must have what the reply is based on before it is returned."""
    replica_seconds: float = 0.0
    """Timeout for these replicas."""
    sent: bool = False
    """Whether a server may have received it."""
    asking: bool = False
    """Whether a cluster redirected this one attempt to the server (ASK)."""


async def wait_for_place(limit: asyncio.Semaphore, seconds: float) -> None:
    """Acquire a place among the calls under way; without one in time the store is unavailable."""
    try:
        async with asyncio.timeout(seconds):
            await limit.acquire()
    except TimeoutError:
        raise NoAnswerError("all connections to the store are busy") from None


class ServerConnections:
    """One connection that calls share, and others for calls that need one alone.

    A call needs one alone if it waits for replicas, since ``WAIT`` is for what its own connection wrote and holds
    up what comes behind it, or if it is large.

    Parameters
    ----------
    settings : redis-py's settings of a connection
    options : most connections, and timeouts for one of them and for replies
    master : who names the server; None if the settings do
    is_in_cluster : whether other masters may make one of its replicas the master
    """

    def __init__(
        self,
        settings: Mapping[str, Any],
        options: StoreOptions,
        master: Master | None = None,
        is_in_cluster: bool = False,
    ) -> None:
        self._settings = {name: value for name, value in settings.items() if not name.startswith("sentinel_")}
        self._options = options
        self._master = master
        self._is_in_cluster = is_in_cluster
        self._shared: Pipeline | None = None
        self._opening: asyncio.Task[Pipeline] | None = None
        self._free: list[Pipeline] = []
        """Open connections of calls that had one alone."""
        self._places = asyncio.Semaphore(max(1, options.max_connections - 1))
        self._watches: dict[Address, ReplicaWatch] = {}

    async def send(self, call: Call) -> Any:
        """Send a call and return the reply; ``call.sent`` says from when on the server may have received it.

        Raises
        ------
        ReplicasBehindError
            if the call was carried out, but too few replicas acknowledged it in time.
        RedisError
            for any other failure.
        """
        command = packed(call.command)
        alone = call.replicas > 0 or len(command) >= LARGE_BYTES
        if alone:
            pipeline = await self._take()
        else:
            pipeline = self.ready or await self._open_shared()
        try:
            if call.asking:
                pipeline.send(ASKING).cancel()  # Its reply has a place, and is dropped.
            reply = pipeline.send(command)
            call.sent = True
            try:
                result = await reply
            except NoScriptError:
                if not call.source:
                    raise
                if call.asking:
                    pipeline.send(ASKING).cancel()
                result = await pipeline.send(packed(("EVAL", call.source, *call.command[2:])))
            if call.replicas and result[2] not in UNDECIDED:
                await self._replicated(pipeline, call)
            return result
        except ReadOnlyError as error:
            # Another server is the primary now; a new connection may reach it.
            pipeline.retire()
            if self._master is None:
                raise
            self._master.forget()
            raise RedisConnectionError("The previous master is now a slave") from error
        finally:
            if alone:
                self._places.release()
                if not pipeline.is_idle:  # The caller left: what is under way would hold up the next.
                    pipeline.close()
                elif pipeline.is_open:
                    self._free.append(pipeline)

    async def close(self) -> None:
        """Close all connections."""
        if self._opening is not None:
            await asyncio.wait([self._opening])
        for pipeline in (self._shared, *self._free):
            if pipeline is not None:
                pipeline.close()
        if self._master is not None:
            await self._master.close()

    @property
    def ready(self) -> Pipeline | None:
        """The connection that calls share, if one can be sent on it now."""
        shared = self._shared
        return shared if shared is not None and self._is_current(shared) else None

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

    async def _take(self) -> Pipeline:
        """Return a connection for one call alone."""
        await wait_for_place(self._places, self._options.pool_wait_seconds)
        old = self._free.pop() if self._free else None
        try:
            return old if old is not None and self._is_current(old) else await self._open(old)
        except BaseException:
            self._places.release()
            if old is not None:
                old.close()  # Nobody else knows it.
            raise

    async def _replicated(self, pipeline: Pipeline, call: Call) -> None:
        """Wait until enough replicas have what the reply is based on.

        Redis 7.0 waits for everything that the primary had written when it ran this connection's last command.
        Valkey waits only for this connection's last write, so scripts write even if they change nothing (see
        lua/prelude.lua).
        """
        address, master = pipeline.address, self._master
        if address not in self._watches:

            async def down(asked: Pipeline) -> Collection[Address] | None:
                if master is not None:
                    return await master.replicas_down(address)
                with suppress(NoPermissionError):
                    return failed_in(await asked.send(_NODES))
                return ()

            self._watches[address] = ReplicaWatch(down if master is not None or self._is_in_cluster else None)
        replicas = max(call.replicas, await self._watches[address].needed(pipeline))
        if await pipeline.send(packed(("WAIT", replicas, max(1, int(call.replica_seconds * 1000))))) < replicas:
            raise ReplicasBehindError
