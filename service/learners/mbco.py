"""The (K+1)-point method (Agarwal et al. 2010): descent on forward differences, without delay."""

from __future__ import annotations

from typing import ClassVar, Literal, cast

from pydantic import model_validator

from .dbgd import Dbgd, Rates, theorem_rates
from .point_specs import PointsSpec
from .rates import RatedSpec, RateFields, RateMode
from .specs import Horizon, LearningRate, Perturbation, RateScale


class TwoRatesSpec(RatedSpec, PointsSpec):
    """A learner from bundles with two rates, given or from a theorem; it has no anytime rates."""

    rate_fields: ClassVar = RateFields(given=Rates._fields, theorem=("horizon",))

    rate_scale: RateScale | None = None
    horizon: Horizon | None = None
    learning_rate: LearningRate | None = None
    perturbation: Perturbation | None = None

    @model_validator(mode="after")
    def _query_points_fit(self) -> TwoRatesSpec:
        self.check_perturbation(self.rates().perturbation)
        return self

    def rates(self) -> Rates:
        """Return the rates in use."""
        if self.mode is RateMode.THEOREM:
            return self.theorem_rates(self.horizon or 1, self.rate_fields.scale(self))
        return Rates(self.learning_rate, cast("float", self.perturbation))

    def theorem_rates(self, horizon: int, scale: float) -> Rates:
        """Return the theorem's rates times ``scale``.

        Parameters
        ----------
        horizon : T, in slots
        scale : c, a factor of both rates
        """
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
