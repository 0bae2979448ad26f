"""How a connection ends: after an error, when its client is late, and when the service stops."""

from __future__ import annotations

import asyncio
import logging
import resource
import socket
import sys
from collections.abc import Callable
from enum import Enum
from typing import Any, Protocol

from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from ..errors import BadRequestError, OverloadedError, ServiceError

# -- How many connections a worker holds, and which of them makes room for the next.
#
# Beyond the limit a new connection takes the place of the one that has been idle for longest. Where none is idle,
# it is one of a few that are held for health checks: any other request on it is told that the service is full.

HEALTH_CONNECTIONS = 16
"""Connections beyond the limit, for health checks."""
HEALTH_PATHS = frozenset({b"/livez", b"/readyz"})
IDLE_SECONDS = 1.0
"""A connection that is idle for a shorter time makes no room: its request may be on the way."""
OTHER_FILES = 64
"""Files that a worker has open beside connections of clients and of the store."""
_LOG_SECONDS = 10.0
"""A worker that stays full says so once in so long."""

log = logging.getLogger(__name__)


class Closable(Protocol):
    """A connection."""

    @property
    def transport(self) -> asyncio.Transport:
        """Its transport."""


class ConnectionLimit:
    """The connections of one worker.

    Parameters
    ----------
    limit : connections for all requests
    clock : seconds

    Attributes
    ----------
    count : connections that are open
    """

    def __init__(self, limit: int, clock: Callable[[], float]) -> None:
        self._limit = limit
        self._clock = clock
        self.count = 0
        # In the order in which they became idle, with the time.
        self._idle: dict[Closable, float] = {}
        # Those beyond the limit, oldest first.
        self._for_health: dict[Closable, None] = {}
        self._logged: float | None = None

    def opened(self, connection: Closable) -> bool:
        """Count a new connection.

        Returns
        -------
        Whether it may only ask for health.
        """
        only_health = self.count - len(self._for_health) >= self._limit and not self._make_room()
        self.count += 1
        if only_health:
            self._make_room_for_health()
            self._for_health[connection] = None
        else:
            self._idle[connection] = self._clock()
        return only_health

    def busy(self, connection: Closable) -> None:
        """Note that a connection has a request."""
        self._idle.pop(connection, None)

    def idle(self, connection: Closable) -> None:
        """Note that all requests of a connection are answered."""
        if connection not in self._for_health:
            self._idle[connection] = self._clock()

    def closed(self, connection: Closable) -> None:
        """Forget a connection."""
        self.count -= 1
        self._idle.pop(connection, None)
        self._for_health.pop(connection, None)

    def _make_room(self) -> bool:
        self._log()
        oldest = next(iter(self._idle), None)
        if oldest is None or self._clock() - self._idle[oldest] < IDLE_SECONDS:
            return False
        # It is counted until it has closed; closing takes no more than this turn of the event loop.
        del self._idle[oldest]
        oldest.transport.close()
        return True

    def _make_room_for_health(self) -> None:
        if len(self._for_health) >= HEALTH_CONNECTIONS:
            oldest = next(iter(self._for_health))
            del self._for_health[oldest]
            oldest.transport.abort()

    def _log(self) -> None:
        now = self._clock()
        if self._logged is None or now - self._logged >= _LOG_SECONDS:
            self._logged = now
            log.warning(
                "%d connections are open, the most of a worker: BANDIT_MAX_CONNECTIONS, or its files", self._limit
            )


def allowed_connections(wanted: int, to_store: int) -> int:
    """Return how many connections of clients a worker may hold: what was set, or what its files allow.

    Parameters
    ----------
    wanted : as it was set
    to_store : connections to the store
    """
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if files == resource.RLIM_INFINITY:
        return wanted
    return max(1, min(wanted, files - to_store - OTHER_FILES - HEALTH_CONNECTIONS))


