"""Segments: who asks and who answers is known, still without ids of decisions.

A segment mixes three experts: the global part, a learner of all feedback alike; and its own sums, held to the
global part as long as a thousand, or a hundred, slots of its own would say the same. How much segments have in
common belongs to a site and not to a segment: one mixture learns it from all of them. No bound is proved.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np

from .base import FixedArray, FloatArray, IntArray, PooledLearner, ProvisionalLearner, Slot
from .maths import add_arms, remove_arms, spread, with_floor
from .tsallis import distribution_over_few, mixture, solve_rows

# -- What segments of a session have in common, what each has of its own, and what one event changes in both.

EXPERTS = 3
"""The global part, and the segment's own sums held to it for long or for short."""
MEMORIES = (1000, 100)
"""m: after so many slots of a segment its own losses weigh as much as the global part."""
POOL_CAP = 1000
"""Most outstanding decisions that a segment's pool counts."""
MEAN_PRIOR = 20
"""Losses of all segments that a segment's mean begins with."""
LARGEST_RISE = 0.5
"""Bound on one event's rise of a sum, in units of scale/sqrt(p)."""


class Shared(NamedTuple):
    """What all segments share, beside the global part's own state."""

    mixture_sums: FixedArray
    """R, the sum of each expert, shape (3,)."""
    weights: FixedArray
    """w, the distribution over the experts, shape (3,)."""
    t: int
    events: int
    """n, the events (and charges) of all segments."""
    events_at_open: int
    mean: float
    variance_sum: float
    """V, the sum of squared deviations of losses from their mean."""
    variance_max: float
    """M, the largest of these squares."""
    scale: float
    """A, the strength of the mixture's regulariser; 0 until two losses differ."""
    shift: float
    """b0, the mean of losses before the open slot."""
    kept: int
    """How many segments are kept."""


class Segment(NamedTuple):
    """What one segment has of its own; all but sums, mean and counts stays from one of its slots to the next."""

    sums: FloatArray
    """S, sums of centred, importance-weighted losses, shape (n_arms,)."""
    pool: FloatArray
    """q, the mean over its outstanding decisions of the distributions they were drawn from, shape (n_arms,)."""
    drawn: FloatArray
    """e, each expert's distribution over the arms that were eligible in its last slot, shape (3, n_arms)."""
    full: FloatArray
    """The same over all arms; the same object where all were eligible."""
    slots: int
    events: int
    """Its events (and charges)."""
    outstanding: int
    """Its decisions without feedback, at most ``POOL_CAP``."""
    dropped: int
    """Its decisions of which no loss will ever be known: taken back, or expired without a default."""
    scale: float
    """a, strength of the regulariser of its own sums; 0 until two losses differ."""
    mean: float
    shift: float
    """b, its mean of losses before its last slot, with those of all segments as a prior."""


Sums = tuple[FixedArray, FloatArray]
"""R of the mixture, shape (3,), and S of a segment, shape (n_arms,)."""


def start_shared() -> Shared:
    """Return what segments share before the first slot."""
    return Shared(np.zeros(EXPERTS), np.full(EXPERTS, 1 / EXPERTS), 0, 0, 0, 0.0, 0.0, 0.0, 0.0, 0.0, 0)


def start_segment(n_arms: int) -> Segment:
    """Return a segment before its first slot."""
    even = np.full((EXPERTS, n_arms), 1 / n_arms)
    return Segment(np.zeros(n_arms), even[0].copy(), even, even, 0, 0, 0, 0, 0.0, 0.0, 0.0)


def variance(shared: Shared) -> float:
    """Return v = (V + M)/(n + 1), a mean of squared deviations that is not 0 once two losses differed."""
    return (shared.variance_sum + shared.variance_max) / (shared.events + 1) if shared.events else 0.0


