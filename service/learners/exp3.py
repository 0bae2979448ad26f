"""EXP3 (Auer et al. 2002) for losses that name their slot, its naive variant for those that don't, and SOLID."""

from __future__ import annotations

import math
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import numpy as np
from pydantic import Field

from .base import ArmLearner, FloatArray, IntArray, Record, Slot, SlotLearner, at
from .maths import exp3_rate, joined, lowered, probabilities, with_floor, without
from .ogd import Ogd
from .specs import MAX_COUNT, ArmsSpec, NullIs, OneRateSpec, PointsSpec, RateFields, TotalDelay, Whole

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

    def theorem_rate(self, horizon: int, scale: float) -> float:
        return exp3_rate(self.arm_count, horizon, scale)

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

    def theorem_rate(self, horizon: int, scale: float) -> float:
        return exp3_rate(self.arm_count, horizon, scale)

    def build(self) -> Exp3Current:
        return Exp3Current(self.arm_count, self.rate(), self.mode)


class Exp3Current(WeightsLearner):
    """Every loss is divided by the running probability of its arm at the moment it arrives."""

    def settle(self, state: State, arm: Any, loss: Any, count: int = 1) -> State:
        return self.learned(state, arm, count * loss, probabilities(state.log_weights)[at(arm)])


# -- SOLID (Joulani et al. 2016): projected descent on gradients that arrive late, in any order.


class SolidSpec(PointsSpec, OneRateSpec):
    """SOLID: full information under delay. The caller sends the gradient at the played point."""

    rate_fields: ClassVar = RateFields(given=("learning_rate",), theorem=("horizon", "total_delay"))

    kind: Literal["solid"] = "solid"
    total_delay: TotalDelay | None = None

    def theorem_rate(self, horizon: int, scale: float) -> float:
        return scale / math.sqrt(self.dim * (horizon + (self.total_delay or 0)))

    def build(self) -> Ogd:
        """Make an OGD learner: only the rate depends on the delays."""
        return Ogd(self.build_set(), self.rate(), self.mode)
