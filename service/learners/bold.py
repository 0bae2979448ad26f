"""BOLD (Joulani et al. 2013): a pool of EXP3 instances, each of which gets the losses of its own slots."""

from __future__ import annotations

from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np

from . import maths
from .base import FloatArray, IntArray, Record, Rows, Slot, SlotLearner, at
from .exp3 import MaxOpenSlots
from .maths import exp3_rate, lowered, probabilities
from .specs import ArmsSpec, MaxDelay, OneRateSpec, RateFields

DEFAULT_POOL_SIZE = 1_000
POOL_NUMBERS = 1_000_000
"""Weights of all instances together: 8 MB, which a worker reads again after another worker's commit."""


class BoldSpec(ArmsSpec, OneRateSpec):
    """BOLD: arm and slot known. One EXP3 instance for every decision that is outstanding at once."""

    rate_fields: ClassVar = RateFields(given=("learning_rate",), theorem=("horizon", "max_delay"))

    kind: Literal["bold"] = "bold"
    max_delay: MaxDelay | None = None
    max_open_slots: MaxOpenSlots | None = None

    @property
    def pool_size(self) -> int:
        """The most instances there can be: ``max_open_slots``, or 1,000, or fewer where arms are many."""
        return self.max_open_slots or max(1, min(DEFAULT_POOL_SIZE, POOL_NUMBERS // self.arm_count))

    @property
    def most_arms(self) -> int:
        return max(1, POOL_NUMBERS // self.pool_size)

    def resolved(self) -> dict[str, Any]:
        return super().resolved() | {"max_open_slots": self.pool_size}

    def theorem_rate(self, horizon: int, scale: float) -> float:
        """Return EXP3's rate for T/max_delay updates: an instance is used about once in max_delay slots."""
        return exp3_rate(self.arm_count, horizon / max(1, self.max_delay or 0), scale)

    def build(self) -> Bold:
        return Bold(self.arm_count, self.pool_size, self.rate(), self.mode)


class State(NamedTuple):
    """The pool of instances, and the instance and distribution of the open slot."""

    log_weights: Rows
    """A row for each instance, shape (..., n_arms)."""
    waiting: IntArray
    """1 where the instance waits for a loss, shape (..., instances), the same in all runs."""
    instance: int
    p_open: FloatArray
    """p_t of the open slot, shape (..., n_arms)."""


class Bold(SlotLearner[State]):
    """A slot uses the free instance of lowest index, or a new one; at most as many as open slots are kept."""

    def start(self) -> State:
        return State((), np.zeros(0, dtype=np.int64), 0, np.full(self.n_arms, 1 / self.n_arms))

    def open(self, state: State, slot: Slot) -> State:  # noqa: ARG002 - the pool alone decides
        runs, size = state.waiting.shape[:-1], state.waiting.shape[-1]
        free = np.flatnonzero(state.waiting[(0,) * len(runs)] == 0)
        instance = int(free[0]) if free.size else size
        if not free.size:
            log_weights = (*state.log_weights, np.zeros_like(state.p_open))
            grown = np.concatenate([state.waiting, np.zeros((*runs, 1), dtype=np.int64)], axis=-1)
            state = state._replace(log_weights=log_weights, waiting=grown)
        p_open = probabilities(state.log_weights[instance])
        return _marked(state._replace(instance=instance, p_open=p_open), instance, 1)

    def record(self, state: State, arm: Any) -> Record:  # noqa: ARG002 - the instance keeps its own p
        """Return the index of the slot's instance."""
        return (float(state.instance),)

    def settle(self, state: State, arm: Any, loss: Any, count: int = 1, record: Record = ()) -> State:
        """Update the record's instance as EXP3 does, with the instance's own p, and free it."""
        instance = int(record[0])
        rows = list(state.log_weights)
        divisor = probabilities(rows[instance])[at(arm)]
        rows[instance] = lowered(rows[instance], arm, self.learning_rate, count * loss, divisor)
        return _marked(state._replace(log_weights=tuple(rows)), instance, 0)

    def forget(self, state: State, record: Record) -> State:
        return _marked(state, int(record[0]), 0)

    def remove_arms(self, state: State, positions: IntArray) -> State:
        log_weights = tuple(maths.without(row, positions) for row in state.log_weights)
        return state._replace(log_weights=log_weights, p_open=maths.remove_arms(state.p_open, positions))

    def add_arms(self, state: State, count: int) -> State:
        log_weights = tuple(maths.joined(row, count) for row in state.log_weights)
        return state._replace(log_weights=log_weights, p_open=maths.add_arms(state.p_open, count))

    def distribution(self, state: State) -> FloatArray:
        return state.p_open


def _marked(state: State, instance: int, mark: int) -> State:
    waiting = state.waiting.copy()
    waiting[..., instance] = mark
    return state._replace(waiting=waiting)
