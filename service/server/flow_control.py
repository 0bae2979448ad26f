"""How a connection is held back: reading while there is enough to parse, writing while the client takes nothing."""

from __future__ import annotations

import asyncio

from uvicorn.protocols.http.flow_control import FlowControl


class ConnectionFlow(FlowControl):
    """Reading goes on when what was read before has been parsed; a client that takes nothing is cut.

    Parameters
    ----------
    patience : seconds in which a client has to take a piece of what waits for it
    """

    held = b""
    """What was read and not parsed yet."""

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop, patience: float) -> None:
        super().__init__(transport)
        self._loop = loop
        self._patience = patience
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
