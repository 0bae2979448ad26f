"""EXP3 (Auer et al. 2002) for losses that name their slot, a naive variant for others, batched EXP3, and BOLD."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import numpy as np
from pydantic import Field

from . import maths
from .base import ArmLearner, FloatArray, IntArray, RateMode, Record, Rows, Slot, SlotLearner, at
from .maths import exp3_rate, joined, lowered, probabilities, with_floor, without
from .specs import MAX_COUNT, ArmsSpec, MaxDelay, NullIs, OneRateSpec, RateFields, Whole

# -- What EXP3 and its naive variant share: one vector of weights and a fixed rate.


class State(NamedTuple):
    """The weights' logarithms, and p_t of the open slot, both of shape (..., n_arms)."""

    log_weights: FloatArray
    p_open: FloatArray

    @classmethod
    def at(cls, log_weights: FloatArray) -> State:
        """Return the state with these weights, shape (..., n_arms), and their distribution."""
        return cls(log_weights, probabilities(log_weights))


class WeightsLearner(ArmLearner[State]):
    """A learner over arms that lowers weights; by what it divides a loss is the subclass's part."""

    def start(self) -> State:
        return State(np.zeros(self.n_arms), np.full(self.n_arms, 1 / self.n_arms))

    def open(self, state: State, slot: Slot) -> State:
        return state._replace(p_open=self.probabilities(state, slot.eligible, slot.floor))

    def open_all(self, state: State, slot: Slot, count: int) -> tuple[State, int]:
        return self.open(state, slot), count

    def learned(self, state: State, arm: Any, loss: Any, divisor: Any) -> State:
        """Return the state after a loss of ``arm``, divided by ``divisor``, a probability of it."""
        return state._replace(log_weights=lowered(state.log_weights, arm, self.learning_rate, loss, divisor))

    def remove_arms(self, state: State, positions: IntArray) -> State:
        return State.at(without(state.log_weights, positions))

    def add_arms(self, state: State, count: int) -> State:
        return State.at(joined(state.log_weights, count))

    def distribution(self, state: State) -> FloatArray:
        return state.p_open

    def probabilities(self, state: State, eligible: IntArray | None = None, floor: float = 0.0) -> FloatArray:
        return with_floor(probabilities(state.log_weights, eligible), floor, eligible)


DEFAULT_MAX_OPEN_SLOTS = 10_000

_MEANS = "Largest number of open slots. One more drops the oldest, which counts as expired."
MaxOpenSlots = Annotated[Whole, Field(ge=1, le=MAX_COUNT, description=_MEANS)]


class Exp3Spec(ArmsSpec, OneRateSpec):
    """EXP3: arm and slot known. Divides a loss by the arm's probability in its own slot."""

    kind: Literal["exp3"] = "exp3"
    max_open_slots: Annotated[MaxOpenSlots, NullIs(DEFAULT_MAX_OPEN_SLOTS)] = DEFAULT_MAX_OPEN_SLOTS

    def build(self) -> Exp3:
        return Exp3(self.arm_count, self.max_open_slots, self.rate(), self.mode)


class Exp3(WeightsLearner, SlotLearner[State]):
    """A loss of slot s is divided by p_s(arm), which the slot's record keeps."""

    takes_eligible: ClassVar = True

    def record(self, state: State, arm: Any) -> Record:
        """Return p_s(arm)."""
        return (state.p_open[at(arm)],)

    def settle(self, state: State, arm: Any, loss: Any, count: int = 1, record: Record = ()) -> State:
        """Apply eq. (est.exp3) with the record's p_s."""
        (divisor,) = record
        return self.learned(state, arm, count * loss, divisor)


# -- EXP3 as it is often implemented: a late loss is divided by the arm's probability at its arrival.


class Exp3CurrentSpec(ArmsSpec, OneRateSpec):
    """EXP3 with current p: arm known, slot unknown; no guarantee under delay. For comparison only."""

    kind: Literal["exp3_current"] = "exp3_current"

    def build(self) -> Exp3Current:
        return Exp3Current(self.arm_count, self.rate(), self.mode)


class Exp3Current(WeightsLearner):
    """Every loss is divided by the running probability of its arm at the moment it arrives."""

    def settle(self, state: State, arm: Any, loss: Any, count: int = 1) -> State:
        return self.learned(state, arm, count * loss, probabilities(state.log_weights)[at(arm)])


# -- Batched EXP3: weights that stand still for blocks as long as the largest delay.


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


class Block(NamedTuple):
    """What is kept of two blocks; vectors have shape (..., n_arms)."""

    log_weights: FloatArray
    p: FloatArray
    """P_b, the distribution of the weights, from which the block's slots draw."""
    before: FloatArray
    """P_{b-1}, that of the block before."""
    losses: FloatArray
    """C_b, the block's losses so far, each divided by the larger of its arm's two probabilities."""
    t: int