def stepped(shared: Shared, segment: Segment, arm: int, deviation: float, fall: float, count: int) -> Sums:
    """Return the mixture's sums and the segment's, moved by a deviation of ``arm``.

    It is divided by the arm's share of the segment's pool. Where that is 0, and while the segment's scale is 0, the
    sums stay.

    Parameters
    ----------
    shared : before the step
    segment : that of the decision, before the step
    arm : its position
    deviation : of its loss from the segment's b, or from the default that the loss replaces
    fall : bound on the fall of a sum, in units of scale/sqrt(p)
    count : 1; -1 takes such a step back

    Returns
    -------
    R, shape (3,), and S, shape (n_arms,)
    """
    pool = float(segment.pool[arm])
    if not (segment.scale > 0 and pool > 0):
        return shared.mixture_sums, segment.sums
    ratio, moves = deviation / pool, []
    units = [shared.scale / math.sqrt(weight) for weight in shared.weights.tolist()]
    units.append(segment.scale / math.sqrt(segment.full[1, arm]))
    for share, unit in zip((*segment.drawn[:, arm].tolist(), 1.0), units, strict=True):
        moves.append(count * min(max(ratio * share, -fall * unit), LARGEST_RISE * unit))
    sums = segment.sums.copy()
    sums[arm] += moves.pop()
    return shared.mixture_sums + moves, sums


def learned(shared: Shared, loss: float, sums: FixedArray) -> Shared:
    """Return what is shared with one more loss in n, mean, V and M, and with these sums of the mixture.

    The loss is on the learner's scale; the sums are as ``stepped`` returns them.
    """
    events = shared.events + 1
    mean = shared.mean + (loss - shared.mean) / events
    square = (loss - shared.shift) ** 2
    return _moved(shared, sums, events, mean, shared.variance_sum + square, square)


def corrected(shared: Shared, loss: float, default: float, sums: FixedArray) -> Shared:
    """Return what is shared with ``loss`` in place of ``default`` in mean and V, and these sums; M only grows."""
    mean = shared.mean + ((loss - default) / shared.events if shared.events else 0.0)
    square = (loss - shared.shift) ** 2
    spread = max(shared.variance_sum + (square - (default - shared.shift) ** 2), 0.0)
    return _moved(shared, sums, shared.events, mean, spread, square)


def uncharged(shared: Shared, default: float, sums: FixedArray) -> Shared:
    """Return what is shared with one ``default`` less in n, mean and V, and with these sums of the mixture."""
    events = max(shared.events - 1, 0)
    mean = shared.mean - (default - shared.mean) / events if events else 0.0
    spread = max(shared.variance_sum - (default - shared.shift) ** 2, 0.0)
    return _moved(shared, sums, events, mean, spread)


def _moved(
    shared: Shared, sums: FixedArray, events: int, mean: float, spread: float, square: float = 0.0
) -> Shared:
    """Return what is shared with other sums, n and mean, and V and M if a mean was known when the slot opened."""
    if shared.events_at_open:
        shared = shared._replace(variance_sum=spread, variance_max=max(shared.variance_max, square))
    return shared._replace(mixture_sums=sums, events=events, mean=mean)


def given_up(segment: Segment, count: int, *, dropped: bool = False) -> Segment:
    """Return a segment after ``count`` outstanding decisions ended (it may know of fewer); its sums stay.

    They are ``dropped`` if no loss of them will ever be known.
    """
    left, more = max(segment.outstanding - count, 0), count if dropped else 0
    return segment._replace(outstanding=left, dropped=segment.dropped + more)


def with_fewer(segment: Segment, positions: Any) -> Segment:
    """Return a segment without some arms, not all of them; the positions ascend."""
    return _changed(segment, np.delete(segment.sums, positions), lambda p: remove_arms(p, positions))


def with_more(segment: Segment, count: int) -> Segment:
    """Return a segment with one or more arms behind the others.

    The sums of a new arm are 0; its share of pool and distributions is 1/n of n arms in all.
    """
    return _changed(segment, np.concatenate([segment.sums, np.zeros(count)]), lambda p: add_arms(p, count))


def _changed(segment: Segment, sums: FloatArray, changed: Callable[[FloatArray], FloatArray]) -> Segment:
    drawn = changed(segment.drawn)
    full = drawn if segment.full is segment.drawn else changed(segment.full)
    return segment._replace(sums=sums, pool=changed(segment.pool), drawn=drawn, full=full)


# -- The distributions that a segment mixes, and the mixture's over them: solved for when a slot opens.

COSTS = (0.0, 1.0, 2.0)
"""C: what the mixture asks of an expert before it trusts it, in units of its scale."""
FLOOR_SHARE = 0.25
"""The floor at the start, as a share of uniform play; it falls as 1/sqrt(t)."""


