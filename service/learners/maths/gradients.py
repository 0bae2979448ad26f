"""Gradients as learners over points use them, estimated or reported."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from ..base import FloatArray

LARGEST_VALUE = 1e100
"""Losses and gradient entries beyond this size are cut to it, so that no step and no sum of squares overflows."""


def query_points(x: FloatArray, perturbation: float) -> FloatArray:
    """Return x + delta e_k for each k, shape (..., dim, dim).

    Parameters
    ----------
    x : shape (..., dim)
    perturbation : delta
    """
    return x[..., None, :] + _offsets(x.shape[-1], perturbation)


@lru_cache(maxsize=4)
def _offsets(dim: int, perturbation: float) -> FloatArray:
    """Return delta e_k for each k; learners don't keep it, as it takes dim times the memory of a point."""
    return perturbation * np.eye(dim)


def forward_difference(losses: FloatArray, perturbation: float) -> FloatArray:
    """Return the forward differences of eq. (estgrad), (f(x + delta e_k) - f(x)) / delta, shape (..., dim).

    Parameters
    ----------
    losses : f(x), then f(x + delta e_k) for each k, shape (..., dim+1)
    perturbation : delta
    """
    values = bounded(losses)
    return (values[..., 1:] - values[..., :1]) / perturbation


def bounded(values: FloatArray) -> FloatArray:
    """Return ``values`` cut to +-``LARGEST_VALUE``."""
    return np.clip(values, -LARGEST_VALUE, LARGEST_VALUE)


def squared_norm(vector: FloatArray) -> Any:
    """Return |vector|^2 over the last axis: a float for one run, an array over the leading axes for many."""
    total = np.square(vector).sum(axis=-1)
    return total if total.ndim else float(total)
