"""One connection of a client: reading requests, refusing what is none, writing answers, and its end.

It imports ``errors`` alone of the rest of the service.
"""

from __future__ import annotations

import asyncio
import ipaddress
import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import httptools
from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from ..asgi_scope import IS_GONE
from ..errors import BadRequestError, HeadTooLargeError, OverloadedError, ServiceError
from .closing import HEALTH_PATHS, EndingProtocol, Part

# -- What a request's line and headers must be, beyond what the parser asks of them.
#
# These checks are made by the connection, before the body is parsed, and not by middleware. The version, the
# Transfer-Encoding and the lengths decide where a request ends: where a proxy in front of this server may
# understand them otherwise, nothing behind them may be taken for a request. The address as it was sent, with its
# host and fragment, is not handed on to applications. And a wrong Host gets the same end as all of these: an
# answer, then nothing more is read as a request.

MAX_URL_BYTES = 16_384
"""Room for the longest cursor of a list of sessions, with the path and the limit."""
MAX_PORT = 65_535
_READ = frozenset({b"host", b"transfer-encoding"})
"""Headers that are checked."""
_HOST = re.compile(
    rb"(?:(?:[\w.~!$&'()*+,;=-]|%[0-9A-Fa-f]{2})*"
    rb"|\[(?:(?P<ipv6>[0-9A-Fa-f:.]+)|[vV][0-9A-Fa-f]+\.[\w.~!$&'()*+,;=:-]+)\])"
    rb"(?::0*(?P<port>\d{0,5}))?",
    re.ASCII,
)


def check_head(version: str, url: bytes, headers: Sequence[tuple[bytes, bytes]]) -> None:
    """Refuse what a proxy in front of this server could understand otherwise.

    Parameters
    ----------
    version : as ``1.1``
    url : the address as it was sent
    headers : names in small letters, and values without space around them

    Raises
    ------
    HeadTooLargeError, BadRequestError
    """
    if len(url) > MAX_URL_BYTES:
        raise HeadTooLargeError(f"A request's address may have {MAX_URL_BYTES} bytes")
    if version not in {"1.0", "1.1"}:
        raise BadRequestError("The request is not HTTP/1.1")
    if b"#" in url:
        raise BadRequestError("A request has no fragment")
    # Most requests of a client have the same headers.
    _check_headers(version, tuple([header for header in headers if header[0] in _READ]))
    if not url.startswith(b"/") and not is_host(_named_in(url)):
        raise BadRequestError("The address has no valid host and port")


@lru_cache(maxsize=64)
def _check_headers(version: str, headers: Sequence[tuple[bytes, bytes]]) -> None:
    hosts = [value for name, value in headers if name == b"host"]
    if len(hosts) > 1 or (not hosts and version == "1.1"):
        raise BadRequestError("A request has one Host")
    if not all(map(is_host, hosts)):
        raise BadRequestError("The Host is no host and port")
    # Two lengths, a length that is no number and a length beside chunks are refused by the parser.
    codings = [value.lower() for name, value in headers if name == b"transfer-encoding"]
    if codings and (codings != [b"chunked"] or version == "1.0"):
        raise BadRequestError("The only Transfer-Encoding is chunked")


def _named_in(url: bytes) -> bytes:
    """Return the host and port in a request's address that is no path."""
    return re.split(rb"[/?]", url.partition(b"://")[2], maxsplit=1)[0]


@lru_cache(maxsize=64)
def is_host(value: bytes) -> bool:
    """Return whether a value is a host, or a host and a port; both may be empty.

    RFC 9112, section 3.2, and RFC 3986 define them.
    """
    found = _HOST.fullmatch(value)
    if found is None or int(found["port"] or 0) > MAX_PORT:
        return False
    return found["ipv6"] is None or _is_ipv6(found["ipv6"])


def _is_ipv6(text: bytes) -> bool:
    try:
        ipaddress.IPv6Address(text.decode("ascii"))
    except ValueError:
        return False
    return True


# -- HTTP as uvicorn reads it, a piece at a time and with bounds on what a connection holds.

MAX_HEAD_BYTES = 65_536
"""Bytes of the request line and the headers, of one chunk's extension, or of what comes behind a chunked body.

Clients and proxies send a few kB; a connection that has not authenticated itself can make the service hold no more.
"""
MAX_HEADERS = 200
"""Proxies add some ten; each header costs some 200 bytes of memory, however short."""
PARSED_AT_ONCE_BYTES = 16_384
"""Bytes parsed at a time, so that other connections are served during a burst of tiny requests or chunks."""

_SPACE = b" \t"
"""What may stand around a header's value and is no part of it: RFC 9110, section 5.5."""
FULL = "This worker has all the connections that it may have"
_FRAMING = frozenset({b"content-length", b"transfer-encoding"})
"""Headers that say where a body ends."""


