"""One connection of a client: reading requests, refusing what is none, writing answers, and its end.

Requests are parsed a piece at a time, with bounds on what a connection holds. What is no HTTP request, or is too
large to be one, gets an answer of the service's, after those to the requests before it, and the connection ends. It
ends without an answer where a head is too slow, where nothing comes, and where nothing is taken of an answer. A
stop waits for requests that have sent their head, and only for ``STOP_SECONDS``.
"""

import asyncio
import re
import socket
import sys
from collections.abc import Callable, Sequence
from typing import Any, cast
from urllib.parse import unquote

import httptools
from fastapi import Response
from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT, FlowControl
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from ..errors import BadRequestError, HeadTooLargeError, OverloadedError, ServiceError
from ..telemetry.logs import IS_GONE, LEFT
from .connection_limits import HEALTH_PATHS, ConnectionLimit, check_headers, is_host
from .exchange import Exchange

MAX_URL_BYTES = 16_384
"""Room for the longest cursor of a list of sessions, with the path and the limit."""
MAX_HEAD_BYTES = 65_536
"""Bytes of the request line and the headers, of one chunk's extension, or of what comes behind a chunked body.

Clients and proxies send a few kB; a connection that has not authenticated itself can make the service hold no more.
"""
MAX_HEADERS = 200
"""Proxies add some ten; each header costs some 200 bytes of memory, however short."""
PARSED_AT_ONCE_BYTES = 16_384
"""Bytes parsed at a time, so that other connections are served during a burst of tiny requests or chunks."""
STOP_SECONDS = 1.0
"""How long a stop waits for the rest of a request, and then for a client to close its end."""
FULL = "This worker has all the connections that it may have"
STOPPING = "The service is stopping, and the request was not whole: send it again"
ASGI = {"version": "3.0", "spec_version": "2.3"}
NOTED = frozenset({b"host", b"transfer-encoding", b"origin", b"sec-fetch-site", b"expect"})
"""Headers that are checked: those of ``check_headers`` and ``check_origin``, and the one that asks for 100."""
_FRAMING = frozenset({b"content-length", b"transfer-encoding"})
"""Headers that say where a body ends."""

_NOTHING, _HEAD, _BODY = range(3)
"""What of a request the connection has to read next; nothing if the last one is whole, or there was none yet."""


