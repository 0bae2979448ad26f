"""Feasible sets, and projection onto the shrunk set that query points need.

A point x is kept in the shrunk set c + (1 - delta/r)(X - c), where c is the center of the ball of radius r
inscribed in X. That set plus any vector no longer than delta lies in X, so every query point is feasible.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ..base import FloatArray
from .simplex import project_onto_simplex

_ULPS_PER_DIMENSION = 2.0
_ULPS = 16.0


def shrunk_scale(delta: float, dim: int, inradius: float, reach: float) -> float:
    """Return the scale of the shrunk set, 1 - delta/inradius less a margin for rounding.

    Parameters
    ----------
    delta : largest distance of a query point from x
    dim : coordinates of a point; the margin grows with it
    inradius : radius of the ball inscribed in X
    reach : bound on the size of any coordinate of a point of X, which gives the margin

    Raises
    ------
    ValueError
        unless 0 <= delta < inradius, by more than the margin.
    """
    margin = (_ULPS_PER_DIMENSION * dim + _ULPS) * math.ulp(reach)
    scale = 1 - (delta + margin) / inradius
    if not (delta >= 0 and scale > 0):
        raise ValueError(f"perturbation must be smaller than the feasible set's inradius, {inradius:.17g}")
    return scale


@dataclass(frozen=True)
class FeasibleSet(ABC):
    """A convex body X. Points may carry leading axes."""

    center: FloatArray
    inradius: float
    reach: float
    """Bound on the size of any coordinate of a point of X."""

    @property
    @abstractmethod
    def diameter(self) -> float:
        """Largest distance between two points of X."""

    @abstractmethod
    def project_scaled(self, z: FloatArray, scale: float) -> FloatArray:
        """Return the nearest point of c + scale (X - c) to each point of ``z``.

        Parameters
        ----------
        z : points anywhere, shape (..., dim)
        scale : in (0, 1]
        """

    def shrunk(self, delta: float) -> Shrunk:
        """Return the set of points x for which x and x + delta e_k lie in X, also after rounding.

        It is the shrunk set described at the top of this module, smaller by a few units in the last place: by
        (2 dim + 16) ulps of ``reach``, more than projecting and adding delta err together.

        Parameters
        ----------
        delta : distance of the query points from x, in [0, inradius)

        Raises
        ------
        ValueError
            unless 0 <= delta < inradius, by more than that rounding margin.
        """
        scale = shrunk_scale(delta, self.center.size, self.inradius, self.reach)
        return Shrunk(self, scale)


class Shrunk(NamedTuple):
    """c + scale (X - c)."""

    whole: FeasibleSet
    scale: float

    def project(self, z: FloatArray) -> FloatArray:
        """Return the nearest point of the shrunk set to each point of ``z``, shape (..., dim)."""
        return self.whole.project_scaled(z, self.scale)


@dataclass(frozen=True)
class Ball(FeasibleSet):
    """{x : |x - center| <= inradius}."""

    @property
    def diameter(self) -> float:
        return 2 * self.inradius

    def project_scaled(self, z: FloatArray, scale: float) -> FloatArray:
        radius = scale * self.inradius
        offset = z - self.center
        distance = np.sqrt(np.square(offset).sum(axis=-1, keepdims=True))
        return np.where(distance > radius, self.center + offset * (radius / np.maximum(distance, radius)), z)


@dataclass(frozen=True)
class Box(FeasibleSet):
    """{x : lower <= x <= upper}; its center is the midpoint."""

    lower: FloatArray
    upper: FloatArray

    @property
    def diameter(self) -> float:
        return float(np.linalg.norm(self.upper - self.lower))

    def project_scaled(self, z: FloatArray, scale: float) -> FloatArray:
        half = scale * (self.upper - self.lower) / 2
        return np.clip(z, self.center - half, self.center + half)


@dataclass(frozen=True)
class Simplex(FeasibleSet):
    """{x >= 0 : sum x <= total}; every coordinate of its center equals the inradius."""

    total: float

    @property
    def diameter(self) -> float:
        return self.total * (math.sqrt(2) if self.center.size > 1 else 1.0)

    def project_scaled(self, z: FloatArray, scale: float) -> FloatArray:
        corner = (1 - scale) * self.inradius
        return corner + project_onto_simplex(z - corner, scale * self.total)
