"""The client as a whole: its connections and its reports."""

from __future__ import annotations

import asyncio
from typing import Any, Self

import httpx

from ..async_connection import AsyncConnection
from ..attempts import target_of
from ..connection import Connection
from ..report_queue import OnError, ReportCounts, ReportRules
from ..reporter import Reporter
from .session import AsyncSession
from .sessions import AsyncSessions


class AsyncBandits:
    """A client of the service. Use it in an ``async with`` block, or close it. See ``Bandits``.

    Reports are sent by a thread, so they need no event loop, and what is left at the end of the program is sent.

    Parameters
    ----------
    transport, report_transport : in place of the network
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        api_key: str | None = None,
        timeout: float = 2.0,
        max_retries: int = 2,
        on_error: OnError | None = None,
        reports: ReportRules | None = None,
        verify: Any = True,
        transport: httpx.AsyncBaseTransport | None = None,
        report_transport: httpx.BaseTransport | None = None,
    ) -> None:
        target = target_of(url, api_key, timeout, max_retries, verify)
        self._connection = AsyncConnection(target, transport)
        self._blocking = Connection(target, report_transport)
        self._reporter = Reporter(self._blocking, reports or ReportRules(), on_error)
        self.sessions = AsyncSessions(self._connection, self._reporter)

    def session(self, session_id: str) -> AsyncSession:
        """Return a session by its id, without any call.

        Parameters
        ----------
        session_id : 1 to 128 letters, digits, dots, hyphens and underscores

        Raises
        ------
        ValueError
            for an id of another form.
        """
        return AsyncSession(session_id, self._connection, self._reporter)

    async def flush(self, timeout: float | None = None) -> bool:  # noqa: ASYNC109 - waits in a thread
        """Send the reports that wait.

        Parameters
        ----------
        timeout : seconds to wait for the answers; None waits without end

        Returns
        -------
        Whether all were answered in time.
        """
        return await asyncio.to_thread(self._reporter.flush, timeout)

    @property
    def reports(self) -> ReportCounts:
        """What became of the reports so far."""
        return self._reporter.counts()

    async def close(self) -> None:
        """Send the reports that wait, then close the connections."""
        await asyncio.to_thread(self._reporter.close)
        self._blocking.close()
        await self._connection.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