class HttpConnection(HttpToolsProtocol, FlowControl):
    """One connection: it parses requests, is the transport and the flow control of their answers, and ends.

    Parameters
    ----------
    check_origin : gets the address and the ``NOTED`` headers of a request; raises a ServiceError to refuse it,
        and returns whether it would for another address
    draining : whether the service is about to stop; each request is then the last of its connection
    head_seconds : timeout for a request's head, and for the rest of a body after its request was answered
    refuse : makes the answer to a malformed request, of the client's address and port, and of method and path
    limit : counts the connections of the worker, and says which may only ask for health
    connection : the socket; None where a reset is noticed by reading alone
    """

    def __init__(
        self,
        *args: Any,
        check_origin: Callable[[bytes, Sequence[tuple[bytes, bytes]]], bool],
        head_seconds: float,
        refuse: Callable[[ServiceError, tuple[str, int] | None, str, str], Response],
        limit: ConnectionLimit,
        draining: Callable[[], bool] = lambda: False,
        connection: socket.socket | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self._check_origin, self._draining, self._refuse = check_origin, draining, refuse
        self._seconds, self._limit, self._socket = head_seconds, limit, connection
        # Bytes that were read and are not parsed yet, and the scheduled call that parses more of them.
        self._unparsed = b""
        self._next_parse: asyncio.Handle | None = None
        # Bytes of the piece that is being parsed. The parser does not say at which of them a request begins, so a
        # head counts from the beginning of its piece.
        self._piece_bytes = 0
        # Bytes parsed since a request began or a part of its body came: a head, a trailer, or a chunk's extension.
        self._head_bytes = 0
        # A new parser reads the head of a request that the application has already: its callbacks do nothing.
        self._replaying = False
        self._part = _NOTHING
        # The request that the application works on; uvicorn's ``cycle`` is the newest one, which may wait for it.
        self._running: Exchange | None = None
        self.cycle: Any
        # Headers of the last request that say where it came from and where it ends: mostly those of the next.
        self._accepted: list[tuple[bytes, bytes]] | None = None
        # Runs while a client has to send or to leave: without it a slow or silent one would hold its connection.
        self._timer: asyncio.TimerHandle | None = None
        # Runs while the transport has more to write than it takes; ends the connection.
        self._write_timer: asyncio.TimerHandle | None = None
        # The worker is full: a health check is answered, and nothing else.
        self._only_health = False
        # The client sends nothing more, and may still read.
        self._half_closed = False
        # Why nothing more is read: it is answered once the requests before it have their answers.
        self._final_error: ServiceError | None = None
        # The last answer is written, and what the client still sends is thrown away until it closes its end.
        self._lingering = False
        # The connection ends although its client did not ask for that: the next request may be on its way.
        self._cut_short = False
        # The service stops: what is not whole yet is waited for shortly, and nothing after it is served.
        self._stopping = False

    # It begins, and is lost.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)  # type: ignore[arg-type]
        FlowControl.__init__(self, self.transport)
        self.flow = self
        self.write, self.is_closing = self.transport.write, self.transport.is_closing
        # What the scopes of all requests have in common.
        self._shared: dict[str, Any] = {"type": "http", "asgi": ASGI, "scheme": "http", "root_path": ""}
        self._left, self.done = self.loop.create_future(), self.loop.create_future()
        self._shared |= {"client": self.client, "server": self.server}
        self._shared["extensions"] = {IS_GONE: self.is_gone, LEFT: self._left}
        self._only_health = self._limit.opened(self)
        self.done.set_result(None)  # What is awaited of a message that is written at once.
        self._idle_since = self._limit.clock()
        self._close_if_idle()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - whatever ended it
        self._limit.closed(self)
        self.connections.discard(self)
        self._stop_timer()
        self._unset_keepalive_if_required()
        self._unparsed = b""
        self._left.cancel()
        for each in (self._running, self.cycle):
            if each is not None and not each.response_complete:
                each.disconnected = True
                each.wake()
        self.resume_writing()
        self.parser = None  # type: ignore[assignment]

    def is_gone(self) -> bool:
        """Return whether the client has left, so that nobody would get an answer.

        A reset is found here also while nothing is read from the connection, or before the event loop came to it.
        """
        if self.transport.is_closing():
            return True
        if self._socket is None or sys.platform != "linux":
            return False
        try:
            return self._socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0] == 7  # TCP_CLOSE.
        except OSError:
            return True

    # Requests are parsed.

    def data_received(self, data: bytes) -> None:
        if self._lingering or self._final_error is not None:
            return
        if len(data) <= PARSED_AT_ONCE_BYTES and not self._unparsed and not self.pipeline:
            self._parse(data)
            return
        self._unparsed += data
        self.pause_reading()
        self._parse_soon()

    def _parse_soon(self) -> None:
        if self._next_parse is None:
            self._next_parse = self.loop.call_soon(self._parse_piece)

    def _parse_piece(self) -> None:
        """Parse one piece, unless a request waits in the pipeline already: then continue after the next answer."""
        self._next_parse = None
        if self.pipeline or self.transport.is_closing():
            return
        piece, self._unparsed = self._unparsed[:PARSED_AT_ONCE_BYTES], self._unparsed[PARSED_AT_ONCE_BYTES:]
        self._parse(piece)
        newest = self.cycle
        # More of a request's body may be there than its handler, which still runs, has taken.
        is_full = newest is not None and not newest.response_complete and len(newest.body) > HIGH_WATER_LIMIT
        if self._unparsed:
            self._parse_soon()
        elif not self.pipeline and not is_full:
            self.resume_reading()
        self._answer_and_close()

    def _parse(self, data: bytes) -> None:
        self._piece_bytes = len(data)
        self._head_bytes += len(data)
        rest = None
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            rest = data[upgrade.args[0] :]
        except httptools.HttpParserError as error:
            # The parser wraps what its callbacks raise.
            cause = error.__context__
            self._end_with(cause if isinstance(cause, ServiceError) else BadRequestError())
            return
        if rest is not None:  # Not within the handler of the exception: it would be the cause of errors behind it.
            self._ignore_upgrade(rest)
        elif self._head_bytes > MAX_HEAD_BYTES:
            self._end_with(HeadTooLargeError())
        elif self._part is _HEAD and self._timer is None:
            self._start_timer()

    def _ignore_upgrade(self, rest: bytes) -> None:
        """Go on with a request as if it had not asked for another protocol.

        Its parser would skip the body, so a new parser gets the head of a request with a body of the same length.
        """
        framing = [b"%b: %b\r\n" % (name, value) for name, value in self.headers if name in _FRAMING]
        self.parser = httptools.HttpRequestParser(self)
        # As uvicorn does: requests behind one that closes the connection are ignored, not an error.
        self.parser.set_dangerous_leniencies(lenient_data_after_close=True)
        self._replaying, url = True, self.url
        self.parser.feed_data(b"POST / HTTP/1.1\r\n%b\r\n" % b"".join(framing))
        self._replaying, self.url = False, url
        self._parse(rest)

    def on_message_begin(self) -> None:
        if self._replaying:
            return
        self.url, self.headers = b"", []
        self._head_bytes, self._part = self._piece_bytes, _HEAD

    def on_header(self, name: bytes, value: bytes) -> None:
        # A header within a body is a trailer, and no trailer changes a request.
        if self._replaying or self._part is _BODY:
            return
        if len(self.headers) == MAX_HEADERS:
            raise HeadTooLargeError(f"A request may have {MAX_HEADERS} headers")
        self.headers.append((name.lower(), value.strip(b" \t")))  # RFC 9110, section 5.5.

    def on_headers_complete(self) -> None:
        if self._replaying:
            return
        if self._timer is not None:
            self._stop_timer()
        url, version, method = self.url, self.parser.get_http_version(), self.parser.get_method().decode("ascii")
        if self._head_bytes > MAX_HEAD_BYTES:
            raise HeadTooLargeError
        if len(url) > MAX_URL_BYTES:
            raise HeadTooLargeError(f"A request's address may have {MAX_URL_BYTES} bytes")
        noted = [header for header in self.headers if header[0] in NOTED]
        is_known = noted == self._accepted and version == "1.1" and url.startswith(b"/") and b"#" not in url
        raw_path, query = url.partition(b"?")[::2] if is_known else self._check(url, version, noted)
        if self._only_health and raw_path not in HEALTH_PATHS:
            raise OverloadedError(FULL)
        path = raw_path.decode("ascii")
        path = unquote(path) if "%" in path else path
        scope = {**self._shared, "http_version": version, "method": method, "path": path, "raw_path": raw_path}
        scope |= {"query_string": query, "headers": self.headers, "state": {}}
        keep_alive = version != "1.0" and self.parser.should_keep_alive()
        earlier, self.cycle = self.cycle, Exchange(self, scope, keep_alive=keep_alive)
        self._part = _BODY
        if self._stopping or self._only_health or self._draining():
            self._make_last()
        if self._stopping:
            self._start_timer()
        if earlier is None or earlier.response_complete:
            self._running = self.cycle
            self._limit.idle.pop(self, None)
            self._start_asgi_task(self.cycle, self.app)
        else:
            self.pause_reading()
            self.pipeline.appendleft((self.cycle, self.app))

    def _check(self, url: bytes, version: str, noted: list[tuple[bytes, bytes]]) -> tuple[bytes, bytes]:
        """Refuse a head that is ambiguous, or of another site; return path and query of its address.

        That is done before the body is parsed, and not by middleware. The version and the lengths decide where a
        request ends: where a proxy in front of this server may understand them otherwise, nothing behind them may
        be taken for a request. The address as it was sent, with its host and fragment, is not handed on to
        applications. And a wrong Host gets the same end as all of these.
        """
        self._accepted, is_path = None, url.startswith(b"/")
        if version not in {"1.0", "1.1"}:
            raise BadRequestError("The request is not HTTP/1.1")
        if b"#" in url:
            raise BadRequestError("A request has no fragment")
        check_headers(version, noted)
        # An address that is no path names host and port itself.
        if not is_path and not is_host(re.split(rb"[/?]", url.partition(b"://")[2], maxsplit=1)[0]):
            raise BadRequestError("The address has no valid host and port")
        is_checked = self._check_origin(url, noted)
        # RFC 9110, section 10.1.1: a client of HTTP/1.0 knows no 100.
        expects = any(name == b"expect" and value.lower() == b"100-continue" for name, value in noted)
        self.expect_100_continue = expects and version == "1.1"
        if is_checked and is_path and version == "1.1":
            self._accepted = noted  # Most requests of a client have the same, and are checked once.
        parsed = httptools.parse_url(url)
        return parsed.path or b"/", parsed.query or b""

    def on_body(self, body: bytes) -> None:
        self._head_bytes, newest = 0, self.cycle
        if newest is not None and not newest.response_complete:
            newest.body += body
            if len(newest.body) > HIGH_WATER_LIMIT:
                self.pause_reading()
            if newest.awaited is not None:
                newest.wake()

    def on_message_complete(self) -> None:
        # Where a request asks for another protocol, its parser says so before the body: see _ignore_upgrade.
        if self.parser.should_upgrade() and not self._replaying:
            return
        self._part, self._head_bytes = _NOTHING, 0
        if self._timer is not None:
            self._stop_timer()
        newest = self.cycle
        if newest is not None and not newest.response_complete:
            newest.more_body = False
            if newest.awaited is not None:
                newest.wake()
        if self._stopping and self._is_idle():
            self.transport.close()

    # Answers are written, as fast as the client reads them, and reading goes on once all is parsed.

    def resume_reading(self) -> None:
        if not self._unparsed:
            super().resume_reading()

    def pause_writing(self) -> None:
        FlowControl.pause_writing(self)
        self._write_timer = self._write_timer or self.loop.call_later(self.timeout_keep_alive, self.transport.abort)

    def resume_writing(self) -> None:
        if self._write_timer is not None:
            self._write_timer.cancel()
            self._write_timer = None
        FlowControl.resume_writing(self)

    def on_response_complete(self) -> None:
        self.server_state.total_requests += 1
        if self._lingering or self.transport.is_closing():
            return
        if self.read_paused:
            self.resume_reading()
        if self.pipeline:
            self._running, app = cast("tuple[Exchange, Any]", self.pipeline.pop())
            self._start_asgi_task(self._running, app)
        else:
            self._idle_since = self._limit.clock()
            if not self._only_health:
                self._limit.idle[self] = self._idle_since
            if self._final_error is not None:
                self._answer_final_error(self._final_error)
            elif self._part is _BODY:
                # A client that waits for 100 Continue, or sends its body: who knows where its next request begins?
                (self._linger if self.expect_100_continue else self._start_timer)()
        if self._unparsed:
            self._parse_soon()

    def _close_if_idle(self) -> None:
        """Close the connection if nothing has come for long: a timer for each request would cost more."""
        left: float = self.timeout_keep_alive
        if self._part is _NOTHING and self._is_idle():  # Else there are other timers.
            left += self._idle_since - self._limit.clock()
        if left > 0:
            self.timeout_keep_alive_task = self.loop.call_later(left, self._close_if_idle)
        else:
            self.transport.close()

    def close(self) -> None:
        """Close the connection after an answer that says so."""
        if self._part is _BODY or self._unparsed or self._cut_short:
            self._linger()
        else:
            self.transport.close()

    # The connection ends: after an error, when its client is late or sends no more, and when the service stops.

    def eof_received(self) -> bool:  # type: ignore[override]
        """Go on with what the client has sent, where it only sends no more; return whether to stay open."""
        if self._lingering or self.is_gone():
            return False
        self._half_closed = True
        self._left.cancel()
        self._answer_and_close()
        return True

    def _answer_and_close(self) -> None:
        """Close the connection of a client that sends no more, once it has its answers."""
        if not self._half_closed or self._unparsed or self._final_error is not None:
            return
        if self._part is _BODY:
            self._end_with(BadRequestError("The connection ended before the request was whole"))
        elif self._is_idle() and not self.pipeline:
            self.transport.close()
        else:
            self._make_last()

    def shutdown(self) -> None:
        self._stopping = True
        self._seconds = min(self._seconds, STOP_SECONDS)
        if self._lingering:
            self.transport.close()
        elif self._final_error is None and self._part is not _NOTHING:
            self._make_last()
            self._start_timer()
        elif self._final_error is None:
            super().shutdown()

    def _make_last(self) -> None:
        """Let the newest request be the last of the connection."""
        if self.cycle is not None:
            self._cut_short = self._cut_short or self.cycle.keep_alive
            self.cycle.keep_alive = False

    def _is_idle(self) -> bool:
        return self._running is None or self._running.response_complete

    def _end_with(self, error: ServiceError) -> None:
        """Read nothing more from the client; the error is the answer to its malformed request."""
        self._stop_timer()
        self._final_error, self._unparsed = error, b""
        if self._part is _BODY:
            if self.cycle.response_started:
                self._linger()
                return
            # The newest request is given up, as its body is broken: the error is its answer.
            if self.pipeline:
                self.pipeline.popleft()
            else:
                self.cycle.disconnected, self._running = True, None
                self.cycle.wake()
        if self._is_idle() and not self.transport.is_closing():
            self._answer_final_error(error)

    def _answer_final_error(self, error: ServiceError) -> None:
        method, path = "", ""
        if self._part is _BODY:
            method, path = self.cycle.scope["method"], self.cycle.scope["path"]
        elif self._part is _HEAD and self.url:
            address = re.sub(rb"^\w+://[^/?]*", b"", self.url).partition(b"?")[0]
            method, path = self.parser.get_method().decode("ascii"), unquote(address.decode("latin-1"))
        answer = self._refuse(error, self.client, method, path)
        lines = [b"%b: %b\r\n" % header for header in (*self.server_state.default_headers, *answer.raw_headers)]
        self.transport.write(b"".join((STATUS_LINE[answer.status_code], *lines, b"\r\n", bytes(answer.body))))
        self._linger()

    def _linger(self) -> None:
        """End a connection while its client may still send: unread bytes would reset it, and lose the answer."""
        self._lingering, self._unparsed = True, b""
        self._unset_keepalive_if_required()
        if self._half_closed:
            self.transport.close()
            return
        if self.transport.can_write_eof() and not self.transport.is_closing():
            self.transport.write_eof()
        self.resume_reading()
        self._start_timer(self.transport.close)

    def _start_timer(self, then: Callable[[], None] | None = None) -> None:
        self._stop_timer()
        self._timer = self.loop.call_later(self._seconds, then or self._on_timeout)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _on_timeout(self) -> None:
        """Close the connection, once the request before this one has its answer."""
        if self._stopping and self._part is _BODY:
            self._end_with(OverloadedError(STOPPING))
        elif self._is_idle():
            self.transport.close()
        else:
            self._start_timer()
