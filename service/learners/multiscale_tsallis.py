"""Five centred Tsallis learners of different memories, and a sixth that mixes them; nothing to tune.

Each expert is 1/2-Tsallis follow-the-regularised-leader (Zimmert and Seldin 2021) on losses less the mean of all
losses, as ``centred_tsallis``; two of them forget, so that the best arm may move, and one allows for delays. A loss
comes without its slot: it is divided by the mean probability that its arm had in the mixture, over the decisions
still outstanding. A default loss can be provisional: learned at the act, corrected when the loss comes. No bound is
proved for this rule.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar, Literal

import numpy as np

from . import multiscale_state as rule
from .base import FloatArray, IntArray, ProvisionalLearner, Slot
from .maths import LARGEST_DELAYS, add_arms, remove_arms, spread, with_floor
from .multiscale_state import EXPERTS, MEMORY, State
from .specs import ArmsSpec
from .tsallis import column, distribution_over_few, mixture, solve_rows

KEEP = 1 - 1 / MEMORY
"""Share of its sums that an expert keeps when a slot opens."""
FLOOR_SHARE = 0.25
"""The floor at the start, as a share of uniform play; it falls as 1/sqrt(t) until t is the expert's memory."""
FLOORS = FLOOR_SHARE / np.sqrt(MEMORY)
LARGEST_FALL, LARGEST_CORRECTION = 0.25, 1.0
"""Bounds on the fall of a sum by one event and by one correction, in units of scale/sqrt(p)."""
POOL_CAP, PROVISIONAL_POOL_CAP = 1_000, 10_000
"""Most outstanding decisions that the pools count."""


class MultiscaleTsallisSpec(ArmsSpec):
    """Multiscale Tsallis: arm known, slot unknown; nothing to tune. Our recommendation for production.

    It has no proof of sublinear regret for unlabelled feedback; DEXP3 and batched EXP3 at theorem rates have one.
    """

    arms_setting: ClassVar = "max_arms_centred"
    takes_initial: ClassVar = True
    takes_provisional: ClassVar = True
    takes_segments: ClassVar = True

    kind: Literal["multiscale_tsallis"] = "multiscale_tsallis"

    def build(self) -> MultiscaleTsallis:
        return MultiscaleTsallis(self.arm_count)


class MultiscaleTsallis(ProvisionalLearner[State]):
    """Distributions are solved for when a slot opens; events only move sums."""

    takes_eligible: ClassVar = True
    memory: ClassVar = MEMORY.reshape(-1, 1)

    def start(self) -> State:
        pools, even = np.full((EXPERTS + 1, self.n_arms), 1 / self.n_arms), np.full(EXPERTS, 1 / EXPERTS)
        sums, zeros = np.zeros((EXPERTS, self.n_arms)), np.zeros(EXPERTS)
        numbers = (0, 0, 0.0, 0, 0, 0.0, 0.0, 0.0, 0.0)
        return State(sums, pools[1:].copy(), pools, zeros, zeros, zeros, even, even, zeros, *numbers)

    def open(self, state: State, slot: Slot) -> State:
        t, delays = state.t + 1, min(state.delay_sum + slot.outstanding, LARGEST_DELAYS)
        # Made of all its fields, and once more at the end: `_replace` takes as long as solving for the mixture.
        state = State(*state[:9], t, delays, state.mean, state.events, *state[13:18])
        sums, p, lam, scales = _solved(state)
        scale, floor = rule.mixture_scale(state, t), FLOOR_SHARE / math.sqrt(t) / EXPERTS
        few = distribution_over_few(state.mixture_sums, scale, state.weights, floor)
        weights, over = few.p, p
        if slot.eligible is not None:
            over = _over(state._replace(sums=sums, p=p, scales=scales), slot.eligible)
        drawn = with_floor(mixture(weights, over), slot.floor, slot.eligible)
        # Means over outstanding decisions, with the open slot's.
        weight = min(slot.outstanding, PROVISIONAL_POOL_CAP if slot.provisional else POOL_CAP)
        pools = state.pools * weight
        pools[..., :-1, :] += over
        pools[..., -1, :] += drawn
        pools *= 1 / (weight + 1)
        return State(sums, p, pools, lam, scales, few.sums, weights, weights, few.units, *state[9:18], drawn)

    def settle(self, state: State, arm: Any, loss: Any, count: int = 1, divisor: float | None = None) -> State:
        deviation = loss - state.shift
        sums = rule.stepped(state, arm, deviation, LARGEST_FALL, count, divisor)
        return rule.learned(state, loss, deviation, count, sums)

    def settle_all(self, state: State, arms: Sequence[int], losses: Sequence[float]) -> State:
        if len(arms) == 1:  # In plain floats, in less than half the time.
            return self.settle(state, arms[0], losses[0])
        return rule.all_learned(state, arms, losses, LARGEST_FALL)

    def correct(self, state: State, arm: Any, loss: Any, default: float, divisor: float | None = None) -> State:
        sums = rule.stepped(state, arm, loss - default, LARGEST_CORRECTION, 1, divisor)
        return rule.corrected(state, loss, default, sums)

    def correct_all(self, state: State, arms: Sequence[int], losses: Sequence[float], default: float) -> State:
        if len(arms) == 1:
            return self.correct(state, arms[0], losses[0], default)
        return rule.all_corrected(state, arms, losses, default, LARGEST_CORRECTION)

    def uncharge(self, state: State, arm: Any, default: float, divisor: float | None = None) -> State:
        sums = rule.stepped(state, arm, default - state.shift, LARGEST_FALL, -1, divisor)
        return rule.uncharged(state, default, sums)

    def remove_arms(self, state: State, positions: IntArray) -> State:
        """Return the state without these arms; what they were charged stays in the mean of losses."""
        kept = state.shown * np.delete(state.p, positions, axis=-1).sum(axis=-1)
        scales, x = _standing(state)
        p, pools = remove_arms(state.p, positions), remove_arms(state.pools, positions)
        left = state._replace(p=p, pools=pools, shown=kept / kept.sum(axis=-1, keepdims=True))
        return _resting(left, scales, remove_arms(x, positions))

    def add_arms(self, state: State, count: int) -> State:
        scales, x = _standing(state)
        grown = state._replace(p=add_arms(state.p, count), pools=add_arms(state.pools, count))
        return _resting(grown, scales, add_arms(x, count))

    def distribution(self, state: State) -> FloatArray:
        return mixture(state.shown, state.p) if state.drawn is None else state.drawn

    def probabilities(self, state: State, eligible: IntArray | None = None, floor: float = 0.0) -> FloatArray:
        return with_floor(mixture(state.shown, _over(state, eligible)), floor, eligible)


