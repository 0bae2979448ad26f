"""Projected descent: DBGD (Algorithm 2 of the paper), and the learners it is compared with."""

from __future__ import annotations

import math
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, cast

import numpy as np
from pydantic import Field, model_validator

from .base import FloatArray, Information, PointLearner, RateMode
from .maths import FeasibleSet, bounded, forward_difference, query_points, squared_norm
from .specs import LearningRate, MaxDelay, OneRateSpec, Perturbation, PointsSpec, RatedSpec, RateFields, TotalDelay

# -- DBGD: descent on forward differences of losses whose slot is unknown.

ANYTIME_PERTURBATION = 1e-3
"""Default delta of the anytime steps, in inradii."""
FIRST_DISTANCE = 1 / 20
"""The least distance travelled that the anytime steps assume, in diameters of the feasible set."""


class Rates(NamedTuple):
    """eta (None: the anytime steps) and delta."""

    learning_rate: float | None
    perturbation: float


def theorem_rates(dim: int, horizon: int, total_delay: int, scale: float = 1.0) -> Rates:
    """Return the rates of Theorem 2, c/sqrt(K (T + D)) and c/(T + D).

    Parameters
    ----------
    dim : K, coordinates of a point
    horizon : T, in slots
    total_delay : D, in slots
    scale : c, a factor of both rates
    """
    slots = horizon + total_delay
    return Rates(scale / math.sqrt(dim * slots), scale / slots)


class DbgdSpec(RatedSpec, PointsSpec):
    """DBGD: bundles of dim+1 losses, slot and point unknown. The paper's learner with a proof for them."""

    rate_fields: ClassVar = RateFields(
        given=Rates._fields,
        theorem=("horizon", "total_delay"),
        anytime=True,
        unused=("max_delay",),
        with_anytime=("perturbation",),
    )

    kind: Literal["dbgd"] = "dbgd"
    max_delay: Annotated[MaxDelay, Field(description="Accepted with the horizon, but not used.")] | None = None
    total_delay: TotalDelay | None = None
    learning_rate: LearningRate | None = None
    perturbation: Perturbation | None = None

    @model_validator(mode="after")
    def _query_points_fit(self) -> DbgdSpec:
        self.check_perturbation(self.rates().perturbation)
        return self

    def resolved(self) -> dict[str, Any]:
        return super().resolved() | {"perturbation": self.rates().perturbation}

    def rates(self) -> Rates:
        """Return the rates in use."""
        if self.mode is RateMode.GIVEN:
            return Rates(self.learning_rate, cast("float", self.perturbation))
        if self.horizon is not None and self.total_delay is not None:
            return theorem_rates(self.dim, self.horizon, self.total_delay, self.scale)
        return Rates(None, self.perturbation or ANYTIME_PERTURBATION * self.feasible_set.inradius(self.dim))

    def build(self) -> Dbgd:
        return Dbgd(self.build_set(), self.rates(), self.mode)


class State(NamedTuple):
    """The point, and what the anytime steps need."""

    x: FloatArray
    """Shape (..., dim)."""
    gradient_sum: float
    """Sum of |g|^2 (1 + 2 outstanding) over the events."""
    distance: float
    """Largest |x - x_1| so far."""


class Dbgd(PointLearner[State]):
    """One projected step per bundle, in the order of arrival, from the center on; without eta it is anytime."""

    def __init__(self, feasible_set: FeasibleSet, rates: Rates, mode: RateMode) -> None:
        super().__init__(feasible_set, mode, rates.perturbation)
        self._learning_rate, self.perturbation = rates

    def start(self) -> State:
        return State(self.feasible_set.center, 0.0, 0.0)

    def query_points(self, state: State) -> FloatArray:
        return query_points(state.x, self.perturbation)

    def settle(self, state: State, values: FloatArray, outstanding: int) -> State:
        """Step by eqs. (g_estimate) and (xupdate), or by the anytime rule."""
        g = forward_difference(values, self.perturbation)
        if self._learning_rate is not None:
            return state._replace(x=self._project(state.x - self._learning_rate * g))
        # Distance over gradients (Ivgi et al. 2023), each weighted by the bundles still outstanding.
        gradient_sum = state.gradient_sum + squared_norm(g) * (1 + 2 * outstanding)
        distance = np.maximum(state.distance, np.sqrt(squared_norm(state.x - self.feasible_set.center)))
        state = State(state.x, gradient_sum, distance if distance.ndim else float(distance))
        return state._replace(x=self._project(state.x - self._step(state) * g))

    def _step(self, state: State) -> Any:
        """Return max(r, R/20)/sqrt(G), shaped to multiply a gradient; 0 before the first gradient."""
        distance = np.maximum(state.distance, FIRST_DISTANCE * self.feasible_set.diameter)
        gradient_sum = np.asarray(state.gradient_sum)
        step = np.where(gradient_sum > 0, distance / np.sqrt(np.maximum(gradient_sum, np.finfo(float).tiny)), 0.0)
        return step[..., None]

    def rates(self, state: State) -> dict[str, Any]:
        eta = self._learning_rate
        if eta is None and np.ndim(state.gradient_sum) == 0 and state.gradient_sum > 0:
            eta = float(self._step(state)[0])
        return {"rates": self.mode, "learning_rate": eta, "perturbation": self.perturbation}


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


# -- OGD (Zinkevich 2003): descent on gradients, without delay.


class OgdSpec(PointsSpec, OneRateSpec):
    """OGD: full information without delay. The caller sends the gradient at the played point."""

    kind: Literal["ogd"] = "ogd"

    def theorem_rate(self, horizon: int, scale: float) -> float:
        return scale / math.sqrt(self.dim * horizon)

    def build(self) -> Ogd:
        return Ogd(self.build_set(), self.rate(), self.mode)


class OgdState(NamedTuple):
    """The point, shape (..., dim)."""

    x: FloatArray


class Ogd(PointLearner[OgdState]):
    """One projected step per gradient, in the order of arrival; x_1 is the center."""

    information: ClassVar = Information.GRADIENT

    def __init__(self, feasible_set: FeasibleSet, learning_rate: float, mode: RateMode) -> None:
        super().__init__(feasible_set, mode)
        self.learning_rate = learning_rate

    def start(self) -> OgdState:
        return OgdState(self.feasible_set.center)

    def settle(self, state: OgdState, values: FloatArray, outstanding: int) -> OgdState:  # noqa: ARG002 - eta is fixed
        return OgdState(self._project(state.x - self.learning_rate * bounded(values)))


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
