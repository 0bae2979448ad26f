"""What specifications over points share: the dimension and the feasible set."""

from __future__ import annotations

import math
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field, model_validator

from ..errors import FieldValueError
from .base import Spec
from .maths.feasible_sets import Ball, Box, FeasibleSet, Simplex, shrunk_scale
from .posted import Posted
from .specs import MAX_COUNT, NullIs, Whole

LARGEST_COORDINATE = 1e12
SMALLEST_INRADIUS = 1e-30
"""With a smaller one, a sum of squares of gradients could overflow."""
SMALLEST_RELATIVE_INRADIUS = 2e-9
"""With a smaller inradius, relative to the largest coordinate, perturbations vanish by rounding."""
SMALLEST_RELATIVE_PERTURBATION = 1e-12
"""A smaller perturbation, relative to the largest coordinate, vanishes when x + delta e_k is rounded."""

Coordinate = Annotated[float, Field(ge=-LARGEST_COORDINATE, le=LARGEST_COORDINATE, allow_inf_nan=False)]
Size = Annotated[float, Field(gt=0, le=LARGEST_COORDINATE, allow_inf_nan=False)]


class SetSpec(Posted):
    """A feasible set as a client posts it; unknown fields and loose types are refused."""

    def inradius(self, dim: int) -> float:
        """Return the radius of the inscribed ball in ``dim`` dimensions."""
        raise NotImplementedError

    def reach(self) -> float:
        """Return a bound on the absolute value of any coordinate."""
        raise NotImplementedError

    def build(self, dim: int) -> FeasibleSet:
        """Make the feasible set in ``dim`` dimensions."""
        raise NotImplementedError

    def resolved(self, dim: int) -> dict[str, Any]:  # noqa: ARG002 - other sets need it
        """Return every field by name, with the default where the client left one out."""
        return self.model_dump(mode="json")

    def check(self, dim: int) -> None:
        """Refuse a set that is not one of ``dim`` dimensions with room inside.

        Raises
        ------
        ValueError
            naming what is wrong.
        """
        thinnest = max(SMALLEST_INRADIUS, SMALLEST_RELATIVE_INRADIUS * self.reach())
        if self.inradius(dim) < thinnest:
            raise FieldValueError(
                "feasible_set", f"feasible_set is too thin: its inradius must be at least {thinnest:.3g}"
            )


class BallSpec(SetSpec):
    """All points within ``radius`` of ``center``."""

    kind: Literal["ball"] = "ball"
    radius: Annotated[Size, Field(description="Radius of the ball.")]
    center: (
        Annotated[list[Coordinate], Field(fail_fast=True, description="Center (default: the origin).")] | None
    ) = None

    def inradius(self, dim: int) -> float:  # noqa: ARG002 - other sets need it
        return self.radius

    def reach(self) -> float:
        return self.radius + max(map(abs, self.center or ()), default=0.0)

    def build(self, dim: int) -> Ball:
        center = np.zeros(dim) if self.center is None else np.array(self.center)
        return Ball(center, self.radius, self.reach())

    def resolved(self, dim: int) -> dict[str, Any]:
        return super().resolved(dim) | {"center": self.center or [0.0] * dim}

    def check(self, dim: int) -> None:
        if self.center is not None and len(self.center) != dim:
            raise FieldValueError(
                "feasible_set.center", f"feasible_set.center must have dim = {dim} numbers, not {len(self.center)}"
            )
        super().check(dim)


class BoxSpec(SetSpec):
    """All points between ``lower`` and ``upper``, coordinate by coordinate."""

    kind: Literal["box"] = "box"
    lower: Annotated[
        list[Coordinate], Field(fail_fast=True, min_length=1, description="Smallest value of each coordinate.")
    ]
    upper: Annotated[
        list[Coordinate], Field(fail_fast=True, min_length=1, description="Largest value of each coordinate.")
    ]

    @model_validator(mode="after")
    def _lower_below_upper(self) -> BoxSpec:
        if len(self.lower) != len(self.upper):
            raise FieldValueError("upper", "lower and upper must have the same length")
        for index, (low, high) in enumerate(zip(self.lower, self.upper, strict=True)):
            if low >= high:
                raise FieldValueError(
                    f"upper.{index}", f"lower must be below upper in every coordinate; it is not at index {index}"
                )
        return self

    def inradius(self, dim: int) -> float:  # noqa: ARG002 - other sets need it
        return min(high - low for low, high in zip(self.lower, self.upper, strict=True)) / 2

    def reach(self) -> float:
        return max(map(abs, self.lower + self.upper))

    def build(self, dim: int) -> Box:
        lower, upper = np.array(self.lower), np.array(self.upper)
        return Box((lower + upper) / 2, self.inradius(dim), self.reach(), lower, upper)

    def check(self, dim: int) -> None:
        if len(self.lower) != dim:
            raise FieldValueError(
                "feasible_set.lower", f"feasible_set.lower must have dim = {dim} numbers, not {len(self.lower)}"
            )
        super().check(dim)


class SimplexSpec(SetSpec):
    """All points with no negative coordinate and a sum of at most ``total``."""

    kind: Literal["simplex"] = "simplex"
    total: Annotated[Size, Field(description="Largest sum of the coordinates."), NullIs(1.0)] = 1.0

    def inradius(self, dim: int) -> float:
        return self.total / (dim + math.sqrt(dim))

    def reach(self) -> float:
        return self.total

    def build(self, dim: int) -> Simplex:
        inradius = self.inradius(dim)
        return Simplex(np.full(dim, inradius), inradius, self.reach(), self.total)


FeasibleSetSpec = Annotated[BallSpec | BoxSpec | SimplexSpec, Field(discriminator="kind")]
FEASIBLE_SETS = frozenset(spec.model_fields["kind"].default for spec in (BallSpec, BoxSpec, SimplexSpec))
"""Their kinds."""


class PointsSpec(Spec):
    """A learner over the points of a convex set."""

    dim: Annotated[Whole, Field(ge=1, le=MAX_COUNT, description="Number of coordinates of a point.")]
    feasible_set: Annotated[FeasibleSetSpec, Field(description="Where points and query points must lie.")]

    @model_validator(mode="after")
    def _set_fits_dim(self) -> PointsSpec:
        self.feasible_set.check(self.dim)
        return self

    @property
    def size(self) -> int:
        return self.dim

    def resolved(self) -> dict[str, Any]:
        return super().resolved() | {"feasible_set": self.feasible_set.resolved(self.dim)}

    @property
    def inradius(self) -> float:
        """Radius of the ball inscribed in the feasible set."""
        return self.feasible_set.inradius(self.dim)

    def build_set(self) -> FeasibleSet:
        """Make the feasible set."""
        return self.feasible_set.build(self.dim)

    def check_perturbation(self, delta: float) -> None:
        """Refuse a delta that does not fit into the set, or that vanishes by rounding.

        Raises
        ------
        ValueError
            naming the bound.
        """
        reach = self.feasible_set.reach()
        smallest = SMALLEST_RELATIVE_PERTURBATION * reach
        if delta < smallest:
            raise FieldValueError(
                "perturbation", f"perturbation is {delta:.3g}; for this set it must be at least {smallest:.3g}"
            )
        try:
            shrunk_scale(delta, self.dim, self.inradius, reach)
        except ValueError as error:
            raise FieldValueError("perturbation", str(error)) from error
