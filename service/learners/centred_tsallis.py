"""1/2-Tsallis follow-the-regularised-leader (Zimmert and Seldin 2021) on centred losses, scaled by their spread.

The running mean of all losses received is subtracted from every loss. A shift common to all arms cancels, so this
needs no labels, and it removes the noise of losses that are nearly all alike. The slot of a loss is unknown, so a
loss is divided by the mean probability that its arm had over the decisions still outstanding. No bound is proved
for this rule.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import numpy as np

from .base import FloatArray, IntArray, PooledLearner, Slot, at
from .maths import add_arms, remove_arms, spread, with_floor
from .specs import ArmsSpec, NullIs
from .tsallis import column, solve

POOL_CAP = 1000
"""Most slots that the mean over outstanding decisions counts."""
FLOOR_SHARE = 0.25
"""The floor at the start, as a share of uniform play."""
LARGEST_FALL, LARGEST_RISE, LARGEST_CORRECTION = 0.25, 0.5, 1.0
"""Bounds on one event's change of an arm's sum, and on the fall by a correction, in units of scale/sqrt(p)."""


class CentredTsallisSpec(ArmsSpec):
    """Centred Tsallis: arm known, slot unknown; nothing to tune. Faster than `multiscale_tsallis`.

    It has no proof of sublinear regret for unlabelled feedback; DEXP3 at the theorem's rates has one.
    """

    arms_setting: ClassVar = "max_arms_centred"
    takes_initial: ClassVar = True
    takes_segments: ClassVar = True
    takes_updates: ClassVar = True

    kind: Literal["centred_tsallis"] = "centred_tsallis"
    tracking: Annotated[bool, NullIs(False)] = False
    """Explore more, for a best arm that changes."""

    def build(self) -> CentredTsallis:
        return CentredTsallis(self.arm_count, tracking=self.tracking)


class State(NamedTuple):
    """Vectors have shape (..., n_arms). The fields from ``lam`` on stay as they are while a slot is open."""

    sums: FloatArray
    """S, the sums of centred, importance-weighted losses."""
    t: int
    outstanding: int
    """Decisions without feedback, at most ``POOL_CAP``."""
    events: int
    """n, the events so far."""
    mean: float
    variance_sum: float
    """V, the sum of squared deviations of losses from their mean."""
    variance_max: float
    """M, the largest of these squares."""
    lam: float
    """Multiplier that makes the probabilities sum to 1."""
    scale: float
    """Strength of the regulariser; 0 until two losses differ."""
    shift: float
    """Mean of the losses received before the slot."""
    events_at_open: int
    p: FloatArray
    """The distribution over all arms, without the floor."""
    pool: FloatArray
    """Mean, over outstanding decisions, of the distributions that they were drawn from."""
    drawn: FloatArray | None = None
    """The distribution that the open slot's arm is drawn from, where it is not p."""


