"""Whether points lie in a feasible set."""

from typing import Any

import numpy as np

from service.learners.base import FloatArray
from service.learners.maths import Ball, Box, FeasibleSet, Simplex


def contains(feasible_set: FeasibleSet, x: FloatArray) -> Any:
    """Whether ``x``, shape (..., dim), lies in the set: judged on the doubles as they are, without tolerance."""
    match feasible_set:
        case Ball():
            return np.linalg.norm(x - feasible_set.center, axis=-1) <= feasible_set.inradius
        case Box():
            return ((feasible_set.lower <= x) & (x <= feasible_set.upper)).all(axis=-1)
        case Simplex():
            return (x >= 0).all(axis=-1) & (x.sum(axis=-1) <= feasible_set.total)
    raise TypeError(feasible_set)
