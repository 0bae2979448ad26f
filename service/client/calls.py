"""One call of the service's HTTP interface as data, without any I/O, and the events that calls carry."""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from email.utils import parsedate_to_datetime
from typing import Any, NamedTuple, TypeAlias, TypedDict, TypeVar
from urllib.parse import quote

# -- What can go wrong in a call, as exceptions: by cause, and for refusals by the service's ``code``.


class BanditsError(Exception):
    """Base of all errors of this client; its text says what to do."""


class NoAnswerError(BanditsError):
    """No answer came in time: the service is away, or too slow."""

    def __str__(self) -> str:
        """Say what to do, too."""
        text = "start a service with `delayed-bandits serve`, or name its address with url= (--url in commands)"
        return f"{super().__str__()}; {text}"


class BadAnswerError(BanditsError):
    """The answer does not come from this service, but from a proxy, for instance."""


class ClosedError(BanditsError):
    """The client has been closed."""


class QueueFullError(BanditsError):
    """A report was dropped because too many wait."""


class ApiError(BanditsError):
    """The service refused the call.

    Attributes
    ----------
    status : of HTTP
    code : what to decide by; it stays the same, while texts may change
    detail : what was wrong, in words
    indexes : positions of the wrong events of a batch
    errors : ``{"index", "field", "message"}`` of what was wrong
    request_id : by which the service's log names the request
    retry_after : seconds that the service asks to wait
    """

    def __init__(
        self, status: int, problem: Mapping[str, Any], request_id: str | None = None, retry_after: float = 0.0
    ) -> None:
        self.status = status
        self.code = str(problem.get("code", "unknown"))
        self.detail = str(problem.get("detail") or problem.get("title") or "")
        self.indexes: Sequence[int] = problem.get("indexes") or ()
        self.errors: Sequence[Mapping[str, Any]] = problem.get("errors") or ()
        self.request_id = request_id
        self.retry_after = retry_after
        super().__init__(f"{status} {self.code}: {self.detail}")


class InvalidRequestError(ApiError):
    """The request does not match its schema or its session, or is too large."""


class AuthenticationError(ApiError):
    """There is no API key, or one that the service does not know."""

    def __str__(self) -> str:
        """Say what to do, too."""
        return f"{super().__str__()}; give api_key=, or set DELAYED_BANDITS_API_KEY"


class PermissionDeniedError(ApiError):
    """The API key, or the address that was used, does not allow this."""


class NotFoundError(ApiError):
    """There is no such thing."""


class UnknownSessionError(NotFoundError):
    """There is no session with this id; it may have expired."""


class UnknownSegmentError(NotFoundError):
    """The session does not keep this segment."""


class ConflictError(ApiError):
    """The request does not fit the state of the session."""


class SessionExistsError(ConflictError):
    """The session was created with other fields."""


class SurplusFeedbackError(ConflictError):
    """Some events match no outstanding decision."""


class NoEligibleArmError(ConflictError):
    """None of the eligible arms can be drawn."""


class IdempotencyConflictError(ConflictError):
    """The idempotency key was used before with another body."""


class UnavailableError(ApiError):
    """The service or its store can't answer at the moment."""


class InternalError(ApiError):
    """The service failed; its log has the reason."""


_BY_CODE: Mapping[str, type[ApiError]] = {
    "unknown_session": UnknownSessionError,
    "unknown_segment": UnknownSegmentError,
    "session_exists": SessionExistsError,
    "surplus_feedback": SurplusFeedbackError,
    "no_eligible_arm": NoEligibleArmError,
    "idempotency_conflict": IdempotencyConflictError,
    "foreign_host": PermissionDeniedError,
}
_BY_STATUS: Mapping[int, type[ApiError]] = {
    **dict.fromkeys((400, 405, 413, 415, 422, 431), InvalidRequestError),
    401: AuthenticationError,
    403: PermissionDeniedError,
    404: NotFoundError,
    409: ConflictError,
    500: InternalError,
    **dict.fromkeys((408, 429, 502, 503, 504), UnavailableError),
}


def api_error(
    status: int, problem: Mapping[str, Any], request_id: str | None = None, retry_after: float = 0.0
) -> ApiError:
    """Return the error of a problem: of its code's class, else of its status' class.

    Parameters
    ----------
    status : of HTTP, 300 or more
    problem : the JSON object of the answer; empty where it has none
    request_id : of the answer's header; None where it has none
    retry_after : seconds that the answer asks to wait for; 0 where it does not
    """
    kind = _BY_CODE.get(str(problem.get("code"))) or _BY_STATUS.get(status, ApiError)
    return kind(status, problem, request_id, retry_after)


# -- What calls return, read from the JSON of the answers. Fields that this version does not know are kept.

T = TypeVar("T")
Reader: TypeAlias = Callable[[Mapping[str, Any]], T]
FALLBACK_ID = "fallback-"
"""Beginning of the event id of an action that the service did not choose: feedback with it is not sent."""


