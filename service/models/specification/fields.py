"""The fields of a session, as clients post them, and what follows from one or two of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Union

from pydantic import Field

from ...engine.ledger import LossRange
from ...learners import REGISTRY
from ...learners.base import Posted, Spec
from ...learners.specs import Finite, NullIs, Whole
from ..options import DecisionLogSpec, ExpirySpec, Floor, IdleTtl, InitialArmSpec, Word
from ..segment import SegmentsSpec

if TYPE_CHECKING:
    LearnerSpec = Spec
else:
    LearnerSpec = Annotated[Union[tuple(REGISTRY.values())], Field(discriminator="kind")]  # noqa: UP007

SESSION_ID_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$"


class SessionFields(Posted, defer_build=True):
    """A session's learner and how its losses are read; nothing is made of this class itself."""

    learner: LearnerSpec
    loss_range: Annotated[
        list[Finite],
        Field(
            min_length=2,
            max_length=2,
            description="Best and worst loss of an arm: two different numbers, in either order. Learners over "
            "points accept any finite losses and ignore it.",
        ),
        NullIs([0.0, 1.0]),
    ] = [0.0, 1.0]
    reward_range: Annotated[
        list[Finite] | None,
        Field(
            min_length=2,
            max_length=2,
            description="Worst and best reward of an arm, instead of ``loss_range``: events then carry ``reward``.",
        ),
    ] = None
    normalize_losses: Annotated[
        bool,
        Field(description="Learn from (loss - best)/(worst - best) of an arm; false: from the loss as it is."),
        NullIs(True),
    ] = True
    seed: Annotated[
        Whole | None,
        Field(
            ge=0,
            lt=2**63,
            description="Seed of the draws. Keep it secret; without one the service draws 128 random bits.",
        ),
    ] = None
    idle_ttl_seconds: IdleTtl | None = None
    expiry: Annotated[
        ExpirySpec | None,
        Field(description="Settles decisions without feedback after a time; null: they stay outstanding."),
    ] = None
    floor: Annotated[Floor, NullIs(0.0)] = 0.0
    initial: Annotated[
        list[InitialArmSpec] | None,
        Field(
            min_length=1,
            fail_fast=True,
            description="Means of arms to begin with, for the Tsallis learners. The counts of the view do not "
            "include them.",
        ),
    ] = None
    decision_log: Annotated[
        DecisionLogSpec | None, Field(description="Keeps a log of decisions and events; null: none is kept.")
    ] = None
    segments: Annotated[
        SegmentsSpec | None,
        Field(description="Acts and events name segments, for ``multiscale_tsallis`` and ``centred_tsallis``."),
    ] = None

    @property
    def may_be_provisional(self) -> bool:
        """Whether the session has a default loss that its learner can take as provisional."""
        return self.default_loss is not None and self.learner.takes_provisional

    @property
    def word(self) -> Word:
        """Whether clients post losses or rewards."""
        return "loss" if self.reward_range is None else "reward"

    @property
    def losses(self) -> LossRange:
        """How losses, or rewards, are read."""
        best, worst = self.loss_range if self.reward_range is None else reversed(self.reward_range)
        return LossRange(best, worst, self.normalize_losses, self.word)

    @property
    def default_loss(self) -> float | None:
        """The loss or reward of expired decisions as posted; None where they teach nothing, or never expire."""
        return None if self.expiry is None else self.expiry.default(self.word)

    @property
    def idle_ttl_ms(self) -> int | None:
        """The idle time to live in milliseconds, the store's unit."""
        return None if self.idle_ttl_seconds is None else max(1, round(self.idle_ttl_seconds * 1000))

    def expires_at(self, used_at: float) -> float | None:
        """Return the idle deadline after a use at ``used_at``, in Unix seconds; None without one."""
        return None if self.idle_ttl_ms is None else used_at + self.idle_ttl_ms / 1000
