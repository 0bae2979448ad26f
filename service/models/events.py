"""Acts and feedback as clients post them: segments, eligible arms, ids, and events one by one or in columns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import chain
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, Self

from pydantic import Discriminator, Field, Tag, ValidationError, ValidatorFunctionWrapHandler, WithJsonSchema
from pydantic.functional_validators import AfterValidator, BeforeValidator, WrapValidator, model_validator

from ..cooperative import FairYield
from ..engine.control import GROUPS, Group
from ..errors import MAX_INDEXES, FieldError, FieldValueError
from ..learners.base import Posted
from ..learners.features import Said
from ..learners.specs import MAX_COUNT, Finite, LabelText, Whole, shown_as_is, whole
from ..store.base import DIGEST_BYTES
from ..tokens import MAX_TOKEN, read

# -- Segments as clients name them, in acts and events.

MAX_SEGMENT_BYTES = 128
MAX_SEGMENTS = 100_000


def _bytes_fit(what: str) -> AfterValidator:
    def check(name: str) -> str:
        if len(name.encode()) > MAX_SEGMENT_BYTES:
            raise ValueError(f"a {what} has at most {MAX_SEGMENT_BYTES} bytes")
        return name

    return AfterValidator(check)


_Name = Annotated[str, Field(min_length=1, max_length=MAX_SEGMENT_BYTES)]
_OF_ACT = (
    "The segment, in a session with ``segments``: 1 to 128 bytes. The events of a decision name the segment of its "
    "act."
)
Segment = Annotated[_Name, Field(description=_OF_ACT), _bytes_fit("segment"), shown_as_is("segment")]
_WHO = (
    "Who asks: 1 to 128 bytes. In a session with ``control`` the same visitor always gets the same group; nothing "
    "is stored of it."
)
Visitor = Annotated[_Name, Field(description=_WHO), _bytes_fit("visitor"), shown_as_is("visitor")]


class SegmentsSpec(Posted):
    """Acts and events name segments. The session learns for each, and shares what the segments have in common."""

    max: Annotated[Whole, Field(ge=1, le=MAX_SEGMENTS)]
    """Segments kept at most: with one more, the one played least recently is dropped."""


# -- Which arms an act may draw, as clients name them.

MAX_NAMES = 10_000
"""Arms that one act may name."""

Names = Sequence[int] | Sequence[str]
"""Arms by index or by label."""


class Choice(NamedTuple):
    """The arms that an act names."""

    field: str
    """``eligible``: only these arms may be drawn; ``exclude``: these may not."""
    names: Names


def _of_one_kind(names: list[Any]) -> list[Any]:
    """Check all names at once: for pydantic to check each of 10,000 would keep other requests waiting."""
    kinds = set(map(type, names))
    if float in kinds:
        names = [whole(name) for name in names]
        kinds = set(map(type, names))
    if kinds == {int}:
        if min(names) < 0:
            raise ValueError("an index is 0 or more")
    elif kinds == {str}:
        try:
            "".join(names).encode()
        except UnicodeEncodeError as error:
            raise ValueError("labels must be Unicode") from error
    elif kinds:
        raise ValueError("must be all labels or all indexes")
    return names


def _schema(least: int) -> dict[str, Any]:
    size = {"type": "array", "maxItems": MAX_NAMES} | ({"minItems": least} if least else {})
    return {
        "anyOf": [
            size | {"items": {"type": "string"}},
            size | {"items": {"type": "integer", "minimum": 0}},
            {"type": "null"},
        ]
    }


_OneKind = Annotated[list[Any], Field(max_length=MAX_NAMES), AfterValidator(_of_one_kind)]
_Some = Annotated[list[Any], Field(min_length=1, max_length=MAX_NAMES), AfterValidator(_of_one_kind)]


class Eligibility(Posted):
    """The arms that may be drawn."""

    eligible: Annotated[_Some | None, WithJsonSchema(_schema(1))] = None
    """Only these arms may be drawn: labels or indexes, one kind in a list. Names of arms that are removed, paused
    or unknown are skipped. The draw's probabilities are the learner's own for these arms. Some learners do not
    define them, and refuse it."""
    exclude: Annotated[_OneKind | None, WithJsonSchema(_schema(0))] = None
    """These arms may not be drawn; instead of ``eligible``."""

    @model_validator(mode="after")
    def _one_way_to_name_arms(self) -> Eligibility:
        if self.eligible is not None and self.exclude is not None:
            raise FieldValueError("exclude", "give either eligible or exclude")
        return self

    @property
    def choice(self) -> Choice | None:
        """What was named; None where nothing was."""
        if self.eligible is not None:
            return Choice("eligible", self.eligible)
        return None if self.exclude is None else Choice("exclude", self.exclude)


# -- Digests that stand for event ids and idempotency keys in the store.


class Idempotency(NamedTuple):
    """An Idempotency-Key in its scope, and the body it came with, both as digests."""

    key: bytes
    body: bytes


def digest(text: str, *scope: str) -> bytes:
    """Return 16 bytes that stand for a text; the same text in another scope has another digest."""
    return blake2b("\n".join((*scope, text)).encode(), digest_size=DIGEST_BYTES).digest()


async def digest_of(parts: Iterable[str], fair_yield: FairYield) -> bytes:
    """Return 16 bytes that stand for a long text, in no scope; ``fair_yield`` is awaited after each part.

    Where the text is divided makes no difference.
    """
    found = blake2b(digest_size=DIGEST_BYTES)
    for part in parts:
        found.update(part.encode())
        await fair_yield()
    return found.digest()


PRINTABLE_ASCII = r"^[\x20-\x7e]+$"
_ONCE = "An event with this id counts once within the dedupe window."
EventId = Annotated[str, Field(min_length=1, max_length=128, pattern=PRINTABLE_ASCII, description=_ONCE)]
VALIDATED_AT_ONCE = 100
"""Events validated between two looks at how many are wrong."""


class _Event(Posted):
    event_id: EventId | None = None

    @property
    def digest(self) -> bytes | None:
        """What the store remembers of the event id: 16 bytes, whatever its length."""
        return None if self.event_id is None else digest(self.event_id)


MAX_GOAL = 64
"""Characters of a goal."""
VOID = "null: the decision was never shown, and the session learns nothing from it."


class OneArmEvent(_Event):
    """What became of a decision for one arm."""

    arm: Annotated[Whole | None, Field(ge=0, le=MAX_COUNT)] = None
    """Index of the arm, from 0."""
    label: LabelText | None = None
    """Label of the arm, instead of ``arm``."""
    slot: Annotated[Whole | None, Field(ge=1, le=MAX_COUNT)] = None
    """Slot of the decision; required by learners that need it."""

    segment: Segment | None = None
    group: Group | None = None
    """Of the decision, as the action said, in a session that has or had ``control``; null: the learner's."""
    token: Annotated[str, Field(min_length=1, max_length=MAX_TOKEN)] | None = None
    """The token of the decision, instead of ``arm``, ``segment``, ``slot``, ``group`` and ``event_id``: a decision
    counts once."""

    features: Said | None = None
    """Features of the visitor as they were at the act, in a session with features; not beside a token."""

    word: ClassVar[Literal["loss", "reward", "goal", "void"]]
    """The name of the field with the number, or of that in its place."""

    @property
    def digest(self) -> bytes | None:
        """What the store remembers of it; of a token that is its slot, in a name space of its own."""
        return super().digest if self.token is None else digest(str(self.slot), "token")

    def opened(self) -> Self:
        """Say what the token says, whoever made that, where the event says nothing itself."""
        if self.token is not None and self.features is not None:
            raise FieldValueError("features", "give either token or features")
        if self.token is not None and (token := read(self.token)) is not None:
            said = {"arm": token.arm, "slot": token.slot, "segment": token.segment or None}
            said["group"] = GROUPS[token.group] if 0 < token.group < len(GROUPS) else None
            vars(self).update({name: value for name, value in said.items() if getattr(self, name) is None})
            vars(self)["event_id"] = None
        return self

    _is_opened = model_validator(mode="after")(opened)

    @property
    def value(self) -> float | None:
        """The loss or reward as it was posted; None for a decision that was never shown."""
        value: float | None = getattr(self, self.word) if self.word in _KINDS else None
        return value


