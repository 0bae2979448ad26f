"""State of the multiscale learner, and what events change in it, one by one or many at once."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from .base import FixedArray, FloatArray, Log, Rows, Steps
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
LOGGED_ARMS = 64
"""Arms from which on a session is stored as a log of what was done since a slot opened: of few, the last one."""
MOST_STEPS = 1_000
"""Longer logs are given up until the next slot: the session is stored whole."""
ARMS_PER_STEP, KEPT_CELLS = 100, 1_000_000
"""A log begins again after a step for so many arms, or when steps times arms are as many: a whole state costs more
the more arms it has, and so do the steps that whoever reads the log takes again."""
SETTLE, CORRECT, UNCHARGE, EXPIRE, OPEN, GIVEN = range(6)
"""Kinds of steps. A step has its arm times ``KINDS`` and its kind, and a loss: the default of ``UNCHARGE``. That of
``EXPIRE`` has a count; that of ``OPEN`` the outstanding decisions, and as its arm 1 if decisions are charged.
What else is needed stands before it, as steps of the kind ``GIVEN``, with what is given in place of an arm."""
KINDS = 8
COUNT, DIVISOR, BEFORE, FLOOR = range(4)
"""What is given, if it is not 1, None, the loss itself, and 0."""


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
    """All vectors over arms when a slot opened, and ``numbers_of`` the state then; and what was done since. An arm
    with events in the open slot has its sums in ``late``, and not in ``sums``."""

    @property
    def whole_sums(self) -> FloatArray:
        """``sums`` with those of late arms; not to be changed."""
        if self.log is None or not self.log.late:
            return self.sums
        return _merged(self.sums.copy(), self.log.late)

    def checked(self) -> State:
        """Return the state as it was read: there is nothing to compare it with."""
        return self


ROWS = TOTALS.stop + SUMS + EXPERTS + 2
"""Vectors over arms in a state."""
FIXED = (SUMS, SUMS, EXPERTS, EXPERTS, EXPERTS)
"""Lengths of ``lam`` to ``mixture_units``."""
NUMBERS = sum(FIXED) + 10
"""Of a state, from ``lam`` to ``variance_max``."""


def parts_of(room: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Return the sums, p, pools and what is shown, as views of an array of shape (..., ``ROWS``, n_arms)."""
    at = SUMS + TOTALS.stop
    return room[..., SUMS:at, :], room[..., :SUMS, :], room[..., at:-1, :], room[..., -1, :]


def numbers_of(state: State) -> list[float]:
    """Return what a log begins with behind its vectors."""
    return [*itertools.chain.from_iterable(state[4:9]), *state[9:19]]


def begun(base: FloatArray) -> State:
    """Return the state of one run that a log begins with; ValueError if there is none like it."""
    vectors = base[:-NUMBERS].reshape(ROWS, -1)
    (*fixed, _), numbers = np.split(base[-NUMBERS:], np.cumsum(FIXED)), base[-10:].tolist()
    whole = [int(number) for number in (*numbers[:2], *numbers[3:6])]
    numbers = (*whole[:2], numbers[2], *whole[2:], *numbers[6:])
    state = State._make((*parts_of(vectors), *fixed, *numbers, None, None, Log(base, (), 0)))
    # A log is of a session that anybody may import.
    is_sound = np.isfinite(base).all() and min(whole) >= 0 and vectors[:SUMS].min() > 0 and state.weights.min() > 0
    if not (is_sound and vectors[SUMS + TOTALS.stop :].min() >= 0 and state.scales.min() >= 0):
        raise ValueError("not a state of this learner")
    return state


