"""Calls of the service as data, without any I/O: what can go wrong, what answers say, and what is sent."""

import hashlib
import json
import operator
import re
import sys
import time
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, fields
from email.utils import parsedate_to_datetime
from typing import Any, Literal, Required, SupportsIndex, TypeAlias, TypedDict, TypeVar
from urllib.parse import quote

__all__ = ["Action", "SessionView", "Settlement", "SurplusFeedbackError"]
__all__ += ["ApiError", "BadAnswerError", "BanditsError", "ClosedError", "NoAnswerError", "QueueFullError"]
__all__ += ["AuthenticationError", "InternalError", "InvalidRequestError", "PermissionDeniedError"]
__all__ += ["NotFoundError", "UnavailableError", "UnknownSegmentError", "UnknownSessionError"]
__all__ += ["ConflictError", "IdempotencyConflictError", "NoEligibleArmError", "SessionExistsError"]
"""What the package has of this."""

# -- What can go wrong in a call, as exceptions: by cause, and for refusals by the service's ``code``.

UNKNOWN = "unknown"
"""Code of what refuses without one, and so is not the service."""


class BanditsError(Exception):
    """Base of all errors of this client; its text says what to do."""

    advice = ""

    def __str__(self) -> str:
        """Say what to do, too."""
        return "; ".join(filter(None, (super().__str__(), self.advice)))


class NoAnswerError(BanditsError):
    """No answer came in time: the service is away, or too slow."""

    advice = "start a service with `delayed-bandits serve`, or name its address with url= (--url in commands)"


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
    retry_after : seconds that the service asks to wait, 60 at most
    problem : the answer; one to events of many sessions has ``unavailable_lines`` where some were not settled
    """

    def __init__(
        self, status: int, problem: Mapping[str, Any], request_id: str | None = None, retry_after: float = 0.0
    ) -> None:
        self._made_of = (status, problem, request_id, retry_after)
        self.status, self.problem = status, problem
        self.code = problem["code"] if isinstance(problem.get("code"), str) else UNKNOWN
        self.detail = str(problem.get("detail") or problem.get("title") or "")
        self.indexes: Sequence[int] = problem.get("indexes") or ()
        self.errors: Sequence[Mapping[str, Any]] = problem.get("errors") or ()
        self.request_id = request_id
        self.retry_after = retry_after
        super().__init__(f"{status} {self.code}: {self.detail}")
        if self.code == UNKNOWN:
            self.advice = "this does not come from the service: look at the address, and at the proxies before it"

    def __reduce__(self) -> tuple[Any, ...]:
        """Let processes hand it on."""
        return type(self), self._made_of


class InvalidRequestError(ApiError):
    """The request does not match its schema or its session, or is too large."""


class AuthenticationError(ApiError):
    """There is no API key, or one that the service does not know."""

    advice = "give api_key=, or set DELAYED_BANDITS_API_KEY"


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

    advice = "the service runs, but does not take the call now: call later"


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


def kind_of(status: int, problem: Mapping[str, Any]) -> type[ApiError]:
    """Return the class of a problem's error: that of its code, else that of its status.

    ``problem`` is the JSON object of the answer, empty where it has none.
    """
    return _BY_CODE.get(str(problem.get("code"))) or _BY_STATUS.get(status, ApiError)


# -- What calls return, read from the JSON of the answers. Fields that this version does not know are kept.

T = TypeVar("T")
Reader: TypeAlias = Callable[[Mapping[str, Any]], T]
Fallback: TypeAlias = str | int | Sequence[float]
"""An arm, or a point."""
COUNTS = ("applied", "duplicates", "surplus", "removed", "voided", "updated", "invalid")
"""Of a settlement: the first two are always there."""
MAX_NAMED = 1000
"""So many of the events that were skipped as wrong are named."""
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
    token : for the page, which reports its clicks by it; None unless the session has tokens
    group : ``"learner"`` or ``"control"``; None unless the session has a control group
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
    token: str | None = None
    group: str | None = None
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
        if (chosen := self.arm if self.label is None else self.label) is None:
            raise TypeError("this action is a point: it has `x` and `query_points`")
        return chosen

    @property
    def points(self) -> list[list[float]]:
        """``x`` and the query points: report their losses in this order."""
        return [] if self.x is None else [self.x, *(self.query_points or ())]


@dataclass(frozen=True)
class Settlement:
    """How events were settled, in numbers of events; ``fallbacks`` were not sent.

    ``errors`` say what is wrong with the first events that were skipped, if they are of many sessions.
    """

    applied: int = 0
    duplicates: int = 0
    surplus: int = 0
    removed: int = 0
    voided: int = 0
    updated: int = 0
    invalid: int = 0
    invalid_indexes: tuple[int, ...] = ()
    errors: tuple[Mapping[str, Any], ...] = ()
    fallbacks: int = 0
    slot: int = 0
    outstanding: int = 0


@dataclass(frozen=True)
class SessionView:
    """A session as it is now; ``view["mean_loss"]`` reads any field of the answer by its name.

    ``groups`` and ``verdict`` are None without a control group, ``verdict`` also before there is one.
    """

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
    groups: Mapping[str, Mapping[str, Any]] | None = None
    verdict: Mapping[str, Any] | None = None
    leader: Mapping[str, Any] | None = None
    halted_at: str | None = None
    fields: Mapping[str, Any] = field(default_factory=dict, repr=False)

    def __getitem__(self, name: str) -> Any:
        return self.fields[name]

    @property
    def arms(self) -> list[str]:
        """Labels of the arms there are, by index; empty where arms have no names."""
        return list(self.learner.get("arms") or ())

    @property
    def outcome_field(self) -> str:
        """What the session's events report: ``loss``, ``reward``, ``losses`` or ``gradient``."""
        if self.learner.get("dim") is not None:
            return "gradient" if self.learner.get("kind") in {"ogd", "solid"} else "losses"
        return "reward" if self.fields.get("reward_range") is not None else "loss"