def own_distributions(
    shared: Shared, segment: Segment, slots: int, strength: int, p: FloatArray, places: Any
) -> FloatArray | None:
    """Return the two distributions of a segment's own sums, held to the global part for long and for short.

    Parameters
    ----------
    shared : of the slot
    segment : whose S, n and last distributions are taken
    slots : T of the segment, an open one among them
    strength : U of all segments
    p : the global part's distribution over all arms, positive, shape (n_arms,)
    places : positions of the arms that may be drawn, or a slice of all

    Returns
    -------
    distributions over the arms at ``places``, shape (2, places); None before losses differ
    """
    v, t = variance(shared), max(shared.t, 1)
    if not v > 0:
        return None
    held = [min(memory, t) for memory in MEMORIES]
    strengths = [slots + each for each in held]
    scales = np.array([math.sqrt(each * v) for each in strengths])
    prior = np.sqrt(p[places])
    np.divide(math.sqrt(strength * v), prior, out=prior)
    sums = np.multiply(np.array([each / t for each in held])[:, None], prior)
    sums += segment.sums[places]
    sums -= np.minimum.reduce(sums, axis=-1, keepdims=True)
    # Multipliers start near where they are if the distributions before have changed little.
    before = segment.full[1:, places]
    weight = before * np.sqrt(before)
    total = np.add.reduce(weight, axis=-1)
    weight *= sums
    guess = (np.add.reduce(weight, axis=-1) - scales * np.add.reduce(before, axis=-1)) / total
    _, x = solve_rows(sums, scales, guess)
    floors = np.array([FLOOR_SHARE / math.sqrt(each) / p.size for each in strengths])
    np.maximum(x, floors[:, None], out=x)
    x /= np.add.reduce(x, axis=-1)[:, None]
    return x


