"""Exact Euclidean projections onto simplices, by sorting (Held et al. 1974; Duchi et al. 2008)."""

from __future__ import annotations

import numpy as np

from ..base import FloatArray


def project_onto_face(z: FloatArray, total: float) -> FloatArray:
    """Return the nearest point of {x >= 0, sum x = total} to each point of ``z``.

    Parameters
    ----------
    z : points anywhere, shape (..., dim)
    total : positive

    Notes
    -----
    The answer is max(z - theta, 0), where theta makes the sum right. It does not change when all of z is
    shifted, nor when entries more than ``total`` below the largest are raised to that depth: they are 0
    either way. Both are done first, so that theta is accurate for z of any size.
    """
    depth = np.maximum(z - z.max(axis=-1, keepdims=True), -total)
    falling = -np.sort(-depth, axis=-1)
    excess = np.cumsum(falling, axis=-1) - total
    counts = np.arange(1, z.shape[-1] + 1)
    positive = np.count_nonzero(falling * counts > excess, axis=-1, keepdims=True)
    theta = np.take_along_axis(excess, positive - 1, axis=-1) / positive
    nearest: FloatArray = np.maximum(depth - theta, 0.0)
    return nearest


def project_onto_simplex(z: FloatArray, total: float) -> FloatArray:
    """Return the nearest point of {x >= 0, sum x <= total} to each point of ``z``.

    Parameters
    ----------
    z, total : as for ``project_onto_face``
    """
    clipped = np.maximum(z, 0.0)
    outside = clipped.sum(axis=-1, keepdims=True) > total
    if not outside.any():
        return clipped
    return np.where(outside, project_onto_face(z, total), clipped)
