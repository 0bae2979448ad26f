"""State of the multiscale learner, and what events change in it, one by one or many at once."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from .base import FixedArray, FloatArray
from .tsallis import column

MEMORY = np.array([math.inf, math.inf, 4000.0, 1000.0, math.inf])
"""h of each expert: slots after which a loss counts for about a third."""
DELAYED = 1
"""The expert whose scale delays raise: its g is 1, that of the others 0."""
SHARE = np.array([1.0, 1.0, 1.0, 1.0, 0.5])
"""c of each expert: its scale as a share of the first expert's."""
_MEMORY, _SHARE = MEMORY.tolist(), SHARE.tolist()
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
    mixture_units: FixedArray
    """A0/sqrt(w), A0 being the strength of the mixture's regulariser, shape (..., 5)."""
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
    """Return each expert's scale for slot ``t``, shape (..., 5), which is 0 before the first event.

    It is c sqrt(min(max(t, n), h) (V + M)/(n + 1) + g D (A/n)^2).
    """
    if not state.events:
        return np.zeros_like(state.scales)
    slots, square = max(t, state.events), variance(state)
    deviation = state.deviation_sum / state.events
    delayed = state.delay_sum * (deviation * deviation)
    if isinstance(square, float) and isinstance(delayed, float):
        squares = [min(slots, memory) * square for memory in _MEMORY]
        squares[DELAYED] += delayed
        return np.array([share * math.sqrt(each) for share, each in zip(_SHARE, squares, strict=True)])
    of_runs: FloatArray = np.minimum(slots, MEMORY) * column(square)
    of_runs[..., DELAYED] += delayed
    return SHARE * np.sqrt(of_runs)


def mixture_scale(state: State, t: int) -> Any:
    """Return the mixture's scale for slot ``t``, which is 0 before the first event.

    A float, or an array over the leading axes: ``MIXTURE_SHARE`` sqrt(max(t, n) (V + M)/(n + 1)).
    """
    if not state.events:
        return 0.0 * state.mean
    square = max(t, state.events) * variance(state)
    return MIXTURE_SHARE * (math.sqrt(square) if isinstance(square, float) else np.sqrt(square))


def variance(state: State) -> Any:
    """Return (V + M)/(n + 1), a mean of squared deviations that is not 0 once two losses differed."""
    return (state.variance_sum + state.variance_max) / (state.events + 1)


def stepped(
    state: State, arm: Any, deviation: Any, fall: float, count: int, divisor: float | None = None
) -> tuple[FloatArray, FloatArray]:
    """Return the experts' sums and the mixture's, moved by a deviation of ``arm``.

    It is divided by the arm's share of the mixture's pool. Where that is 0 no outstanding decision can be of the
    arm, and the sums stay.

    Parameters
    ----------
    state : before the step; its scales, distributions and pools are those of the open slot
    arm : its position; an int, or an int array over the leading axes
    deviation : of its loss from b, or from the default that the loss replaces; a float, or an array over the
        leading axes
    fall : bound on the fall of a sum, in units of scale/sqrt(p)
    count : steps of this kind; -1 takes one back
    divisor : in place of the arm's share of the mixture's pool, for one run

    Returns
    -------
    S, shape (..., 5, n_arms), and W, shape (..., 5)
    """
    if not isinstance(arm, np.ndarray):
        return _stepped_one(state, arm, float(deviation), fall, count, divisor)
    index = (np.arange(len(arm)), slice(None), arm)
    pools = state.pools[index]
    possible, pool = pools[..., -1:] > 0, pools[..., -1:]
    ratio = np.where(possible, column(deviation), 0.0) / np.where(possible, pool, 1.0)
    moves = clipped(ratio, state.scales / np.sqrt(state.p[index]), fall)
    sums = state.sums.copy()
    sums[index] += count * moves
    moves = clipped(ratio * pools[..., :-1], state.mixture_units, fall)
    return sums, state.mixture_sums + count * moves


def clipped(move: FloatArray, unit: FloatArray, fall: float) -> FloatArray:
    """Return moves of sums, at least -fall unit and at most ``LARGEST_RISE`` unit; ``unit`` is scale/sqrt(p)."""
    return np.minimum(np.maximum(move, -fall * unit), LARGEST_RISE * unit)


def _stepped_one(
    state: State, arm: int, deviation: float, fall: float, count: int, divisor: float | None
) -> tuple[FloatArray, FloatArray]:
    """Return what ``stepped`` returns, for one run in plain floats; the same operations bit for bit."""
    *pools, pool = state.pools[:, arm].tolist()
    pool = pool if divisor is None else divisor
    if not pool > 0:
        return state.sums, state.mixture_sums
    ratio, sums, moved, mixture_sums = deviation / pool, state.sums.copy(), [], []
    parts = (state.scales, state.p[:, arm], state.mixture_units, sums[:, arm], state.mixture_sums)
    numbers = zip(pools, *(part.tolist() for part in parts), strict=True)
    for own, scale, share, mixture_unit, before, mixture_before in numbers:  # min() and max() take twice the time.
        unit, move = scale / math.sqrt(share), ratio
        move = move if move > -fall * unit else -fall * unit
        moved.append(before + count * (move if move < LARGEST_RISE * unit else LARGEST_RISE * unit))
        unit, move = mixture_unit, ratio * own
        move = move if move > -fall * unit else -fall * unit
        mixture_sums.append(mixture_before + count * (move if move < LARGEST_RISE * unit else LARGEST_RISE * unit))
    sums[:, arm] = moved
    return sums, np.array(mixture_sums)