def next_slot(shared: Shared, dropped: int) -> Shared:
    """Return what is shared when a slot opens: t, n0, b0, A, and the distribution w over the experts.

    ``dropped`` decisions of all segments have no part in A.
    """
    t, events = shared.t + 1, shared.events
    scale = math.sqrt(max(t - dropped, events) * variance(shared))
    floor = FLOOR_SHARE / math.sqrt(t) / EXPERTS
    few = distribution_over_few(shared.mixture_sums, scale, shared.weights, floor, COSTS)
    weights = few.p if scale > 0 else np.full(EXPERTS, 1 / EXPERTS)
    _, _, _, _, _, mean, spread, largest, _, _, kept = shared
    return Shared(few.sums, weights, t, events, events, mean, spread, largest, scale, mean, kept)


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
    part : the global part; a ``ProvisionalLearner`` where defaults are provisional, which ``uncharge`` needs: with
        another it raises a TypeError
    """

    def __init__(self, part: PooledLearner[P]) -> None:
        self.part = part

    def open(self, part: P, shared: Shared, segment: Segment, slot: Slot) -> tuple[Moment[P], FloatArray]:
        """Open a slot of a segment; its ``outstanding`` counts the decisions of all segments.

        Returns
        -------
        the moment, and the distribution to draw from, shape (n_arms,)
        """
        part = self.part.open(part, slot._replace(floor=0.0) if slot.floor else slot)
        shared = next_slot(shared, self._dropped(part))
        segment = segment._replace(slots=segment.slots + 1)
        full = drawn = self._experts(part, shared, segment, None)
        if not _is_all(slot.eligible, full):
            drawn = self._experts(part, shared, segment, slot.eligible, self.part.distribution(part))
        p = with_floor(mixture(shared.weights, drawn), slot.floor, slot.eligible)
        weight = segment.outstanding
        pool = segment.pool * (weight / (weight + 1)) + p / (weight + 1) if weight else p
        slots, events = segment.slots, segment.events
        shift = (events * segment.mean + MEAN_PRIOR * shared.mean) / (events + MEAN_PRIOR)
        strength = self._played(segment) + min(MEMORIES[0], shared.t)
        scale, outstanding = math.sqrt(strength * variance(shared)), min(weight + 1, POOL_CAP)
        numbers = (slots, events, outstanding, segment.dropped, scale, segment.mean, shift)
        return Moment(part, shared, Segment(segment.sums, pool, drawn, full, *numbers)), p

    def settle(self, moment: Moment[P], arm: int, loss: float, ends: int = 1) -> Moment[P]:
        """Learn from a loss of an arm that an outstanding decision of the segment may have had.

        With ``ends`` 0 it is the default loss of the arm just drawn, whose decision stays outstanding.
        """
        part, shared, segment = moment
        part = self.part.settle(part, arm, loss, 1, self._divisor(moment, arm))
        sums = shared.mixture_sums
        if segment is not None:
            events = segment.events + 1
            sums, own = stepped(shared, segment, arm, loss - segment.shift, LARGEST_FALL, 1)
            left, mean = max(segment.outstanding - ends, 0), segment.mean + (loss - segment.mean) / events
            segment = segment._replace(sums=own, outstanding=left, events=events, mean=mean)
        return Moment(part, learned(shared, loss, sums), segment)

    def correct(self, moment: Moment[P], arm: int, loss: float, before: float, ends: int = 1) -> Moment[P]:
        """Put a decision's loss in place of that ``before``: the default it was charged with.

        With ``ends`` 0 that is a loss that was learned, so that no decision ends.
        """
        part, shared, segment = moment
        part = self.part.correct(part, arm, loss, before, self._divisor(moment, arm))
        sums = shared.mixture_sums
        if segment is not None:
            sums, own = stepped(shared, segment, arm, loss - before, LARGEST_CORRECTION, 1)
            mean = segment.mean + ((loss - before) / segment.events if segment.events else 0.0)
            segment = given_up(segment, ends)._replace(sums=own, mean=mean)
        return Moment(part, corrected(shared, loss, before, sums), segment)

    def uncharge(self, moment: Moment[P], arm: int, default: float) -> Moment[P]:
        """Take back a decision that was charged with the default: it was never shown.

        Raises
        ------
        TypeError
            where the global part takes no provisional default.
        """
        part, shared, segment = moment
        if not isinstance(self.part, ProvisionalLearner):
            raise TypeError(f"{self.part!r} takes no provisional default")
        part = self.part.uncharge(part, arm, default, self._divisor(moment, arm))
        sums = shared.mixture_sums
        if segment is not None:
            sums, own = stepped(shared, segment, arm, default - segment.shift, LARGEST_FALL, -1)
            events = max(segment.events - 1, 0)
            mean = segment.mean - (default - segment.mean) / events if events else 0.0
            segment = given_up(segment, 1, dropped=True)._replace(sums=own, events=events, mean=mean)
        return Moment(part, uncharged(shared, default, sums), segment)

    def void(self, moment: Moment[P], arm: int) -> Moment[P]:
        """Take back a decision of which nothing was learned."""
        part, shared, segment = moment
        segment = None if segment is None else given_up(segment, 1, dropped=True)
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
            experts = self._experts(moment.part, moment.shared, segment, eligible)
        return with_floor(mixture(moment.shared.weights, experts), floor, eligible)

    def _divisor(self, moment: Moment[P], arm: int) -> float:
        """Return what a loss is divided by: the arm's share of the pool, or of the global part's distribution."""
        part, _, segment = moment
        return float((self.part.probabilities(part) if segment is None else segment.pool)[arm])

    def _dropped(self, part: P) -> int:
        return part.dropped if self.part.counts_dropped else 0  # type: ignore[attr-defined]

    def _played(self, segment: Segment) -> int:
        """Return T of a segment."""
        return max(segment.slots - segment.dropped * self.part.counts_dropped, segment.events)

    def _experts(
        self, part: P, shared: Shared, segment: Segment, eligible: IntArray | None, first: Any = None
    ) -> FloatArray:
        """Return the experts' distributions over the arms at ``eligible``, shape (3, n_arms); None: over all.

        Over some arms they are solved for at the same sums and scales, with the same least probability of an arm.
        ``first`` is the global part's distribution over these arms, if it is known.
        """
        p = np.asarray(self.part.probabilities(part))
        n_arms, places = p.size, slice(None) if eligible is None else eligible
        strength = max(max(shared.t, 1) - self._dropped(part), shared.events)
        if (own := own_distributions(shared, segment, self._played(segment), strength, p, places)) is None:
            n_eligible = n_arms if eligible is None else eligible.size
            own = np.full((EXPERTS - 1, n_eligible), 1 / n_eligible)
        experts = np.empty((EXPERTS, n_arms))
        experts[0] = p if eligible is None else self.part.probabilities(part, eligible) if first is None else first
        experts[1:] = own if eligible is None else spread(own, eligible, n_arms)
        return experts


def _is_all(eligible: IntArray | None, experts: FloatArray) -> bool:
    return eligible is None or eligible.size == experts.shape[-1]
