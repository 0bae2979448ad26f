"""A session has an owner among the workers; the others hand over to it what changes the session (Linux).

Two workers that write one session conflict, and the one that loses computes its batch again. Who owns a session is
only a hint: its version stays the lock, and whoever carries a request out does it right.

Every worker listens on a Unix socket, and others connect to it. Messages of one turn of the event loop leave in one
write. The owner notes in shared memory what it has read, before it begins: so of each request without an answer its
sender knows whether the owner may have begun it. One that it has not begun, as it is dead, or has read nothing for
``SILENT_SECONDS``, is carried out where it arrived. One that it has begun is waited for as long as the owner lives:
the store may be slow. If the owner dies, it is carried out again if it counts once; else its client has to send it
again.
"""

from __future__ import annotations

import asyncio
import json
import marshal
import os
import secrets
import socket
import struct
import sys
import time
from collections.abc import Callable
from contextlib import nullcontext, suppress
from functools import partial
from itertools import count
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple
from zlib import crc32

from starlette.types import Scope

from ..errors import OverloadedError
from ..telemetry.logs import ERROR_IN_SCOPE, ID_IN_SCOPE, IS_GONE, KEY_IN_SCOPE, NOTED_IN_SCOPE, OWNED, PART, WAITED
from .pool import Board

if TYPE_CHECKING:
    from ..telemetry.tracing import Spans

SILENT_SECONDS = 1.0
"""An owner that has not read a request for so long is passed over."""
OLD_SECONDS = SILENT_SECONDS / 2
"""An owner leaves to its sender what it reads so late: it was stopped, and the sender is about to pass it over."""
MAX_LOOKED_AT = 1000
"""Connections of clients that are looked at at once, which takes a millisecond."""
UNKNOWN = "A worker ended; what this request asked may have been done or not: send it again"

_KEPT = ("type", "method", "path", "root_path", "query_string", "client", ID_IN_SCOPE, PART)
_READ = frozenset({b"content-type", b"content-encoding", b"idempotency-key"})
"""Headers that calls of a session read."""


class _Connection(asyncio.Protocol):
    """One end of a connection between two workers; ``heard`` gets it and each message, ``lost`` it alone."""

    def __init__(self, heard: Callable[..., object], lost: Callable[[_Connection], object]) -> None:
        self._heard, self._lost, self._loop = heard, lost, asyncio.get_running_loop()
        self._unsent: list[tuple[Any, ...]] = []
        self._unread = bytearray()
        self.transport: Any = None
        self.opening: asyncio.Task[Any] | None = None
        self.is_gone: dict[int, bool] = {}
        """Of each request that was begun for the other end, whether its client has left."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        option = transport.get_extra_info("socket").getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
        if struct.unpack("iII", option)[1] != os.geteuid():
            transport.close()  # A process of another user has the other end.
        self._flush()

    def connection_lost(self, _: Exception | None) -> None:
        self._lost(self)

    def say(self, *message: Any) -> None:
        if not self._unsent:
            self._loop.call_soon(self._flush)
        self._unsent.append(message)

    def _flush(self) -> None:
        if self._unsent and self.transport is not None and not self.transport.is_closing():
            packet, self._unsent = marshal.dumps(self._unsent, 4), []
            self.transport.write(len(packet).to_bytes(4) + packet)

    def data_received(self, data: bytes) -> None:
        self._unread += data
        while (end := 4 + int.from_bytes(self._unread[:4])) <= len(self._unread):
            packet = self._unread[4:end]
            del self._unread[:end]
            for message in marshal.loads(packet):  # noqa: S302 - of a worker of the same service
                self._heard(self, *message)


def _address(name: float) -> str:
    """Return the address of a worker's socket; such a name of Linux is no file, which somebody could remove."""
    return f"\0bandit-{name:.0f}"


class _Asked(NamedTuple):
    owner: int
    connection: _Connection
    at: float
    """Monotonic seconds."""
    is_gone: Callable[[], bool] | None
    """Says whether the client has left."""
    answer: asyncio.Future[tuple[Any, ...] | None]
    """Status, headers, body, and code and reason of an error; empty if nobody knows, None if it was not begun."""


