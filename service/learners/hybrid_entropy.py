"""The distribution of follow-the-regularised-leader with Tsallis entropy and negative entropy together."""

from __future__ import annotations

import math

import numpy as np

from .base import FloatArray
from .maths.tsallis import column

INNER_STEPS = 8
"""Newton's method for log x starts within a factor of two of its target, and squares its error."""
OUTER_STEPS = 100
"""About ten are needed; halving a bracket, which is the last resort, needs sixty."""
SOLVED = 1e-13


def depth(x: FloatArray, root_rate: float, entropy_rate: float) -> FloatArray:
    """Return A x^(-1/2) - B ln x: how far below its sum lambda must lie for an arm to have probability x.

    Parameters
    ----------
    x : positive, shape (..., n_arms)
    root_rate : A > 0
    entropy_rate : B >= 0
    """
    below: FloatArray = root_rate / np.sqrt(x) - entropy_rate * np.log(x)
    return below


def solve_hybrid(sums: FloatArray, root_rate: float, entropy_rate: float) -> FloatArray:
    """Return the minimiser x of <x, sums> - 2 A sum sqrt(x) + B sum x (ln x - 1) over distributions.

    Parameters
    ----------
    sums : shape (..., n_arms), least entry 0
    root_rate : A > 0
    entropy_rate : B >= 0

    Returns
    -------
    x, shape (..., n_arms)
    """
    n_arms = sums.shape[-1]
    high = np.full(sums.shape[:-1], -root_rate)
    low = high - root_rate * (math.sqrt(n_arms) - 1) - entropy_rate * math.log(n_arms)
    lam, solved = low, np.False_
    x: FloatArray
    logs = _logs(sums - column(lam), root_rate, entropy_rate)
    for _ in range(OUTER_STEPS):
        x = np.exp(logs)
        total = x.sum(axis=-1)
        solved = solved | (abs(total - 1) <= SOLVED)
        if np.all(solved):
            break
        low, high = np.where(total < 1, lam, low), np.where(total < 1, high, lam)
        slope = (x / (root_rate / 2 * np.exp(-logs / 2) + entropy_rate)).sum(axis=-1)
        moved = lam - total * np.log(total) / slope
        moved = np.where((moved > low) & (moved < high), moved, (low + high) / 2)
        solved = solved | (moved == lam)
        lam = np.where(solved, lam, moved)
        logs = _logs(sums - column(lam), root_rate, entropy_rate)
    x /= x.sum(axis=-1, keepdims=True)
    return x


def _logs(below: FloatArray, root_rate: float, entropy_rate: float) -> FloatArray:
    """Return ln x where ``depth`` is ``below``, by Newton's method from the left: it is convex and falls."""
    logs = -2 * np.log(below / root_rate)
    if entropy_rate:
        logs = np.maximum(logs, (root_rate - below) / entropy_rate)
        for _ in range(INNER_STEPS):
            power = root_rate * np.exp(-logs / 2)
            logs = logs + (power - entropy_rate * logs - below) / (power / 2 + entropy_rate)
    return logs
