"""The client for asyncio: the methods of ``bandits``, which all but ``report`` and ``void`` are awaited."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, Self, Unpack

import httpx

from .answers import Action, SessionView, Settlement, view_of
from .attempts import target_of
from .calls import VOID, Arm, Fallback, Outcome, Where, event_of, session_path
from .connection import AsyncConnection, Connection
from .report_queue import OnError, ReportCounts, ReportRules
from .reporter import Reporter
from .steps import sessions, slots
from .steps.sessions import ArmChanges, SessionChanges, SessionOptions
from .steps.slots import ActOptions, FeedbackOptions


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
        """Return a session by its id, without any call."""
        return AsyncSession(session_id, self._connection, self._reporter)

    async def flush(self, timeout: float | None = None) -> bool:  # noqa: ASYNC109 - waits in a thread
        """Send the reports that wait; whether all were answered within ``timeout`` seconds."""
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


class AsyncSessions:
    """All sessions of the service."""

    def __init__(self, connection: AsyncConnection, reporter: Reporter) -> None:
        self._connection, self._reporter = connection, reporter

    async def ensure(self, session_id: str, **options: Unpack[SessionOptions]) -> AsyncSession:
        """Create a session, or bring its arms and the options that are named in line.

        Raises
        ------
        SessionExistsError
            where the session differs in what can't change.
        """
        return self._session(await self._connection.run(sessions.ensure(session_id, options)))

    async def create(self, session_id: str | None = None, **options: Unpack[SessionOptions]) -> AsyncSession:
        """Create a session, or find the one that was created with the same fields; without an id it gets one."""
        return self._session(await self._connection.run(sessions.create(session_id, options)))

    async def get(self, session_id: str) -> SessionView:
        """View a session."""
        return await self._connection.run(sessions.view(session_id))

    async def delete(self, session_id: str) -> None:
        """Delete a session."""
        await self._connection.run(sessions.delete(session_id))

    def list(self, limit: int = 100) -> AsyncIterator[SessionView]:
        """Go through all sessions, ``limit`` of them a call, without their distributions."""
        return self._connection.pages(sessions.SESSIONS, "sessions", view_of, limit=limit)

    def _session(self, view: SessionView) -> AsyncSession:
        return AsyncSession(view.session_id, self._connection, self._reporter)


class AsyncSession:
    """One session: one learner."""

    def __init__(self, session_id: str, connection: AsyncConnection, reporter: Reporter) -> None:
        session_path(session_id)
        self.session_id = session_id
        self._connection, self._reporter = connection, reporter

    async def act(self, *, fallback: Fallback | None = None, **options: Unpack[ActOptions]) -> Action:
        """Ask what to show to one visitor.

        Parameters
        ----------
        fallback : arm, or point, to return where the service does not answer in time; then nothing is raised.
            Without it errors are raised
        """
        return await self._connection.run(slots.act(self.session_id, fallback, options))

    async def acts(
        self,
        count: int,
        *,
        distinct: bool = False,
        fallback: Sequence[Fallback] | None = None,
        **options: Unpack[ActOptions],
    ) -> list[Action]:
        """Ask for ``count`` actions; ``distinct`` ones for one page, of which there may be fewer."""
        return await self._connection.run(slots.acts(self.session_id, count, distinct, fallback, options))

    def report(self, decision: Action | Arm | None = None, **outcome: Unpack[Outcome]) -> bool:
        """Report an outcome later, in a batch; return at once, and whether it will be sent.

        Parameters
        ----------
        decision : what ``act`` returned, or the arm; none for points. That of a fallback is not sent

        Raises
        ------
        TypeError, ValueError
            for what is no outcome.
        """
        return self._reporter.put(self.session_id, event_of(decision, outcome))

    def void(self, decision: Action | Arm | None = None, **where: Unpack[Where]) -> bool:
        """Report later that a decision was never shown: it ends, and nothing is learned from it."""
        return self._reporter.put(self.session_id, event_of(decision, {**where, VOID: None}))

    async def feedback(self, decision: Action | Arm | None = None, **outcome: Unpack[Outcome]) -> Settlement:
        """Report an outcome, and wait until it is settled."""
        return await self.feedbacks([event_of(decision, outcome)])

    async def feedbacks(
        self, events: Sequence[Mapping[str, Any] | None], **options: Unpack[FeedbackOptions]
    ) -> Settlement:
        """Send events, each as the service takes it, and wait until they are settled."""
        return await self._connection.run(slots.feedbacks(self.session_id, events, self._reporter.words, options))

    async def view(self, segment: str | None = None) -> SessionView:
        """View the session, or one of its segments."""
        return await self._connection.run(sessions.view(self.session_id, segment))

    async def update(self, **changes: Unpack[SessionChanges]) -> SessionView:
        """Change options of the session."""
        return await self._connection.run(sessions.update(self.session_id, changes))

    async def set_arms(self, arms: Sequence[str]) -> SessionView:
        """Exchange the arms for these; those that stay keep what they have learned."""
        return await self._connection.run(sessions.set_arms(self.session_id, arms))

    async def change_arms(self, **changes: Unpack[ArmChanges]) -> SessionView:
        """Remove, add, resume and pause arms."""
        return await self._connection.run(sessions.change_arms(self.session_id, changes))

    async def delete(self) -> None:
        """Delete the session."""
        await self._connection.run(sessions.delete(self.session_id))

    def arms(self, *, sort: str | None = None, limit: int = 100) -> AsyncIterator[dict[str, Any]]:
        """Go through the arms with their counts and means, ``limit`` of them a call."""
        return self._connection.pages(session_path(self.session_id, "arms"), "arms", dict, sort=sort, limit=limit)

    def segments(self, *, sort: str | None = None, limit: int = 100) -> AsyncIterator[dict[str, Any]]:
        """Go through the segments."""
        path = session_path(self.session_id, "segments")
        return self._connection.pages(path, "segments", dict, sort=sort, limit=limit)

    def decisions(self, *, limit: int = 100) -> AsyncIterator[dict[str, Any]]:
        """Go through the decision log, oldest entries first."""
        return self._connection.pages(session_path(self.session_id, "decisions"), "decisions", dict, limit=limit)
