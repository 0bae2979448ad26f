"""The blocking client, for any number of threads. ``awaited`` has the same methods."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Self, Unpack

import httpx

from . import steps as sessions
from . import steps as slots
from .attempts import target_of
from .calls import (
    VOID,
    Action,
    Arm,
    Fallback,
    Outcome,
    SessionView,
    Settlement,
    Where,
    event_of,
    session_path,
    view_of,
)
from .connection import Connection
from .reporter import OnError, ReportCounts, Reporter, ReportRules
from .steps import ActOptions, ArmChanges, FeedbackOptions, SessionChanges, SessionOptions

# -- One session: acting, reporting, and its arms.


class Session:
    """One session: one learner."""

    def __init__(self, session_id: str, connection: Connection, reporter: Reporter) -> None:
        session_path(session_id)
        self.session_id = session_id
        self._connection, self._reporter = connection, reporter

    def act(self, *, fallback: Fallback | None = None, **options: Unpack[ActOptions]) -> Action:
        """Ask what to show to one visitor.

        Parameters
        ----------
        fallback : arm, or point, to return where the service does not answer in time, or refuses; then nothing is
            raised. Without it errors are raised
        options : ``eligible`` and ``exclude`` (arms that may be drawn, and that may not), ``segment`` (who asks),
            ``idempotency_key`` (the same key gives the same action for a day), ``timeout`` (seconds for this call
            with all its attempts)

        Returns
        -------
        The action; show its ``choice``, or its ``x`` over points, and report it.

        Raises
        ------
        NoEligibleArmError
            where none of the arms that may be drawn can be drawn.
        NoAnswerError, ApiError
            where no answer came in time, or the service refused for another reason.
        """
        return self._connection.run(slots.act(self.session_id, fallback, options))

    def acts(
        self,
        count: int,
        *,
        distinct: bool = False,
        fallback: Sequence[Fallback] | None = None,
        **options: Unpack[ActOptions],
    ) -> list[Action]:
        """Ask for several actions, as for one page.

        Parameters
        ----------
        count : how many
        distinct : whether each arm is drawn once at most; then there may be fewer actions
        fallback : arms, or points, to return where the service does not answer in time, or refuses
        options : as for ``act``

        Returns
        -------
        The actions, in the order of their slots.

        Raises
        ------
        NoEligibleArmError
            where none of the arms that may be drawn can be drawn.
        NoAnswerError, ApiError
            where no answer came in time, or the service refused for another reason.
        """
        return self._connection.run(slots.acts(self.session_id, count, distinct, fallback, options))

    def report(self, decision: Action | Arm | None = None, **outcome: Unpack[Outcome]) -> bool:
        """Report an outcome later, in a batch, and return at once.

        Parameters
        ----------
        decision : what ``act`` returned, or the arm; none for points. That of a fallback is not sent
        outcome : ``loss``, ``reward``, ``losses`` or ``gradient``, in the session's unit; ``event_id``, ``slot``
            and ``segment`` of the decision where no action says them

        Returns
        -------
        Whether it will be sent; what is dropped goes to ``on_error``.

        Raises
        ------
        TypeError, ValueError
            where not exactly one outcome is given, or it has no form in JSON.
        """
        return self._reporter.put(self.session_id, event_of(decision, outcome))

    def void(self, decision: Action | Arm | None = None, **where: Unpack[Where]) -> bool:
        """Report later that a decision was never shown: it ends, and nothing is learned from it.

        Parameters
        ----------
        decision : what ``act`` returned, or the arm; none for points
        where : ``event_id``, ``slot`` and ``segment`` of the decision where no action says them

        Returns
        -------
        Whether it will be sent; what is dropped goes to ``on_error``.
        """
        return self._reporter.put(self.session_id, event_of(decision, {**where, VOID: None}))

    def feedback(self, decision: Action | Arm | None = None, **outcome: Unpack[Outcome]) -> Settlement:
        """Report an outcome, and wait until it is settled.

        Parameters
        ----------
        decision, outcome : as for ``report``

        Returns
        -------
        How it was settled; ``fallbacks`` is 1 for the action of a fallback, which is not sent.

        Raises
        ------
        TypeError, ValueError
            where not exactly one outcome is given, or it has no form in JSON.
        NoAnswerError, ApiError
            where no answer came in time, or the service refused.
        """
        return self.feedbacks([event_of(decision, outcome)])

    def feedbacks(
        self, events: Sequence[Mapping[str, Any] | None], **options: Unpack[FeedbackOptions]
    ) -> Settlement:
        """Send events, and wait until they are settled: all of them, or none.

        Parameters
        ----------
        events : each as the service takes it, such as ``{"arm": 2, "loss": 0.5, "event_id": "click-1"}``; None
            stands for the event of a fallback, and is not sent
        options : ``on_surplus`` and ``on_invalid`` (``"refuse"`` or ``"skip"`` what matches no decision, or does
            not fit the session), ``timeout`` (seconds for this call with all its attempts)

        Returns
        -------
        How they were settled.

        Raises
        ------
        SurplusFeedbackError
            where some match no outstanding decision; ``indexes`` says which.
        NoAnswerError, ApiError
            where no answer came in time, or the service refused for another reason.
        """
        return self._connection.run(slots.feedbacks(self.session_id, events, self._reporter.words, options))

    def view(self, segment: str | None = None) -> SessionView:
        """View the session, or one of its segments.

        Parameters
        ----------
        segment : of which distribution, counts and mean are shown; None shows those of the whole session

        Raises
        ------
        UnknownSegmentError
            where the session does not keep the segment.
        NoAnswerError, ApiError
            where no answer came in time, or the service refused for another reason.
        """
        return self._connection.run(sessions.view(self.session_id, segment))

    def update(self, **changes: Unpack[SessionChanges]) -> SessionView:
        """Change options of the session.

        Parameters
        ----------
        changes : ``expiry``, ``idle_ttl_seconds`` and ``floor``; None clears one, and what is left out
            stays as it is

        Returns
        -------
        The session as it is then.
        """
        return self._connection.run(sessions.update(self.session_id, changes))

    def set_arms(self, arms: Sequence[str]) -> SessionView:
        """Exchange the arms for these; those that stay keep what they have learned.

        Parameters
        ----------
        arms : all labels that there shall be

        Returns
        -------
        The session as it is then.
        """
        return self._connection.run(sessions.set_arms(self.session_id, arms))

    def change_arms(self, **changes: Unpack[ArmChanges]) -> SessionView:
        """Remove, add, resume and pause arms, in this order.

        Parameters
        ----------
        changes : labels, as ``remove``, ``add``, ``resume`` and ``pause``

        Returns
        -------
        The session as it is then.
        """
        return self._connection.run(sessions.change_arms(self.session_id, changes))

    def delete(self) -> None:
        """Delete the session."""
        self._connection.run(sessions.delete(self.session_id))

    def arms(self, *, sort: str | None = None, limit: int = 100) -> Iterator[dict[str, Any]]:
        """Go through the arms with their counts and means.

        Parameters
        ----------
        sort : ``"index"``, ``"probability"``, ``"acts"`` or ``"mean"``, and behind ``-`` downwards; None: by index
        limit : arms in one call, of which there are as many as it takes
        """
        return self._connection.pages(session_path(self.session_id, "arms"), "arms", dict, sort=sort, limit=limit)

    def segments(self, *, sort: str | None = None, limit: int = 100) -> Iterator[dict[str, Any]]:
        """Go through the segments that are kept.

        Parameters
        ----------
        sort : ``"segment"``, ``"slots"`` or ``"mean"``, and behind ``-`` downwards; None: by name
        limit : segments in one call, of which there are as many as it takes
        """
        path = session_path(self.session_id, "segments")
        return self._connection.pages(path, "segments", dict, sort=sort, limit=limit)

    def decisions(self, *, limit: int = 100) -> Iterator[dict[str, Any]]:
        """Go through the decision log, oldest entries first.

        Parameters
        ----------
        limit : entries in one call, of which there are as many as it takes
        """
        return self._connection.pages(session_path(self.session_id, "decisions"), "decisions", dict, limit=limit)


# -- All sessions of the service.


class Sessions:
    """All sessions of the service."""

    def __init__(self, connection: Connection, reporter: Reporter) -> None:
        self._connection, self._reporter = connection, reporter

    def ensure(self, session_id: str, **options: Unpack[SessionOptions]) -> Session:
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
        return self._session(self._connection.run(sessions.ensure(session_id, options)))

    def create(self, session_id: str | None = None, **options: Unpack[SessionOptions]) -> Session:
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
        return self._session(self._connection.run(sessions.create(session_id, options)))

    def get(self, session_id: str) -> SessionView:
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
        return self._connection.run(sessions.view(session_id))

    def delete(self, session_id: str) -> None:
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
        self._connection.run(sessions.delete(session_id))

    def list(self, limit: int = 100) -> Iterator[SessionView]:
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

    def _session(self, view: SessionView) -> Session:
        return Session(view.session_id, self._connection, self._reporter)


# -- The client as a whole: its connections and its reports.


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


__all__ = ["Bandits", "Session", "Sessions"]
