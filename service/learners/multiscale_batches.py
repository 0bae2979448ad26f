"""Many events of one run of the multiscale learner at once: to the bit what one by one makes of them.

Scales, distributions and pools stay as they are while a slot is open, so no move of a sum depends on the moves
before it. Moves are computed together, and added in the order of the events.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .base import FloatArray
from .multiscale_state import EXPERTS, State, clipped


def settled(state: State, arms: Sequence[int], losses: Sequence[float], fall: float) -> State:
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
    return _with_deviations(
        _moved(state, arms, deviations, fall)._replace(events=events, mean=mean), spread, size, largest
    )


def corrected(state: State, arms: Sequence[int], losses: Sequence[float], default: float, fall: float) -> State:
    """Return the state after losses in place of the default, in order: see ``corrected`` of one event.

    Parameters
    ----------
    state, arms, losses, fall : as for ``settled``
    default : the loss with which each of the decisions was charged, on the learner's scale
    """
    mean, counted, before = state.mean, max(state.events, 1), default - state.shift
    spread, size, largest = state.variance_sum, state.deviation_sum, state.variance_max
    for loss in losses:
        mean += (loss - default) / counted
        deviation = loss - state.shift
        square = deviation * deviation
        spread = max(spread + (square - before * before), 0.0)
        size = max(size + (abs(deviation) - abs(before)), 0.0)
        largest = max(largest, square)
    moved = _moved(state, arms, [loss - default for loss in losses], fall)
    return _with_deviations(moved._replace(mean=mean), spread, size, largest)


def _moved(state: State, arms: Sequence[int], deviations: Sequence[float], fall: float) -> State:
    """Return the state with sums moved by deviations of arms, as ``stepped`` moves them by one."""
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
    return state._replace(sums=sums, mixture_sums=_added(state.mixture_sums, moves))


def _added(sums: FloatArray, moves: FloatArray) -> FloatArray:
    """Return sums, shape (n,), with moves, shape (n, events), added one after the other."""
    total: FloatArray = np.add.accumulate(np.column_stack([sums, moves]), axis=1)[:, -1]
    return total.copy()


def _with_deviations(state: State, spread: float, size: float, largest: float) -> State:
    """Return the state with these sums of deviations, once losses before the slot gave them a mean."""
    if not state.events_at_open:
        return state
    return state._replace(variance_sum=spread, deviation_sum=size, variance_max=largest)
