"""Gradients as the point learners use them, estimated or handed in."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..base import FloatArray

LARGEST_VALUE = 1e100
"""Losses and gradient entries beyond this size are cut to it, so that no step and no sum of squares overflows."""


def forward_difference(losses: FloatArray, perturbation: float) -> FloatArray:
    """Eq. (estgrad): entry k is (f(x + delta e_k) - f(x)) / delta; ``losses`` has f(x) first."""
    values = bounded(losses)
    return (values[..., 1:] - values[..., :1]) / perturbation


def bounded(values: FloatArray) -> FloatArray:
    """``values`` cut to the largest size the learners compute with."""
    return np.clip(values, -LARGEST_VALUE, LARGEST_VALUE)


def squared_norm(vector: FloatArray) -> Any:
    """|vector|^2 over the last axis: a float for one run, an array over the leading axes for many."""
    total = np.square(vector).sum(axis=-1)
    return total if total.ndim else float(total)
