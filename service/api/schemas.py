"""Bodies and answers of the HTTP interface."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, WithJsonSchema, model_validator

from ..engine.control import Group
from ..errors import FieldValueError
from ..learners.base import Posted
from ..learners.features import Said
from ..learners.specs import Label, LabelText, NullIs, Whole
from ..models.events import Click, Eligibility, Events, Segment, Visitor
from ..models.specification import (
    LAST_SECOND,
    SESSION_ID_PATTERN,
    ControlSpec,
    ExpirySpec,
    Floor,
    Goals,
    GuardSpec,
    IdleTtl,
    Specification,
)
from ..sessions.pages import HintCode

# -- What answers have in common that are only described.


class Described(BaseModel):
    """An answer in the OpenAPI document: routes write it themselves, so pydantic compiles nothing at the start."""

    model_config = ConfigDict(defer_build=True)


# -- Answers to acts and feedback.

SKIPPED = Field(
    None,
    description="Number of names in ``eligible`` or ``exclude`` that name no arm, or one that is removed or "
    "paused; left out if there are none. An answer with several actions has it once, next to ``actions``.",
)


class Action(Described):
    """A drawn arm (``arm``, ``probability``), or a point (``x``, ``query_points``)."""

    slot: int
    arm: int | None = None
    label: str | None = None
    probability: float | None = None
    group: Group | None = None
    """Whose act it is, in a session with ``control``; its events say the same."""
    token: str | None = None
    """Reports a click of this decision, from the visitor's browser too; in a session with ``tokens``."""
    x: list[float] | None = None
    query_points: list[list[float]] | None = None
    skipped: int | None = SKIPPED


class Actions(Described):
    """Actions of slots in a row."""

    actions: list[Action]
    skipped: int | None = SKIPPED


class Settlement(Described):
    """How the events were settled."""

    applied: int
    duplicates: int
    removed: int | None = None
    """Number of events of removed arms; left out if there are none."""
    voided: int | None = None
    """Number of cancelled decisions; left out if there are none."""
    updated: int | None = None
    """Number of applied events that were improved; left out if there are none."""
    surplus: int | None = None
    """Number of skipped events, with ``on_surplus=skip``."""
    invalid: int | None = None
    """Number of skipped events, with ``on_invalid=skip``."""
    invalid_indexes: list[int] | None = None
    """Their places in the batch, 1,000 at most."""
    slot: int
    outstanding: int


class BulkError(Described):
    """What is wrong with a line."""

    line: int | None = None
    """Its number from 1."""
    index: int | None = None
    """Instead of it the event's place in ``events``, from 0."""
    code: str
    field: str | None = None
    message: str


class BulkSettlement(Described):
    """How the events of many sessions were settled. A 503 has the same fields, and ``unavailable_lines``."""

    applied: int
    duplicates: int
    voided: int | None = None
    removed: int | None = None
    surplus: int | None = None
    invalid: int | None = None
    """Number of wrong lines, those of unknown sessions among them; but for two, counts of 0 are left out."""
    errors: list[BulkError] | None = None
    """What is wrong with them, 20 errors at most."""
    invalid_lines: list[int] | None = None
    """Their numbers, 1,000 at most."""
    invalid_indexes: list[int] | None = None
    """Instead of them for a JSON body."""


# -- What clients post.


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
        fields = {name: getattr(self, name) for name in Specification.model_fields}
        return Specification.model_construct(self.model_fields_set - {"session_id"}, **fields)


class Act(Eligibility):
    """The segment, the visitor, and the arms that may be drawn; the body may be left out."""

    segment: Segment | None = None
    visitor: Visitor | None = None
    features: Said | None = None


class Acts(Eligibility):
    """The number of slots to open in a row, the segment, the visitor, and the arms that may be drawn in each."""

    count: Annotated[Whole, Field(ge=1)]
    segment: Segment | None = None
    visitor: Visitor | None = None
    features: Said | None = None
    distinct: Annotated[bool, NullIs(False)] = False
    """Draw each arm at most once: if fewer arms are left, there are fewer actions. For the same learners as
    ``eligible``."""


class OfVisitor(Posted):
    """What is known of a visitor."""

    features: Said


class Feedbacks(Posted):
    """Events in the order in which they are applied: all or none."""

    events: Events


def _as_posted(schema: dict[str, Any]) -> None:
    """Describe what browsers send: a click, a list of clicks, or a token alone."""
    events = schema.pop("properties")["events"]
    del schema["required"], schema["type"], schema["additionalProperties"]
    schema["anyOf"] = [events["items"], events, {"type": "string"}]


