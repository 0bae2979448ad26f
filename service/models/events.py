"""Feedback as clients post it, one shape for each information model."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Discriminator, Field, Tag, ValidationError, ValidatorFunctionWrapHandler, WrapValidator

from ..errors import MAX_INDEXES
from ..learners.base import Posted
from ..learners.specs import MAX_COUNT, Finite, LabelText, Whole
from .idempotency import digest
from .segment import Segment

PRINTABLE_ASCII = r"^[\x20-\x7e]+$"
EventId = Annotated[
    str,
    Field(
        min_length=1,
        max_length=128,
        pattern=PRINTABLE_ASCII,
        description="An event with this id counts once within the dedupe window.",
    ),
]
Surplus = Literal["refuse", "skip"]
"""What to do with events that match no outstanding decision."""
VALIDATED_AT_ONCE = 100
"""Events validated between two looks at how many are wrong."""


class _Event(Posted):
    event_id: EventId | None = None

    @property
    def digest(self) -> bytes | None:
        """What the store remembers of the event id: 16 bytes, whatever its length."""
        return None if self.event_id is None else digest(self.event_id)


VOID = "null: the decision was never shown, and the session learns nothing from it."


class OneArmEvent(_Event):
    """What became of a decision for one arm."""

    arm: Annotated[Whole | None, Field(ge=0, le=MAX_COUNT, description="Index of the arm, from 0.")] = None
    label: Annotated[LabelText | None, Field(description="Label of the arm, instead of ``arm``.")] = None
    slot: Annotated[
        Whole | None,
        Field(ge=1, le=MAX_COUNT, description="Slot of the decision; required by learners that need it."),
    ] = None

    segment: Segment | None = None

    word: ClassVar[Literal["loss", "reward"]]
    """The name of the field with the number."""

    @property
    def value(self) -> float | None:
        """The loss or reward as it was posted; None for a decision that was never shown."""
        value: float | None = getattr(self, self.word)
        return value


class ArmEvent(OneArmEvent):
    """The loss of one arm, in the unit of the session's ``loss_range``."""

    word: ClassVar = "loss"
    loss: Annotated[Finite | None, Field(description=VOID)]


class RewardEvent(OneArmEvent):
    """The reward of one arm, in a session that was created with ``reward_range``."""

    word: ClassVar = "reward"
    reward: Annotated[Finite | None, Field(description=VOID)]


class LossesEvent(_Event):
    """f(x) and f at the query points, in their order: dim + 1 losses of one slot."""

    losses: Annotated[list[Finite] | None, Field(min_length=1, fail_fast=True, description=VOID)]


class GradientEvent(_Event):
    """The gradient at the played point."""

    gradient: Annotated[list[Finite] | None, Field(min_length=1, fail_fast=True, description=VOID)]


_TAGS = {"arm": "ArmEvent", "reward": "RewardEvent", "losses": "LossesEvent", "gradient": "GradientEvent"}
EVENT_TAGS = frozenset(_TAGS.values())
"""What pydantic puts between an event's place and its field."""


def _shape(value: Any) -> str:
    fields = value if isinstance(value, dict) else type(value).model_fields if isinstance(value, _Event) else ()
    return next((_TAGS[name] for name in ("losses", "gradient", "reward") if name in fields), _TAGS["arm"])


Event = Annotated[
    Annotated[ArmEvent, Tag("ArmEvent")]
    | Annotated[RewardEvent, Tag("RewardEvent")]
    | Annotated[LossesEvent, Tag("LossesEvent")]
    | Annotated[GradientEvent, Tag("GradientEvent")],
    Discriminator(_shape),
]


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
