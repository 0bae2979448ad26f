"""The transport of a connection as its answers use it: the head and the first part of a body leave in one write.

uvicorn writes them one after the other, and uvloop passes each write to the system at once. One write instead of
two saves a system call and a packet for each answer (docs/performance.md).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

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