class ArmEvent(OneArmEvent):
    """The loss of one arm, in the unit of the session's ``loss_range``."""

    word: ClassVar = "loss"
    loss: Annotated[Finite | None, Field(description=VOID)]


class RewardEvent(OneArmEvent):
    """The reward of one arm, in a session that was created with ``reward_range``."""

    word: ClassVar = "reward"
    reward: Annotated[Finite | None, Field(description=VOID)]


class GoalEvent(OneArmEvent):
    """What a visitor did, in a session with ``goals``: the goal stands for its loss or reward.

    The empty goal, which only clicks of browsers can have, stands for the best there is in a session without.
    """

    word: ClassVar = "goal"
    goal: Annotated[str, Field(min_length=1, max_length=MAX_GOAL)]


class Click(Posted):
    """A click of the visitor whom a token's decision was made for."""

    token: Annotated[str, Field(min_length=1, max_length=MAX_TOKEN)]
    """As the action had it."""
    goal: Annotated[str | None, Field(min_length=1, max_length=MAX_GOAL)] = None
    """What the visitor did, in a session with goals, which need it."""

    @property
    def event(self) -> GoalEvent:
        """The event that it stands for; with an empty goal in place of none."""
        return GoalEvent.model_construct(token=self.token, goal=self.goal or "").opened()


