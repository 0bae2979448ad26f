# Made from awaited.py by `python -m tests.support.blocking_client`: change that, and run the command.
"""The blocking client: its methods, and the calls that they make."""

import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Self, Unpack

import httpx

from . import calls as api
from .attempts import Attempts, Target, target_of
from .calls import Action, Arm, BanditsError, Call, Fallback, FeedbackOptions, Json, SessionView, Settlement
from .connection import Connection
from .reporter import Event, OnError, ReportCounts, Reporter, ReportRules

SESSIONS = "/v1/sessions"


class Calls(Connection):
    """Calls of the service, each with all its attempts."""

    def __init__(self, target: Target, transport: httpx.BaseTransport | None) -> None:
        super().__init__(target, transport)
        self._outcome_fields: dict[str, str] = {}
        """By which field the events of known sessions say their outcome."""

    def call(self, call: Call) -> Json:
        """Make one call, and return the JSON of its answer.

        Raises
        ------
        BanditsError
            the error of the last attempt.
        """
        attempts = Attempts(call, self._target)
        while True:
            try:
                return self.attempt(attempts)
            except BanditsError as error:
                pause = attempts.pause(error)
            time.sleep(pause)

    def viewed(self, call: Call) -> SessionView:
        """Make a call that is answered with a session."""
        return api.read(api.view_of, self.call(call))

    def changed(self, method: str, path: str, body: Mapping[str, Any]) -> SessionView:
        """Make a session, or change one."""
        return self.viewed(Call(method, path, api.encode(body), key=uuid.uuid4().hex))

    def settle(
        self, session_id: str, events: Sequence[Mapping[str, Any] | None], options: FeedbackOptions, key: str = ""
    ) -> Settlement:
        """Send events in one call; None stands for one of a fallback, and is not sent.

        A void is said in the session's own word, which the session is asked for once.
        """
        sent = [event for event in events if event is not None]
        if not sent:
            return Settlement(fallbacks=len(events))
        if session_id not in self._outcome_fields and any(api.VOID in event for event in sent):
            found = self.viewed(Call("GET", api.session_path(session_id), traced=not key))
            self._outcome_fields[session_id] = found.outcome_field
        word = self._outcome_fields.get(session_id, api.VOID)
        said = [{word if name == api.VOID else name: value for name, value in event.items()} for event in sent]
        query = {name: str(options[name]) for name in ("on_surplus", "on_invalid") if options.get(name) is not None}
        path, content = f"{api.session_path(session_id)}/feedbacks", api.encode({"events": said})
        call = Call("POST", path, content, query, key or uuid.uuid4().hex, options.get("timeout"), traced=not key)
        settlement = api.read(lambda answer: api.settlement_of(answer, len(sent)), self.call(call))
        return replace(settlement, fallbacks=len(events) - len(sent))

    def settle_many(
        self, events: Sequence[Mapping[str, Any]], options: FeedbackOptions, traced: bool = False
    ) -> Settlement:
        """Send events of many sessions in one call; those with ids may be sent again."""
        said = [{**event, api.VOID: True} if api.VOID in event else event for event in events]
        key = None if all("event_id" in event for event in events) else uuid.uuid4().hex
        content, timeout = api.encode({"events": said}), options.get("timeout")
        call = Call("POST", "/v1/feedbacks", content, key=key, timeout=timeout, traced=traced)
        return api.read(lambda answer: api.settlement_of(answer, len(events)), self.call(call))

    def pages(self, path: str, items: str, reader: api.Reader[api.T], **query: Any) -> Iterator[api.T]:
        """Yield the items of all pages, which list them in the field ``items``.

        Raises
        ------
        BanditsError
            as ``call`` does, at the page that is asked for next.
        """
        asked = {name: value for name, value in query.items() if value is not None}
        while True:
            answer = self.call(Call("GET", path, query=asked))
            found, cursor = api.read(
                lambda page: ([reader(each) for each in page[items]], page["next_cursor"]), answer
            )
            yield from found
            if cursor is None:
                return
            if cursor == asked.get("cursor"):
                raise api.BadAnswerError(f"a page of {path} leads to itself")
            asked["cursor"] = cursor


