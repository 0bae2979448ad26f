"""What calls return, read from the JSON of the answers. Fields that this version does not know are kept."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from email.utils import parsedate_to_datetime
from typing import Any, NamedTuple, TypeAlias, TypeVar

from .errors import BadAnswerError, BanditsError, api_error

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
