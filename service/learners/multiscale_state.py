"""State of the multiscale learner, and what one event changes in it."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from .base import FixedArray, FloatArray
from .maths.tsallis import column

MEMORY = np.array([math.inf, math.inf, 4000.0, 1000.0, math.inf])
"""h of each expert: slots after which a loss counts for about a third."""
DELAY_WEIGHT = np.array([0.0, 1.0, 0.0, 0.0, 0.0])
"""g of each expert: by how much delays raise its scale."""
SHARE = np.array([1.0, 1.0, 1.0, 1.0, 0.5])
"""c of each expert: its scale as a share of the first expert's."""
EXPERTS = SHARE.size
MIXTURE_SHARE = 0.5
"""The mixture's scale as a share of the first expert's."""
LARGEST_RISE = 0.5
"""Bound on one event's rise of a sum, in units of scale/sqrt(p)."""


class State(NamedTuple):
    """In arrays over arms the experts' axis is the last but one, in the others it is the last.

    ``sums``, ``mixture_sums`` and the numbers from ``events`` on change with events; all else when a slot opens.
    """

    sums: FloatArray
    """S, each expert's sums of centred, importance-weighted losses, shape (..., 5, n_arms)."""
    p: FloatArray
    """Each expert's distribution over all arms, shape (..., 5, n_arms)."""
    pools: FloatArray
    """Means over outstanding decisions of each expert's distribution and, last, the mixture: (..., 6, n_arms)."""
    lam: FixedArray
    """Multipliers that make each expert's probabilities sum to 1, shape (..., 5)."""
    scales: FixedArray
    """a, strength of each expert's regulariser, shape (..., 5); 0 until two losses differ."""
    mixture_sums: FixedArray
    """W, the mixture's sum for each expert, shape (..., 5)."""
    weights: FixedArray
    """w, the mixture's distribution over the experts, shape (..., 5)."""
    shown: FixedArray
    """Weights of ``p`` in the distribution that readers see: ``weights``, until arms are removed."""
    mixture_scale: float
    """A0, strength of the mixture's regulariser."""
    t: int
    delay_sum: int
    """D, the sum over slots of the decisions outstanding at their opening."""
    shift: float
    """b, the mean of losses before the slot."""
    events_at_open: int
    events: int
    """n, the events (and charges) so far."""
    mean: float
    variance_sum: float
    """V, the sum of squared deviations of losses from their mean."""
    deviation_sum: float
    """A, the sum of the sizes of these deviations."""
    variance_max: float
    """M, the largest of these squares."""
    drawn: FloatArray | None = None
    """The distribution that the open slot's arm is drawn from, shape (..., n_arms)."""


def scales_at(state: State, t: int) -> FloatArray:
    """Return each expert's scale for slot ``t``: c sqrt(min(max(t, n), h) (V + M)/(n + 1) + g D (A/n)^2)."""
    if not state.events:
        return np.zeros_like(state.scales)
    spans = np.minimum(max(t, state.events), MEMORY)
    deviation = state.deviation_sum / state.events
    delayed = state.delay_sum * (deviation * deviation)
    scales: FloatArray = SHARE * np.sqrt(spans * column(variance(state)) + DELAY_WEIGHT * column(delayed))
    return scales


def mixture_scale(state: State) -> Any:
    """Return A0 for the open slot."""
    if not state.events:
        return 0.0 * state.mean
    return MIXTURE_SHARE * _sqrt(max(state.t, state.events) * variance(state))


def variance(state: State) -> Any:
    """Return (V + M)/(n + 1), a mean of squared deviations that is not 0 once two losses differed."""
    return (state.variance_sum + state.variance_max) / (state.events + 1)


def stepped(state: State, arm: Any, deviation: Any, fall: float, count: int) -> State:
    """Return the state with sums moved by a deviation of ``arm``, divided by the arm's share of the mixture's pool.

    Where that is 0 no outstanding decision can be of the arm, and the sums stay.

    Parameters
    ----------
    fall : bound on the fall of a sum, in units of scale/sqrt(p)
    count : steps of this kind; -1 takes one back
    """
    index = (np.arange(len(arm)), slice(None), arm) if isinstance(arm, np.ndarray) else (slice(None), arm)
    pools = state.pools[index]
    pool = pools[..., -1]
    possible = pool > 0
    if not possible.all():
        deviation, pool = np.where(possible, deviation, 0.0), np.where(possible, pool, 1.0)
    ratio = column(deviation / pool)
    sums = state.sums.copy()
    sums[index] += count * _clipped(ratio, state.scales / np.sqrt(state.p[index]), fall)
    bounds = column(state.mixture_scale) / np.sqrt(state.weights)
    moves = count * _clipped(ratio * pools[..., :-1], bounds, fall)
    return state._replace(sums=sums, mixture_sums=state.mixture_sums + moves)


def _clipped(step: FloatArray, unit: FloatArray, fall: float) -> FloatArray:
    return np.minimum(np.maximum(step, -fall * unit), LARGEST_RISE * unit)


def learned(state: State, loss: Any, count: int) -> State:
    """Return the state with ``count`` more losses in n, mean, V, A and M."""
    if state.events_at_open:
        deviation = loss - state.shift
        square = deviation * deviation
        state = state._replace(
            variance_sum=state.variance_sum + count * square,
            deviation_sum=state.deviation_sum + count * abs(deviation),
            variance_max=larger(state.variance_max, square),
        )
    events = state.events + count
    return state._replace(events=events, mean=state.mean + count * (loss - state.mean) / events)


def corrected(state: State, loss: Any, default: float) -> State:
    """Return the state with ``loss`` in place of ``default`` in mean, V and A; M only grows."""
    if state.events_at_open:
        deviation = loss - state.shift
        state = _without(state, default, deviation)
        state = state._replace(variance_max=larger(state.variance_max, deviation * deviation))
    return state._replace(mean=state.mean + (loss - default) / max(state.events, 1))


def uncharged(state: State, default: float) -> State:
    """Return the state with one ``default`` less in n, mean, V and A."""
    if state.events_at_open:
        state = _without(state, default, 0.0 * state.mean)
    events = state.events - 1
    if events < 1:
        return state._replace(events=0, mean=0.0 * state.mean)
    return state._replace(events=events, mean=state.mean - (default - state.mean) / events)


def _without(state: State, default: float, deviation: Any) -> State:
    """Replace the default's deviation in V and A by another; they never fall below 0."""
    before = default - state.shift
    spread = state.variance_sum + (deviation * deviation - before * before)
    size = state.deviation_sum + (abs(deviation) - abs(before))
    return state._replace(variance_sum=larger(spread, 0.0), deviation_sum=larger(size, 0.0))


def larger(one: Any, other: Any) -> Any:
    """Return the larger of two numbers, or of two numbers for each run."""
    return max(one, other) if isinstance(one, float) and isinstance(other, float) else np.maximum(one, other)


def _sqrt(value: Any) -> Any:
    return math.sqrt(value) if isinstance(value, float) else np.sqrt(value)
