"""State of the multiscale learner, and what events change in it, one by one or many at once."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from .base import FixedArray, FloatArray, Log, Rows
from .tsallis import column

MEAN_MEMORY = np.array([math.inf, 2000.0])
"""h of the arms' means: slots after which a loss counts for about a third."""
MEANS = 3
"""Experts that look at means of arms; those behind them are Tsallis learners on sums."""
MEMORY = np.array([math.inf, 4000.0, 1000.0, math.inf])
"""h of each Tsallis expert."""
SUMS = MEMORY.size
SUMMED, COUNTS, TOTALS = slice(0, SUMS), slice(SUMS, SUMS + 2), slice(SUMS + 2, SUMS + 4)
"""Rows of ``State.sums``: S, N and L."""
DELAYED = 3
"""The Tsallis expert whose scale delays raise: its g is 1, that of the others 0."""
SHARE = np.array([0.5, 1.0, 1.0, 1.0])
"""c of each Tsallis expert: its scale as a share of sqrt(s v)."""
_MEMORY, _SHARE = MEMORY.tolist(), SHARE.tolist()
EXPERTS = MEANS + SUMS
Sums = tuple[FloatArray, FloatArray]
"""``sums`` of a state, and the mixture's sums."""
MIXTURE_SHARE = 0.35
"""The mixture's scale as a share of sqrt(s v)."""
LARGEST_RISE = 0.5
"""Bound on one event's rise of a sum, in units of scale/sqrt(p)."""
LOGGED_ARMS = 1_000
"""Arms from which on a session is stored as a log, which begins with each slot."""
MOST_STEPS = 1_000
"""Longer logs are given up until the next slot: the session is stored whole."""


class State(NamedTuple):
    """In arrays over arms the axis of experts is the last but one, in the others it is the last.

    ``sums``, ``mixture_sums`` and the numbers from ``dropped`` on change with events; all else when a slot opens.
    """

    sums: FloatArray
    """S, each Tsallis expert's sums of centred, importance-weighted losses; N, the counts of losses of each arm,
    and L, their totals, for both memories of means: shape (..., 4 + 2 + 2, n_arms)."""
    p: FloatArray
    """Each Tsallis expert's distribution over all arms, shape (..., 4, n_arms)."""
    pools: FloatArray
    """Means over outstanding decisions of each expert's distribution and, last, the mixture: (..., 8, n_arms)."""
    shown: FloatArray
    """The mixture over all arms in the slot, whichever were eligible, and without its floor: (..., n_arms)."""
    lam: FixedArray
    """Multipliers that make each Tsallis expert's probabilities sum to 1, shape (..., 4)."""
    scales: FixedArray
    """a, strength of each Tsallis expert's regulariser, shape (..., 4); 0 until two losses differ."""
    mixture_sums: FixedArray
    """W, the mixture's sum for each expert, shape (..., 7)."""
    weights: FixedArray
    """w, the mixture's distribution over the experts, shape (..., 7)."""
    mixture_units: FixedArray
    """A0/sqrt(w), A0 being the strength of the mixture's regulariser, shape (..., 7)."""
    t: int
    delay_sum: int
    """D, the sum over slots of the decisions outstanding at their opening."""
    shift: float
    """b, the mean of losses before the slot."""
    events_at_open: int
    dropped: int
    """Decisions of which no loss will ever be known: taken back, or expired without a default."""
    events: int
    mean: float
    variance_sum: float
    """V, the sum of squared deviations of losses from their mean."""
    deviation_sum: float
    """A, the sum of the sizes of these deviations."""
    variance_max: float
    """M, the largest of these squares."""
    drawn: FloatArray | None = None
    """The distribution that the open slot's arm is drawn from, shape (..., n_arms)."""
    regressions: Any = None
    """Those of ``feature_tsallis``, in sessions with features. There ``pools`` has the first three experts'
    distributions over all arms, shape (3, n_arms), and ``shown`` the pool of the mixture, of 11 experts."""
    log: Log | None = None
    """All vectors over arms as they were when the slot opened, one behind the other, and the sums set since."""

    def replayed(self, log: Log) -> State:
        """Return the state of one run with the vectors that a log leads to; ValueError if they are no vectors."""
        sums, p, pools, shown = parts_of(log.base.reshape(ROWS, -1))
        sums = sums.copy()
        for place, number in log.steps:
            sums.reshape(-1)[place] = number
        if not (np.isfinite(log.base).all() and np.isfinite(sums).all()):
            raise ValueError("numbers that are infinite or NaN")
        return self._replace(sums=sums, p=p, pools=pools, shown=shown, log=log)

    def checked(self) -> State:
        """Return the state as it was read: there is nothing to compare it with."""
        return self


