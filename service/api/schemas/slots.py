"""Answers to acts and feedback."""

from __future__ import annotations

from pydantic import Field

from .described import Described

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
    removed: int | None = Field(None, description="Number of events of removed arms; left out if there are none.")
    voided: int | None = Field(None, description="Number of cancelled decisions; left out if there are none.")
    surplus: int | None = Field(None, description="Number of skipped events, with ``on_surplus=skip``.")
    invalid: int | None = Field(None, description="Number of skipped events, with ``on_invalid=skip``.")
    invalid_indexes: list[int] | None = Field(None, description="Their places in the batch, 1,000 at most.")
    slot: int
    outstanding: int
