"""EXP3 as it is often built: a late loss is divided by whatever the arm's probability is by then."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import numpy as np

from service.learners.base import ArmLearner, FloatArray, Information, IntArray, Slot, at
from service.learners.exp3 import State
from service.learners.exponential_weights import exp3_rate, joined, lowered, probabilities, without
from service.learners.specs import ArmsSpec, OneRateSpec, RateMode


class Exp3CurrentSpec(ArmsSpec, OneRateSpec):
    """Naive EXP3: arm known, slot unknown; no cap, no floor, no guarantee under delay. For comparison only."""

    kind: Literal["exp3_current"] = "exp3_current"

    def theorem_rate(self, horizon: int, scale: float) -> float:
        return exp3_rate(self.arm_count, horizon, scale)

    def build(self) -> Exp3Current:
        return Exp3Current(self.arm_count, self.rate(), self.mode)


class Exp3Current(ArmLearner[State]):
    """Every loss is divided by the running probability of its arm at the moment it arrives.

    Parameters
    ----------
    n_arms : K
    learning_rate : eta
    mode : where the rate comes from, for the view
    """

    information: ClassVar = Information.ARM
    state_type: ClassVar = State

    def __init__(self, n_arms: int, learning_rate: float, mode: RateMode) -> None:
        self.n_arms = n_arms
        self.learning_rate = learning_rate
        self.mode = mode

    def start(self) -> State:
        return State(np.zeros(self.n_arms), np.full(self.n_arms, 1 / self.n_arms))

    def open(self, state: State, slot: Slot) -> State:  # noqa: ARG002 - EXP3 counts nothing
        return state._replace(p_open=probabilities(state.log_weights))

    def settle(self, state: State, arm: Any, loss: Any, count: int = 1) -> State:
        divisor = probabilities(state.log_weights)[at(arm)]
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
