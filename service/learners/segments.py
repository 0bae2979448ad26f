"""Segments: who asks and who answers is known, still without ids of decisions.

A segment mixes three experts: the global part, a learner of all feedback alike; and its own sums, held to the
global part as long as a thousand, or a hundred, slots of its own would say the same. How much segments have in
common belongs to a site and not to a segment: one mixture learns it from all of them. No bound is proved.
"""

from __future__ import annotations

import math
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np

from .base import FloatArray, IntArray, PooledLearner, ProvisionalLearner, Slot
from .maths.distributions import spread, with_floor
from .segment_mixture import mixture, next_slot, own_distributions
from .segment_state import (
    EXPERTS,
    MEAN_PRIOR,
    MEMORIES,
    POOL_CAP,
    Segment,
    Shared,
    corrected,
    given_up,
    learned,
    stepped,
    uncharged,
    variance,
)

LARGEST_FALL, LARGEST_CORRECTION = 0.25, 1.0
"""Bounds on the fall of a sum by one event and by one correction, in units of scale/sqrt(p)."""
P = TypeVar("P", bound=tuple[Any, ...])


class Moment(NamedTuple, Generic[P]):
    """The state of the global part, what segments share, and one segment: None where it is not kept."""

    part: P
    shared: Shared
    segment: Segment | None