class Clicks(Posted):
    """A click, a list of clicks, or the token of one."""

    model_config = ConfigDict(json_schema_extra=_as_posted)

    events: Annotated[list[Click], Field(min_length=1, max_length=100)]


_ANY_EVENT = {"description": "An event of a session, with its ``session_id``. Wrong ones are skipped."}


class BulkFeedbacks(Posted):
    """Events of many sessions: each as of one, with its ``session_id``. Those of one session are a batch."""

    events: Annotated[list[Annotated[Any, WithJsonSchema(_ANY_EVENT)]], Field(min_length=1)]


class ChangeSession(Posted):
    """Fields to change. Each is replaced completely, null removes it; fields that are left out do not change."""

    expiry: ExpirySpec | None = None
    """Open decisions have the new window, counted from their act; if there was no window, from this change. If the
    default is provisional, only ``after_seconds`` may change."""
    idle_ttl_seconds: IdleTtl | None = None
    floor: Floor | None = None
    goals: Goals | None = None
    """For events from now on. Goals that stay keep their counts."""
    control: ControlSpec | None = None
    """Null ends it: its open decisions are settled as ever."""
    guard: GuardSpec | None = None
    halted: Literal[False] = Field(False, description="false: the learner acts again, after a halt.")


LabelTexts = Annotated[list[LabelText], Field(fail_fast=True), NullIs([])]


class ChangeArms(Posted):
    """Labels of arms to remove, to add, to resume and to pause, in this order."""

    add: Annotated[list[Label], Field(fail_fast=True), NullIs([])] = []
    """Labels of new arms. Labels of present arms change nothing."""
    remove: LabelTexts = []
    """Labels of arms to remove. Unknown labels change nothing."""
    pause: LabelTexts = []
    """Labels of arms that are not drawn until they are resumed. They keep what they have learned, and go on
    learning. For the same learners as ``eligible``. Unknown labels change nothing."""
    resume: LabelTexts = []
    """Labels of paused arms to draw again. Unknown labels change nothing."""


class ReplaceArms(Posted):
    """All arms that the session has afterwards."""

    arms: list[Label] = Field(fail_fast=True, min_length=1)
    """Labels. Missing arms are added, then arms with other labels are removed."""


# -- What is listed of one session: its arms, its segments, its decisions and its history.


class SoFar(Described):
    """What is known of an arm now: an open decision counts as the default; without one only settled ones count."""

    acts: int
    events: int
    mean: float | None


class ArmRow(Described):
    """An arm and its counts."""

    arm: int
    label: str | None = None
    paused: bool
    probability: float
    best_chance: float | None = None
    """About the chance that the arm is the best, by its mean; null before two losses differ. Of
    `multiscale_tsallis` alone, and left out if ``segment`` is given."""
    acts: int | None = None
    """These counts cover all segments; left out if ``segment`` is given."""
    outstanding: int | None = None
    feedbacks: int | None = None
    expired: int | None = None
    mean_loss: float | None = None
    """Over applied events and decisions that ended at their default; null before the first."""
    mean_reward: float | None = None
    """The same in a session with ``reward_range``."""
    low: float | None = None
    """End of the 95 % interval of the mean so far, however often you look; at first of the whole range."""
    high: float | None = None
    so_far: SoFar | None = None
    removed: bool | None = None
    """True of a removed arm; its label is there until it is forgotten."""


class ArmPage(Described):
    """A page of arms."""

    arms: list[ArmRow]
    next_cursor: str | None


class VisitorArm(Described):
    """An arm and its probability in an act for the visitor."""

    arm: int
    label: str | None = None
    probability: float


class VisitorArms(Described):
    """All live arms."""

    arms: list[VisitorArm]


class FeatureRow(Described):
    """A feature, and shares of the latest acts, about a thousand."""

    columns: int
    missing: float
    """That left it out."""
    clipped: float
    """With a value outside of its range."""


class FeaturePage(Described):
    """The features of a session, by name."""

    features: dict[str, FeatureRow]


class SegmentRow(Described):
    """A segment and its counts."""

    segment: str
    slots: int
    feedbacks: int
    """Number of applied events."""
    mean_loss: float | None = None
    """Over its applied events and decisions expired at their default; null before the first."""
    mean_reward: float | None = None
    """The same in a session with ``reward_range``."""
    effective_arms: float
    last_act_at: str


class SegmentPage(Described):
    """A page of the segments that are kept."""

    segments: list[SegmentRow]
    next_cursor: str | None


