"""What EXP3 and its naive variant share: one vector of weights and a fixed rate."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import numpy as np

from .base import ArmLearner, FloatArray, IntArray, Slot
from .maths.distributions import with_floor
from .maths.exponential_weights import joined, lowered, probabilities, without
from .rates import RateMode


class State(NamedTuple):
    """The weights' logarithms, and p_t of the open slot, both of shape (..., n_arms)."""

    log_weights: FloatArray
    p_open: FloatArray

    @classmethod
    def at(cls, log_weights: FloatArray) -> State:
        """Return the state with these weights, shape (..., n_arms), and their distribution."""
        return cls(log_weights, probabilities(log_weights))


class WeightsLearner(ArmLearner[State]):
    """A learner over arms that lowers weights; by what it divides a loss is the subclass's part.

    Parameters
    ----------
    n_arms : K
    learning_rate : eta
    mode : where the rate comes from, for the view
    """

    state_type: ClassVar = State

    def __init__(self, n_arms: int, learning_rate: float, mode: RateMode) -> None:
        self.n_arms = n_arms
        self.learning_rate = learning_rate
        self.mode = mode

    def start(self) -> State:
        return State(np.zeros(self.n_arms), np.full(self.n_arms, 1 / self.n_arms))

    def open(self, state: State, slot: Slot) -> State:
        return state._replace(p_open=self.probabilities(state, slot.eligible, slot.floor))

    def open_all(self, state: State, slot: Slot, count: int) -> tuple[State, int]:
        return self.open(state, slot), count

    def learned(self, state: State, arm: Any, loss: Any, divisor: Any) -> State:
        """Return the state after a loss of ``arm``, divided by ``divisor``.

        Parameters
        ----------
        state, arm, loss : as for ``settle``
        divisor : a probability of the arm; a float, or an array over the leading axes
        """
        return state._replace(log_weights=lowered(state.log_weights, arm, self.learning_rate, loss, divisor))

    def remove_arms(self, state: State, positions: IntArray) -> State:
        return State.at(without(state.log_weights, positions))

    def add_arms(self, state: State, count: int) -> State:
        return State.at(joined(state.log_weights, count))

    def distribution(self, state: State) -> FloatArray:
        return state.p_open

    def probabilities(self, state: State, eligible: IntArray | None = None, floor: float = 0.0) -> FloatArray:
        return with_floor(probabilities(state.log_weights, eligible), floor, eligible)

    def rates(self, state: State) -> dict[str, Any]:  # noqa: ARG002 - the rate is fixed
        return {"rates": self.mode, "learning_rate": self.learning_rate}