@dataclass(frozen=True)
class Action:
    """What to show, or the point to use.

    Attributes
    ----------
    slot, arm, label, probability, x, query_points : as the service says; None where they don't apply
    segment : that the act named
    event_id : names the decision in reports: the same id counts once, however often it is reported
    is_fallback : whether the service did not answer in time, and this is what the caller named for that case
    error : why it did not
    """

    slot: int | None = None
    arm: int | None = None
    label: str | None = None
    probability: float | None = None
    x: list[float] | None = None
    query_points: list[list[float]] | None = None
    segment: str | None = None
    event_id: str = ""
    is_fallback: bool = False
    error: BanditsError | None = field(default=None, repr=False, compare=False)

    @property
    def choice(self) -> str | int:
        """The arm's label, or its index where arms have no names.

        Raises
        ------
        TypeError
            for a point.
        """
        chosen = self.arm if self.label is None else self.label
        if chosen is None:
            raise TypeError("this action is a point: it has `x` and `query_points`")
        return chosen

    @property
    def points(self) -> list[list[float]]:
        """``x`` and the query points: report their losses in this order."""
        return [] if self.x is None else [self.x, *(self.query_points or ())]


@dataclass(frozen=True)
class Settlement:
    """How events were settled, in numbers of events; ``fallbacks`` were not sent."""

    applied: int = 0
    duplicates: int = 0
    surplus: int = 0
    removed: int = 0
    voided: int = 0
    invalid: int = 0
    invalid_indexes: tuple[int, ...] = ()
    fallbacks: int = 0
    slot: int = 0
    outstanding: int = 0


@dataclass(frozen=True)
class SessionView:
    """A session as it is now; ``view["mean_loss"]`` reads any field of the answer by its name."""

    session_id: str
    learner: Mapping[str, Any]
    slot: int
    feedbacks: int
    outstanding: int
    expired: int
    removed: int
    version: str
    probabilities: list[float] | None = None
    x: list[float] | None = None
    fields: Mapping[str, Any] = field(default_factory=dict, repr=False)

    def __getitem__(self, name: str) -> Any:
        return self.fields[name]

    @property
    def arms(self) -> list[str]:
        """Labels of the arms there are, by index; empty where arms have no names."""
        return [label for label in self.learner.get("arms") or () if label is not None]

    @property
    def outcome_field(self) -> str:
        """What the session's events report: ``loss``, ``reward``, ``losses`` or ``gradient``."""
        if self.learner.get("dim") is not None:
            return "gradient" if self.learner.get("kind") in {"ogd", "solid"} else "losses"
        return "reward" if self.fields.get("reward_range") is not None else "loss"


class Received(NamedTuple):
    """An answer as it came."""

    url: str
    status: int
    headers: Mapping[str, str]
    content: bytes


def answer_of(received: Received) -> dict[str, Any] | None:
    """Return the JSON object of an answer, None for one without content.

    Raises
    ------
    ApiError
        where the service refused, or a proxy before it.
    BadAnswerError
        where the answer does not come from this service.
    """
    status = received.status
    if 200 <= status < 300:
        return _json_object(received) if received.content else None
    problem = _json_object(received) if "json" in received.headers.get("Content-Type", "") else {}
    raise api_error(status, problem, received.headers.get("X-Request-Id"), _retry_after(received.headers))


def _json_object(received: Received) -> dict[str, Any]:
    try:
        found = json.loads(received.content)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise BadAnswerError(f"the answer of {received.url} is no JSON object: {received.content[:80]!r}")
    return found


def _retry_after(headers: Mapping[str, str]) -> float:
    text = headers.get("Retry-After", "")
    if text.isdecimal():
        return float(text)
    try:
        return max(0.0, parsedate_to_datetime(text).timestamp() - time.time())
    except ValueError:
        return 0.0


def read(reader: Reader[T], answer: Any) -> T:
    """Read an answer.

    Parameters
    ----------
    reader : makes of the JSON what the caller wants
    answer : of a success; None where it had no content

    Raises
    ------
    BadAnswerError
        where it lacks what every answer of the service has.
    """
    try:
        return reader(answer)
    except (AttributeError, KeyError, TypeError) as error:
        raise BadAnswerError(f"the answer does not have the form of this service's answers: {error!r}") from error


def view_of(answer: Mapping[str, Any]) -> SessionView:
    """Read a session's view or summary."""
    return SessionView(**_known(SessionView, answer), fields=answer)


def settlement_of(answer: Mapping[str, Any]) -> Settlement:
    """Read a settlement."""
    found = _known(Settlement, answer)
    return Settlement(**found | {"invalid_indexes": tuple(found.get("invalid_indexes", ()))})


def action_of(answer: Mapping[str, Any], key: str, segment: str | None) -> Action:
    """Read one action of a call.

    Its event id follows from key and slot, so the same decision has it again when the call is replayed.

    Parameters
    ----------
    answer : the JSON object of the action
    key : the Idempotency-Key of the call
    segment : that the act named; None where it named none
    """
    digest = hashlib.blake2b(key.encode(), digest_size=12).hexdigest()
    return Action(**_known(Action, answer), segment=segment, event_id=f"{digest}-{answer['slot']}")


