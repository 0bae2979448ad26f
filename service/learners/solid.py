"""SOLID (Joulani et al. 2016): projected descent on gradients that arrive late, in any order."""

from __future__ import annotations

import math
from typing import ClassVar, Literal

from .ogd import Ogd
from .point_specs import PointsSpec
from .rates import RateFields
from .specs import OneRateSpec, TotalDelay


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