def answer_of(url: str, status: int, headers: Mapping[str, str], content: bytes) -> Any:
    """Return the JSON object of an answer, None for one without content.

    Raises
    ------
    ApiError
        where the service refused, or a proxy before it.
    BadAnswerError
        where the answer does not come from this service.
    """
    is_success = 200 <= status < 300
    if is_success and not content:
        return None
    found: Any = {}
    if is_success or "json" in headers.get("Content-Type", ""):
        try:
            found = json.loads(content, parse_constant=int)  # Which raises for NaN.
        except (ValueError, RecursionError):
            found = None
        if not isinstance(found, dict):
            raise BadAnswerError(f"the answer of {url} is no JSON object: {content[:80]!r}")
    if is_success:
        return found
    named = ("indexes", "unavailable_lines")
    read(lambda problem: [_whole(index) for name in named for index in problem.get(name) or ()], found)
    read(lambda problem: [hash(each.get("field")) for each in problem.get("errors") or ()], found)
    wait = headers.get("Retry-After", "")
    try:
        seconds = float(wait) if wait.isdecimal() else parsedate_to_datetime(wait).timestamp() - time.time()
    except (ValueError, OverflowError):
        seconds = 0.0
    raise kind_of(status, found)(status, found, headers.get("X-Request-Id"), min(max(0.0, seconds), 60.0))


def read(reader: Reader[T], answer: Any) -> T:
    """Read an answer; None is one without content.

    Raises
    ------
    BadAnswerError
        where it lacks what every answer of the service has.
    """
    try:
        return reader(answer)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise BadAnswerError(f"the answer does not have the form of this service's answers: {error!r}") from error


def view_of(answer: Mapping[str, Any]) -> SessionView:
    """Read a session's view or summary; of one that the service can't read it lists the id and why."""
    unread: dict[str, Any] = dict.fromkeys(("slot", "feedbacks", "outstanding", "expired", "removed"), 0)
    unread |= {"learner": {}, "version": ""}
    known = {each.name: answer[each.name] for each in fields(SessionView) if each.name in answer}
    set(known.get("learner", {}).get("arms") or ())
    sum(goal["value"] for goal in (answer.get("goals") or {}).values())
    return SessionView(**(unread | known if {"damaged", "code"} & answer.keys() else known), fields=answer)


def settlement_of(answer: Mapping[str, Any], sent: int, is_part: bool = False) -> Settlement:
    """Read the settlement of so many events; that of a part names the lines that are left."""
    counts = {name: _whole(answer[name]) for name in COUNTS if name in answer or name in COUNTS[:2]}
    named = ("invalid_indexes", "unavailable_lines")
    where, left = (tuple(_whole(index, sent - 1) for index in answer.get(name, ())) for name in named)
    total = sum(counts.values()) + is_part * len({*left})
    if total != sent or len({*where}) != min(counts.get("invalid", 0), MAX_NAMED):
        raise ValueError(f"its counts don't sum to the {sent} events that were sent, or name others")
    counts |= {name: _whole(answer.get(name, 0)) for name in ("slot", "outstanding")}
    return Settlement(**counts, invalid_indexes=where, errors=tuple(map(dict, answer.get("errors", ()))))


