"""Flow control of a connection: when reading stops, and how long a client may read nothing."""

from __future__ import annotations

import asyncio

from uvicorn.protocols.http.flow_control import FlowControl


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