def kept_steps(n_arms: int) -> int:
    """Return after how many steps the log of a session of so many arms begins again."""
    return max(4, min(n_arms // ARMS_PER_STEP, KEPT_CELLS // n_arms))


def steps_of(kind: int, place: int, number: float, given: Mapping[int, Any]) -> Steps:
    """Return one step, behind what is given for it and is not None."""
    known = ((each * KINDS + GIVEN, value) for each, value in given.items() if value is not None)
    return (*known, (place * KINDS + kind, number))


def _merged(sums: FloatArray, late: Mapping[int, FloatArray]) -> FloatArray:
    for arm, column_of_it in late.items():
        sums[:, arm : arm + 1] = column_of_it
    return sums


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
    """Return a copy of ``sums``, of a run with a log the arm's column, with S moved, and the mixture's sums.

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
    mixture_sums, moves, pools, place = state.mixture_sums, None, None, arm
    if isinstance(divisor, tuple):
        pool, moves = divisor[0], [deviation * ratio for ratio in divisor[1]]
    else:
        *pools, pool = state.pools[:, arm].tolist()
        pool = pool if divisor is None else divisor
    if (log := state.log) is None:
        sums = state.sums.copy()
    else:
        sums, place = log.late.get(arm, state.sums[:, arm : arm + 1]).copy(), 0
    if pool > 0:
        move, moved = deviation / pool, []
        moves = moves if pools is None else [move * own for own in pools]
        before, shares = sums[SUMMED, place].tolist(), state.p[:, arm].tolist()
        for old, scale, share in zip(before, state.scales.tolist(), shares, strict=True):
            unit = scale / math.sqrt(share)
            low, high = -fall * unit, LARGEST_RISE * unit  # min() and max() take twice the time.
            moved.append(old + count * (low if move <= low else move if move < high else high))
        sums[SUMMED, place] = moved
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
    place = arm if state.log is None else 0
    sums[at(place, COUNTS)] += count
    sums[at(place, TOTALS)] += column(count * loss) if isinstance(loss, np.ndarray) else count * loss
    mean = state.mean + count * (loss - state.mean) / events
    square = deviation * deviation
    spread, size = state.variance_sum + count * square, state.deviation_sum + count * abs(deviation)
    largest = larger(state.variance_max, square)
    noted = _noted(state, arm, sums, SETTLE, loss, count, divisor)
    return _with(state, noted, mixture_sums, state.dropped, events, mean, spread, size, largest)


def corrected(state: State, arm: Any, loss: Any, before: float, fall: float, divisor: Divisor) -> State:
    """Return the state with ``loss`` in place of ``before``, on the learner's scale; M only grows, n and N stay.

    The loss may be an array over the leading axes.
    """
    change, deviation, events = loss - before, loss - state.shift, state.events
    sums, mixture_sums = stepped(state, arm, change, fall, 1, divisor)
    place = arm if state.log is None else 0
    counted = np.minimum(sums[at(place, COUNTS)], 1.0)
    sums[at(place, TOTALS)] += counted * (column(change) if isinstance(change, np.ndarray) else change)
    mean = state.mean + change / events if events else state.mean
    spreads = (*_without(state, before, deviation), larger(state.variance_max, deviation * deviation))
    noted = _noted(state, arm, sums, CORRECT, loss, 1, divisor, before)
    return _with(state, noted, mixture_sums, state.dropped, events, mean, *spreads)


def uncharged(state: State, arm: Any, default: float, fall: float, divisor: Divisor) -> State:
    """Return the state after a decision of an arm, charged with ``default``, was taken back."""
    sums, mixture_sums = stepped(state, arm, default - state.shift, fall, -1, divisor)
    place, events = arm if state.log is None else 0, max(state.events - 1, 0)
    counts, totals = at(place, COUNTS), at(place, TOTALS)
    gone = np.minimum(sums[counts], 1.0)
    sums[counts] -= gone
    sums[totals] = np.where(sums[counts] > 0, sums[totals] - gone * default, 0.0)
    gap = (default - state.mean) / events if events else state.mean
    spreads = (*_without(state, default, 0.0 * state.mean), state.variance_max)
    noted = _noted(state, arm, sums, UNCHARGE, default, 1, divisor)
    return _with(state, noted, mixture_sums, state.dropped + 1, events, state.mean - gap, *spreads)


def at(arm: Any, rows: slice) -> Any:
    """Return the index of these rows of an arm in ``sums``; the arm may be an array over the leading axes."""
    return (np.arange(len(arm)), rows, arm) if isinstance(arm, np.ndarray) else (rows, arm)


Noted = tuple[FloatArray, Log | None]
"""``sums`` and log of a state."""


def _noted(
    state: State,
    arm: int,
    sums: FloatArray,
    kind: int,
    loss: float,
    count: int = 1,
    divisor: Divisor = None,
    before: float | None = None,
) -> Noted:
    """Return ``sums`` and log of a state after a step: without a log these sums, with one they are a late arm's."""
    if (log := state.log) is None:
        return sums, None
    given = {COUNT: None if count == 1 else float(count), DIVISOR: divisor, BEFORE: before}
    steps = (*log.steps, *steps_of(kind, arm, loss, given))
    late = log.late if kind == EXPIRE else {**log.late, arm: sums}
    if len(steps) > MOST_STEPS:
        return _merged(state.sums.copy(), late), None
    return state.sums, Log(log.base, steps, log.opened, late)


def dropped(state: State, count: int) -> State:
    """Return the state after ``count`` decisions of which no loss will ever be known."""
    sums, log = _noted(state, 0, state.sums, EXPIRE, float(count))
    return state._replace(sums=sums, dropped=state.dropped + count, log=log)


def _with(
    state: State, noted: Noted, mixture_sums: FloatArray, dropped: int, events: int, mean: Any, *spreads: Any
) -> State:
    """Return the state with other sums, counts, mean, and V, A, M if the slot opened with a mean."""
    spreads = spreads if state.events_at_open else state[16:19]  # `_replace` takes twice the time.
    numbers = (*state[7:13], dropped, events, mean, *spreads)
    return State._make((noted[0], *state[1:6], mixture_sums, *numbers, *state[19:21], noted[1]))


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
    sums, mixture_sums = _moved(state, state.whole_sums, arms, deviations, fall, (ones, ones, totals, totals))
    steps = [(arm * KINDS + SETTLE, loss) for arm, loss in zip(arms, losses, strict=True)] if state.log else ()
    noted = _noted_all(state, sums, steps)
    return _with(state, noted, mixture_sums, state.dropped, events, mean, spread, size, largest)


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
    sums = state.whole_sums
    counts = sums[COUNTS, np.array(arms)]
    totals = np.minimum(counts, 1.0) * np.array(changes)
    sums, mixture_sums = _moved(state, sums, arms, changes, fall, (np.zeros_like(counts), totals))
    given, steps = (BEFORE * KINDS + GIVEN, default), list[tuple[int, float]]()
    for arm, loss in zip(arms, losses, strict=True) if state.log else ():
        steps += (given, (arm * KINDS + CORRECT, loss))
    noted = _noted_all(state, sums, steps)
    return _with(state, noted, mixture_sums, state.dropped, state.events, mean, spread, size, largest)


def _noted_all(state: State, sums: FloatArray, steps: Sequence[tuple[int, float]]) -> Noted:
    """Return these sums, and the log of a state after steps that led to them."""
    if (log := state.log) is None or len(log.steps) + len(steps) > MOST_STEPS:
        return sums, None
    return sums, Log(log.base, (*log.steps, *steps), log.opened)


def _moved(
    state: State, sums: FloatArray, arms: Sequence[int], deviations: Sequence[float], fall: float, heard: Rows
) -> Sums:
    """Return ``sums`` and the mixture's sums, moved by deviations of arms, as ``stepped`` moves them by one.

    ``sums`` are the state's whole ones; ``heard`` is what is added to N and L, in rows of shape (events,).
    """
    places, sums = np.array(arms), sums.copy()
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
