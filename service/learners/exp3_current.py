"""EXP3 as it is often implemented: a late loss is divided by the arm's probability at its arrival."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from .base import Information, at
from .maths.exponential_weights import exp3_rate, probabilities
from .specs import ArmsSpec, OneRateSpec
from .weights_learner import State, WeightsLearner


class Exp3CurrentSpec(ArmsSpec, OneRateSpec):
    """EXP3 with current p: arm known, slot unknown; no guarantee under delay. For comparison only."""

    kind: Literal["exp3_current"] = "exp3_current"

    def theorem_rate(self, horizon: int, scale: float) -> float:
        return exp3_rate(self.arm_count, horizon, scale)

    def build(self) -> Exp3Current:
        return Exp3Current(self.arm_count, self.rate(), self.mode)


class Exp3Current(WeightsLearner):
    """Every loss is divided by the running probability of its arm at the moment it arrives.

    Parameters
    ----------
    n_arms : K
    learning_rate : eta
    mode : where the rate comes from, for the view
    """

    information: ClassVar = Information.ARM

    def settle(self, state: State, arm: Any, loss: Any, count: int = 1) -> State:
        return self.learned(state, arm, count * loss, probabilities(state.log_weights)[at(arm)])