def _known(kind: type[Any], answer: Mapping[str, Any]) -> dict[str, Any]:
    return {each.name: answer[each.name] for each in fields(kind) if each.name in answer}


Arm: TypeAlias = str | int
"""A label, or an index from 0."""
Json: TypeAlias = Any
Numbers: TypeAlias = Any
"""Floats: a list, a tuple, or an array of numpy."""

Fallback: TypeAlias = str | int | Sequence[float]
"""An arm, or a point."""
VOID = "void"
"""Field of an event that ends its decision unlearned, until the session's own word for it is known."""
_WHERE = ("event_id", "slot", "segment")
OUTCOMES = ("loss", "reward", "losses", "gradient", VOID)
_SESSION_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")


@dataclass(frozen=True)
class Call:
    """One request; every attempt sends the same bytes and the same key.

    Attributes
    ----------
    path : below the service's address
    content : JSON, or None
    key : the Idempotency-Key
    timeout : seconds for all attempts; None: the client's
    absent_ok : whether 404 on a repeated attempt means that an earlier one did it
    """

    method: str
    path: str
    content: str | None = None
    query: Mapping[str, str | int] = field(default_factory=dict)
    key: str | None = None
    timeout: float | None = None
    absent_ok: bool = False


Steps: TypeAlias = Generator[Call, Json, T]
"""Calls, one after the other, each of which is sent its answer; returns what they come to. Has no I/O."""


class Where(TypedDict, total=False):
    """Which decision an event is about, as far as the action does not say it.

    ``event_id``: the event counts once, however often it is sent; ``slot``, ``segment``: of the decision.
    """

    event_id: str | None
    slot: int | None
    segment: str | None


class Outcome(Where, total=False):
    """What an event reports, in the session's unit: one of ``loss``, ``reward``, ``losses`` and ``gradient``."""

    loss: float
    reward: float
    losses: Numbers
    gradient: Numbers


def encode(value: Json) -> str:
    """Return a value as JSON text; arrays and numbers of numpy are lists and numbers.

    Raises
    ------
    ValueError, TypeError
        for what JSON has no form for, such as NaN.
    """
    return json.dumps(value, allow_nan=False, separators=(",", ":"), default=_plain)


def _plain(value: Any) -> Json:
    if not hasattr(value, "tolist"):
        raise TypeError(f"{type(value).__name__} has no form in JSON")
    return value.tolist()


def session_path(session_id: str, *below: str) -> str:
    """Return the path of a session, or of what is below it.

    Parameters
    ----------
    session_id : of the session, as the caller gave it
    below : parts of the path, used as they are

    Raises
    ------
    ValueError
        for a text that no session can have as its id.
    """
    if not isinstance(session_id, str) or not _SESSION_ID.fullmatch(session_id):
        raise ValueError("session_id: 1 to 128 letters, digits, '.', '_' and '-', a letter or digit first")
    return "/".join(("/v1/sessions", quote(session_id), *below))


def event_of(decision: Action | Arm | None, fields: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the event that reports an outcome; None for that of a fallback, which nobody may learn from.

    Parameters
    ----------
    decision : what ``act`` returned, or the arm; None for points
    fields : of ``Outcome``; or ``void``. An event id is by default that of the action

    Raises
    ------
    TypeError
        unless the fields have exactly one outcome.
    """
    outcome = [name for name in OUTCOMES if name in fields]
    if len(outcome) != 1 or not fields.keys() <= {*outcome, *_WHERE}:
        raise TypeError("report exactly one of loss, reward, losses and gradient")
    where = {name: fields.get(name) for name in _WHERE}
    if isinstance(decision, Action):
        of_action = {"event_id": decision.event_id or None, "slot": decision.slot, "segment": decision.segment}
        where = {name: of_action[name] if where[name] is None else where[name] for name in _WHERE}
        if decision.is_fallback:
            return None
        decision = None if decision.x is not None else decision.choice
    if str(where["event_id"]).startswith(FALLBACK_ID):
        return None
    if decision is None:
        where["slot"] = None
    else:
        where["label" if isinstance(decision, str) else "arm"] = decision
    return {name: value for name, value in where.items() if value is not None} | {outcome[0]: fields[outcome[0]]}


def events_content(events: Sequence[Mapping[str, Any]], void_field: str) -> str:
    """Return the body of a batch; voids are said in the session's own word.

    Parameters
    ----------
    events : as ``event_of`` returns them, none of a fallback
    void_field : ``loss``, ``reward``, ``losses`` or ``gradient``

    Raises
    ------
    ValueError, TypeError
        for what JSON has no form for, such as NaN.
    """
    said = [{void_field if name == VOID else name: value for name, value in event.items()} for event in events]
    return encode({"events": said})
