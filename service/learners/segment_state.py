"""What segments of a session have in common, what each has of its own, and what one event changes in both."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from .base import FixedArray, FloatArray
from .maths.distributions import add_arms, remove_arms

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
    scale: float
    """a, strength of the regulariser of its own sums; 0 until two losses differ."""
    mean: float
    shift: float
    """b, its mean of losses before its last slot, with those of all segments as a prior."""


def start_shared() -> Shared:
    """Return what segments share before the first slot."""
    return Shared(np.zeros(EXPERTS), np.full(EXPERTS, 1 / EXPERTS), 0, 0, 0, 0.0, 0.0, 0.0, 0.0, 0.0, 0)


def start_segment(n_arms: int) -> Segment:
    """Return a segment before its first slot."""
    even = np.full((EXPERTS, n_arms), 1 / n_arms)
    return Segment(np.zeros(n_arms), even[0].copy(), even, even, 0, 0, 0, 0.0, 0.0, 0.0)


def variance(shared: Shared) -> float:
    """Return v = (V + M)/(n + 1), a mean of squared deviations that is not 0 once two losses differed."""
    return (shared.variance_sum + shared.variance_max) / (shared.events + 1) if shared.events else 0.0


def stepped(
    shared: Shared, segment: Segment, arm: int, deviation: float, fall: float, count: int
) -> tuple[FixedArray, FloatArray]:
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
    for share, weight in zip(segment.drawn[:, arm].tolist(), shared.weights.tolist(), strict=True):
        moves.append(count * _clipped(ratio * share, shared.scale / math.sqrt(weight), fall))
    sums = segment.sums.copy()
    sums[arm] += count * _clipped(ratio, segment.scale / math.sqrt(segment.full[1, arm]), fall)
    return shared.mixture_sums + moves, sums


def _clipped(move: float, unit: float, fall: float) -> float:
    return min(max(move, -fall * unit), LARGEST_RISE * unit)


def learned(shared: Shared, loss: float, sums: FixedArray) -> Shared:
    """Return what is shared with one more loss in n, mean, V and M, and with these sums of the mixture.

    Parameters
    ----------
    shared : before the loss
    loss : on the learner's scale
    sums : of the mixture, shape (3,), as ``stepped`` returns them
    """
    events = shared.events + 1
    mean = shared.mean + (loss - shared.mean) / events
    if not shared.events_at_open:
        return shared._replace(mixture_sums=sums, events=events, mean=mean)
    square = (loss - shared.shift) ** 2
    return shared._replace(
        mixture_sums=sums,
        events=events,
        mean=mean,
        variance_sum=shared.variance_sum + square,
        variance_max=max(shared.variance_max, square),
    )


def corrected(shared: Shared, loss: float, default: float, sums: FixedArray) -> Shared:
    """Return what is shared with ``loss`` in place of ``default`` in mean and V, and these sums; M only grows.

    Parameters
    ----------
    shared : in which the decision counts with ``default``
    loss, sums : as for ``learned``
    default : the loss with which the decision was charged, on the learner's scale
    """
    mean = shared.mean + (loss - default) / max(shared.events, 1)
    if not shared.events_at_open:
        return shared._replace(mixture_sums=sums, mean=mean)
    square = (loss - shared.shift) ** 2
    spread = shared.variance_sum + (square - (default - shared.shift) ** 2)
    return shared._replace(
        mixture_sums=sums,
        mean=mean,
        variance_sum=max(spread, 0.0),
        variance_max=max(shared.variance_max, square),
    )


def uncharged(shared: Shared, default: float, sums: FixedArray) -> Shared:
    """Return what is shared with one ``default`` less in n, mean and V, and with these sums of the mixture.

    Parameters
    ----------
    shared, default, sums : as for ``corrected``
    """
    events = max(shared.events - 1, 0)
    mean = shared.mean - (default - shared.mean) / events if events else 0.0
    if not shared.events_at_open:
        return shared._replace(mixture_sums=sums, events=events, mean=mean)
    spread = max(shared.variance_sum - (default - shared.shift) ** 2, 0.0)
    return shared._replace(mixture_sums=sums, events=events, mean=mean, variance_sum=spread)


def given_up(segment: Segment, count: int) -> Segment:
    """Return a segment after some of its outstanding decisions ended; its sums stay.

    Parameters
    ----------
    segment : before that
    count : how many ended; the number of outstanding decisions stays at 0 or above
    """
    return segment._replace(outstanding=max(segment.outstanding - count, 0))


def with_fewer(segment: Segment, positions: Any) -> Segment:
    """Return a segment without some arms.

    Parameters
    ----------
    segment : with these arms
    positions : of the arms to remove, an array of ints, ascending, not all of them
    """
    drawn = remove_arms(segment.drawn, positions)
    return segment._replace(
        sums=np.delete(segment.sums, positions),
        pool=remove_arms(segment.pool, positions),
        drawn=drawn,
        full=drawn if segment.full is segment.drawn else remove_arms(segment.full, positions),
    )


def with_more(segment: Segment, count: int) -> Segment:
    """Return a segment with more arms behind the others.

    The sums of a new arm are 0; its share of pool and distributions is 1/n of n arms in all.

    Parameters
    ----------
    segment : without these arms
    count : how many, one or more
    """
    drawn = add_arms(segment.drawn, count)
    return segment._replace(
        sums=np.concatenate([segment.sums, np.zeros(count)]),
        pool=add_arms(segment.pool, count),
        drawn=drawn,
        full=drawn if segment.full is segment.drawn else add_arms(segment.full, count),
    )