def learned(state: State, loss: Any, deviation: Any, count: int, sums: tuple[FloatArray, FloatArray]) -> State:
    """Return the state with more losses, all alike, in n, mean, V, A and M, and with these sums.

    Parameters
    ----------
    state : before the losses
    loss : each of them, on the learner's scale; a float, or an array over the leading axes
    deviation : of the loss from b, of the same shape
    count : how many losses, one or more
    sums : of the experts and of the mixture, as ``stepped`` returns them
    """
    events = state.events + count
    mean = state.mean + count * (loss - state.mean) / events
    square = deviation * deviation
    spread, size = state.variance_sum + count * square, state.deviation_sum + count * abs(deviation)
    return _with(state, sums, events, mean, spread, size, larger(state.variance_max, square))


def corrected(state: State, loss: Any, default: float, sums: tuple[FloatArray, FloatArray]) -> State:
    """Return the state with ``loss`` in place of ``default`` in mean, V and A, and these sums; M only grows.

    Both are on the learner's scale; the loss may be an array over the leading axes. Sums are as for ``learned``.
    """
    mean = state.mean + (loss - default) / max(state.events, 1)
    deviation = loss - state.shift
    largest = larger(state.variance_max, deviation * deviation)
    return _with(state, sums, state.events, mean, *_without(state, default, deviation), largest)


def _with(state: State, sums: tuple[FloatArray, FloatArray], events: int, mean: Any, *spreads: Any) -> State:
    """Return the state with other sums, n and mean, and V, A and M if a mean was known when the slot opened."""
    spreads = spreads if state.events_at_open else state[15:18]  # `_replace` takes twice the time.
    return State._make((sums[0], *state[1:5], sums[1], *state[6:13], events, mean, *spreads, state.drawn))


def uncharged(state: State, default: float, sums: tuple[FloatArray, FloatArray]) -> State:
    """Return the state with one ``default`` less in n, mean, V and A, and with these sums."""
    events, spreads = max(state.events - 1, 0), _without(state, default, 0.0 * state.mean)
    gap = (default - state.mean) / events if events else state.mean
    return _with(state, sums, events, state.mean - gap, *spreads, state.variance_max)


def _without(state: State, default: float, deviation: Any) -> tuple[Any, Any]:
    """Return V and A with another deviation in place of the default's; they never fall below 0."""
    before = default - state.shift
    spread = state.variance_sum + (deviation * deviation - before * before)
    size = state.deviation_sum + (abs(deviation) - abs(before))
    return larger(spread, 0.0), larger(size, 0.0)


def larger(one: Any, other: Any) -> Any:
    """Return the larger of two numbers, or of two numbers for each run."""
    return max(one, other) if isinstance(one, float) and isinstance(other, float) else np.maximum(one, other)


# -- Many events of one run of the multiscale learner at once: to the bit what one by one makes of them.
#
# Scales, distributions and pools stay as they are while a slot is open, so no move of a sum depends on the moves
# before it. Moves are computed together, and added in the order of the events.


def all_learned(state: State, arms: Sequence[int], losses: Sequence[float], fall: float) -> State:
    """Return the state after losses in order: see ``stepped`` and ``learned`` of one event.

    Parameters
    ----------
    state : of one run, before the first event
    arms : position of each event's arm
    losses : of each event, on the learner's scale
    fall : bound on the fall of a sum by one event, in units of scale/sqrt(p)
    """
    events, mean = state.events, state.mean
    spread, size, largest = state.variance_sum, state.deviation_sum, state.variance_max
    deviations = [loss - state.shift for loss in losses]
    for loss, deviation in zip(losses, deviations, strict=True):
        events += 1
        mean += (loss - mean) / events
        square = deviation * deviation
        spread, size, largest = spread + square, size + abs(deviation), max(largest, square)
    return _with(state, _moved(state, arms, deviations, fall), events, mean, spread, size, largest)


def all_corrected(state: State, arms: Sequence[int], losses: Sequence[float], default: float, fall: float) -> State:
    """Return the state after losses in place of the default, in order: see ``corrected`` of one event."""
    mean, counted, before = state.mean, max(state.events, 1), default - state.shift
    spread, size, largest = state.variance_sum, state.deviation_sum, state.variance_max
    for loss in losses:
        mean += (loss - default) / counted
        deviation = loss - state.shift
        square = deviation * deviation
        spread = max(spread + (square - before * before), 0.0)
        size = max(size + (abs(deviation) - abs(before)), 0.0)
        largest = max(largest, square)
    sums = _moved(state, arms, [loss - default for loss in losses], fall)
    return _with(state, sums, state.events, mean, spread, size, largest)


def _moved(state: State, arms: Sequence[int], deviations: Sequence[float], fall: float) -> tuple[Any, Any]:
    """Return the experts' sums and the mixture's, moved by deviations of arms, as ``stepped`` moves them by one."""
    places, sums = np.array(arms), state.sums.copy()
    pools, deviation = state.pools[:, places], np.array(deviations)
    possible = pools[-1] > 0
    if not possible.all():
        deviation, pools[-1] = np.where(possible, deviation, 0.0), np.where(possible, pools[-1], 1.0)
    ratio = deviation / pools[-1]
    moves = clipped(ratio, state.scales[:, None] / np.sqrt(state.p[:, places]), fall)
    entries = np.arange(EXPERTS)[:, None] * sums.shape[1] + places
    np.add.at(sums.reshape(-1), entries.reshape(-1), moves.reshape(-1))
    moves = clipped(ratio * pools[:-1], state.mixture_units[:, None], fall)
    in_turn = np.add.accumulate(np.column_stack([state.mixture_sums, moves]), axis=1)
    return sums, in_turn[:, -1].copy()