class VoidEvent(OneArmEvent):
    """A decision that was never shown, in the session's own word or without knowing it."""

    word: ClassVar = "void"
    void: Annotated[Literal[True], BeforeValidator(lambda given: given is True or None)]  # A literal takes 1, too.
    """In place of a loss, reward, losses or gradient of null; over points without an arm."""


class LossesEvent(_Event):
    """f(x) and f at the query points, in their order: dim + 1 losses of one slot."""

    losses: Annotated[list[Finite] | None, Field(min_length=1, fail_fast=True, description=VOID)]


class GradientEvent(_Event):
    """The gradient at the played point."""

    gradient: Annotated[list[Finite] | None, Field(min_length=1, fail_fast=True, description=VOID)]


OUTCOMES = {
    "losses": "LossesEvent",
    "gradient": "GradientEvent",
    "goal": "GoalEvent",
    "reward": "RewardEvent",
    "void": "VoidEvent",
    "loss": "ArmEvent",
}
"""Fields of which an event has one, and its model; that of an event with several is of the first."""
EVENT_TAGS = frozenset(OUTCOMES.values())
"""What pydantic puts between an event's place and its field."""


def _shape(value: Any) -> str:
    fields = value if isinstance(value, dict) else type(value).model_fields if isinstance(value, _Event) else ()
    return next((tag for name, tag in OUTCOMES.items() if name in fields), OUTCOMES["loss"])


Event = Annotated[
    Annotated[ArmEvent, Tag("ArmEvent")]
    | Annotated[RewardEvent, Tag("RewardEvent")]
    | Annotated[GoalEvent, Tag("GoalEvent")]
    | Annotated[LossesEvent, Tag("LossesEvent")]
    | Annotated[GradientEvent, Tag("GradientEvent")]
    | Annotated[VoidEvent, Tag("VoidEvent")],
    Discriminator(_shape),
]


class WrongEvent(NamedTuple):
    """Stands in a batch for an event that does not match the schema, where such events are skipped."""

    errors: Callable[[int], Sequence[FieldError]]
    """What is wrong with it, told its place in the batch."""
    digest: None = None
    segment: None = None


def _validate_events(events: Any, validate: ValidatorFunctionWrapHandler) -> Any:
    """Validate a batch piece by piece, up to the piece in which enough is found to be wrong."""
    if not isinstance(events, list) or len(events) <= VALIDATED_AT_ONCE:
        return validate(events)
    valid, wrong = [], 0
    for end in range(VALIDATED_AT_ONCE, len(events) + VALIDATED_AT_ONCE, VALIDATED_AT_ONCE):
        try:
            valid += validate(events[end - VALIDATED_AT_ONCE : end])
        except ValidationError as error:
            wrong += len({each["loc"][0] for each in error.errors(include_url=False, include_input=False)})
        if wrong >= MAX_INDEXES:
            return validate(events[:end])
    return validate(events) if wrong else valid


Events = Annotated[list[Event], Field(min_length=1), WrapValidator(_validate_events)]


# -- Events of arms by index, as columns: most feedback is this, and an object for each costs as much as learning.

_KINDS: Mapping[str, type[ArmEvent | RewardEvent]] = {"loss": ArmEvent, "reward": RewardEvent}


@dataclass(slots=True, eq=False)
class PlainEvents(Sequence[Event]):
    """A batch whose events have an arm, a number and perhaps an id, and nothing else.

    As a sequence it makes the events themselves, each once, when it is asked for it.
    """

    word: Literal["loss", "reward"]
    """What the numbers are."""
    arms: Sequence[int]
    """Index of each event's arm, 0 or more."""
    values: Sequence[float]
    """Loss or reward of each, finite."""
    event_ids: Sequence[str | None]
    """Of each, None where it has none."""
    _made: dict[int, Event] = field(default_factory=dict, init=False)

    @classmethod
    def joined(cls, batches: Sequence[Self]) -> Self:
        """Make one batch of several, one or more, whose numbers are all of one kind."""
        columns: Any = zip(*((each.arms, each.values, each.event_ids) for each in batches), strict=True)
        return cls(batches[0].word, *(list(chain.from_iterable(column)) for column in columns))

    def __len__(self) -> int:
        return len(self.arms)

    def __getitem__(self, index: Any) -> Any:
        places = range(len(self))[index]
        return self._event(places) if isinstance(places, int) else [self._event(place) for place in places]

    def __iter__(self) -> Iterator[Event]:
        return map(self._event, range(len(self)))

    def _event(self, place: int) -> Event:
        if place not in self._made:
            fields = {"arm": self.arms[place], self.word: self.values[place], "event_id": self.event_ids[place]}
            self._made[place] = _KINDS[self.word].model_validate(fields)
        return self._made[place]
