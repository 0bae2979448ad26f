"""One request of a connection and its answer, as an ASGI application gets and gives them."""

import asyncio
import re
from collections.abc import Awaitable
from typing import Any

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, RequestResponseCycle

_CONTROL = re.compile(rb"[\x00-\x08\x0a-\x1f\x7f]")
"""What no header's value has."""


class Exchange(RequestResponseCycle):
    """In place of uvicorn's: it writes the head of an answer with the first of the body, and makes it in one look.

    Parameters
    ----------
    connection : the ``HttpConnection``, which writes, and is told when the answer is complete
    scope : of the request
    keep_alive : whether other requests may follow

    Attributes
    ----------
    body, more_body : what of the body has come and was not received, and whether more comes
    awaited : of more of the body, or of the end; None while the application does not wait for it
    disconnected : nobody waits for the answer any more
    """

    disconnected = response_started = response_complete = False
    more_body, _is_received = True, False
    awaited: asyncio.Future[None] | None = None
    _head = b""
    """Of the answer, until it is written."""
    _left = 0
    """Bytes of the answer's body that are still to come; -1: it is sent in chunks."""

    def __init__(self, connection: Any, scope: Any, *, keep_alive: bool) -> None:
        self.scope, self.keep_alive, self.body = scope, keep_alive, bytearray()
        self._connection = self.transport = connection
        self._done: Awaitable[None] = connection.done
        self.logger, self.waiting_for_100_continue = connection.logger, connection.expect_100_continue

    def wake(self) -> None:
        """Let the application receive what has come, or the end."""
        if self.awaited is not None and not self.awaited.done():
            self.awaited.set_result(None)

    async def receive(self) -> Any:
        """Return what has come of the body, once something has, or that nothing comes any more."""
        connection = self._connection
        if self.waiting_for_100_continue and not connection.is_closing():
            connection.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            self.waiting_for_100_continue = False
        if not self.disconnected and not self.response_complete:
            if connection.read_paused:
                connection.resume_reading()
            if not self.body and (self.more_body or self._is_received):
                self.awaited = connection.loop.create_future()
                await self.awaited
                self.awaited = None
        if self.disconnected or self.response_complete:
            return {"type": "http.disconnect"}
        body, self.body, self._is_received = bytes(self.body), bytearray(), not self.more_body
        return {"type": "http.request", "body": body, "more_body": self.more_body}

    def send(self, message: Any) -> Awaitable[None]:  # type: ignore[override]
        """Write an answer, as fast as the client takes it; a coroutine for each message would cost as much.

        Raises
        ------
        RuntimeError
            for a message that does not follow on those before it.
        """
        connection, kind = self._connection, message["type"]
        if self.disconnected:
            return self._done
        if connection.write_paused:
            return self._send_later(message)
        if kind == "http.response.body" and (self._head or self.response_started) and not self.response_complete:
            body, more = message.get("body", b""), message.get("more_body", False)
            if self.scope["method"] == "HEAD":
                body = b""
            elif self._left < 0:
                body = (b"%x\r\n%b\r\n" % (len(body), body) if body else b"") + (b"" if more else b"0\r\n\r\n")
            else:
                self._left -= len(body)
                if self._left < 0 or (self._left and not more):
                    raise RuntimeError("An answer's body is not as long as its Content-Length")
            connection.write(self._head + body)
            self._head, self.response_started, self.waiting_for_100_continue = b"", True, False
            if not more:
                self.response_complete = True
                if self.awaited is not None:
                    self.wake()
                if not self.keep_alive:
                    connection.close()
                connection.on_response_complete()
            return self._done
        if kind != "http.response.start" or self.response_started:
            raise RuntimeError(f"{kind} does not follow on what the application has sent")
        status, headers = message["status"], [*message.get("headers", ())]
        if _CONTROL.search(b"".join([value for _, value in headers])):
            raise RuntimeError("A header of an answer has a control character")
        lines, ends, is_framed, self._left = [STATUS_LINE[status]], False, status in (204, 304), 0
        for name, value in (*connection.server_state.default_headers, *headers):
            if name == b"content-length":
                self._left, is_framed = int(value), True
            elif name == b"connection" and value.lower() == b"close":
                ends, self.keep_alive = True, False
            lines.append(b"%b: %b\r\n" % (name, value))
        if not self.keep_alive and not ends:
            lines.append(b"connection: close\r\n")
        if not is_framed and self.scope["method"] != "HEAD":
            self._left = -1
            lines.append(b"transfer-encoding: chunked\r\n")
        self._head = b"%b\r\n" % b"".join(lines)  # Written with the first of the body.
        return self._done

    async def _send_later(self, message: Any) -> None:
        await self._connection.drain()
        await self.send(message)
