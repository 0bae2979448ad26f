"""HTTP as uvicorn speaks it, with bounds on what a connection holds, and problems for what is no request."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import httptools
from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from ..errors import BadRequestError, HeadTooLargeError, OverloadedError, ServiceError
from .flow_control import ConnectionFlow
from .host_header import is_host, named_in

MAX_HEAD_BYTES = 65_536
"""Bytes of the request line and the headers, of one chunk's extension, or of what comes behind a chunked body."""
MAX_HEADERS = 200
MAX_URL_BYTES = 16_384
STOP_SECONDS = 1.0
"""How long a stop waits for the rest of a request, and then for a client to leave."""
STOPPING = "The service is stopping, and the request was not whole: send it again"
PARSED_AT_ONCE_BYTES = 16_384
"""Bytes parsed at a time, so that a burst of tiny requests or chunks lets other connections have their turn."""

_SPACE = b" \t"
"""What may stand around a header's value and is no part of it: RFC 9110, section 5.5."""
_FRAMING = frozenset({b"content-length", b"transfer-encoding"})


class Answer(Protocol):
    """A whole response."""

    status_code: int
    body: bytes | memoryview
    raw_headers: list[tuple[bytes, bytes]]


class _Way(NamedTuple):
    """A transport as a request's answer uses it, with a ``close`` of the connection's own."""

    write: Callable[[bytes], None]
    is_closing: Callable[[], bool]
    close: Callable[[], None]