def actions_of(answer: Mapping[str, Any], key: str, body: Mapping[str, Any]) -> list[Action]:
    """Read the actions of a call, or its only one.

    Their event ids follow from key and slot, so the same decision has it again when the call is replayed.
    """
    digest = hashlib.blake2b(key.encode(), digest_size=12).hexdigest()
    found, count = (answer["actions"], body["count"]) if "count" in body else ([answer], 1)
    actions = [_action_of(each, digest, body.get("segment")) for each in found]
    slots = len({action.slot for action in actions})
    if slots != len(actions) or (slots != count and not (body.get("distinct") and 0 < slots < count)):
        raise ValueError(f"{len(actions)} actions of {slots} slots in place of {count}")
    return actions


def _action_of(answer: Mapping[str, Any], digest: str, segment: str | None) -> Action:
    names = ("arm", "label", "probability", "x", "query_points", "token", "group")
    arm, label, probability, x, query_points, token, group = map(answer.get, names)
    slot, _ = _whole(answer["slot"]), _whole(0 if arm is None else arm)
    action = Action(slot, arm, label, probability, x, query_points, segment, f"{digest}-{slot}", token, group)
    numbers = [0 if probability is None else probability, *(each for point in action.points for each in point)]
    are_finite = all(type(each) in {int, float} and abs(each) <= sys.float_info.max for each in numbers)
    are_texts = all(isinstance(text, str | None) for text in (label, token, group))
    are_typed = are_texts and all(isinstance(point, list) for point in action.points)
    if not (are_finite and are_typed and 0 <= numbers[0] <= 1 + 1e-6) or (arm, label, x) == (None, None, None):
        raise ValueError("it names neither an arm nor a point, or has numbers that are none")
    return action


def _whole(value: Any, most: int = 2**53) -> int:
    if type(value) is not int or not 0 <= value <= most:
        raise ValueError(f"a whole number from 0 to {most} is missing")
    return value


def fallback_of(shown: Fallback, segment: str | None) -> Action:
    """Return the action that shows what the caller named for the case that the service does not answer."""
    if isinstance(shown, str):
        place: dict[str, Any] = {"label": shown}
    elif isinstance(shown, SupportsIndex):
        place = {"arm": operator.index(shown)}
    else:
        place = {"x": list(map(float, shown))}
    return Action(**place, segment=segment, event_id=FALLBACK_ID + uuid.uuid4().hex, is_fallback=True)


# -- What calls send.

Arm: TypeAlias = str | int
"""A label, or an index from 0."""
Json: TypeAlias = Any
Numbers: TypeAlias = Any
"""Floats: a list, a tuple, or an array of numpy."""

VOID = "void"
"""Field of an event that ends its decision unlearned, until the session's own word for it is known."""
_COMPARED = ("loss_range", "reward_range", "normalize_losses", "decision_log", "updates", "tokens", "features")
OUTCOMES = ("loss", "reward", "goal", "losses", "gradient", VOID)
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
    traced : whether it names the span that it is made in; a batch has reports of many
    waits : seconds that the service may let pass before it answers, besides the timeout
    """

    method: str
    path: str
    content: str | None = None
    query: Mapping[str, str | float] = field(default_factory=dict)
    key: str | None = None
    timeout: float | None = None
    absent_ok: bool = False
    traced: bool = True
    waits: float = 0.0


class Changeable(TypedDict, total=False):
    """Fields of a session that can be changed later, beside its arms; None clears one."""

    expiry: Mapping[str, Any] | None
    idle_ttl_seconds: float | None
    floor: float | None
    goals: Mapping[str, float] | None
    control: Mapping[str, Any] | None
    guard: Mapping[str, Any] | None


CHANGEABLE = Changeable.__annotations__.keys()


class SessionOptions(Changeable, total=False):
    """Fields of a new session, as the service documents them; what is left out has the service's default."""

    learner: Required[Mapping[str, Any]]
    loss_range: Sequence[float]
    reward_range: Sequence[float]
    normalize_losses: bool
    seed: int
    initial: Sequence[Mapping[str, Any]]
    segments: Mapping[str, Any] | None
    features: Mapping[str, Mapping[str, Any]] | None
    decision_log: Mapping[str, Any] | None
    updates: Mapping[str, Any] | None
    tokens: bool


class ArmChanges(TypedDict, total=False):
    """Labels to remove, add, resume and pause, in this order."""

    remove: Sequence[str]
    add: Sequence[str]
    resume: Sequence[str]
    pause: Sequence[str]


class SessionChanges(Changeable, total=False):
    """Options to change; None clears one, and ``halted=False`` lets a halted session go on."""

    halted: bool


class ActOptions(TypedDict, total=False):
    """What an act may say.

    ``eligible``: the arms that may be drawn, ``exclude``: those that may not; ``segment``: who asks; ``features``:
    what is known of the visitor, by name; ``visitor``: whose group is always the same; ``idempotency_key``: the
    same key gives the same action for a day; ``timeout``: seconds for this call and its retries.
    """

    eligible: Iterable[Arm] | None
    exclude: Iterable[Arm] | None
    segment: str | None
    features: Mapping[str, Json] | None
    visitor: str | None
    idempotency_key: str | None
    timeout: float | None