ROWS = TOTALS.stop + SUMS + EXPERTS + 2
"""Vectors over arms in a state."""


def parts_of(room: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Return the sums, p, pools and what is shown, as views of an array of shape (..., ``ROWS``, n_arms)."""
    at = TOTALS.stop + SUMS
    return room[..., : TOTALS.stop, :], room[..., TOTALS.stop : at, :], room[..., at:-1, :], room[..., -1, :]


def variance(state: State) -> Any:
    """Return v = (V + M)/(n + 1), a mean of squared deviations that is not 0 once two losses differed."""
    return (state.variance_sum + state.variance_max) / (state.events + 1) if state.events else 0.0 * state.mean


def scales_at(state: State, t: int, delay_sum: int) -> FloatArray:
    """Return each Tsallis expert's scale for slot ``t``, shape (..., 4), which is 0 if v is.

    It is c sqrt(min(s, h) v + g D (A/n)^2), s = max(t - dropped, n), with D as of that slot.
    """
    slots, square = max(t - state.dropped, state.events), variance(state)
    deviation = state.deviation_sum / max(state.events, 1)
    delayed = delay_sum * (deviation * deviation)
    if isinstance(square, float) and isinstance(delayed, float):
        if not square > 0:
            return np.zeros_like(state.scales)
        squares = [min(slots, memory) * square for memory in _MEMORY]
        squares[DELAYED] += delayed
        return np.array([share * math.sqrt(each) for share, each in zip(_SHARE, squares, strict=True)])
    of_runs: FloatArray = np.minimum(slots, MEMORY) * column(square)
    of_runs[..., DELAYED] += np.where(np.greater(square, 0), delayed, 0.0)
    return SHARE * np.sqrt(of_runs)


def mixture_scale(state: State, t: int, share: float = MIXTURE_SHARE) -> Any:
    """Return A0 of slot ``t``, ``share`` sqrt(s v): a float, or an array over the leading axes."""
    square = max(t - state.dropped, state.events) * variance(state)
    return share * (math.sqrt(square) if isinstance(square, float) else np.sqrt(square))


# -- One event.


Divisor = float | tuple[float, Sequence[float]] | None
"""In place of the arm's share of the mixture's pool, for one run; and, where W moves by them times the deviation
whatever the pools are, ratios of each expert."""


def stepped(state: State, arm: Any, deviation: Any, fall: float, count: int, divisor: Divisor) -> Sums:
    """Return a copy of ``sums``, with S moved by a deviation of ``arm``, and the mixture's sums.

    The deviation is divided by the arm's share of the mixture's pool. Where that is 0 no outstanding decision can
    be of the arm, and S and W stay.

    Parameters
    ----------
    state : before the step; its scales, distributions and pools are those of the open slot
    arm : its position; an int, or an int array over the leading axes
    deviation : of its loss from b, or from the loss it replaces; a float, or an array over the leading axes
    fall : bound on the fall of a sum, in units of scale/sqrt(p)
    count : steps of this kind; -1 takes one back
    divisor : None for many runs

    Returns
    -------
    sums, shape (..., 8, n_arms), and W, shape (..., 7)
    """
    if not isinstance(arm, np.ndarray):
        return _stepped_one(state, arm, float(deviation), fall, count, divisor)
    index = (np.arange(len(arm)), slice(None), arm)
    pools = state.pools[index]
    possible, pool = pools[..., -1:] > 0, pools[..., -1:]
    ratio = np.where(possible, column(deviation), 0.0) / np.where(possible, pool, 1.0)
    moves = clipped(ratio, state.scales / np.sqrt(state.p[index]), fall)
    sums = state.sums.copy()
    sums[at(arm, SUMMED)] += count * moves
    moves = clipped(ratio * pools[..., :-1], state.mixture_units, fall)
    return sums, state.mixture_sums + count * moves


def clipped(move: FloatArray, unit: FloatArray, fall: float) -> FloatArray:
    """Return moves of sums, at least -fall unit and at most ``LARGEST_RISE`` unit; ``unit`` is scale/sqrt(p)."""
    return np.minimum(np.maximum(move, -fall * unit), LARGEST_RISE * unit)


def _stepped_one(state: State, arm: int, deviation: float, fall: float, count: int, divisor: Divisor) -> Sums:
    """Return what ``stepped`` returns, for one run in plain floats; the same operations bit for bit."""
    *pools, pool = state.pools[:, arm].tolist()
    pool, ratios = divisor if isinstance(divisor, tuple) else (pool if divisor is None else divisor, None)
    sums, mixture_sums, moves = state.sums.copy(), state.mixture_sums, None
    if pool > 0:
        move, moved = deviation / pool, []
        moves = [move * own for own in pools]
        before, shares = sums[SUMMED, arm].tolist(), state.p[:, arm].tolist()
        for old, scale, share in zip(before, state.scales.tolist(), shares, strict=True):
            unit = scale / math.sqrt(share)
            low, high = -fall * unit, LARGEST_RISE * unit  # min() and max() take twice the time.
            moved.append(old + count * (low if move <= low else move if move < high else high))
        sums[SUMMED, arm] = moved
    if ratios is not None:
        moves = [deviation * each for each in ratios]
    if moves is not None:
        moved = []
        for move, old, unit in zip(moves, mixture_sums.tolist(), state.mixture_units.tolist(), strict=True):
            low, high = -fall * unit, LARGEST_RISE * unit
            moved.append(old + count * (low if move <= low else move if move < high else high))
        mixture_sums = np.array(moved)
    return sums, mixture_sums


def learned(state: State, arm: Any, loss: Any, fall: float, count: int, divisor: Divisor) -> State:
    """Return the state after ``count`` losses of an arm, all alike: a float, or an array over the leading axes."""
    deviation, events = loss - state.shift, state.events + count
    sums, mixture_sums = stepped(state, arm, deviation, fall, count, divisor)
    sums[at(arm, COUNTS)] += count
    sums[at(arm, TOTALS)] += column(count * loss) if isinstance(loss, np.ndarray) else count * loss
    mean = state.mean + count * (loss - state.mean) / events
    square = deviation * deviation
    spread, size = state.variance_sum + count * square, state.deviation_sum + count * abs(deviation)
    largest = larger(state.variance_max, square)
    return _with(state, arm, (sums, mixture_sums), state.dropped, events, mean, spread, size, largest)


def corrected(state: State, arm: Any, loss: Any, before: float, fall: float, divisor: Divisor) -> State:
    """Return the state with ``loss`` in place of ``before``, on the learner's scale; M only grows, n and N stay.

    The loss may be an array over the leading axes.
    """
    change, deviation, events = loss - before, loss - state.shift, state.events
    sums, mixture_sums = stepped(state, arm, change, fall, 1, divisor)
    counted = np.minimum(sums[at(arm, COUNTS)], 1.0)
    sums[at(arm, TOTALS)] += counted * (column(change) if isinstance(change, np.ndarray) else change)
    mean = state.mean + change / events if events else state.mean
    spreads = (*_without(state, before, deviation), larger(state.variance_max, deviation * deviation))
    return _with(state, arm, (sums, mixture_sums), state.dropped, events, mean, *spreads)


def uncharged(state: State, arm: Any, default: float, fall: float, divisor: Divisor) -> State:
    """Return the state after a decision of an arm, charged with ``default``, was taken back."""
    sums, mixture_sums = stepped(state, arm, default - state.shift, fall, -1, divisor)
    counts, totals, events = at(arm, COUNTS), at(arm, TOTALS), max(state.events - 1, 0)
    gone = np.minimum(sums[counts], 1.0)
    sums[counts] -= gone
    sums[totals] = np.where(sums[counts] > 0, sums[totals] - gone * default, 0.0)
    gap = (default - state.mean) / events if events else state.mean
    spreads = (*_without(state, default, 0.0 * state.mean), state.variance_max)
    return _with(state, arm, (sums, mixture_sums), state.dropped + 1, events, state.mean - gap, *spreads)


def at(arm: Any, rows: slice) -> Any:
    """Return the index of these rows of an arm in ``sums``; the arm may be an array over the leading axes."""
    return (np.arange(len(arm)), rows, arm) if isinstance(arm, np.ndarray) else (rows, arm)


def _with(state: State, arms: Any, sums: Sums, dropped: int, events: int, mean: Any, *spreads: Any) -> State:
    """Return the state with other sums of these arms, counts, mean, and V, A, M if the slot opened with a mean."""
    spreads = spreads if state.events_at_open else state[16:19]  # `_replace` takes twice the time.
    if (log := state.log) is not None:
        steps, n_arms = list(log.steps), sums[0].shape[-1]
        for arm in dict.fromkeys(arms if isinstance(arms, Sequence) else (arms,)):
            steps += [(row * n_arms + arm, number) for row, number in enumerate(sums[0][:, arm].tolist())]
        log = Log(log.base, tuple(steps), 0) if len(steps) <= MOST_STEPS else None
    numbers = (*state[7:13], dropped, events, mean, *spreads)
    return State._make((sums[0], *state[1:6], sums[1], *numbers, *state[19:21], log))


def _without(state: State, before: float, deviation: Any) -> tuple[Any, Any]:
    """Return V and A with another deviation in place of that of ``before``; they never fall below 0."""
    known = before - state.shift
    spread = state.variance_sum + (deviation * deviation - known * known)
    size = state.deviation_sum + (abs(deviation) - abs(known))
    return larger(spread, 0.0), larger(size, 0.0)


def larger(one: Any, other: Any) -> Any:
    """Return the larger of two numbers, or of two numbers for each run."""
    return max(one, other) if isinstance(one, float) and isinstance(other, float) else np.maximum(one, other)


# -- Many events of one run of the multiscale learner at once: to the bit what one by one makes of them.
#
# Scales, distributions and pools stay as they are while a slot is open, so no move of a sum depends on the moves
# before it. Moves are computed together, and added in the order of the events.


def all_learned(state: State, arms: Sequence[int], losses: Sequence[float], fall: float) -> State:
    """Return the state after losses in order: see ``learned`` of one event.

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
    ones, totals = np.ones(len(losses)), np.array(losses)
    sums = _moved(state, arms, deviations, fall, (ones, ones, totals, totals))
    return _with(state, arms, sums, state.dropped, events, mean, spread, size, largest)


def all_corrected(state: State, arms: Sequence[int], losses: Sequence[float], default: float, fall: float) -> State:
    """Return the state after losses in place of the default, in order: see ``corrected`` of one event."""
    mean, before = state.mean, default - state.shift
    spread, size, largest = state.variance_sum, state.deviation_sum, state.variance_max
    changes = [loss - default for loss in losses]
    for loss, change in zip(losses, changes, strict=True):
        mean = mean + change / state.events if state.events else mean
        deviation = loss - state.shift
        square = deviation * deviation
        spread = max(spread + (square - before * before), 0.0)
        size = max(size + (abs(deviation) - abs(before)), 0.0)
        largest = max(largest, square)
    counts = state.sums[COUNTS, np.array(arms)]
    totals = np.minimum(counts, 1.0) * np.array(changes)
    sums = _moved(state, arms, changes, fall, (np.zeros_like(counts), totals))
    return _with(state, arms, sums, state.dropped, state.events, mean, spread, size, largest)


def _moved(state: State, arms: Sequence[int], deviations: Sequence[float], fall: float, heard: Rows) -> Sums:
    """Return ``sums`` and the mixture's sums, moved by deviations of arms, as ``stepped`` moves them by one.

    ``heard`` is what is added to N and L, in rows of shape (events,).
    """
    places, sums = np.array(arms), state.sums.copy()
    pools, deviation = state.pools[:, places], np.array(deviations)
    if not (possible := pools[-1] > 0).all():
        deviation, pools[-1] = np.where(possible, deviation, 0.0), np.where(possible, pools[-1], 1.0)
    ratio = deviation / pools[-1]
    moves = np.vstack((clipped(ratio, state.scales[:, None] / np.sqrt(state.p[:, places]), fall), *heard))
    entries = np.arange(len(sums))[:, None] * sums.shape[1] + places
    np.add.at(sums.reshape(-1), entries.reshape(-1), moves.reshape(-1))
    moves = clipped(ratio * pools[:-1], state.mixture_units[:, None], fall)
    in_turn = np.add.accumulate(np.column_stack([state.mixture_sums, moves]), axis=1)
    return sums, in_turn[:, -1].copy()
