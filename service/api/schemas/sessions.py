"""Sessions as they are viewed and listed, and what a key may do with them."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, Field

from .described import Described


class Hint(Described):
    """Why a session may not learn."""

    code: Literal["no_feedback", "first_window", "equal_losses", "mostly_surplus", "growing_outstanding"]
    message: str


class SessionSummary(Described):
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
    decision_log: dict[str, Any] | None = Field(None, description="Left out if the session keeps no log.")
    segments: int | None = Field(
        None, description="Number of segments that are kept; left out if the session has none."
    )
    slot: int = Field(description="Number of acts.")
    feedbacks: int = Field(description="Number of applied events.")
    outstanding: int = Field(description="Number of acts without feedback so far.")
    expired: int = Field(description="Number of acts that expired without feedback.")
    removed: int = Field(description="Number of acts that were outstanding when their arm was removed.")
    voided: int = Field(
        description="Number of cancelled acts. slot = feedbacks + expired + removed + voided + outstanding."
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
        description="The first slot that means, times and counts of arms include, in sessions of version 0.1; left "
        "out if it is the first slot of the session.",
    )
    last_act_at: str | None = Field(description="null before the first act.")
    last_event_at: str | None = Field(description="null before the first event that settled a decision.")
    effective_arms: float | None = Field(
        None, description="exp of the entropy of ``probabilities``: n for n equally likely arms. Not for points."
    )
    hints: list[Hint] = Field(description="Why the session may not learn.")
    version: str
    created_at: str
    expires_at: str | None


class SessionView(SessionSummary):
    """A session; ``probabilities`` for learners over arms, ``x`` for learners over points."""

    segment: str | None = Field(
        None,
        description="The segment of the query: ``slots``, ``feedbacks``, the mean, ``probabilities``, "
        "``effective_arms`` and ``last_act_at`` are those of this segment.",
    )
    slots: int | None = Field(None, description="Number of acts of the segment of the query.")
    paused: list[str] | None = Field(None, description="Labels of paused arms; left out over points.")
    probabilities: list[float] | None = None
    x: list[float] | None = None


class SessionList(Described):
    """A page of sessions."""

    sessions: list[SessionSummary]
    next_cursor: str | None


class KeyView(BaseModel):
    """What an API key may do."""

    name: str | None = Field(None, description="Null if the service has no API keys.")
    role: Literal["reader", "client", "admin"] = "admin"
    session_prefix: str = Field("", description="Prefix of the ids of the sessions that the key may use.")