class FeedbackOptions(TypedDict, total=False):
    """What becomes of events that match no decision, or don't fit their session; seconds for all attempts."""

    on_surplus: Literal["refuse", "skip"]
    on_invalid: Literal["refuse", "skip"]
    timeout: float


class Where(TypedDict, total=False):
    """Which decision an event is about, as far as the action does not say it.

    ``event_id``: the event counts once, however often it is sent; ``slot``, ``segment``, ``group``,
    ``features``: of the decision, as they were at the act; or the ``token`` that says all of that.
    """

    event_id: str | None
    slot: int | None
    segment: str | None
    group: str | None
    features: Mapping[str, Json] | None
    token: str | None


class Outcome(Where, total=False):
    """What an event reports, in the session's unit: ``loss``, ``reward``, ``goal``, ``losses`` or ``gradient``."""

    loss: float
    reward: float
    goal: str
    losses: Numbers
    gradient: Numbers


def _plain(value: Any) -> Json:
    if not hasattr(value, "tolist"):
        raise TypeError(f"{type(value).__name__} has no form in JSON")
    return value.tolist()


encode = json.JSONEncoder(allow_nan=False, separators=(",", ":"), default=_plain).encode
"""Return a value as JSON text; arrays and numbers of numpy are lists and numbers.

Raises ValueError or TypeError for what JSON has no form for, such as NaN.
"""


def listed(arms: Iterable[Arm]) -> Any:
    """Return arms as a list; those of a set in an order that is the same in every process, as keys need it."""
    return sorted(arms, key=repr) if isinstance(arms, Set) else arms if isinstance(arms, str) else list(arms)


def session_path(session_id: str) -> str:
    """Return the path of a session.

    Raises
    ------
    ValueError
        for a text that no session can have as its id.
    """
    if not isinstance(session_id, str) or not _SESSION_ID.fullmatch(session_id):
        raise ValueError("session_id: 1 to 128 letters, digits, '.', '_' and '-', a letter or digit first")
    return f"/v1/sessions/{quote(session_id)}"


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
    outcome, names = [name for name in OUTCOMES if name in fields], Where.__annotations__
    if len(outcome) != 1 or not fields.keys() <= {*outcome, *names}:
        raise TypeError("report exactly one of loss, reward, goal, losses and gradient")
    where = {name: fields.get(name) for name in names}
    if isinstance(decision, Action):
        of_action = {name: getattr(decision, name, None) or None for name in names}
        where = {name: of_action[name] if where[name] is None else where[name] for name in names}
        if decision.is_fallback:
            return None
        decision = None if decision.x is not None else decision.choice
    if str(where["event_id"]).startswith(FALLBACK_ID):
        return None
    if where["token"] is not None:
        decision, where["segment"], where["group"], where["features"] = None, None, None, None
    if decision is None:
        where["slot"] = None
    else:
        where["label" if isinstance(decision, str) else "arm"] = decision
    return {name: value for name, value in where.items() if value is not None} | {outcome[0]: fields[outcome[0]]}


def differs(found: SessionView, options: Mapping[str, Any], refusal: ApiError) -> bool:
    """Return whether what was named, and refused, differs from the session in a way that can't change."""
    learner = {name: value for name, value in options["learner"].items() if name != "arms"}
    named = {name: options[name] for name in _COMPARED if name in options}
    return (
        bool((options.keys() - {"learner", *CHANGEABLE}) & {each.get("field") for each in refusal.errors})
        or (options["learner"].get("arms") is not None) != bool(found.arms)
        or any(not _same(value, found.learner.get(name)) for name, value in learner.items())
        or any(not _same(value or None, found.fields.get(name) or None) for name, value in named.items())
    )


def changes_to(found: SessionView, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that are named, may change, and are others than the session's."""
    named = {name: options[name] for name in CHANGEABLE if name in options}
    goals = found.fields.get("goals")
    present = {**found.fields, "goals": goals and {name: goal["value"] for name, goal in goals.items()}}
    return {name: value for name, value in named.items() if not _same(value, present.get(name))}


def _same(wanted: Any, present: Any) -> bool:
    """Return whether a value is in force; what has a default of its own is as it is where it is not named."""
    if isinstance(wanted, Mapping) and isinstance(present, Mapping):
        names = wanted.keys() | (present.keys() - {"provisional", "silence"})
        return all(_same(wanted.get(name), present.get(name)) for name in names)
    if isinstance(wanted, tuple | list) and isinstance(present, list):
        return list(wanted) == present
    return bool(wanted == present)
