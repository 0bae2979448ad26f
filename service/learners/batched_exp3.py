"""Batched EXP3: weights that stand still for blocks as long as the largest delay (docs/theory.md)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

from . import maths as distributions
from .base import ArmLearner, FloatArray, IntArray, RateMode, Slot, at
from .maths import LOWEST, SMALLEST_DIVISOR, joined, probabilities, without
from .specs import ArmsSpec, MaxDelay, OneRateSpec


class BatchedExp3Spec(ArmsSpec, OneRateSpec):
    """Batched EXP3: arm known, slot unknown; learns once in max_delay slots. A better bound than DEXP3's.

    The bound holds where delays are at most ``max_delay`` slots and depend neither on the arm nor on its loss.
    """

    kind: Literal["batched_exp3"] = "batched_exp3"
    max_delay: MaxDelay

    def theorem_rate(self, horizon: int, scale: float) -> float:
        """Return c sqrt(2 ln K/((K + 10 w) T)), w being the slots of a block (docs/theory.md)."""
        block = max(1, self.max_delay)
        return scale * math.sqrt(2 * math.log(self.arm_count) / ((self.arm_count + 10 * block) * horizon))

    def build(self) -> BatchedExp3:
        return BatchedExp3(self.arm_count, self.rate(), self.mode, max(1, self.max_delay))


class State(NamedTuple):
    """Vectors have shape (..., n_arms)."""

    log_weights: FloatArray
    p: FloatArray
    """P_b, the distribution of the weights, from which the block's slots draw."""
    before: FloatArray
    """P_{b-1}, that of the block before."""
    losses: FloatArray
    """C_b, the block's losses so far, each divided by the larger of its arm's two probabilities."""
    t: int


class BatchedExp3(ArmLearner[State]):
    """P_{b+1} is proportional to P_b exp(-eta C_b).

    An event is of a decision of this block or of the one before, and nobody knows which: it is divided by
    max(P_b(k), P_{b-1}(k)). A block has w slots, at least as many as the largest delay.
    """

    def __init__(self, n_arms: int, learning_rate: float, mode: RateMode, block: int) -> None:
        super().__init__(n_arms, learning_rate, mode)
        self._block = block

    def start(self) -> State:
        uniform, zeros = np.full(self.n_arms, 1 / self.n_arms), np.zeros(self.n_arms)
        return State(zeros, uniform, uniform, zeros, 0)

    def open(self, state: State, slot: Slot) -> State:  # noqa: ARG002 - blocks count slots alone
        if state.t % self._block or not state.t:
            return state._replace(t=state.t + 1)
        log_weights = state.log_weights - self.learning_rate * state.losses
        log_weights = np.maximum(log_weights - log_weights.max(axis=-1, keepdims=True), LOWEST)
        return State(log_weights, probabilities(log_weights), state.p, np.zeros_like(state.losses), state.t + 1)

    def open_all(self, state: State, slot: Slot, count: int) -> tuple[State, int]:
        """Open slots to the end of the block."""
        state = self.open(state, slot)
        more = min(count - 1, -state.t % self._block)
        return state._replace(t=state.t + more), 1 + more

    def settle(self, state: State, arm: Any, loss: Any, count: int = 1) -> State:
        index = at(arm)
        divisor = np.maximum(np.maximum(state.p[index], state.before[index]), SMALLEST_DIVISOR)
        losses = state.losses.copy()
        losses[index] += count * loss / divisor
        return state._replace(losses=losses)

    def settle_all(self, state: State, arms: Sequence[int], losses: Sequence[float]) -> State:
        places, added = np.array(arms), state.losses.copy()
        divisors = np.maximum(np.maximum(state.p[places], state.before[places]), SMALLEST_DIVISOR)
        np.add.at(added, places, np.array(losses) / divisors)
        return state._replace(losses=added)

    def remove_arms(self, state: State, positions: IntArray) -> State:
        weights, before = without(state.log_weights, positions), distributions.remove_arms(state.before, positions)
        return State(weights, probabilities(weights), before, np.delete(state.losses, positions, axis=-1), state.t)

    def add_arms(self, state: State, count: int) -> State:
        weights, before = joined(state.log_weights, count), distributions.add_arms(state.before, count)
        losses = np.concatenate([state.losses, np.zeros((*state.losses.shape[:-1], count))], axis=-1)
        return State(weights, probabilities(weights), before, losses, state.t)
