"""SOLID (Joulani et al. 2016): projected descent on gradients that arrive late, in any order."""

from __future__ import annotations

import math
from typing import Annotated, Literal

from pydantic import Field, model_validator

from service.learners.ogd import Ogd
from service.learners.points import PointsSpec
from service.learners.specs import Horizon, Rate, RateMode, RateScale, TotalDelay, baseline_mode


class SolidSpec(PointsSpec):
    """SOLID: full information under delay. The caller sends the gradient at the point that was played."""

    kind: Literal["solid"] = "solid"
    horizon: Horizon | None = None
    total_delay: TotalDelay | None = None
    learning_rate: Annotated[Rate, Field(description="eta")] | None = None
    rate_scale: RateScale | None = None

    @property
    def mode(self) -> RateMode:
        """Where the rate comes from."""
        return baseline_mode(self, ("learning_rate",), ("horizon", "total_delay"))

    @model_validator(mode="after")
    def _one_way_to_give_rates(self) -> SolidSpec:
        self.rate()
        return self

    def rate(self) -> float:
        """The rate in use."""
        if self.mode is RateMode.THEOREM:
            slots = (self.horizon or 1) + (self.total_delay or 0)
            return (self.rate_scale or 1.0) / math.sqrt(self.dim * slots)
        return self.learning_rate or 0.0

    def build(self) -> Ogd:
        """OGD's arithmetic: only the rate knows of the delays."""
        return Ogd(self.build_set(), self.rate(), self.mode)
