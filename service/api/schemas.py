"""Bodies and answers of the HTTP interface."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from ..learners.posted import Posted
from ..learners.specs import Label, LabelText, NullIs, Whole
from ..models.eligible import Eligibility
from ..models.events import Events
from ..models.options import ExpirySpec, Floor, IdleTtl
from ..models.segment import Segment
from ..models.specification import SESSION_ID_PATTERN, Specification


class CreateSession(Specification):
    """A session to create. Without ``session_id`` the service chooses one."""

    session_id: Annotated[str | None, Field(pattern=SESSION_ID_PATTERN)] = None

    @property
    def specification(self) -> Specification:
        """The session without its id."""
        return Specification.model_construct(
            self.model_fields_set - {"session_id"},
            **{name: getattr(self, name) for name in Specification.model_fields},
        )


class Act(Eligibility):
    """Who asks, and the arms that may be drawn; the body may be left out."""

    segment: Segment | None = None


class Acts(Eligibility):
    """How many slots to open in a row, who asks, and the arms that may be drawn in each."""

    count: Annotated[Whole, Field(ge=1)]
    segment: Segment | None = None
    distinct: Annotated[
        bool,
        Field(
            description="Draw each arm once at most: where fewer are left there are fewer actions. For the same "
            "learners as ``eligible``."
        ),
        NullIs(False),
    ] = False


class Feedbacks(Posted):
    """Events in the order in which they are applied: all or none."""

    events: Events


class ChangeSession(Posted):
    """Fields to replace, each whole; null clears one, and what is left out stays as it is."""

    expiry: ExpirySpec | None = Field(
        None,
        description="Open decisions have the new window from their act on; if there was no window, from now "
        "on. Of a provisional default only ``after_seconds`` may change.",
    )
    idle_ttl_seconds: IdleTtl | None = None
    floor: Floor | None = None


class ChangeArms(Posted):
    """Labels of arms to remove, to add, to resume and to pause, which is done in this order."""

    add: Annotated[
        list[Label],
        Field(fail_fast=True, description="Labels of new arms. Labels of present arms change nothing."),
        NullIs([]),
    ] = []
    remove: Annotated[
        list[LabelText],
        Field(fail_fast=True, description="Labels of arms to remove. Unknown labels change nothing."),
        NullIs([]),
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
        NullIs([]),
    ] = []


class ReplaceArms(Posted):
    """The arms that there shall be."""

    arms: Annotated[
        list[Label],
        Field(
            fail_fast=True,
            min_length=1,
            description="Labels. Missing arms are added, then arms with other labels are removed.",
        ),
    ]


SKIPPED = Field(
    None,
    description="Number of names in ``eligible`` or ``exclude`` that are of no arm, or of one that is removed or "
    "paused; left out if there are none. In an answer with several actions it is beside them.",
)


class Action(BaseModel):
    """A drawn arm (``arm``, ``probability``), or a point (``x``, ``query_points``)."""

    slot: int
    arm: int | None = None
    label: str | None = None
    probability: float | None = None
    x: list[float] | None = None
    query_points: list[list[float]] | None = None
    skipped: int | None = SKIPPED


class Actions(BaseModel):
    """Actions of slots in a row."""

    actions: list[Action]
    skipped: int | None = SKIPPED


class Settlement(BaseModel):
    """How the events were settled."""

    applied: int
    duplicates: int
    removed: int | None = Field(None, description="Number of events of removed arms; left out if there are none.")
    voided: int | None = Field(None, description="Number of decisions taken back; left out if there are none.")
    surplus: int | None = Field(None, description="Number of skipped events, with ``on_surplus=skip``.")
    invalid: int | None = Field(None, description="Number of skipped events, with ``on_invalid=skip``.")
    invalid_indexes: list[int] | None = Field(None, description="Their places in the batch, 1,000 at most.")
    slot: int
    outstanding: int


class Hint(BaseModel):
    """Why a session may not learn."""

    code: Literal["no_feedback", "first_window", "equal_losses", "mostly_surplus", "growing_outstanding"]
    message: str


class SessionSummary(BaseModel):
    """A session without its distribution."""

    session_id: str
    learner: dict[str, Any] = Field(description="Kind, rates, and all parameters with the values in force.")
    loss_range: list[float] | None = Field(None, description="Best and worst loss.")
    reward_range: list[float] | None = Field(
        None, description="Worst and best reward, in a session of rewards; it has no ``loss_range``."
    )
    normalize_losses: bool
    idle_ttl_seconds: float | None
    expiry: dict[str, Any] | None
    floor: float = Field(description="Share of the draws that is uniform over the arms that may be drawn.")
    decision_log: dict[str, Any] | None = Field(None, description="Left out where the session keeps no log.")
    segments: int | None = Field(
        None, description="Number of segments that are kept; left out where the session has none."
    )
    slot: int = Field(description="Number of acts.")
    feedbacks: int = Field(description="Number of applied events.")
    outstanding: int = Field(description="Number of acts without feedback so far.")
    expired: int = Field(description="Number of acts that expired without feedback.")
    removed: int = Field(description="Number of acts that were outstanding when their arm was removed.")
    voided: int = Field(
        description="Number of acts taken back. slot = feedbacks + expired + removed + voided + outstanding."
    )
    total_delay: int = Field(description="Sum of delays over closed slots.")
    mean_loss: float | None = Field(
        None,
        description="Mean over applied events and decisions expired at their default, in the unit that is posted; "
        "null before the first. Over points it is the mean of f(x).",
    )
    mean_reward: float | None = Field(None, description="The same in a session with ``reward_range``.")
    counted_from_slot: int | None = Field(
        None,
        description="The slot from which on means, times and counts of arms are counted, in sessions of version "
        "0.1; left out where it is the first.",
    )
    last_act_at: str | None = Field(description="null before the first act.")
    last_event_at: str | None = Field(description="null before the first event that settled a decision.")
    effective_arms: float | None = Field(
        None, description="How many arms ``probabilities`` amount to: exp of their entropy. Not for points."
    )
    hints: list[Hint] = Field(description="Why the session may not learn.")
    version: str
    created_at: str
    expires_at: str | None


class SessionView(SessionSummary):
    """A session; ``probabilities`` for learners over arms, ``x`` for learners over points."""

    segment: str | None = Field(
        None,
        description="The segment that was asked for: ``slots``, ``feedbacks``, the mean, ``probabilities``, "
        "``effective_arms`` and ``last_act_at`` are its own then.",
    )
    slots: int | None = Field(None, description="Number of acts of the segment that was asked for.")
    paused: list[str] | None = Field(None, description="Labels of paused arms; left out over points.")
    probabilities: list[float] | None = None
    x: list[float] | None = None


class SessionList(BaseModel):
    """A page of sessions."""

    sessions: list[SessionSummary]
    next_cursor: str | None


class ArmRow(BaseModel):
    """An arm and what is counted of it."""

    arm: int
    label: str | None = None
    paused: bool
    probability: float
    acts: int | None = Field(None, description="These counts are of all segments: left out where one is asked for.")
    outstanding: int | None = None
    feedbacks: int | None = None
    expired: int | None = None
    mean_loss: float | None = Field(
        None, description="Over applied events and decisions expired at their default; null before the first."
    )
    mean_reward: float | None = Field(None, description="The same in a session with ``reward_range``.")


class ArmPage(BaseModel):
    """A page of live arms."""

    arms: list[ArmRow]
    next_cursor: str | None


class SegmentRow(BaseModel):
    """A segment and what is counted of it."""

    segment: str
    slots: int
    feedbacks: int = Field(description="Number of applied events.")
    mean_loss: float | None = Field(
        None,
        description="Over its applied events and decisions expired at their default; null before the first.",
    )
    mean_reward: float | None = Field(None, description="The same in a session with ``reward_range``.")
    effective_arms: float
    last_act_at: str


class SegmentPage(BaseModel):
    """A page of the segments that are kept."""

    segments: list[SegmentRow]
    next_cursor: str | None


LAST_SECOND = 253_402_300_799
"""The last of the year 9999, in Unix seconds: views write years with four digits."""


class Part(Posted):
    """Part of some bytes."""

    part: str = Field(description="In base64.")


class ExportedSession(Posted):
    """A whole session, as of one version."""

    format: int = Field(ge=1, description="Number of the form of this document.")
    session_id: str = Field(pattern=SESSION_ID_PATTERN)
    version: str
    created_at: float = Field(ge=0, le=LAST_SECOND, description="Unix seconds.")
    specification: dict[str, Any] = Field(description="What the session was created with, its seed included.")
    state: list[Part]
    records: list[Part]
    counts: list[Part]
    event_ids: list[Part]
    segments: list[Part] = Field([], description="Left out where the session has none.")
    sha256: str = Field(description="Of the rest as JSON with sorted keys, without spaces, in ASCII.")


class Decision(BaseModel):
    """An entry of the decision log: an act, an event, a change of arms or of the session."""

    kind: Literal["act", "event", "arms", "session"]
    slot: int | None = None
    arm: int | None = None
    probability: float | None = None
    eligible: int | None = Field(None, description="Number of arms that could be drawn.")
    label: str | None = None
    loss: float | None = None
    reward: float | None = Field(None, description="In a session with ``reward_range``.")
    outcome: Literal["applied", "voided", "removed", "expired"] | None = None
    count: int | None = Field(None, description="Number of decisions that expired together.")
    event_id: str | None = None
    segment: str | None = None
    added: list[str] | None = None
    removed: list[str] | None = None
    paused: list[str] | None = None
    resumed: list[str] | None = None
    changed: list[str] | None = None
    at: str = Field(description="Time by the store's clock.")


class DecisionPage(BaseModel):
    """A page of the decision log, oldest first."""

    decisions: list[Decision]
    next_cursor: str | None


class ArmShare(BaseModel):
    """An arm and its probability at a moment."""

    arm: int
    probability: float


class HistorySample(BaseModel):
    """A session at a moment."""

    at: str = Field(description="Time by the store's clock.")
    slot: int
    feedbacks: int
    outstanding: int
    expired: int
    removed: int
    voided: int
    total_delay: int
    counted: int = Field(description="How many losses the mean is over: applied events and defaults, so far.")
    mean_loss: float | None = Field(None, description="Null before the first.")
    mean_reward: float | None = Field(None, description="The same in a session with ``reward_range``.")
    effective_arms: float | None = Field(None, description="Left out over points.")
    arms: list[ArmShare] | None = Field(None, description="The ten most probable arms; left out over points.")
    x: list[float] | None = Field(None, description="Over points, the first ten coordinates of the point.")


class History(BaseModel):
    """How a session developed."""

    period_seconds: float = Field(description="Time between the latest samples; older ones are further apart.")
    samples: list[HistorySample]


class KeyView(BaseModel):
    """What an API key may do."""

    name: str | None = Field(None, description="Null where the service has no API keys.")
    role: Literal["reader", "client", "admin"] = "admin"
    session_prefix: str = Field("", description="What the ids of its sessions begin with.")
