"""Exponential weights kept as logarithms, so that no step underflows to a division by 0.

The largest log-weight is always 0. Log-weights and distributions have shape (..., n_arms).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..base import FloatArray, IntArray, at
from .distributions import spread

SMALLEST_DIVISOR = 1e-180
"""Smaller probabilities are replaced by this one: either way the arm's weight becomes 0 as a double."""
LOWEST = -1e300
"""Log-weights stop falling here, far below where their weight is 0 as a double."""


def exp3_rate(n_arms: int, updates: float, scale: float = 1.0) -> float:
    """Return EXP3's learning rate for T updates, c sqrt((1 + ln K)/(K T)) (Auer et al. 2002, up to constants).

    Parameters
    ----------
    n_arms : K
    updates : T, steps that the learner will make
    scale : c
    """
    return scale * math.sqrt((1 + math.log(n_arms)) / (n_arms * updates))


def probabilities(log_weights: FloatArray, eligible: IntArray | None = None) -> FloatArray:
    """Return the distribution proportional to the weights, over the arms at ``eligible``.

    Parameters
    ----------
    log_weights : shape (..., n_arms), the largest 0
    eligible : positions of these arms; the others have probability 0. None: all arms
    """
    if eligible is not None:
        part = log_weights[..., eligible]
        shares_of_part = probabilities(part - part.max(axis=-1, keepdims=True))
        return spread(shares_of_part, eligible, log_weights.shape[-1])
    weights = np.exp(log_weights)
    shares: FloatArray = weights / weights.sum(axis=-1, keepdims=True)
    return shares


def lowered(log_weights: FloatArray, arm: Any, learning_rate: float, loss: Any, divisor: Any) -> FloatArray:
    """Return the log-weights after one loss.

    The weight of ``arm`` is multiplied by exp(-eta loss/divisor): eq. (est.exp3) and the one after it.

    Parameters
    ----------
    log_weights : before it, shape (..., n_arms)
    arm : its position; an int, or an int array over the leading axes
    learning_rate : eta
    loss : >= 0; a float, or an array over the leading axes
    divisor : the probability to divide by, taken as ``SMALLEST_DIVISOR`` at least; a float, or an array over the
        leading axes
    """
    lower = log_weights.copy()
    lower[at(arm)] -= learning_rate * loss / np.maximum(divisor, SMALLEST_DIVISOR)
    lower -= lower.max(axis=-1, keepdims=True)
    return np.maximum(lower, LOWEST, out=lower)


def without(log_weights: FloatArray, positions: IntArray) -> FloatArray:
    """Return the log-weights without some arms, shifted so that the largest is 0.

    Parameters
    ----------
    log_weights : shape (..., n_arms)
    positions : of the arms to remove, not all of them
    """
    kept = np.delete(log_weights, positions, axis=-1)
    shifted: FloatArray = kept - kept.max(axis=-1, keepdims=True)
    return shifted


def joined(log_weights: FloatArray, count: int) -> FloatArray:
    """Return the log-weights with more arms at the mean weight of the others, which is probability 1/n of n in all.

    Parameters
    ----------
    log_weights : shape (..., n_arms), the largest 0
    count : arms to add behind the others
    """
    mean = np.log(np.exp(log_weights).mean(axis=-1, keepdims=True))
    return np.concatenate([log_weights, np.repeat(mean, count, axis=-1)], axis=-1)
