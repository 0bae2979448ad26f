"""What is listed of one session: its arms, its segments, its decisions and its history."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from .described import Described


class ArmRow(Described):
    """An arm and its counts."""

    arm: int
    label: str | None = None
    paused: bool
    probability: float
    acts: int | None = Field(None, description="These counts cover all segments; left out if ``segment`` is given.")
    outstanding: int | None = None
    feedbacks: int | None = None
    expired: int | None = None
    mean_loss: float | None = Field(
        None, description="Over applied events and decisions expired at their default; null before the first."
    )
    mean_reward: float | None = Field(None, description="The same in a session with ``reward_range``.")


class ArmPage(Described):
    """A page of live arms."""

    arms: list[ArmRow]
    next_cursor: str | None


class SegmentRow(Described):
    """A segment and its counts."""

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


class DecisionPage(Described):
    """A page of the decision log, oldest first."""

    decisions: list[Decision]
    next_cursor: str | None


class ArmShare(Described):
    """An arm and its probability at a moment."""

    arm: int
    probability: float


class HistorySample(Described):
    """A session at a moment."""

    at: str = Field(description="Time by the store's clock.")
    slot: int
    feedbacks: int
    outstanding: int
    expired: int
    removed: int
    voided: int
    total_delay: int
    counted: int = Field(description="Number of losses in the mean: applied events and defaults, so far.")
    mean_loss: float | None = Field(None, description="Null before the first.")
    mean_reward: float | None = Field(None, description="The same in a session with ``reward_range``.")
    effective_arms: float | None = Field(None, description="Left out over points.")
    arms: list[ArmShare] | None = Field(None, description="The ten most probable arms; left out over points.")
    x: list[float] | None = Field(None, description="Over points, the first ten coordinates of the point.")


class History(Described):
    """How a session developed."""

    period_seconds: float = Field(description="Time between the latest samples; older ones are further apart.")
    samples: list[HistorySample]