class CentredTsallis(PooledLearner[State]):
    """The distribution is solved for when a slot opens; events only move the sums.

    Parameters
    ----------
    n_arms : K at the start
    tracking : whether the floor falls as t^(-1/3), for a best arm that moves, instead of t^(-1/2)
    """

    takes_eligible: ClassVar = True

    def __init__(self, n_arms: int, *, tracking: bool = False) -> None:
        super().__init__(n_arms)
        self.tracking = tracking

    def start(self) -> State:
        uniform = np.full(self.n_arms, 1 / self.n_arms)
        return State(np.zeros(self.n_arms), 0, 0, 0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0, uniform, uniform)

    def open(self, state: State, slot: Slot) -> State:
        t = state.t + 1
        least = state.sums.min(axis=-1)
        state = state._replace(t=t, sums=state.sums - column(least), shift=state.mean, events_at_open=state.events)
        scale = self._scale(state)
        if np.any(scale > 0):
            state = self._solved(state, scale, _guess(state, scale, least))
        state, weight = state._replace(scale=scale), state.outstanding
        drawn = self.probabilities(state, slot.eligible, slot.floor)
        pool, kept = (state.pool * weight + drawn) / (weight + 1), None if drawn is state.p else drawn
        return state._replace(pool=pool, outstanding=min(weight + 1, POOL_CAP), drawn=kept)

    @staticmethod
    def _scale(state: State) -> Any:
        """Return sqrt(max(t, n) (V + M)/(n + 1))."""
        return np.sqrt(max(state.t, state.events) * (state.variance_sum + state.variance_max) / (state.events + 1))

    def _solved(self, state: State, scale: Any, guess: Any) -> State:
        """Set the distribution, with sums and multiplier that give it, where ``scale`` is positive."""
        live = None if np.all(scale > 0) else scale > 0
        if live is not None:
            scale, guess = np.where(live, scale, 1.0), np.where(live, guess, -1.0)
        lam, x = solve(state.sums, scale, guess)
        floor = self._floor(state.t) / x.shape[-1]
        low = x < floor
        sums = np.where(low, column(lam + scale / math.sqrt(floor)), state.sums)
        x = np.where(low, floor, x)
        p = x / x.sum(axis=-1, keepdims=True)
        if live is not None:
            mask, lam = column(live), np.where(live, lam, state.lam)
            p, sums = np.where(mask, p, state.p), np.where(mask, sums, state.sums)
        return state._replace(p=p, sums=sums, lam=lam)

    def _floor(self, t: int) -> float:
        """Return n_arms times the least probability in slot ``t``, before p is normalised."""
        return min(float(t) ** (-1 / 3), FLOOR_SHARE) if self.tracking else FLOOR_SHARE / math.sqrt(t)

    def _over(self, state: State, eligible: IntArray | None) -> FloatArray:
        """Return p, or the distribution at these sums and this scale over the arms at ``eligible`` alone.

        The least probability of an arm is that of slot t, before the distribution is normalised.
        """
        n_arms = state.p.shape[-1]
        if eligible is None or eligible.size == n_arms:
            return state.p
        x = np.maximum(_from_nothing(state.sums[..., eligible], state.scale), self._floor(max(state.t, 1)) / n_arms)
        x = np.where(column(np.greater(state.scale, 0)), x, 1.0)
        return spread(x / x.sum(axis=-1, keepdims=True), eligible, n_arms)

    def settle(self, state: State, arm: Any, loss: Any, count: int = 1, divisor: float | None = None) -> State:
        index = at(arm)
        deviation = loss - state.shift
        sums = state.sums.copy()
        sums[index] += count * _step(state, index, deviation, divisor)
        events, left = state.events + count, max(state.outstanding - count, 0)
        mean = state.mean + count * (loss - state.mean) / events
        state = state._replace(sums=sums, outstanding=left, events=events, mean=mean)
        if not state.events_at_open:
            return state
        square = deviation * deviation
        largest = np.maximum(state.variance_max, square)
        return state._replace(variance_sum=state.variance_sum + count * square, variance_max=largest)

    def settle_all(self, state: State, arms: Sequence[int], losses: Sequence[float]) -> State:
        """Settle events one after the other; no step depends on those before."""
        places, events, mean = np.array(arms), state.events, state.mean
        sums, deviations = state.sums.copy(), [loss - state.shift for loss in losses]
        np.add.at(sums, places, _step(state, places, np.array(deviations), None))
        spread, largest = state.variance_sum, state.variance_max
        for loss, deviation in zip(losses, deviations, strict=True):
            events += 1
            mean += (loss - mean) / events
            square = deviation * deviation
            spread, largest = spread + square, max(largest, square)
        outstanding = max(state.outstanding - len(losses), 0)
        state = state._replace(sums=sums, outstanding=outstanding, events=events, mean=mean)
        return state._replace(variance_sum=spread, variance_max=largest) if state.events_at_open else state

    def correct(self, state: State, arm: Any, loss: Any, before: float, divisor: float | None = None) -> State:
        index, change = at(arm), loss - before
        sums = state.sums.copy()
        sums[index] += _step(state, index, change, divisor, LARGEST_CORRECTION)
        state = state._replace(sums=sums, mean=state.mean + (change / state.events if state.events else 0.0))
        if not state.events_at_open:
            return state
        square, known = (loss - state.shift) ** 2, (before - state.shift) ** 2
        spread = np.maximum(state.variance_sum + (square - known), 0.0)
        return state._replace(variance_sum=spread, variance_max=np.maximum(state.variance_max, square))

    def give_up(self, state: State, count: int) -> State:
        return state._replace(outstanding=max(state.outstanding - count, 0))

    def remove_arms(self, state: State, positions: IntArray) -> State:
        scale, x = self._standing(state)
        p = remove_arms(state.p, positions, self._floor(max(state.t, 1)))
        state = state._replace(p=p, pool=remove_arms(state.pool, positions), drawn=None)
        return _resting(state, scale, remove_arms(x, positions))

    def add_arms(self, state: State, count: int) -> State:
        scale, x = self._standing(state)
        state = state._replace(p=add_arms(state.p, count), pool=add_arms(state.pool, count), drawn=None)
        return _resting(state, scale, add_arms(x, count))

    def _standing(self, state: State) -> tuple[Any, FloatArray]:
        """Return the scale that slot t+1 would open with now, and its x, shape (..., n_arms)."""
        scale = self._scale(state._replace(t=state.t + 1))
        return scale, _from_nothing(state.sums, scale)

    def distribution(self, state: State) -> FloatArray:
        return state.p if state.drawn is None else state.drawn

    def probabilities(self, state: State, eligible: IntArray | None = None, floor: float = 0.0) -> FloatArray:
        return with_floor(self._over(state, eligible), floor, eligible)


def _step(state: State, index: Any, deviation: Any, given: float | None, fall: float = LARGEST_FALL) -> Any:
    """Return what one event adds to the sum of its arm; 0 where no outstanding decision can be of that arm."""
    bound = state.scale / np.sqrt(state.p[index])
    divisor = state.pool[index] if given is None else np.float64(given)
    if not (possible := divisor > 0).all():
        deviation, divisor = np.where(possible, deviation, 0.0), np.where(possible, divisor, 1.0)
    return np.minimum(np.maximum(deviation / divisor, -fall * bound), LARGEST_RISE * bound)


def _from_nothing(sums: FloatArray, scale: Any) -> FloatArray:
    """Return x at a scale, or at 1 if that is 0, without a multiplier to start from."""
    positive = np.where(np.greater(scale, 0), scale, 1.0)
    return solve(sums - column(sums.min(axis=-1)), positive, -positive)[1]


def _resting(state: State, scale: Any, x: FloatArray) -> State:
    """Return the state with sums that give x at ``scale``; the multiplier is in units of the open slot's scale."""
    depths = column(scale) / np.sqrt(x)
    lam = -state.scale / np.sqrt(x.max(axis=-1))
    return state._replace(sums=depths - column(depths.min(axis=-1)), lam=lam)


def _guess(state: State, scale: Any, least: Any) -> Any:
    """Return the lambda to start from: the last multiplier, shifted and scaled as the sums were."""
    if not np.ndim(scale):
        return (state.lam - least) * (scale / state.scale) if state.scale > 0 else -scale
    before = np.where(np.greater(state.scale, 0), state.scale, 1.0)
    return np.where(np.greater(state.scale, 0), (state.lam - least) * (scale / before), -scale)
