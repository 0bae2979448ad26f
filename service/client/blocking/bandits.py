"""The client as a whole: its connections and its reports."""

from __future__ import annotations

from typing import Any, Self

import httpx

from ..attempts import target_of
from ..connection import Connection
from ..report_queue import OnError, ReportCounts, ReportRules
from ..reporter import Reporter
from .session import Session
from .sessions import Sessions


class Bandits:
    """A client of the service, for any number of threads. Use it in a ``with`` block, or close it.

    Parameters
    ----------
    url : address of the service; by default of the environment variable ``DELAYED_BANDITS_URL``
    api_key : by default of ``DELAYED_BANDITS_API_KEY``; without one none is sent
    timeout : seconds for a call with all its attempts
    max_retries : attempts after the first, where another may succeed
    on_error : called with reports that are dropped, from any thread; by default they are logged
    reports : how reports are gathered and sent
    verify : an ``ssl.SSLContext`` for ``https``
    transport : in place of the network

    Raises
    ------
    ValueError
        for a missing or wrong address, key, or number.
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
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self._connection = Connection(target_of(url, api_key, timeout, max_retries, verify), transport)
        self._reporter = Reporter(self._connection, reports or ReportRules(), on_error)
        self.sessions = Sessions(self._connection, self._reporter)

    def session(self, session_id: str) -> Session:
        """Return a session by its id, without any call.

        Parameters
        ----------
        session_id : 1 to 128 letters, digits, dots, hyphens and underscores

        Raises
        ------
        ValueError
            for an id of another form.
        """
        return Session(session_id, self._connection, self._reporter)

    def flush(self, timeout: float | None = None) -> bool:
        """Send the reports that wait.

        Parameters
        ----------
        timeout : seconds to wait for the answers; None waits without end

        Returns
        -------
        Whether all were answered in time.
        """
        return self._reporter.flush(timeout)

    @property
    def reports(self) -> ReportCounts:
        """What became of the reports so far."""
        return self._reporter.counts()

    def close(self) -> None:
        """Send the reports that wait, then close the connections."""
        self._reporter.close()
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