class Session:
    """One session: one learner."""

    def __init__(self, session_id: str, calls: Calls, reporter: Reporter) -> None:
        self.session_id, self._path = session_id, api.session_path(session_id)
        self._calls, self._reporter = calls, reporter

    def act(self, *, fallback: Fallback | None = None, **options: Unpack[api.ActOptions]) -> Action:
        """Ask what to show to one visitor.

        Parameters
        ----------
        fallback : arm, or point, to return where the service does not answer in time, or refuses; then nothing is
            raised. Without it errors are raised
        options : ``eligible`` and ``exclude`` (arms that may be drawn, and that may not), ``segment`` (who asks),
            ``features`` (what is known of the visitor; report the action, whose token brings them along),
            ``visitor`` (who is always in the same group, if the session has a control group),
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
        return (self._chosen("act", {}, None if fallback is None else [fallback], options))[0]

    def acts(
        self,
        count: int,
        *,
        distinct: bool = False,
        fallback: Sequence[Fallback] | None = None,
        **options: Unpack[api.ActOptions],
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
        body = {"count": count} | ({"distinct": True} if distinct else {})
        return self._chosen("acts", body, None if fallback is None else fallback[:count], options)

    def _chosen(
        self, route: str, body: dict[str, Any], instead: Sequence[Fallback] | None, options: api.ActOptions
    ) -> list[Action]:
        """Ask; where no action comes, and something is named for this case, return that in place of an error."""
        key = options.get("idempotency_key") or uuid.uuid4().hex
        who = {name: options.get(name) for name in ("segment", "features", "visitor")}
        fallbacks = None if instead is None else [api.fallback_of(each, options.get("segment")) for each in instead]
        path, timeout = f"{self._path}/{route}", options.get("timeout")
        try:
            named = {"eligible": options.get("eligible"), "exclude": options.get("exclude")}
            body |= {name: api.listed(arms) for name, arms in named.items() if arms is not None}
            body |= {name: said for name, said in who.items() if said is not None}
            answer = self._calls.call(Call("POST", path, api.encode(body), key=key, timeout=timeout))
            return api.read(lambda found: api.actions_of(found, key, body), answer)
        except Exception as error:
            if fallbacks is None:
                raise
            self._reporter.tell(self.session_id, error, len(fallbacks))
            reason = error if isinstance(error, BanditsError) else BanditsError(repr(error))
            return [replace(each, error=reason) for each in fallbacks]

    def report(self, decision: Action | Arm | None = None, **outcome: Unpack[api.Outcome]) -> bool:
        """Report an outcome later, in a batch, and return at once.

        Parameters
        ----------
        decision : what ``act`` returned, or the arm; none for points. That of a fallback is not sent
        outcome : ``loss``, ``reward``, ``goal``, ``losses`` or ``gradient``, in the session's unit; ``event_id``,
            ``slot``, ``segment``, ``group`` and ``features`` of the decision, or its ``token``, if no action does

        Returns
        -------
        Whether it will be sent; what is dropped goes to ``on_error``.

        Raises
        ------
        TypeError, ValueError
            where not exactly one outcome is given, or it has no form in JSON.
        """
        return self._reporter.put(self.session_id, api.event_of(decision, outcome))

    def void(self, decision: Action | Arm | None = None, **where: Unpack[api.Where]) -> bool:
        """Report later that a decision was never shown: it ends, and nothing is learned from it.

        Parameters
        ----------
        decision : what ``act`` returned, or the arm; none for points
        where : ``event_id``, ``slot``, ``segment`` and ``group`` of the decision where no action says them

        Returns
        -------
        Whether it will be sent; what is dropped goes to ``on_error``.
        """
        return self._reporter.put(self.session_id, api.event_of(decision, {**where, api.VOID: None}))

    def feedback(self, decision: Action | Arm | None = None, **outcome: Unpack[api.Outcome]) -> Settlement:
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
        return self.feedbacks([api.event_of(decision, outcome)])

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
        return self._calls.settle(self.session_id, events, options)

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
        query = {} if segment is None else {"segment": segment}
        return self._calls.viewed(Call("GET", self._path, query=query))

    def update(self, **changes: Unpack[api.SessionChanges]) -> SessionView:
        """Change options of the session.

        Parameters
        ----------
        changes : as ``SessionChanges`` lists them; None clears one, and what is left out stays as it is

        Returns
        -------
        The session as it is then.
        """
        return self._calls.changed("PATCH", self._path, changes)

    def set_arms(self, arms: Sequence[str]) -> SessionView:
        """Exchange the arms for these; those that stay keep what they have learned.

        Parameters
        ----------
        arms : all labels that there shall be

        Returns
        -------
        The session as it is then.
        """
        return self._calls.changed("PUT", f"{self._path}/arms", {"arms": list(arms)})

    def change_arms(self, **changes: Unpack[api.ArmChanges]) -> SessionView:
        """Remove, add, resume and pause arms, in this order.

        Parameters
        ----------
        changes : labels, as ``remove``, ``add``, ``resume`` and ``pause``

        Returns
        -------
        The session as it is then.
        """
        return self._calls.changed("PATCH", f"{self._path}/arms", changes)

    def delete(self) -> None:
        """Delete the session."""
        self._calls.call(Call("DELETE", self._path, absent_ok=True))

    def arms(
        self, *, sort: str | None = None, limit: int = 100, removed: bool | None = None
    ) -> Iterator[dict[str, Any]]:
        """Go through the arms with their counts, means and intervals.

        Parameters
        ----------
        sort : ``"index"``, ``"probability"``, ``"acts"`` or ``"mean"``, and behind ``-`` downwards; None: by index
        limit : arms in one call, of which there are as many as it takes
        removed : whether removed arms, whose events may still come, are among them
        """
        return self._calls.pages(f"{self._path}/arms", "arms", dict, sort=sort, limit=limit, removed=removed)

    def segments(self, *, sort: str | None = None, limit: int = 100) -> Iterator[dict[str, Any]]:
        """Go through the segments that are kept.

        Parameters
        ----------
        sort : ``"segment"``, ``"slots"`` or ``"mean"``, and behind ``-`` downwards; None: by name
        limit : segments in one call, of which there are as many as it takes
        """
        return self._calls.pages(f"{self._path}/segments", "segments", dict, sort=sort, limit=limit)

    def decisions(self, *, limit: int = 100) -> Iterator[dict[str, Any]]:
        """Go through the decision log, oldest entries first.

        Parameters
        ----------
        limit : entries in one call, of which there are as many as it takes
        """
        return self._calls.pages(f"{self._path}/decisions", "decisions", dict, limit=limit)

    def follow(
        self, cursor: str | None = None, *, wait_seconds: float = 20.0, limit: int = 1000
    ) -> Iterator[dict[str, Any]]:
        """Go through the decision log and on through what comes, without an end.

        Parameters
        ----------
        cursor : of the last page that was dealt with; None to begin with the oldest entry
        wait_seconds : how long the service waits for the next entry in one call, at most 30
        limit : entries on a page, at most

        Yields
        ------
        pages that have ``decisions``, the ``cursor`` behind them, and ``missed`` (true) if entries before them were
        trimmed away unread.

        Raises
        ------
        BanditsError
            as other calls do: follow again with the last cursor. ``UnknownSessionError`` if the session is gone.
        """
        path, query = f"{self._path}/decisions", {"wait_seconds": wait_seconds, "limit": limit}
        while True:
            asked = query if cursor is None else query | {"cursor": cursor}
            page = self._calls.call(Call("GET", path, query=asked, waits=wait_seconds))
            entries, cursor = api.read(lambda page: (page["decisions"], page["cursor"]), page)
            if entries or "missed" in page:
                yield page


class Sessions:
    """All sessions of the service."""

    def __init__(self, calls: Calls, reporter: Reporter) -> None:
        self._calls, self._reporter = calls, reporter

    def ensure(self, session_id: str, **options: Unpack[api.SessionOptions]) -> Session:
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
        session = Session(session_id, self._calls, self._reporter)
        try:
            found = self._created(session_id, options)
        except api.SessionExistsError as error:
            found = session.view()
            if api.differs(found, options, error):
                raise
        wanted = options["learner"].get("arms")
        if wanted is not None and set(wanted) != set(found.arms):
            found = session.set_arms(wanted)
        if changes := api.changes_to(found, options):
            self._calls.changed("PATCH", api.session_path(session_id), changes)
        return session

    def create(self, session_id: str | None = None, **options: Unpack[api.SessionOptions]) -> Session:
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
        view = self._created(session_id, options)
        return Session(view.session_id, self._calls, self._reporter)

    def _created(self, session_id: str | None, options: Mapping[str, Any]) -> SessionView:
        if session_id is not None:
            api.session_path(session_id)
            options = {**options, "session_id": session_id}
        return self._calls.changed("POST", SESSIONS, options)

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
        return Session(session_id, self._calls, self._reporter).view()

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
        Session(session_id, self._calls, self._reporter).delete()

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
        return self._calls.pages(SESSIONS, "sessions", api.view_of, limit=limit)


class Bandits:
    """A client of the service, for any number of threads. Use it in an ``with`` block, or close it.

    Reports are sent by a thread of its own, and what is left at the end of the program is sent.

    Parameters
    ----------
    url : address of the service; by default of the environment variable ``DELAYED_BANDITS_URL``
    api_key : by default of ``DELAYED_BANDITS_API_KEY``; without one none is sent
    timeout : seconds for a call with all its attempts
    max_retries : attempts after the first, where another may succeed
    on_error : called with reports that are dropped, from any thread; by default they are logged
    reports : how reports are gathered and sent
    verify : an ``ssl.SSLContext`` for ``https``
    trust_env : whether calls go through the proxies that the environment names
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
        trust_env: bool = False,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        target = target_of(url, api_key, timeout, max_retries, verify, trust_env)
        self._calls = Calls(target, transport)
        self._reporter = Reporter(self._calls, reports or ReportRules(), on_error)
        self.sessions = Sessions(self._calls, self._reporter)

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
        return Session(session_id, self._calls, self._reporter)

    def feedbacks(self, events: Sequence[Event], **options: Unpack[FeedbackOptions]) -> Settlement:
        """Send events of many sessions, and wait until they are settled: of each session all, or none.

        Parameters
        ----------
        events : each as its session takes it, with its ``session_id``; wrong ones and surplus are skipped
        options : ``timeout`` (seconds for this call with all its attempts)

        Returns
        -------
        How they were settled; ``errors`` has ``{"index", "code", "field", "message"}`` of the first wrong ones.

        Raises
        ------
        NoAnswerError, ApiError
            where no answer came in time, the service refused, or some sessions could not be written: the same
            events may be sent again, and those with an ``event_id`` count once.
        """
        return self._calls.settle_many(events, options, traced=True)

    def compare(self, learner: str, control: str) -> dict[str, Any]:
        """Compare two sessions, as the view of a session with a control group compares its groups.

        Parameters
        ----------
        learner, control : ids of the session in question, and of the one that it is compared with

        Returns
        -------
        ``groups``, and ``verdict``, which is None before 200 acts of both together.

        Raises
        ------
        InvalidRequestError
            where their ranges or words differ.
        NoAnswerError, ApiError
            where no answer came in time, or the service refused for another reason.
        """
        query = {"learner": learner, "control": control}
        found = self._calls.call(Call("GET", "/v1/compare", query=query))
        return api.read(lambda answer: {"groups": answer["groups"], "verdict": answer.get("verdict")}, found)

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
        self._calls.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