def raise_file_limit() -> None:
    """Let this process, and those it starts, open as many files as the system permits."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == hard or (sys.platform == "darwin" and hard == resource.RLIM_INFINITY):
        return
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


# -- Flow control of a connection: when reading stops, and how long a client may read nothing.


class ConnectionFlow(FlowControl):
    """Resumes reading only when all bytes read before are parsed, and cuts off a client that reads nothing.

    Parameters
    ----------
    transport : of the connection
    loop : that the connection runs on, for its timer
    write_seconds : seconds in which a client has to read some of the answers that wait for it

    Attributes
    ----------
    unparsed : bytes that were read and are not parsed yet
    """

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop, write_seconds: float) -> None:
        super().__init__(transport)
        self._loop = loop
        self._write_seconds = write_seconds
        self.unparsed = b""
        # Runs while the transport has more to write than it takes; ends the connection.
        self._write_timer: asyncio.TimerHandle | None = None

    def resume_reading(self) -> None:
        if not self.unparsed:
            super().resume_reading()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._write_timer = self._write_timer or self._loop.call_later(self._write_seconds, self._transport.abort)

    def resume_writing(self) -> None:
        if self._write_timer is not None:
            self._write_timer.cancel()
            self._write_timer = None
        super().resume_writing()


# -- The transport of a connection as its answers use it: the head and the first part of a body leave in one
# write.
#
# uvicorn writes them one after the other, and uvloop passes each write to the system at once. One write instead
# of two saves a system call and a packet for each answer (docs/performance.md).

_CONTINUE = b"HTTP/1.1 100 "
"""What comes before an answer, and is waited for by a client."""


class AnswerTransport:
    """What uvicorn calls to write an answer and to end its connection.

    Parameters
    ----------
    transport : the transport of the connection
    loop : the event loop of the connection
    close : closes the connection without losing bytes of the answer
    """

    def __init__(
        self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop, close: Callable[[], None]
    ) -> None:
        self._transport = transport
        self._loop = loop
        self._close = close
        self.is_closing = transport.is_closing
        self._begins = True
        self._head = b""
        # Writes a head whose body takes longer than this turn of the event loop.
        self._later: asyncio.Handle | None = None

    def write(self, data: bytes) -> None:
        """Write a part of an answer; a head waits for the next part until the event loop's next turn.

        Parameters
        ----------
        data : head of an answer, or a part of its body
        """
        if self._begins and not data.startswith(_CONTINUE):
            self._begins, self._head = False, data
            self._later = self._loop.call_soon(self._write_head)
        elif self._later is not None:
            self._later.cancel()
            self._later = None
            self._transport.writelines((self._head, data))
        else:
            self._transport.write(data)

    def end(self) -> None:
        """End an answer: write a head that has no body, and take the next write for a head."""
        self._begins = True
        if self._later is not None:
            self._later.cancel()
            self._write_head()

    def close(self) -> None:
        """Close the connection after its last answer."""
        self.end()
        self._close()

    def _write_head(self) -> None:
        self._later = None
        if not self.is_closing():  # The connection may have been lost meanwhile.
            self._transport.write(self._head)


STOP_SECONDS = 1.0
"""How long a stop waits for the rest of a request, and then for a client to close its end."""
STOPPING = "The service is stopping, and the request was not whole: send it again"
INCOMPLETE = "The connection ended before the request was whole"
_TCP_CLOSE = 7
"""The first byte of ``TCP_INFO`` of a connection that was reset (Linux)."""


class RawResponse(Protocol):
    """A response with its headers and its body as bytes."""

    status_code: int
    body: bytes | memoryview
    raw_headers: list[tuple[bytes, bytes]]


class Part(Enum):
    """What of a request the connection has to read next."""

    NOTHING = "nothing"
    """The last request is whole, or there was none yet."""
    HEAD = "head"
    BODY = "body"


class EndingProtocol(HttpToolsProtocol):
    """A connection of uvicorn's that answers malformed requests, and limits how long it waits for its client.

    Parameters
    ----------
    head_seconds : timeout for a request's head, and for the rest of a body after its request was answered
    refuse : makes the answer to a malformed request, for the address and port of the client
    limit : counts the connections of the worker, and says which may only ask for health
    connection : the socket; None where a reset is noticed by reading alone

    Notes
    -----
    The error of a request that can't be read is answered in order, after the requests before it, and the connection
    ends. A stop waits for requests that have sent their head, and only for ``STOP_SECONDS``. A client that only
    ends its own sending is answered.
    """

    flow: ConnectionFlow

    def __init__(
        self,
        *args: Any,
        head_seconds: float,
        refuse: Callable[[ServiceError, tuple[str, int] | None], RawResponse],
        limit: ConnectionLimit,
        connection: socket.socket | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self._seconds = head_seconds
        self._refuse = refuse
        self._limit = limit
        self._socket = connection
        # The worker is full: a health check is answered, and nothing else.
        self._only_health = False
        # The client sends nothing more, and may still read.
        self._half_closed = False
        self._part = Part.NOTHING
        # Runs while a client has to send or to leave: without it a slow or silent one would hold its connection.
        self._timer: asyncio.TimerHandle | None = None
        # The request that the application works on; uvicorn's ``cycle`` is the newest one, which may wait for it.
        self._running: RequestResponseCycle | None = None
        # Why nothing more is read: it is answered once the requests before it have their answers.
        self._final_error: ServiceError | None = None
        # The last answer is written, and what the client still sends is thrown away until it closes its end.
        self._lingering = False
        # The connection ends although its client did not ask for that: the next request may be on its way.
        self._cut_short = False
        # The service stops: what is not whole yet is waited for shortly, and nothing after it is served.
        self._stopping = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)  # type: ignore[arg-type]
        self.flow = ConnectionFlow(self.transport, self.loop, self.timeout_keep_alive)
        self._only_health = self._limit.opened(self)
        self._answer_transport = AnswerTransport(self.transport, self.loop, self._close)
        # uvicorn starts it after the first answer: a connection that never sends anything would stay.
        self.timeout_keep_alive_task = self.loop.call_later(
            self.timeout_keep_alive, self.timeout_keep_alive_handler
        )

    def connection_lost(self, exc: Exception | None) -> None:
        self._limit.closed(self)
        self._stop_timer()
        self.flow.unparsed = b""
        self._unset_keepalive_if_required()
        if self._running is not None and not self._running.response_complete:
            # uvicorn does this for the newest request alone.
            self._running.disconnected = True
            self._running.message_event.set()
        super().connection_lost(exc)

    def eof_received(self) -> bool:  # type: ignore[override]
        """Go on with what the client has sent, where it only sends no more; return whether to stay open."""
        if self._lingering or self.is_gone():
            return False
        self._half_closed = True
        self._answer_and_close()
        return True

    def _answer_and_close(self) -> None:
        """Close the connection of a client that sends no more, once it has its answers."""
        if not self._half_closed or self.flow.unparsed or self._final_error is not None:
            return
        if self._part is Part.BODY:
            self._end_with(BadRequestError(INCOMPLETE))
        elif self._is_idle() and not self.pipeline:
            self.transport.close()
        else:
            self._make_last()

    def is_gone(self) -> bool:
        """Return whether the client has left, so that nobody would get an answer.

        A reset is found here also while nothing is read from the connection, or before the event loop came to it.
        """
        if self.transport.is_closing():
            return True
        if self._socket is None or sys.platform != "linux":
            return False
        try:
            return self._socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0] == _TCP_CLOSE
        except OSError:
            return True

    def shutdown(self) -> None:
        self._stopping = True
        self._seconds = min(self._seconds, STOP_SECONDS)
        if self._lingering:
            self.transport.close()
        elif self._final_error is None and self._part is not Part.NOTHING:
            self._make_last()
            self._start_timer()
        elif self._final_error is None:
            super().shutdown()

    def _make_last(self) -> None:
        """Let the newest request be the last of the connection."""
        if self.cycle is not None:
            self._cut_short = self._cut_short or self.cycle.keep_alive
            self.cycle.keep_alive = False

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        self._running = cycle
        self._limit.busy(self)
        super()._start_asgi_task(cycle, app)

    def _end_or_wait(self) -> None:
        """End the connection after its last answer, or wait for the rest of a body that was answered early."""
        if self._final_error is not None:
            self._answer_final_error(self._final_error)
        elif self.expect_100_continue:
            # The client waits for 100 Continue, or sends its body: it is unknown where the next request begins.
            self._linger()
        else:
            self._start_timer()

    def _is_idle(self) -> bool:
        return self._running is None or self._running.response_complete

    def _end_with(self, error: ServiceError) -> None:
        """Read nothing more from the client; the error is the answer to its malformed request."""
        self._stop_timer()
        self._final_error, self.flow.unparsed = error, b""
        if self._part is Part.BODY:
            if self.cycle.response_started:
                self._linger()
                return
            self._drop_newest()
        if self._is_idle() and not self.transport.is_closing():
            self._answer_final_error(error)

    def _drop_newest(self) -> None:
        """Give up the newest request, as its body is broken: the error is its answer."""
        if self.cycle is self._running:
            self.cycle.disconnected, self._running = True, None
            self.cycle.message_event.set()
        else:
            self.pipeline.popleft()

    def _answer_final_error(self, error: ServiceError) -> None:
        self._answer_transport.end()
        answer = self._refuse(error, self.client)
        headers = [*self.server_state.default_headers, *answer.raw_headers]
        lines = [b"%b: %b\r\n" % header for header in headers]
        self.transport.write(b"".join((STATUS_LINE[answer.status_code], *lines, b"\r\n", bytes(answer.body))))
        self._linger()

    def _close(self) -> None:
        """Close the connection after an answer that says so."""
        if self._part is Part.BODY or self.flow.unparsed or self._cut_short:
            self._linger()
        else:
            self.transport.close()

    def _linger(self) -> None:
        """End a connection while its client may still send: unread bytes would reset it, and lose the answer."""
        self._answer_transport.end()
        self._lingering, self.flow.unparsed = True, b""
        self._unset_keepalive_if_required()
        if self._half_closed:
            self.transport.close()
            return
        if self.transport.can_write_eof() and not self.transport.is_closing():
            self.transport.write_eof()
        self.flow.resume_reading()
        self._stop_timer()
        self._timer = self.loop.call_later(self._seconds, self.transport.close)

    def _start_timer(self) -> None:
        self._stop_timer()
        self._timer = self.loop.call_later(self._seconds, self._on_timeout)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _on_timeout(self) -> None:
        """Close the connection, once the request before this one has its answer."""
        if self._stopping and self._part is Part.BODY:
            self._end_with(OverloadedError(STOPPING))
        elif self._is_idle():
            self.transport.close()
        else:
            self._start_timer()
