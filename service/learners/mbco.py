"""The (K+1)-point method (Agarwal et al. 2010): descent on forward differences, without delay."""

from __future__ import annotations

from typing import Annotated, Literal, cast

from pydantic import Field, model_validator

from .dbgd import Dbgd, Rates, theorem_rates
from .point_specs import PointsSpec
from .specs import Horizon, Rate, RateMode, ScaledSpec, baseline_mode


class TwoRatesSpec(ScaledSpec, PointsSpec):
    """A learner of bundles with two rates, given or from a theorem; it has no anytime rates."""

    horizon: Horizon | None = None
    learning_rate: Annotated[Rate, Field(description="eta")] | None = None
    perturbation: Annotated[Rate, Field(description="delta, the distance of the query points.")] | None = None

    @property
    def mode(self) -> RateMode:
        return baseline_mode(self, Rates._fields, ("horizon",))

    @model_validator(mode="after")
    def _one_way_to_give_rates(self) -> TwoRatesSpec:
        self.check_perturbation(self.rates().perturbation)
        return self

    def rates(self) -> Rates:
        """The rates in use."""
        if self.mode is RateMode.THEOREM:
            return self.theorem_rates(self.horizon or 1)
        return Rates(self.learning_rate, cast("float", self.perturbation))

    def theorem_rates(self, horizon: int) -> Rates:
        """The theorem's rates times ``scale``."""
        raise NotImplementedError


class MbcoSpec(TwoRatesSpec):
    """(K+1)-point BCO: bundles of dim+1 losses that come back within their own slot."""

    kind: Literal["mbco"] = "mbco"

    def theorem_rates(self, horizon: int) -> Rates:
        """Theorem 2's without delay."""
        return theorem_rates(self.dim, horizon, 0, self.scale)

    def build(self) -> Dbgd:
        """DBGD's arithmetic: only the rates differ."""
        return Dbgd(self.build_set(), self.rates(), self.mode)