class Decision(Described):
    """An entry of the decision log: an act, an event, a change of arms or of the session."""

    kind: Literal["act", "event", "arms", "session"]
    slot: int | None = None
    arm: int | None = None
    probability: float | None = None
    eligible: int | None = None
    """Number of arms that could be drawn."""
    label: str | None = None
    loss: float | None = None
    reward: float | None = None
    """In a session with ``reward_range``."""
    outcome: Literal["applied", "updated", "voided", "removed", "expired"] | None = None
    count: int | None = None
    """Number of decisions that expired together."""
    until: str | None = None
    """Of decisions whose window ended: their acts were before this time."""
    event_id: str | None = None
    segment: str | None = None
    group: Group | None = None
    """In a session that has or had ``control``."""
    encoded: list[float] | None = None
    """The visitor's columns, of an act and of an event that said features, if the log has them."""
    added: list[str] | None = None
    removed: list[str] | None = None
    paused: list[str] | None = None
    resumed: list[str] | None = None
    changed: list[str] | None = None
    expiry: dict[str, Any] | None = None
    """With the range of losses or rewards in a log's first entry, after each change, and at least in one of 10,000
    entries, or of half as many as are kept."""
    loss_range: list[float] | None = None
    reward_range: list[float] | None = None
    at: str
    """Time by the store's clock."""
    position: int
    """1 for the session's first entry, one more for each next."""
    session_id: str


class DecisionPage(Described):
    """A page of the decision log, oldest first."""

    decisions: list[Decision]
    next_cursor: str | None
    """Null if there are no more entries now."""
    cursor: str
    """Stands behind the last entry, also at the end of the log: reading goes on there."""
    missed: Literal[True] | None = Field(None, description="Entries behind the given cursor were trimmed away.")


class ArmShare(Described):
    """An arm and its probability at a moment."""

    arm: int
    probability: float


class HistorySample(Described):
    """A session at a moment."""

    at: str
    """Time by the store's clock."""
    slot: int
    feedbacks: int
    outstanding: int
    expired: int
    removed: int
    voided: int
    total_delay: int
    counted: int
    """Number of losses in the mean: applied events and defaults, so far."""
    mean_loss: float | None = None
    """Null before the first."""
    mean_reward: float | None = None
    """The same in a session with ``reward_range``."""
    effective_arms: float | None = None
    """Left out over points."""
    feature_weight: float | None = None
    """How far acts rested on features, in [0, 1]; left out without them."""
    arms: list[ArmShare] | None = None
    """The ten most probable arms; left out over points."""
    x: list[float] | None = None
    """Over points, the first ten coordinates of the point."""


class History(Described):
    """How a session developed."""

    period_seconds: float
    """Time between the latest samples; older ones are further apart."""
    samples: list[HistorySample]


# -- Sessions as they are viewed and listed, and what a key may do with them.


class Hint(Described):
    """Why a session may not learn."""

    code: HintCode
    message: str


class GoalCount(Described):
    """A goal, and how often it was reached."""

    value: float
    """What it stands for: a loss, or a reward."""
    events: int
    """Number of applied and updated events that named it."""


class GroupCounts(Described):
    """What is known of one of two groups; an open decision counts as the default, if there is one."""

    acts: int
    """Void ones are left out."""
    outstanding: int
    events: int
    mean_loss: float | None = None
    """In the unit that is posted; null without acts."""
    mean_reward: float | None = None
    """The same in a session with ``reward_range``."""


class Groups(Described):
    """The learner's group and the one that it is compared with."""

    learner: GroupCounts
    control: GroupCounts


class Verdict(Described):
    """The difference of two groups' means, with an interval that you may look at all the time."""

    difference: float
    """In the unit that is posted; positive if the learner's group is better."""
    low: float
    high: float
    lift: float | None
    """Relative to the size of the control's mean; null if that is 0."""
    confidence: float
    is_: Literal["better", "worse", "unclear"] = Field(alias="is")


class Comparison(Described):
    """Two groups, and what is known of their difference."""

    groups: Groups
    verdict: Verdict | None = None
    """Left out before 200 acts of both groups together; if there is no default, settled ones count."""