class LimitedHttpProtocol(HttpToolsProtocol):
    """One connection.

    What is no HTTP request gets ``refuse``'s answer, after those to the requests before it, and the connection
    ends. It ends without an answer where a head is too slow, where nothing comes, and where nothing is taken of an
    answer. At a stop only whole requests are waited for.
    """

    def __init__(
        self, *args: Any, head_seconds: float, refuse: Callable[[ServiceError], Answer], **kwargs: Any
    ) -> None:
        super().__init__(*args, **kwargs)
        self._seconds = head_seconds
        self._refuse = refuse
        self._timer: asyncio.TimerHandle | None = None
        self._next: asyncio.Handle | None = None
        self._piece_bytes = self._quiet_bytes = 0
        self._in_head = self._in_body = False
        self._resuming = False
        self._leaving = self._stopping = False
        self._refusal: ServiceError | None = None
        self._running: RequestResponseCycle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)  # type: ignore[arg-type]
        self.flow = self._flow = ConnectionFlow(self.transport, self.loop, self.timeout_keep_alive)
        self._way = _Way(self.transport.write, self.transport.is_closing, self._close)
        self.timeout_keep_alive_task = self.loop.call_later(
            self.timeout_keep_alive, self.timeout_keep_alive_handler
        )

    def connection_lost(self, exc: Exception | None) -> None:
        self._in_time()
        self._flow.held = b""
        self._unset_keepalive_if_required()
        if self._running is not None and not self._running.response_complete:
            self._running.disconnected = True
            self._running.message_event.set()
        super().connection_lost(exc)

    def shutdown(self) -> None:
        self._stopping = True
        self._seconds = min(self._seconds, STOP_SECONDS)
        if self._leaving:
            self.transport.close()
        elif self._refusal is None and (self._in_head or self._in_body):
            self._take_last()
            self._limit_time()
        elif self._refusal is None:
            super().shutdown()

    def _take_last(self) -> None:
        """Let the newest request be the last of the connection."""
        if self.cycle is not None:
            self.cycle.keep_alive = False

    def data_received(self, data: bytes) -> None:
        if self._leaving or self._refusal is not None:
            return
        if len(data) <= PARSED_AT_ONCE_BYTES and not self._flow.held and not self.pipeline:
            self._parse(data)
            return
        self._flow.held += data
        self.flow.pause_reading()
        self._parse_soon()

    def _parse_soon(self) -> None:
        if self._next is None:
            self._next = self.loop.call_soon(self._parse_held)

    def _parse_held(self) -> None:
        self._next = None
        held = self._flow.held
        if self.pipeline or self.transport.is_closing():
            return
        self._flow.held = held[PARSED_AT_ONCE_BYTES:]
        self._parse(held[:PARSED_AT_ONCE_BYTES])
        if self._flow.held:
            self._parse_soon()
        elif not self.pipeline and not self._is_full(self.cycle):
            self.flow.resume_reading()

    def _is_full(self, cycle: RequestResponseCycle | None) -> bool:
        """Whether more of a request's body is there than its handler, which still runs, has taken."""
        return cycle is not None and not cycle.response_complete and len(cycle.body) > HIGH_WATER_LIMIT

    def _parse(self, data: bytes) -> None:
        self._piece_bytes = len(data)
        self._quiet_bytes += len(data)
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            self._ignore_upgrade(data[upgrade.args[0] :])
            return
        except httptools.HttpParserError as error:
            cause = error.__context__
            self._end_with(cause if isinstance(cause, ServiceError) else BadRequestError())
            return
        if self._quiet_bytes > MAX_HEAD_BYTES:
            self._end_with(HeadTooLargeError())

    def _ignore_upgrade(self, rest: bytes) -> None:
        """Go on with a request as if it had not asked for another protocol; its parser would skip its body."""
        framing = [b"%b: %b\r\n" % (name, value) for name, value in self.headers if name in _FRAMING]
        self.parser = httptools.HttpRequestParser(self)
        self.parser.set_dangerous_leniencies(lenient_data_after_close=True)
        self._resuming = True
        self.parser.feed_data(b"POST / HTTP/1.1\r\n%b\r\n" % b"".join(framing))
        self._resuming = False
        self._parse(rest)

    def on_message_begin(self) -> None:
        if self._resuming:
            return
        self._unset_keepalive_if_required()
        super().on_message_begin()
        self._quiet_bytes = self._piece_bytes
        self._in_head = True
        self._limit_time()

    def on_url(self, url: bytes) -> None:
        if not self._resuming:
            super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._resuming or self._in_body:
            return
        if len(self.headers) == MAX_HEADERS:
            raise HeadTooLargeError(f"A request may have {MAX_HEADERS} headers")
        super().on_header(name, value.strip(_SPACE))

    def on_headers_complete(self) -> None:
        if self._resuming:
            return
        self._in_time()
        self._check_head(self.parser.get_http_version())
        super().on_headers_complete()
        self._in_head, self._in_body = False, True
        if self._stopping:
            self._take_last()
            self._limit_time()
        self.cycle.transport = self._way  # type: ignore[assignment]

    def _check_head(self, version: str) -> None:
        """Refuse what a proxy in front of this server could understand otherwise."""
        if self._quiet_bytes > MAX_HEAD_BYTES:
            raise HeadTooLargeError
        if len(self.url) > MAX_URL_BYTES:
            raise HeadTooLargeError(f"A request's address may have {MAX_URL_BYTES} bytes")
        if version not in {"1.0", "1.1"}:
            raise BadRequestError("The request is not HTTP/1.1")
        if b"#" in self.url:
            raise BadRequestError("A request has no fragment")
        names = [name for name, _ in self.headers]
        if names.count(b"host") != 1 and (version == "1.1" or b"host" in names):
            raise BadRequestError("A request has one Host")
        if not all(is_host(value) for name, value in self.headers if name == b"host"):
            raise BadRequestError("The Host is no host and port")
        if not is_host(named_in(self.url)):
            raise BadRequestError("The address has no valid host and port")
        if b"transfer-encoding" in names:
            codings = [value.lower() for name, value in self.headers if name == b"transfer-encoding"]
            if codings != [b"chunked"] or version == "1.0":
                raise BadRequestError("The only Transfer-Encoding is chunked")

    def on_body(self, body: bytes) -> None:
        self._quiet_bytes = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        if self.parser.should_upgrade() and not self._resuming:
            return
        self._in_body = False
        self._quiet_bytes = 0
        self._in_time()
        super().on_message_complete()
        if self._stopping and self._is_idle():
            self.transport.close()

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        self._running = cycle
        super()._start_asgi_task(cycle, app)

    def on_response_complete(self) -> None:
        if self._leaving:
            self.server_state.total_requests += 1
            return
        super().on_response_complete()
        if self.transport.is_closing():
            return
        if self._flow.held:
            self._parse_soon()
        if self._is_idle():
            self._between_requests()

    def _between_requests(self) -> None:
        if self._refusal is not None:
            self._answer_refusal(self._refusal)
        elif self._in_body and self.expect_100_continue:
            self._leave()
        elif self._in_body:
            self._limit_time()

    def _is_idle(self) -> bool:
        return self._running is None or self._running.response_complete

    def _end_with(self, error: ServiceError) -> None:
        """Take nothing more from the client; the error is the answer to what is no request."""
        self._in_time()
        self._refusal, self._flow.held = error, b""
        if self._in_body:
            broken = self.cycle
            if broken.response_started:
                self._leave()
                return
            if broken is self._running:
                broken.disconnected, self._running = True, None
                broken.message_event.set()
            else:
                self.pipeline.popleft()
        if self._is_idle() and not self.transport.is_closing():
            self._answer_refusal(error)

    def _answer_refusal(self, error: ServiceError) -> None:
        answer = self._refuse(error)
        headers = [*self.server_state.default_headers, *answer.raw_headers]
        lines = [b"%b: %b\r\n" % header for header in headers]
        self.transport.write(b"".join((STATUS_LINE[answer.status_code], *lines, b"\r\n", bytes(answer.body))))
        self._leave()

    def _close(self) -> None:
        if self._in_body or self._flow.held:
            self._leave()
        else:
            self.transport.close()

    def _leave(self) -> None:
        """End a connection whose client may still be sending: unread bytes would reset it, and lose the answer."""
        self._leaving, self._flow.held = True, b""
        self._unset_keepalive_if_required()
        if self.transport.can_write_eof() and not self.transport.is_closing():
            self.transport.write_eof()
        self.flow.resume_reading()
        self._in_time()
        self._timer = self.loop.call_later(self._seconds, self.transport.close)

    def _limit_time(self) -> None:
        self._in_time()
        self._timer = self.loop.call_later(self._seconds, self._is_late)

    def _in_time(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _is_late(self) -> None:
        """Close the connection, once the request before this one has its answer."""
        if self._stopping and self._in_body:
            self._end_with(OverloadedError(STOPPING))
        elif self._is_idle():
            self.transport.close()
        else:
            self._limit_time()
