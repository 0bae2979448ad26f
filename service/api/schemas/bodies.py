"""What clients post."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field, model_validator

from ...errors import FieldValueError
from ...learners.base import Posted
from ...learners.specs import Label, LabelText, NullIs, Whole
from ...models.events import Eligibility, Events, Segment
from ...models.specification import SESSION_ID_PATTERN, ExpirySpec, Floor, IdleTtl, Specification


class CreateSession(Specification):
    """A session to create. Without ``session_id`` the service chooses one."""

    session_id: Annotated[str | None, Field(pattern=SESSION_ID_PATTERN)] = None

    @model_validator(mode="before")
    @classmethod
    def _one_range(cls, posted: Any) -> Any:
        if all(posted.get(name) is not None for name in ("loss_range", "reward_range")):
            raise FieldValueError("loss_range", "give either loss_range or reward_range")
        return posted

    @property
    def specification(self) -> Specification:
        """The session without its id."""
        return Specification.model_construct(
            self.model_fields_set - {"session_id"},
            **{name: getattr(self, name) for name in Specification.model_fields},
        )


class Act(Eligibility):
    """The segment, and the arms that may be drawn; the body may be left out."""

    segment: Segment | None = None


class Acts(Eligibility):
    """The number of slots to open in a row, the segment, and the arms that may be drawn in each slot."""

    count: Annotated[Whole, Field(ge=1)]
    segment: Segment | None = None
    distinct: Annotated[
        bool,
        Field(
            description="Draw each arm at most once: if fewer arms are left, there are fewer actions. For the same "
            "learners as ``eligible``."
        ),
        NullIs(False),
    ] = False


class Feedbacks(Posted):
    """Events in the order in which they are applied: all or none."""

    events: Events


class ChangeSession(Posted):
    """Fields to change. Each is replaced completely, null removes it; fields that are left out do not change."""

    expiry: ExpirySpec | None = Field(
        None,
        description="Open decisions have the new window, counted from their act; if there was no window, from this "
        "change. If the default is provisional, only ``after_seconds`` may change.",
    )
    idle_ttl_seconds: IdleTtl | None = None
    floor: Floor | None = None


class ChangeArms(Posted):
    """Labels of arms to remove, to add, to resume and to pause, in this order."""

    add: Annotated[
        list[Label],
        Field(fail_fast=True, description="Labels of new arms. Labels of present arms change nothing."),
        NullIs([]),
    ] = []
    remove: Annotated[
        list[LabelText],
        Field(fail_fast=True, description="Labels of arms to remove. Unknown labels change nothing."),
        NullIs([]),
    ] = []

    pause: Annotated[
        list[LabelText],
        Field(
            fail_fast=True,
            description="Labels of arms that are not drawn until they are resumed. They keep what they have "
            "learned, and go on learning. For the same learners as ``eligible``. Unknown labels change nothing.",
        ),
        NullIs([]),
    ] = []
    resume: Annotated[
        list[LabelText],
        Field(fail_fast=True, description="Labels of paused arms to draw again. Unknown labels change nothing."),
        NullIs([]),
    ] = []


class ReplaceArms(Posted):
    """All arms that the session has afterwards."""

    arms: Annotated[
        list[Label],
        Field(
            fail_fast=True,
            min_length=1,
            description="Labels. Missing arms are added, then arms with other labels are removed.",
        ),
    ]
