"""OGD (Zinkevich 2003): projected descent on gradients the caller sends."""

from __future__ import annotations

import math
from typing import Any, ClassVar, Literal, NamedTuple

from .base import FloatArray, Information, PointLearner
from .maths.feasible_sets import FeasibleSet
from .maths.gradients import bounded
from .point_specs import PointsSpec
from .rates import RateMode
from .specs import OneRateSpec


class OgdSpec(PointsSpec, OneRateSpec):
    """OGD: full information without delay. The caller sends the gradient at the played point."""

    kind: Literal["ogd"] = "ogd"

    def theorem_rate(self, horizon: int, scale: float) -> float:
        return scale / math.sqrt(self.dim * horizon)

    def build(self) -> Ogd:
        return Ogd(self.build_set(), self.rate(), self.mode)


class State(NamedTuple):
    """The point, shape (..., dim)."""

    x: FloatArray


class Ogd(PointLearner[State]):
    """One projected step per gradient, in the order of arrival.

    Parameters
    ----------
    feasible_set : X; x_1 is its center
    learning_rate : eta
    mode : where the rate comes from, for the view
    """

    information: ClassVar = Information.GRADIENT
    state_type: ClassVar = State

    def __init__(self, feasible_set: FeasibleSet, learning_rate: float, mode: RateMode) -> None:
        self.dim = feasible_set.center.size
        self.feasible_set = feasible_set
        self.learning_rate = learning_rate
        self.mode = mode
        self._inside = feasible_set.shrunk(0.0)

    def start(self) -> State:
        return State(self.feasible_set.center)

    def x(self, state: State) -> FloatArray:
        return state.x

    def settle(self, state: State, values: FloatArray, outstanding: int) -> State:  # noqa: ARG002 - eta is fixed
        return State(self._inside.project(state.x - self.learning_rate * bounded(values)))

    def rates(self, state: State) -> dict[str, Any]:  # noqa: ARG002 - the rate is fixed
        return {"rates": self.mode, "learning_rate": self.learning_rate}