class BatchedExp3(ArmLearner[Block]):
    """P_{b+1} is proportional to P_b exp(-eta C_b).

    An event is of a decision of this block or of the one before, and nobody knows which: it is divided by
    max(P_b(k), P_{b-1}(k)). A block has w slots, at least as many as the largest delay.
    """

    def __init__(self, n_arms: int, learning_rate: float, mode: RateMode, block: int) -> None:
        super().__init__(n_arms, learning_rate, mode)
        self._block = block

    def start(self) -> Block:
        uniform, zeros = np.full(self.n_arms, 1 / self.n_arms), np.zeros(self.n_arms)
        return Block(zeros, uniform, uniform, zeros, 0)

    def open(self, state: Block, slot: Slot) -> Block:  # noqa: ARG002 - blocks count slots alone
        if state.t % self._block or not state.t:
            return state._replace(t=state.t + 1)
        log_weights = state.log_weights - self.learning_rate * state.losses
        log_weights = np.maximum(log_weights - log_weights.max(axis=-1, keepdims=True), maths.LOWEST)
        return Block(log_weights, probabilities(log_weights), state.p, np.zeros_like(state.losses), state.t + 1)

    def open_all(self, state: Block, slot: Slot, count: int) -> tuple[Block, int]:
        """Open slots to the end of the block."""
        state = self.open(state, slot)
        more = min(count - 1, -state.t % self._block)
        return state._replace(t=state.t + more), 1 + more

    def settle(self, state: Block, arm: Any, loss: Any, count: int = 1) -> Block:
        return self._added(state, at(arm), count * loss)

    def settle_all(self, state: Block, arms: Sequence[int], losses: Sequence[float]) -> Block:
        return self._added(state, np.array(arms), np.array(losses))

    def _added(self, state: Block, places: Any, losses: Any) -> Block:
        divisors, added = np.maximum(state.p[places], state.before[places]), state.losses.copy()
        np.add.at(added, places, losses / np.maximum(divisors, maths.SMALLEST_DIVISOR))
        return state._replace(losses=added)

    def remove_arms(self, state: Block, positions: IntArray) -> Block:
        weights, before = without(state.log_weights, positions), maths.remove_arms(state.before, positions)
        return Block(weights, probabilities(weights), before, np.delete(state.losses, positions, axis=-1), state.t)

    def add_arms(self, state: Block, count: int) -> Block:
        weights, before = joined(state.log_weights, count), maths.add_arms(state.before, count)
        losses = np.concatenate([state.losses, np.zeros((*state.losses.shape[:-1], count))], axis=-1)
        return Block(weights, probabilities(weights), before, losses, state.t)


# -- BOLD (Joulani et al. 2013): a pool of EXP3 instances, each of which gets the losses of its own slots.

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


class BoldState(NamedTuple):
    """The pool of instances, and the instance and distribution of the open slot."""

    log_weights: Rows
    """A row for each instance, shape (..., n_arms)."""
    waiting: IntArray
    """1 where the instance waits for a loss, shape (..., instances), the same in all runs."""
    instance: int
    p_open: FloatArray
    """p_t of the open slot, shape (..., n_arms)."""


class Bold(SlotLearner[BoldState]):
    """A slot uses the free instance of lowest index, or a new one; at most as many as open slots are kept."""

    def start(self) -> BoldState:
        return BoldState((), np.zeros(0, dtype=np.int64), 0, np.full(self.n_arms, 1 / self.n_arms))

    def open(self, state: BoldState, slot: Slot) -> BoldState:  # noqa: ARG002 - the pool alone decides
        runs, size = state.waiting.shape[:-1], state.waiting.shape[-1]
        free = np.flatnonzero(state.waiting[(0,) * len(runs)] == 0)
        instance = int(free[0]) if free.size else size
        if not free.size:
            log_weights = (*state.log_weights, np.zeros_like(state.p_open))
            grown = np.concatenate([state.waiting, np.zeros((*runs, 1), dtype=np.int64)], axis=-1)
            state = state._replace(log_weights=log_weights, waiting=grown)
        p_open = probabilities(state.log_weights[instance])
        return _marked(state._replace(instance=instance, p_open=p_open), instance, 1)

    def record(self, state: BoldState, arm: Any) -> Record:  # noqa: ARG002 - the instance keeps its own p
        """Return the index of the slot's instance."""
        return (float(state.instance),)

    def settle(self, state: BoldState, arm: Any, loss: Any, count: int = 1, record: Record = ()) -> BoldState:
        """Update the record's instance as EXP3 does, with the instance's own p, and free it."""
        instance = int(record[0])
        rows = list(state.log_weights)
        divisor = probabilities(rows[instance])[at(arm)]
        rows[instance] = lowered(rows[instance], arm, self.learning_rate, count * loss, divisor)
        return _marked(state._replace(log_weights=tuple(rows)), instance, 0)

    def forget(self, state: BoldState, record: Record) -> BoldState:
        return _marked(state, int(record[0]), 0)

    def remove_arms(self, state: BoldState, positions: IntArray) -> BoldState:
        log_weights = tuple(without(row, positions) for row in state.log_weights)
        return state._replace(log_weights=log_weights, p_open=maths.remove_arms(state.p_open, positions))

    def add_arms(self, state: BoldState, count: int) -> BoldState:
        log_weights = tuple(joined(row, count) for row in state.log_weights)
        return state._replace(log_weights=log_weights, p_open=maths.add_arms(state.p_open, count))

    def distribution(self, state: BoldState) -> FloatArray:
        return state.p_open


def _marked(state: BoldState, instance: int, mark: int) -> BoldState:
    waiting = state.waiting.copy()
    waiting[..., instance] = mark
    return state._replace(waiting=waiting)
