"""Learners without delay: OGD (Zinkevich 2003) on gradients, and the (K+1)-point method on bundles."""

from __future__ import annotations

import math
from typing import ClassVar, Literal, NamedTuple, cast

from pydantic import model_validator

from .base import FloatArray, Information, PointLearner, RateMode
from .dbgd import Dbgd, Rates, theorem_rates
from .maths import FeasibleSet, bounded
from .specs import LearningRate, OneRateSpec, Perturbation, PointsSpec, RatedSpec, RateFields


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
    """One projected step per gradient, in the order of arrival; x_1 is the center."""

    information: ClassVar = Information.GRADIENT

    def __init__(self, feasible_set: FeasibleSet, learning_rate: float, mode: RateMode) -> None:
        super().__init__(feasible_set, mode)
        self.learning_rate = learning_rate

    def start(self) -> State:
        return State(self.feasible_set.center)

    def settle(self, state: State, values: FloatArray, outstanding: int) -> State:  # noqa: ARG002 - eta is fixed
        return State(self._project(state.x - self.learning_rate * bounded(values)))


# -- The (K+1)-point method (Agarwal et al. 2010): descent on forward differences, without delay.


class TwoRatesSpec(RatedSpec, PointsSpec):
    """A learner from bundles with two rates, given or from a theorem; it has no anytime rates."""

    rate_fields: ClassVar = RateFields(given=Rates._fields, theorem=("horizon",))

    learning_rate: LearningRate | None = None
    perturbation: Perturbation | None = None

    @model_validator(mode="after")
    def _query_points_fit(self) -> TwoRatesSpec:
        self.check_perturbation(self.rates().perturbation)
        return self

    def rates(self) -> Rates:
        """Return the rates in use."""
        if self.mode is RateMode.THEOREM:
            return self.theorem_rates(self.horizon or 1, self.scale)
        return Rates(self.learning_rate, cast("float", self.perturbation))

    def theorem_rates(self, horizon: int, scale: float) -> Rates:
        """Return the theorem's rates for T slots, both times ``scale``."""
        raise NotImplementedError


class MbcoSpec(TwoRatesSpec):
    """(K+1)-point BCO: bundles of dim+1 losses that come back within their own slot."""

    kind: Literal["mbco"] = "mbco"

    def theorem_rates(self, horizon: int, scale: float) -> Rates:
        """Return the rates of Theorem 2 without delay."""
        return theorem_rates(self.dim, horizon, 0, scale)

    def build(self) -> Dbgd:
        """Make a DBGD learner: only the rates differ."""
        return Dbgd(self.build_set(), self.rates(), self.mode)