def _solved(state: State) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Return sums, distributions and multipliers that fit the open slot's scales, and these."""
    scales = rule.scales_at(state, state.t)
    sums = state.sums * KEEP[:, None]
    least = np.minimum.reduce(sums, axis=-1)
    sums -= least[..., None]
    if not any(scales.ravel().tolist()):  # For five numbers several times faster than scales.any().
        return sums, state.p, state.lam, scales
    # Multipliers start from the last ones, moved as the sums were; scales are 1 where they are 0.
    positive, guess, are_positive = scales, state.lam * KEEP - least, all(scales.ravel().tolist())
    if are_positive and all(state.scales.ravel().tolist()):
        guess *= scales / state.scales
    else:
        positive, before = np.where(scales > 0, scales, 1.0), np.where(state.scales > 0, state.scales, 1.0)
        guess = np.where(state.scales > 0, guess * (positive / before), -positive)
    lam, x = solve_rows(sums, positive, guess)
    floor = _floors(state.t) / x.shape[-1]
    p = np.maximum(x, floor[:, None], out=x)
    p *= 1 / np.add.reduce(p, axis=-1, keepdims=True)
    highest = (lam + positive / np.sqrt(floor))[..., None]
    if are_positive:
        return np.minimum(sums, highest, out=sums), p, lam, scales
    live = scales > 0
    lam, live = np.where(live, lam, state.lam), live[..., None]
    return np.where(live, np.minimum(sums, highest), sums), np.where(live, p, state.p), lam, scales


def _floors(t: int) -> FloatArray:
    """Return n_arms times each expert's least probability in slot ``t``, before p is normalised, shape (5,)."""
    floors: FloatArray = np.maximum(FLOOR_SHARE / math.sqrt(max(t, 1)), FLOORS)
    return floors


def _over(state: State, eligible: IntArray | None) -> FloatArray:
    """Return each expert's distribution over the arms at ``eligible``, shape (..., 5, n_arms): p over all arms.

    Over fewer arms it is solved for at the same sums and scale, with the same least probability of an arm.
    """
    n_arms = state.p.shape[-1]
    if eligible is None or eligible.size == n_arms:
        return state.p
    x = _from_nothing(np.take(state.sums, eligible, axis=-1), state.scales)
    x = np.maximum(x, column(_floors(state.t)) / n_arms)
    x = np.where(column(state.scales) > 0, x, 1.0)
    return spread(x / x.sum(axis=-1, keepdims=True), eligible, n_arms)


def _standing(state: State) -> tuple[FloatArray, FloatArray]:
    """Return the scales that slot t+1 would have now, and each expert's x at these, p where the scale is 0."""
    scales = rule.scales_at(state, state.t + 1)
    x = _from_nothing(state.sums * KEEP[:, None], scales)
    return scales, np.where(column(scales) > 0, x, state.p)


def _from_nothing(sums: FloatArray, scales: FloatArray) -> FloatArray:
    """Return each expert's x at its scale, or at 1 if that is 0, without a multiplier to start from."""
    positive = np.where(scales > 0, scales, 1.0)
    return solve_rows(sums - sums.min(axis=-1, keepdims=True), positive, -positive)[1]


def _resting(state: State, scales: FloatArray, x: FloatArray) -> State:
    """Return the state with sums that give x in the next slot at ``scales``."""
    depths = column(scales) / np.sqrt(x)
    lam = -state.scales / (KEEP * np.sqrt(x.max(axis=-1)))
    sums = (depths - depths.min(axis=-1, keepdims=True)) / KEEP[:, None]
    return state._replace(sums=sums, lam=lam, drawn=None)
