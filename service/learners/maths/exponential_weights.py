"""Exponential weights kept as logarithms, so that no step underflows to a division by 0.

The largest log-weight is always 0. Arrays may carry leading axes.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..base import FloatArray, IntArray, at

SMALLEST_DIVISOR = 1e-180
"""A smaller probability is taken for this: either way the arm's weight becomes 0 as a double."""
LOWEST = -1e300
"""Log-weights stop falling here, far below where their weight is 0 as a double."""


def exp3_rate(n_arms: int, updates: float, scale: float = 1.0) -> float:
    """EXP3's learning rate for so many updates, c sqrt((1 + ln K)/(K T))."""
    return scale * math.sqrt((1 + math.log(n_arms)) / (n_arms * updates))


def probabilities(log_weights: FloatArray) -> FloatArray:
    """The distribution proportional to the weights."""
    weights = np.exp(log_weights)
    shares: FloatArray = weights / weights.sum(axis=-1, keepdims=True)
    return shares


def lowered(log_weights: FloatArray, arm: Any, learning_rate: float, loss: Any, divisor: Any) -> FloatArray:
    """Eqs. (est.exp3) and after: the weight of ``arm`` times exp(-eta loss/divisor)."""
    lower = log_weights.copy()
    lower[at(arm)] -= learning_rate * loss / np.maximum(divisor, SMALLEST_DIVISOR)
    lower -= lower.max(axis=-1, keepdims=True)
    return np.maximum(lower, LOWEST, out=lower)


def without(log_weights: FloatArray, positions: IntArray) -> FloatArray:
    """The weights of the arms that stay, the largest of them 1 again."""
    kept = np.delete(log_weights, positions, axis=-1)
    shifted: FloatArray = kept - kept.max(axis=-1, keepdims=True)
    return shifted


def joined(log_weights: FloatArray, count: int) -> FloatArray:
    """``count`` more arms, each with the mean of the weights there are, which makes it 1/n of n in all."""
    mean = np.log(np.exp(log_weights).mean(axis=-1, keepdims=True))
    return np.concatenate([log_weights, np.repeat(mean, count, axis=-1)], axis=-1)
