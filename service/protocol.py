"""HTTP as uvicorn speaks it, with an end to how large a request's head grows and how long it takes."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

MAX_HEAD_BYTES = 65_536
"""Bytes of the request line and the headers, or of what comes behind a chunked body; one read more is fine."""


class BoundedProtocol(HttpToolsProtocol):
    """One connection. A head that is too large gets a 400; one too slow, and a silent connection, are closed."""

    def __init__(self, *args: Any, head_seconds: float, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._head_seconds = head_seconds
        self._head_timer: asyncio.TimerHandle | None = None
        self._head_bytes = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)  # type: ignore[arg-type]
        self.timeout_keep_alive_task = self.loop.call_later(
            self.timeout_keep_alive, self.timeout_keep_alive_handler
        )

    def connection_lost(self, exc: Exception | None) -> None:
        self._head_came()
        self._unset_keepalive_if_required()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._head_timer is None or self.transport.is_closing():
            return
        self._head_bytes += len(data)
        if self._head_bytes > MAX_HEAD_BYTES:
            self.send_400_response("The request's head is too large.")

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._head_bytes = 0
        self._await_head()

    def on_header(self, name: bytes, value: bytes) -> None:
        self._head_bytes += len(name) + len(value)
        if self._head_bytes > MAX_HEAD_BYTES:
            raise ValueError("too large a head")
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._head_came()
        self._head_bytes = 0
        super().on_headers_complete()

    def _await_head(self) -> None:
        self._head_timer = self.loop.call_later(self._head_seconds, self._head_is_late)

    def _head_came(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _head_is_late(self) -> None:
        """Close the connection, once the request before this one has its answer."""
        if self.cycle is None or self.cycle.response_complete:
            self.transport.close()
        else:
            self._await_head()
