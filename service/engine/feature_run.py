"""A session with features: acts have the columns of a visitor, and events may bring them, or what a token has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np

from ..learners.base import SOMEBODY, FloatArray, IntArray, Visit
from ..learners.feature_tsallis import FeatureTsallis, known
from ..learners.features import Encoded, Encoder
from ..learners.maths import over
from .arm_run import ArmRun
from .ledger import CLIPPED_SHARE, JUDGED_TOGETHER, ArmAction, ArmFeedback

MERGED_CELLS, MERGED_ARMS = 40_000, 500
"""Numbers of the sums of arms that are merged and solved for at once, which takes 5 ms at most; and arms."""


@dataclass(slots=True)
class FeatureRun(ArmRun):
    """A provisional default is learned at the act and corrected when an event comes, as in a ``ProvisionalRun``."""

    learner: FeatureTsallis

    @property
    def default(self) -> float | None:
        """The loss that every act is charged with, on the learner's scale; None where none is."""
        expiry = self.params.expiry
        return expiry.loss if expiry is not None and expiry.provisional else None

    @property
    def encoder(self) -> Encoder:
        """Makes columns of what is said of visitors."""
        return cast("Encoder", self.params.encoder)

    def merge_some(self) -> bool:
        """Merge some fresh arms, if there are so many that all at the next act would take long; return if any were.

        An act must follow.
        """
        kept = known(self.state)
        at_once = min(max(MERGED_CELLS // (2 * kept.d * kept.d), 1), MERGED_ARMS)
        if len(kept.fresh) <= at_once:
            return False
        self.state = self.state._replace(regressions=kept.opened(at_once))
        return True

    def act(self, eligible: IntArray | None = None, encoded: Encoded | None = None) -> ArmAction:
        """Open the next slot, draw its arm for a visitor and charge it with the default loss, if there is one."""
        if eligible is not None or self.arms.unpaused is not None:
            eligible = self._eligible(eligible)
        encoded = encoded or self.encoder.encode(None)
        x, learner = encoded.x, self.learner
        slot = self._open_slot(self.draws, eligible)._replace(x=x)
        self._count(encoded)
        self.state, position = learner.draw(learner.open(self.state, slot), slot)
        arm, p = self.arms.live[position], learner.distribution(self.state).item(position)
        self._opened(self.slot, (position,))
        visit = Visit(x, learner.ratios(self.state, position))
        if self.default is not None and not self.ledger.silent:
            self.state = learner.told(self.state, position, self.default, visit)
        size = len(self.arms.live) if eligible is None else eligible.size
        return ArmAction(self.slot, arm, p, size, visit)

    def _count(self, encoded: Encoded) -> None:
        """Count what an act said; now and then judge it, and let earlier acts count for half."""
        ledger, places = self.ledger, self.encoder.places
        said, n = empty(self.encoder) if ledger.said is None else ledger.said.copy(), len(places)
        said[:2] += 1, bool(encoded.missing)
        for name in encoded.missing:
            said[2 + places[name]] += 1
        for name in encoded.clipped:
            said[2 + n + places[name]] += 1
        if said[0] >= JUDGED_TOGETHER:
            ledger.features_missing = bool(2 * said[1] > said[0])
            ledger.features_clipped = bool((said[2 + n :] > CLIPPED_SHARE * (said[0] - said[2 : 2 + n])).any())
            said //= 2
        ledger.said = said

    @property
    def shares(self) -> Sequence[Sequence[float]]:
        """Of each feature the share of the latest acts that left it out, and that had a value out of range."""
        said = empty(self.encoder) if self.ledger.said is None else self.ledger.said
        shares: Sequence[Sequence[float]] = (said[2:] / max(said[0], 1)).reshape(2, -1).tolist()
        return shares

    def settle(self, event: ArmFeedback) -> None:
        position, visit, default = self.arms.positions[event.arm], event.visit or SOMEBODY, self.default
        is_uncharged = self.take(position, slot=event.signed_slot)
        self.ledger.settle_all((position,), (event.loss,), self.params.expiry)
        if default is None or is_uncharged:
            self.state = self.learner.told(self.state, position, event.loss, visit)
        else:
            self.state = self.learner.told_better(self.state, position, event.loss, default, visit)

    def settle_all(self, arms: Sequence[int], losses: Sequence[float], slot: int | None = None) -> None:
        for arm, loss in zip(arms, losses, strict=True):
            self.settle(ArmFeedback(arm, loss, signed_slot=slot))

    def update(self, event: ArmFeedback, before: float) -> None:
        position, visit = self.arms.positions[event.arm], event.visit or SOMEBODY
        self.ledger.correct(event.loss, before)
        self.state = self.learner.told_better(self.state, position, event.loss, before, visit)

    def void(self, event: ArmFeedback) -> None:
        position, visit, default = self.arms.positions[event.arm], event.visit or SOMEBODY, self.default
        is_uncharged = self.take(position, slot=event.signed_slot)
        self.ledger.void_of(position)
        if default is None or is_uncharged:
            self.state = self.learner.void(self.state, position)
        else:
            self.state = self.learner.taken_back(self.state, position, default, visit)

    def expire(self, position: int, count: int, loss: float | None) -> None:
        """Give up decisions of an arm; a default was learned when they were charged."""
        self.take(position, count)
        self.ledger.expire_of(position, count)
        if loss is None:
            self.state = self.learner.expire(self.state, count)
        else:
            self.ledger.learn(loss, count)

    def for_visitor(self, x: FloatArray) -> FloatArray:
        """Return what an act for a visitor would draw from, shape (live arms,): it is 0 for paused arms."""
        p = over(self.learner.for_visitor(self.state, x), self.arms.unpaused, uniform=True)
        return np.asarray(p / p.sum())


def empty(encoder: Encoder) -> IntArray:
    """Return ``ArmLedger.said`` before the first act."""
    return np.zeros(2 + 2 * len(encoder.features), dtype=np.int64)