class LimitedHttpProtocol(EndingProtocol):
    """One connection.

    What is no HTTP request, or is too large to be one, gets an answer of the service's, after those to the requests
    before it, and the connection ends. It ends without an answer where a head is too slow, where nothing comes, and
    where nothing is taken of an answer.

    Parameters
    ----------
    check_origin : gets the address and the headers of each request; raises a ServiceError to refuse it
    draining : whether the service is about to stop; each request is then the last of its connection
    """

    def __init__(
        self,
        *args: Any,
        check_origin: Callable[[bytes, Sequence[tuple[bytes, bytes]]], None],
        draining: Callable[[], bool] = lambda: False,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self._draining = draining
        self._check_origin = check_origin
        # The scheduled call that parses more of ``flow.unparsed``; None if there is nothing to parse.
        self._next_parse: asyncio.Handle | None = None
        # Bytes of the piece that is being parsed. The parser does not say at which of them a request begins, so a
        # head counts from the beginning of its piece.
        self._piece_bytes = 0
        # Bytes parsed since a request began or a part of its body came: a head, a trailer, or a chunk's extension.
        self._head_bytes = 0
        # A new parser reads the head of a request that the application has already: its callbacks do nothing.
        self._replaying = False

    def data_received(self, data: bytes) -> None:
        if self._lingering or self._final_error is not None:
            return
        if len(data) <= PARSED_AT_ONCE_BYTES and not self.flow.unparsed and not self.pipeline:
            self._parse(data)
            return
        self.flow.unparsed += data
        self.flow.pause_reading()
        self._parse_soon()

    def _parse_soon(self) -> None:
        if self._next_parse is None:
            self._next_parse = self.loop.call_soon(self._parse_piece)

    def _parse_piece(self) -> None:
        """Parse one piece, unless a request waits in the pipeline already: then continue after the next answer."""
        self._next_parse = None
        unparsed = self.flow.unparsed
        if self.pipeline or self.transport.is_closing():
            return
        self.flow.unparsed = unparsed[PARSED_AT_ONCE_BYTES:]
        self._parse(unparsed[:PARSED_AT_ONCE_BYTES])
        if self.flow.unparsed:
            self._parse_soon()
        elif not self.pipeline and not _is_full(self.cycle):
            self.flow.resume_reading()
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
        elif self._part is Part.HEAD and self._timer is None:
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
        self._unset_keepalive_if_required()
        super().on_message_begin()
        self._head_bytes = self._piece_bytes
        self._part = Part.HEAD

    def on_header(self, name: bytes, value: bytes) -> None:
        # A header within a body is a trailer, and no trailer changes a request.
        if self._replaying or self._part is Part.BODY:
            return
        if len(self.headers) == MAX_HEADERS:
            raise HeadTooLargeError(f"A request may have {MAX_HEADERS} headers")
        super().on_header(name, value.strip(_SPACE))

    def on_headers_complete(self) -> None:
        if self._replaying:
            return
        if self._timer is not None:
            self._stop_timer()
        if self._head_bytes > MAX_HEAD_BYTES:
            raise HeadTooLargeError
        version = self.parser.get_http_version()
        check_head(version, self.url, self.headers)
        self._check_origin(self.url, self.headers)
        if version == "1.0":
            self.expect_100_continue = False  # RFC 9110, section 10.1.1: such a client knows no 100.
        if self._only_health and self.url.partition(b"?")[0] not in HEALTH_PATHS:
            raise OverloadedError(FULL)
        super().on_headers_complete()
        self.scope["extensions"] = {IS_GONE: self.is_gone}  # type: ignore[dict-item]
        self._part = Part.BODY
        if self._stopping or self._only_health or self._draining():
            self._make_last()
        if self._stopping:
            self._start_timer()
        self.cycle.transport = self._answer_transport  # type: ignore[assignment]

    def on_body(self, body: bytes) -> None:
        self._head_bytes = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        # Where a request asks for another protocol, its parser says so before the body: see _ignore_upgrade.
        if self.parser.should_upgrade() and not self._replaying:
            return
        self._part = Part.NOTHING
        self._head_bytes = 0
        if self._timer is not None:
            self._stop_timer()
        super().on_message_complete()
        if self._stopping and self._is_idle():
            self.transport.close()

    def on_response_complete(self) -> None:
        self._answer_transport.end()
        if self._lingering:
            self.server_state.total_requests += 1
            return
        has_next = bool(self.pipeline)
        super().on_response_complete()
        if self.transport.is_closing():
            return
        if self._part is not Part.NOTHING:
            # The next request has begun, and has timers of its own.
            self._unset_keepalive_if_required()
        if not has_next:
            self._limit.idle(self)
            if self._final_error is not None or self._part is Part.BODY:
                self._end_or_wait()
        if self.flow.unparsed:
            self._parse_soon()


def _is_full(cycle: RequestResponseCycle | None) -> bool:
    """Return whether more of a request's body is there than its handler, which still runs, has taken."""
    return cycle is not None and not cycle.response_complete and len(cycle.body) > HIGH_WATER_LIMIT
