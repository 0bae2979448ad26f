"""Worlds of arms: which loss each arm would have had in each slot, and how a client posts it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np

from loadtest.replay.jester import BEST, WORST, Ratings
from service.engine.ledger import Action, ArmAction, LossRange
from service.learners.base import FloatArray, Information

SYNTHETIC_SLOTS = 2000
SYNTHETIC_ARMS = 5
CHANGE = 500
"""Where the paper's synthetic losses change."""


class Outcome(NamedTuple):
    """What a slot's action caused: what is posted later, and what it cost."""

    arm: int | None
    posted: Any
    """A loss in the unit of ``loss_range``, a bundle of dim+1 losses, or a gradient."""
    loss: float
    """The played loss as regret counts it."""
    expected: float
    """Its expectation over the slot's distribution, p_t . l_t."""


class BestFixed(NamedTuple):
    """The best fixed action over the whole stream."""

    action: int | list[float]
    label: str
    losses: FloatArray
    """Shape (slots,)."""


class Baseline(NamedTuple):
    """The expected losses of a player who never learns."""

    name: str
    losses: FloatArray
    """Shape (slots,)."""


@dataclass(frozen=True)
class ArmWorld:
    """Losses of all arms in all slots.

    Parameters
    ----------
    name : the scenario's name
    posted : shape (slots, n_arms), in the unit of ``loss_range``
    loss_range : how a posted loss becomes the learner's
    arm_name : what the world calls an arm; its arms count from 1, the service's from 0
    """

    informations: ClassVar = (Information.ARM, Information.SLOT)

    name: str
    posted: FloatArray
    loss_range: LossRange
    arm_name: str = "arm"

    @property
    def slots(self) -> int:
        """T."""
        return len(self.posted)

    @property
    def losses(self) -> FloatArray:
        """Losses as the learner sees them, with the arithmetic of ``LossRange.learned``, shape (slots, n_arms)."""
        best, worst, normalize, _ = self.loss_range
        return (self.posted - best) / (worst - best) if normalize else self.posted

    def head(self, slots: int) -> ArmWorld:
        """Return the same world, ended after ``slots`` slots."""
        return replace(self, posted=self.posted[:slots])

    def learner_fields(self) -> dict[str, Any]:
        """Return the learner's fields that the world decides."""
        return {"n_arms": self.posted.shape[1]}

    def session_fields(self) -> dict[str, Any]:
        """Return the session's fields that the losses decide."""
        best, worst, normalize, _ = self.loss_range
        return {"loss_range": [best, worst], "normalize_losses": normalize}

    def player(self) -> ArmPlayer:
        """Return a player of this world."""
        return ArmPlayer(self.losses, self.posted)

    def best_fixed(self) -> BestFixed:
        """Return the arm with the smallest sum of losses."""
        losses = self.losses
        arm = int(losses.sum(axis=0).argmin())
        return BestFixed(arm, f"{self.arm_name} {arm + 1}", losses[:, arm])

    def baseline(self) -> Baseline:
        """Uniform play."""
        return Baseline("uniform play", self.losses.mean(axis=1))


class ArmPlayer(NamedTuple):
    """Plays arms against two loss matrices, shape (slots, n_arms): the learner's and the posted one."""

    losses: FloatArray
    posted: FloatArray

    def play(self, action: Action, p: FloatArray | None) -> Outcome:
        """Return the outcome of ``action``, drawn from ``p``."""
        assert isinstance(action, ArmAction)  # noqa: S101 - a world of arms is given learners over arms
        assert p is not None  # noqa: S101 - and those have probabilities
        losses = self.losses[action.slot - 1]
        posted = float(self.posted[action.slot - 1, action.arm])
        return Outcome(action.arm, posted, float(losses[action.arm]), float((p * losses).sum()))


def mab_synthetic(slots: int = SYNTHETIC_SLOTS, change: int = CHANGE) -> ArmWorld:
    """Return the paper's synthetic losses as printed: up to 2, so the session takes them raw from a range [0, 2].

    ``change`` is the last slot before the sudden change.
    """
    t = np.arange(1, slots + 1)[:, None]
    k = np.arange(1, SYNTHETIC_ARMS + 1)
    losses = np.where(t <= change, 0.4 * k * np.abs(np.cos(t)), 0.2 * k * np.abs(np.sin(2 * t)))
    return ArmWorld("mab_synthetic", losses, LossRange(0.0, 2.0, normalize=False))


def mab_jester(ratings: Ratings, fill_seed: int = 0) -> ArmWorld:
    """Jokes as arms and users as slots; the loss is 1 minus the rating's place in [-10, 10].

    Missing entries are posted as the rating that stands for their drawn score.
    """
    return ArmWorld("mab_jester", ratings.filled(fill_seed), LossRange(BEST, WORST), arm_name="joke")