class Segments(Generic[P]):
    """The rule of segments around a global part.

    Arms are given by position, losses and defaults on the learner's scale. The segment of a moment is that of the
    decision.

    Parameters
    ----------
    part : the global part; a ``ProvisionalLearner`` where defaults are provisional, which ``correct`` and
        ``uncharge`` need: with another they raise a TypeError
    """

    def __init__(self, part: PooledLearner[P]) -> None:
        self.part = part

    def open(self, part: P, shared: Shared, segment: Segment, slot: Slot) -> tuple[Moment[P], FloatArray]:
        """Open a slot of a segment.

        Parameters
        ----------
        part : state of the global part before the slot
        shared : what segments share, before the slot
        segment : the one that plays, with the arms there are
        slot : its ``outstanding`` counts the decisions of all segments

        Returns
        -------
        the moment, and the distribution to draw from, shape (n_arms,)
        """
        part = self.part.open(part, slot._replace(floor=0.0) if slot.floor else slot)
        shared = next_slot(shared)
        slots, events = segment.slots + 1, segment.events
        full = self._experts(part, shared, segment, slots, None)
        drawn = full if _is_all(slot.eligible, full) else self._experts(part, shared, segment, slots, slot.eligible)
        p = with_floor(mixture(shared.weights, drawn), slot.floor, slot.eligible)
        weight = segment.outstanding
        pool = segment.pool * (weight / (weight + 1)) + p / (weight + 1) if weight else p
        shift = (events * segment.mean + MEAN_PRIOR * shared.mean) / (events + MEAN_PRIOR)
        strength = max(slots, events) + min(MEMORIES[0], shared.t)
        scale = math.sqrt(strength * variance(shared))
        outstanding = min(weight + 1, POOL_CAP)
        opened = Segment(segment.sums, pool, drawn, full, slots, events, outstanding, scale, segment.mean, shift)
        return Moment(part, shared, opened), p

    def settle(self, moment: Moment[P], arm: int, loss: float) -> Moment[P]:
        """Learn from a loss of an arm that an outstanding decision of the segment may have had.

        Parameters
        ----------
        moment : before the loss
        arm : its position
        loss : on the learner's scale
        """
        return self._learned(moment, arm, loss, ends=1)

    def charge(self, moment: Moment[P], arm: int, default: float) -> Moment[P]:
        """Learn the default loss of the arm just drawn; its decision stays outstanding.

        Parameters
        ----------
        moment : as ``open`` returned it
        arm : position of the arm that was drawn
        default : the loss, on the learner's scale
        """
        return self._learned(moment, arm, default, ends=0)

    def _learned(self, moment: Moment[P], arm: int, loss: float, ends: int) -> Moment[P]:
        part, shared, segment = moment
        part = self.part.settle(part, arm, loss, 1, self._divisor(moment, arm))
        sums = shared.mixture_sums
        if segment is not None:
            events = segment.events + 1
            sums, own = stepped(shared, segment, arm, loss - segment.shift, LARGEST_FALL, 1)
            segment = segment._replace(
                sums=own,
                outstanding=max(segment.outstanding - ends, 0),
                events=events,
                mean=segment.mean + (loss - segment.mean) / events,
            )
        return Moment(part, learned(shared, loss, sums), segment)

    def correct(self, moment: Moment[P], arm: int, loss: float, default: float) -> Moment[P]:
        """Put a decision's loss in place of the default that it was charged with.

        Parameters
        ----------
        moment, arm, loss : as for ``settle``
        default : the loss with which the decision was charged, on the learner's scale

        Raises
        ------
        TypeError
            where the global part takes no provisional default.
        """
        part, shared, segment = moment
        part = self._provisional.correct(part, arm, loss, default, self._divisor(moment, arm))
        sums = shared.mixture_sums
        if segment is not None:
            sums, own = stepped(shared, segment, arm, loss - default, LARGEST_CORRECTION, 1)
            mean = segment.mean + (loss - default) / max(segment.events, 1)
            segment = given_up(segment, 1)._replace(sums=own, mean=mean)
        return Moment(part, corrected(shared, loss, default, sums), segment)

    def uncharge(self, moment: Moment[P], arm: int, default: float) -> Moment[P]:
        """Take back a decision that was charged with the default: it was never shown.

        Parameters
        ----------
        moment, arm, default : as for ``correct``

        Raises
        ------
        TypeError
            where the global part takes no provisional default.
        """
        part, shared, segment = moment
        part = self._provisional.uncharge(part, arm, default, self._divisor(moment, arm))
        sums = shared.mixture_sums
        if segment is not None:
            sums, own = stepped(shared, segment, arm, default - segment.shift, LARGEST_FALL, -1)
            events = max(segment.events - 1, 0)
            mean = segment.mean - (default - segment.mean) / events if events else 0.0
            segment = given_up(segment, 1)._replace(sums=own, events=events, mean=mean)
        return Moment(part, uncharged(shared, default, sums), segment)

    def void(self, moment: Moment[P], arm: int) -> Moment[P]:
        """Take back a decision of which nothing was learned.

        Parameters
        ----------
        moment, arm : as for ``settle``
        """
        part, shared, segment = moment
        segment = None if segment is None else given_up(segment, 1)
        return Moment(self.part.void(part, arm), shared, segment)

    def probabilities(
        self, moment: Moment[P], segment: Segment, eligible: IntArray | None = None, floor: float = 0.0
    ) -> FloatArray:
        """Return the distribution of a segment that readers see, shape (n_arms,).

        Parameters
        ----------
        moment : of any segment; its global part and what is shared are taken
        segment : the one whose distribution it is
        eligible, floor : as for ``ArmLearner.probabilities``
        """
        experts = segment.full
        if not _is_all(eligible, experts):
            experts = self._experts(moment.part, moment.shared, segment, segment.slots, eligible)
        return with_floor(mixture(moment.shared.weights, experts), floor, eligible)

    @property
    def _provisional(self) -> ProvisionalLearner[P]:
        if not isinstance(self.part, ProvisionalLearner):
            raise TypeError(f"{self.part!r} takes no provisional default")
        return self.part

    def _divisor(self, moment: Moment[P], arm: int) -> float:
        """Return what a loss is divided by: the arm's share of the pool, or of the global part's distribution."""
        segment = moment.segment
        shares = self.part.probabilities(moment.part) if segment is None else segment.pool
        return float(shares[arm])

    def _experts(
        self, part: P, shared: Shared, segment: Segment, slots: int, eligible: IntArray | None
    ) -> FloatArray:
        """Return the experts' distributions over the arms at ``eligible``, shape (3, n_arms); None: over all.

        Over some arms they are solved for at the same sums and scales, with the same least probability of an arm.
        ``slots`` are those of the segment, an open one among them.
        """
        p = np.asarray(self.part.probabilities(part))
        n_arms, places = p.size, slice(None) if eligible is None else eligible
        own = own_distributions(shared, segment, slots, p, places)
        if own is None:
            n_eligible = n_arms if eligible is None else eligible.size
            own = np.full((EXPERTS - 1, n_eligible), 1 / n_eligible)
        experts = np.empty((EXPERTS, n_arms))
        experts[0] = p if eligible is None else self.part.probabilities(part, eligible)
        experts[1:] = own if eligible is None else spread(own, eligible, n_arms)
        return experts


def _is_all(eligible: IntArray | None, experts: FloatArray) -> bool:
    return eligible is None or eligible.size == experts.shape[-1]