class SessionSummary(Described):
    """A session without its distribution."""

    session_id: str
    learner: dict[str, Any]
    """Kind, rates, and all parameters with the values in force."""
    loss_range: list[float] | None = None
    """Best and worst loss."""
    reward_range: list[float] | None = None
    """Worst and best reward, in a session of rewards; it has no ``loss_range``."""
    normalize_losses: bool
    idle_ttl_seconds: float | None
    expiry: dict[str, Any] | None
    floor: float
    """Share of the draws that is uniform over the arms that may be drawn."""
    decision_log: dict[str, Any] | None = None
    """Left out if the session keeps no log."""
    updates: dict[str, Any] | None = None
    """Left out if events can't be improved."""
    goals: dict[str, GoalCount] | None = None
    """Left out if the session has none."""
    tokens: Literal[True] | None = None
    """Whether actions have tokens; left out if they have none."""
    control: dict[str, Any] | None = None
    """Left out if no acts are of a control group."""
    guard: dict[str, Any] | None = None
    """Left out if none was given."""
    features: dict[str, dict[str, Any]] | None = None
    """As they are declared; left out if there are none."""
    columns: int | None = None
    """Number of columns of the features, with the constant one."""
    feature_weight: float | None = None
    """How much the last act rested on features, between 0 and 1."""
    segments: int | None = None
    """Number of segments that are kept; left out if the session has none."""
    slot: int
    """Number of acts."""
    feedbacks: int
    """Number of applied events."""
    outstanding: int
    """Number of acts without feedback so far."""
    expired: int
    """Number of acts that expired without feedback."""
    removed: int
    """Number of acts that were outstanding when their arm was removed."""
    voided: int
    """Number of cancelled acts. slot = feedbacks + expired + removed + voided + outstanding."""
    total_delay: int
    """Sum of delays over closed slots."""
    mean_loss: float | None = None
    """Mean over applied events and decisions expired at their default, in the unit that is posted; null before the
    first. Over points it is the mean of f(x)."""
    mean_reward: float | None = None
    """The same in a session with ``reward_range``."""
    last_act_at: str | None
    """null before the first act."""
    last_event_at: str | None
    """null before the first event that settled a decision."""
    effective_arms: float | None = None
    """exp of the entropy of ``probabilities``: n for n equally likely arms. Not for points."""
    hints: list[Hint]
    """Why the session may not learn."""
    version: str
    created_at: str
    expires_at: str | None


class Leader(Described):
    """The most probable arm, with its mean and interval so far."""

    arm: int
    label: str | None = None
    probability: float
    mean: float | None
    """As ``so_far`` of the list of arms has it."""
    low: float
    high: float
    clear: bool
    """Whether its interval lies on the better side of that of every other live arm."""


class SessionView(SessionSummary):
    """A session; ``probabilities`` for learners over arms, ``x`` for learners over points."""

    groups: Groups | None = None
    """Left out if the session has had no ``control``."""
    verdict: Verdict | None = None
    """Left out before 200 acts of both groups."""
    halted_at: str | None = None
    """Since when all acts are of the control group, by ``guard``; left out unless so."""
    segment: str | None = None
    """The segment of the query: ``slots``, ``feedbacks``, the mean, ``probabilities``, ``effective_arms`` and
    ``last_act_at`` are those of this segment."""
    slots: int | None = None
    """Number of acts of the segment of the query."""
    paused: list[str] | None = None
    """Labels of paused arms; left out over points."""
    probabilities: list[float] | None = None
    """Of the arms, in the order of ``learner.arms``; without labels, of their indexes."""
    leader: Leader | None = None
    """Of the whole session. Left out over points, and if ``segment`` is given."""
    unknown: list[str] | None = None
    """Labels to remove, pause or resume that no arm has. Only the answer to this change shows them; left out if
    there are none."""
    x: list[float] | None = None


class UnreadSession(Described):
    """A session that the service can't read."""

    session_id: str
    damaged: Literal[True] | None = Field(None, description="Somebody changed it by hand; DELETE works on it.")
    code: Literal["newer_schema"] | None = Field(None, description="A newer version of the service wrote it.")


class SessionList(Described):
    """A page of sessions."""

    sessions: list[SessionSummary | UnreadSession]
    next_cursor: str | None


class KeyView(Described):
    """What an API key may do."""

    name: str | None = None
    """Null if the service has no API keys."""
    role: Literal["reader", "client", "admin"] = "admin"
    session_prefix: str = ""
    """Prefix of the ids of the sessions that the key may use."""


# -- A session as it moves to another service.


class Part(Posted):
    """Part of some bytes."""

    part: str
    """In base64."""


class ExportedSession(Posted):
    """A whole session, as of one version."""

    format: int = Field(ge=1)
    """Version of the format of this document."""
    session_id: str = Field(pattern=SESSION_ID_PATTERN)
    version: str
    created_at: float = Field(ge=0, le=LAST_SECOND)
    """Unix seconds."""
    specification: dict[str, Any]
    """The fields that the session was created with, the seed included."""
    state: list[Part]
    records: list[Part]
    counts: list[Part]
    event_ids: list[Part]
    segments: list[Part] = []
    """Left out if the session has none."""
    sha256: str
    """Of the rest as JSON with sorted keys, without spaces, in ASCII."""
