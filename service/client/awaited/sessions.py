"""All sessions of the service."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Unpack

from ..answers import SessionView, view_of
from ..async_connection import AsyncConnection
from ..reporter import Reporter
from ..steps import sessions
from ..steps.sessions import SessionOptions
from .session import AsyncSession


class AsyncSessions:
    """All sessions of the service."""

    def __init__(self, connection: AsyncConnection, reporter: Reporter) -> None:
        self._connection, self._reporter = connection, reporter

    async def ensure(self, session_id: str, **options: Unpack[SessionOptions]) -> AsyncSession:
        """Create a session, or bring its arms and the options that are named in line.

        Parameters
        ----------
        session_id : 1 to 128 letters, digits, dots, hyphens and underscores
        options : fields of the session, as ``SessionOptions`` lists them; ``learner`` is needed

        Raises
        ------
        SessionExistsError
            where the session differs in what can't change.
        NoAnswerError, ApiError
            where no answer came in time, or the service refused for another reason.
        """
        return self._session(await self._connection.run(sessions.ensure(session_id, options)))

    async def create(self, session_id: str | None = None, **options: Unpack[SessionOptions]) -> AsyncSession:
        """Create a session, or find the one that was created with the same fields.

        Parameters
        ----------
        session_id : without one the session gets one
        options : fields of the session, as ``SessionOptions`` lists them; ``learner`` is needed

        Raises
        ------
        SessionExistsError
            where the session was created with other fields.
        NoAnswerError, ApiError
            where no answer came in time, or the service refused for another reason.
        """
        return self._session(await self._connection.run(sessions.create(session_id, options)))

    async def get(self, session_id: str) -> SessionView:
        """View a session.

        Parameters
        ----------
        session_id : of an existing session

        Raises
        ------
        UnknownSessionError
            where there is none.
        NoAnswerError, ApiError
            where no answer came in time, or the service refused for another reason.
        """
        return await self._connection.run(sessions.view(session_id))

    async def delete(self, session_id: str) -> None:
        """Delete a session.

        Parameters
        ----------
        session_id : of an existing session

        Raises
        ------
        UnknownSessionError
            where there is none.
        NoAnswerError, ApiError
            where no answer came in time, or the service refused for another reason.
        """
        await self._connection.run(sessions.delete(session_id))

    def list(self, limit: int = 100) -> AsyncIterator[SessionView]:
        """Go through all sessions, without their distributions.

        Parameters
        ----------
        limit : sessions in one call, of which there are as many as it takes

        Raises
        ------
        NoAnswerError, ApiError
            where no answer came in time, or the service refused.
        """
        return self._connection.pages(sessions.SESSIONS, "sessions", view_of, limit=limit)

    def _session(self, view: SessionView) -> AsyncSession:
        return AsyncSession(view.session_id, self._connection, self._reporter)
