"""Weights of 1/2-Tsallis follow-the-regularised-leader: minus eta times the sums of losses, the largest 0.

Weights and distributions have shape (..., n_arms).
"""

from __future__ import annotations

import numpy as np

from ..base import FloatArray, IntArray
from . import distributions
from .tsallis import column, solve


def probabilities(weights: FloatArray) -> FloatArray:
    """Return the minimiser of -<x, weights> - 2 sum sqrt(x) over distributions, shape (..., n_arms)."""
    one = np.ones(weights.shape[:-1])
    _, x = solve(-weights, one[()], -one[()])
    shares: FloatArray = x / x.sum(axis=-1, keepdims=True)
    return shares


def without(weights: FloatArray, positions: IntArray) -> FloatArray:
    """Return weights without some arms; the others keep the ratios of their probabilities.

    Parameters
    ----------
    weights : shape (..., n_arms), the largest 0
    positions : of the arms to remove, not all of them
    """
    return _weights(distributions.remove_arms(probabilities(weights), positions))


def joined(weights: FloatArray, count: int) -> FloatArray:
    """Return weights with more arms behind the others, each with probability 1/n of n in all.

    Parameters
    ----------
    weights : shape (..., n_arms), the largest 0
    count : arms to add
    """
    return _weights(distributions.add_arms(probabilities(weights), count))


def _weights(p: FloatArray) -> FloatArray:
    depths = 1 / np.sqrt(np.maximum(p, np.finfo(float).tiny))
    return column(depths.min(axis=-1)) - depths
