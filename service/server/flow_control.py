"""Flow control of a connection: when reading stops, and how long a client may read nothing."""

from __future__ import annotations

import asyncio

from uvicorn.protocols.http.flow_control import FlowControl


class ConnectionFlow(FlowControl):
    """Resumes reading only when all bytes read before are parsed, and cuts off a client that reads nothing.

    Parameters
    ----------
    patience : seconds in which a client has to read some of the answers that wait for it

    Attributes
    ----------
    held : bytes that were read and are not parsed yet
    """

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop, patience: float) -> None:
        super().__init__(transport)
        self._loop = loop
        self._patience = patience
        self.held = b""
        # Runs while the transport has more to write than it takes; ends the connection.
        self._stuck: asyncio.TimerHandle | None = None

    def resume_reading(self) -> None:
        if not self.held:
            super().resume_reading()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._stuck = self._stuck or self._loop.call_later(self._patience, self._transport.abort)

    def resume_writing(self) -> None:
        if self._stuck is not None:
            self._stuck.cancel()
            self._stuck = None
        super().resume_writing()
