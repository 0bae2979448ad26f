"""EXP3 (Auer et al.): exponential weights for losses that name their slot."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import numpy as np
from pydantic import Field

from service.learners.base import FloatArray, IntArray, Record, Slot, SlotLearner, at
from service.learners.exponential_weights import exp3_rate, joined, lowered, probabilities, without
from service.learners.specs import (
    MAX_COUNT,
    ArmsSpec,
    OneRateSpec,
    RateMode,
)

MAX_OPEN_SLOTS = 10_000

MaxOpenSlots = Annotated[
    int,
    Field(ge=1, le=MAX_COUNT, description="Open slots kept; with one more the oldest is dropped as expired."),
]


class Exp3Spec(ArmsSpec, OneRateSpec):
    """EXP3: arm and slot known. Divides a loss by the probability its own slot gave the arm."""

    kind: Literal["exp3"] = "exp3"
    max_open_slots: MaxOpenSlots = MAX_OPEN_SLOTS

    def theorem_rate(self, horizon: int, scale: float) -> float:
        return exp3_rate(self.arm_count, horizon, scale)

    def build(self) -> Exp3:
        return Exp3(self.arm_count, self.rate(), self.mode, self.max_open_slots)


class State(NamedTuple):
    """The weights' logarithms, and p_t of the open slot."""

    log_weights: FloatArray
    p_open: FloatArray

    @classmethod
    def at(cls, log_weights: FloatArray) -> State:
        """These weights, and what they give."""
        return cls(log_weights, probabilities(log_weights))


class Exp3(SlotLearner[State]):
    """A loss of slot s is divided by p_s(arm), which the slot's record keeps.

    Parameters
    ----------
    n_arms : K
    learning_rate : eta
    mode : where the rate comes from, for the view
    max_open_slots : records kept
    """

    state_type: ClassVar = State

    def __init__(self, n_arms: int, learning_rate: float, mode: RateMode, max_open_slots: int) -> None:
        self.n_arms = n_arms
        self.learning_rate = learning_rate
        self.mode = mode
        self.max_open_slots = max_open_slots

    def start(self) -> State:
        return State(np.zeros(self.n_arms), np.full(self.n_arms, 1 / self.n_arms))

    def open(self, state: State, slot: Slot) -> State:  # noqa: ARG002 - EXP3 counts nothing
        return state._replace(p_open=probabilities(state.log_weights))

    def record(self, state: State, arm: Any) -> Record:
        """p_s(arm)."""
        return (state.p_open[at(arm)],)

    def settle(self, state: State, arm: Any, loss: Any, count: int = 1, record: Record = ()) -> State:
        """Eq. (est.exp3) with the record's p_s."""
        (divisor,) = record
        return state._replace(
            log_weights=lowered(state.log_weights, arm, self.learning_rate, count * loss, divisor)
        )

    def remove_arms(self, state: State, positions: IntArray) -> State:
        return State.at(without(state.log_weights, positions))

    def add_arms(self, state: State, count: int) -> State:
        return State.at(joined(state.log_weights, count))

    def distribution(self, state: State) -> FloatArray:
        return state.p_open

    def probabilities(self, state: State) -> FloatArray:
        return probabilities(state.log_weights)

    def rates(self, state: State) -> dict[str, Any]:  # noqa: ARG002 - the rate is fixed
        return {"rates": self.mode, "learning_rate": self.learning_rate}