class Owners:
    """One worker's part: hands over what others own, and carries out what is handed over to it.

    Parameters
    ----------
    board, worker : says which workers live, and this one's place there
    server : of this worker: has its API keys, the tasks for which a stop waits, and whether it stops
    requests : carries calls out; it gets ``hand_over`` if there is somebody to hand over to
    spans : made of requests; None if they are not traced
    """

    def __init__(self, board: Board, worker: int, server: Any, requests: Any, spans: Spans | None) -> None:
        self._board, self._worker, self._server, self._requests = board, worker, server, requests
        self._spans = spans
        self._shared = [board.of_owner(each) for each in range(board.workers)]
        self._numbers = count(time.monotonic_ns() // 1000)  # Above those of the worker that had this place before.
        self._asked: dict[int, _Asked] = {}
        self._connections: dict[int, _Connection] = {}

    async def start(self) -> None:
        """Accept what others hand over, and hand over."""
        if sys.platform == "linux" and self._board.workers > 1:
            name, serve = secrets.randbits(52), asyncio.get_running_loop().create_unix_server
            self.listener = await serve(lambda: _Connection(self._begin, id), _address(name))
            self._shared[self._worker][-1] = name
            self._requests.hand_over = self.hand_over

    # What others own.

    async def hand_over(self, scope: Scope, body: bytes | list[Any]) -> tuple[Any, ...] | None:
        """Let the owner of its session carry a call out; None if it is to be carried out here.

        The body is a list of events where the call is a part of another.

        Raises
        ------
        OverloadedError
            if the owner died, may have carried it out, and it would count twice.
        """
        session_id = scope["path_params"].get("session_id", scope.get(OWNED))
        if session_id is None or scope["method"] in {"GET", "HEAD"}:
            return None
        owner = crc32(session_id.encode()) % self._board.workers
        if owner == self._worker or (connection := self._connection_to(owner)) is None:
            return None
        request = {name: scope[name] for name in _KEPT if name in scope}
        request["headers"] = [header for header in scope["headers"] if header[0] in _READ]
        if self._spans is not None:
            request["headers"] += self._spans.headers()
        number, key, loop = next(self._numbers), scope.get(KEY_IN_SCOPE), asyncio.get_running_loop()
        is_gone = scope.get("extensions", {}).get(IS_GONE)
        asked = self._asked[number] = _Asked(owner, connection, time.monotonic(), is_gone, loop.create_future())
        connection.say(number, self._worker, asked.at, key and key.name, request, body)
        try:
            answer = await asked.answer
        finally:
            self._asked.pop(number, None)
        if answer is None:
            scope[WAITED] = time.monotonic() - asked.at
            return None
        if not answer:
            # It may be done already: it does not count as one that has waited, which would be answered as not done.
            if _counts_once(scope, body):
                return None
            raise OverloadedError(UNKNOWN)
        *answered, error, scope[NOTED_IN_SCOPE] = answer
        if error is not None:
            scope[ERROR_IN_SCOPE] = SimpleNamespace(code=error[0], reason=error[1])
        return tuple(answered)

    def _connection_to(self, owner: int) -> _Connection | None:
        """Return a connection to another worker; None if it is dead or says nothing."""
        if not self._board.is_fresh(owner):
            return None
        if (connection := self._connections.get(owner)) is None:
            end, loop = socket.socket(socket.AF_UNIX), asyncio.get_running_loop()
            end.setblocking(False)
            if end.connect_ex(_address(self._shared[owner][-1])):  # It connects at once, or never.
                end.close()
                return None
            connection = self._connections[owner] = _Connection(self._settle, partial(self._on_lost, owner))
            connection.opening = loop.create_task(loop.create_unix_connection(lambda: connection, sock=end))
        return connection

    def _settle(self, _: object, number: int, answer: tuple[Any, ...] | None) -> None:
        asked = self._asked.pop(number, None)
        if asked is not None and not asked.answer.done():
            asked.answer.set_result(answer)

    def _on_lost(self, owner: int, connection: _Connection) -> None:
        """Settle what the owner can't answer any more; all that it wrote was read before."""
        if self._connections.get(owner) is connection:
            del self._connections[owner]
        for number, asked in list(self._asked.items()):
            if asked.connection is connection:
                self._settle(None, number, None if number > self._shared[owner][self._worker] else ())

    def look(self) -> None:
        """Pass silent owners over, and tell owners which clients have left; call it a few times in a second."""
        silent_since = time.monotonic() - SILENT_SECONDS
        for place, (number, asked) in enumerate(list(self._asked.items())):
            if asked.at < silent_since and number > self._shared[asked.owner][self._worker]:
                self._settle(None, number, None)
                if asked.connection.transport is None:  # It could not be opened.
                    self._connections.pop(asked.owner, None)
            elif place < MAX_LOOKED_AT and asked.is_gone is not None and asked.is_gone():
                asked.connection.say(number)

    # What this worker owns.

    def _begin(self, connection: _Connection, number: int, *request: Any) -> None:
        if not request:
            if number in connection.is_gone:
                connection.is_gone[number] = True
            return
        sender, asked_at, key_name, scope, body = request
        # In this order: what its sender finds unread for so long that it passes this owner over is old here.
        self._shared[self._worker][sender] = number
        waited = time.monotonic() - asked_at
        key = next((key for key in self._server.runtime.api_keys.keys if key.name == key_name), None)
        if waited > OLD_SECONDS or self._server.should_exit or (key is None and key_name is not None):
            connection.say(number, None)
            return
        scope[WAITED] = waited
        if key is not None:
            scope[KEY_IN_SCOPE] = key
        connection.is_gone[number] = False
        scope["extensions"] = {IS_GONE: partial(connection.is_gone.get, number)}
        task = asyncio.get_running_loop().create_task(self._carry_out(connection, number, scope, body))
        self._server.server_state.tasks.add(task)
        task.add_done_callback(self._server.server_state.tasks.discard)

    async def _carry_out(self, connection: _Connection, number: int, scope: dict[str, Any], body: bytes) -> None:
        answer: tuple[Any, ...] = ()
        try:
            with nullcontext() if self._spans is None else self._spans.of_request(scope):
                found, error = await self._requests.carry_out(scope, body), scope.get(ERROR_IN_SCOPE)
                answer = (*found, error and (error.code, error.reason), scope.get(NOTED_IN_SCOPE))
        finally:
            del connection.is_gone[number]
            connection.say(number, answer)


def _counts_once(scope: Scope, body: bytes | list[Any]) -> bool:
    """Return whether a request counts once however often it is carried out: by its key or the ids of its events."""
    if OWNED in scope:  # Clicks count once.
        return True
    if isinstance(body, list):
        return len(scope[PART]) > 1 or all(event.get("token") or event.get("event_id") for event in body)
    if any(name == b"idempotency-key" for name, _ in scope["headers"]):
        return bool(scope["method"] != "DELETE")
    with suppress(ValueError, LookupError, TypeError, AttributeError):
        posted = json.loads(body)
        events = posted.get("events", [posted]) if "/feedback" in scope["path"] else [{}]
        return all(each.get("token") or each["event_id"] for each in events)
    return False
