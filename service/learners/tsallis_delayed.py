"""Follow-the-regularised-leader for delayed losses that name their slot (Zimmert and Seldin 2020).

"An Optimal Algorithm for Adversarial Bandits with Arbitrary Delays", AISTATS 2020, with its simple tuning: p_t
minimises <x, L> - 2 sqrt(t) sum sqrt(x) + (1/eta_t) sum x (ln x - 1), L being the sums of the losses that arrived,
each divided by p_s of its own slot s. 1/eta_t = sqrt(2 D_t/ln K), where D_t is the sum of u_s over slots s up to t,
u_s being the decisions outstanding when slot s opens, without its own. This balances ln(K)/eta_T and the sum of
eta_t u_t, so that regret is at most 4 sqrt(K T) + sqrt(8 D ln K) for losses in [0, 1].

Beyond the paper: a divisor is at least ``SMALLEST_DIVISOR`` and a sum at most ``LARGEST_SUM``, losses may lie
anywhere, and arms come and go. The paper's other tuning, which leaves out slots with excessive delays, is not here.
"""

from __future__ import annotations

import math
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import numpy as np

from .base import FloatArray, IntArray, Record, Slot, SlotLearner, at
from .exp3 import DEFAULT_MAX_OPEN_SLOTS, MaxOpenSlots
from .maths import LARGEST_DELAYS, SMALLEST_DIVISOR, add_arms, remove_arms
from .specs import ArmsSpec, NullIs
from .tsallis import column

# -- The distribution of follow-the-regularised-leader with Tsallis entropy and negative entropy together.

INNER_STEPS = 8
"""Newton's method for log x starts within a factor of two of its target, and squares its error."""
OUTER_STEPS = 100
"""About ten are needed; halving a bracket, which is the last resort, needs sixty."""
SOLVED = 1e-13


def solve_hybrid(sums: FloatArray, root_rate: float, entropy_rate: float) -> FloatArray:
    """Return the minimiser x of <x, sums> - 2 A sum sqrt(x) + B sum x (ln x - 1) over distributions.

    Parameters
    ----------
    sums : shape (..., n_arms), least entry 0
    root_rate : A > 0
    entropy_rate : B >= 0

    Returns
    -------
    x, shape (..., n_arms)
    """
    n_arms = sums.shape[-1]
    high = np.full(sums.shape[:-1], -root_rate)
    low = high - root_rate * (math.sqrt(n_arms) - 1) - entropy_rate * math.log(n_arms)
    lam, solved = low, np.False_
    x: FloatArray
    logs = _logs(sums - column(lam), root_rate, entropy_rate)
    for _ in range(OUTER_STEPS):
        x = np.exp(logs)
        total = x.sum(axis=-1)
        solved = solved | (abs(total - 1) <= SOLVED)
        if np.all(solved):
            break
        low, high = np.where(total < 1, lam, low), np.where(total < 1, high, lam)
        slope = (x / (root_rate / 2 * np.exp(-logs / 2) + entropy_rate)).sum(axis=-1)
        moved = lam - total * np.log(total) / slope
        moved = np.where((moved > low) & (moved < high), moved, (low + high) / 2)
        solved = solved | (moved == lam)
        lam = np.where(solved, lam, moved)
        logs = _logs(sums - column(lam), root_rate, entropy_rate)
    x /= x.sum(axis=-1, keepdims=True)
    return x


def _logs(below: FloatArray, root_rate: float, entropy_rate: float) -> FloatArray:
    """Return ln x where A x^(-1/2) - B ln x, convex and falling, is ``below``, by Newton's method from the left."""
    logs = -2 * np.log(below / root_rate)
    if entropy_rate:
        logs = np.maximum(logs, (root_rate - below) / entropy_rate)
        for _ in range(INNER_STEPS):
            power = root_rate * np.exp(-logs / 2)
            logs = logs + (power - entropy_rate * logs - below) / (power / 2 + entropy_rate)
    return logs


LARGEST_SUM = 1e100
"""Sums stop growing here, far above where an arm is ever drawn."""


class TsallisDelayedSpec(ArmsSpec):
    """Delayed Tsallis: arm and slot known; nothing to tune. No bound for such feedback has a better order."""

    arms_setting: ClassVar = "max_arms_centred"

    kind: Literal["tsallis_delayed"] = "tsallis_delayed"
    max_open_slots: Annotated[MaxOpenSlots, NullIs(DEFAULT_MAX_OPEN_SLOTS)] = DEFAULT_MAX_OPEN_SLOTS

    def build(self) -> TsallisDelayed:
        return TsallisDelayed(self.arm_count, self.max_open_slots)


class State(NamedTuple):
    """Vectors have shape (..., n_arms)."""

    sums: FloatArray
    """L, the sums of importance-weighted losses, less the least when a slot opens."""
    p: FloatArray
    """p_t of the open slot."""
    t: int
    delay_sum: int
    """D_t, the sum over slots of the decisions outstanding at their opening."""


class TsallisDelayed(SlotLearner[State]):
    """A loss of slot s is divided by p_s(arm), which the slot's record keeps."""

    def start(self) -> State:
        return State(np.zeros(self.n_arms), np.full(self.n_arms, 1 / self.n_arms), 0, 0)

    def open(self, state: State, slot: Slot) -> State:
        delays = min(state.delay_sum + slot.outstanding, LARGEST_DELAYS)
        state = state._replace(t=state.t + 1, delay_sum=delays)
        sums = np.minimum(state.sums - column(state.sums.min(axis=-1)), LARGEST_SUM)
        return state._replace(sums=sums, p=solve_hybrid(sums, *_strengths(state)))

    def record(self, state: State, arm: Any) -> Record:
        """Return p_s(arm)."""
        return (state.p[at(arm)],)

    def settle(self, state: State, arm: Any, loss: Any, count: int = 1, record: Record = ()) -> State:
        (divisor,) = record
        sums = state.sums.copy()
        sums[at(arm)] += count * loss / np.maximum(divisor, SMALLEST_DIVISOR)
        return state._replace(sums=np.minimum(sums, LARGEST_SUM))

    def remove_arms(self, state: State, positions: IntArray) -> State:
        return _resting(state, remove_arms(state.p, positions), remove_arms(_standing(state), positions))

    def add_arms(self, state: State, count: int) -> State:
        return _resting(state, add_arms(state.p, count), add_arms(_standing(state), count))


def _strengths(state: State, n_arms: int | None = None) -> tuple[float, float]:
    """Return A = sqrt(t) and B = sqrt(2 D_t/ln K) for the arms there are, or for ``n_arms``."""
    size = max(2, n_arms or state.p.shape[-1])
    return math.sqrt(max(state.t, 1)), math.sqrt(2 * state.delay_sum / math.log(size))


def _standing(state: State) -> FloatArray:
    """Return the distribution that the sums give now."""
    return solve_hybrid(state.sums - column(state.sums.min(axis=-1)), *_strengths(state))


def _resting(state: State, p: FloatArray, x: FloatArray) -> State:
    """Return the state with sums that give x."""
    (root_rate, entropy_rate), least = _strengths(state, x.shape[-1]), np.maximum(x, SMALLEST_DIVISOR)
    depths = root_rate / np.sqrt(least) - entropy_rate * np.log(least)  # How far lambda lies below each sum.
    sums = np.minimum(depths - depths.min(axis=-1, keepdims=True), LARGEST_SUM)
    return state._replace(sums=sums, p=p)
