"""The distribution of 1/2-Tsallis follow-the-regularised-leader (Zimmert and Seldin 2021), by Newton's method."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..base import FloatArray

SOLVED = 1e-14
"""Error of the sum of probabilities from which on lambda is good enough."""
MAX_SOLVE_STEPS = 64
"""Six steps are the most ever seen."""


def column(value: Any) -> FloatArray:
    """Return a number for each run with a last axis of 1, to combine with arrays over arms."""
    return np.asarray(value)[..., None]


def solve(sums: FloatArray, scale: Any, guess: Any) -> tuple[Any, FloatArray]:
    """Return lambda <= -scale with sum_k (scale/(sums_k - lambda))^2 = 1, and these squares.

    Newton's method on F^(-1/2), F being the sum: monotone after its first step. Runs that are solved stay as
    they are while others go on, so that a run's numbers do not depend on the runs stepped with it.

    Parameters
    ----------
    sums : shape (..., n_arms), least entry 0
    scale : positive, a float or shape (...)
    guess : lambda to start from, a float or shape (...)

    Returns
    -------
    lambda, a float or shape (...), and the squares, shape (..., n_arms)
    """
    if sums.ndim == 1:
        return _solve_one(sums, float(scale), float(guess))
    lam, solved = np.minimum(guess, -scale), np.False_
    root = column(scale) / (sums - column(lam))
    for _ in range(MAX_SOLVE_STEPS):
        x = root * root
        total = x.sum(axis=-1)
        slope = 2 / scale * (x * root).sum(axis=-1)
        moved = np.minimum(lam + 2 * (total - total * np.sqrt(total)) / slope, -scale)
        solved = solved | (abs(total - 1) <= SOLVED) | (moved == lam)
        if solved.all():
            break
        lam = np.where(solved, lam, moved)
        root = column(scale) / (sums - column(lam))
    return lam, root * root


def _solve_one(sums: FloatArray, scale: float, guess: float) -> tuple[float, FloatArray]:
    """Return what ``solve`` returns, for one run in plain floats: several times faster, the same bit for bit."""
    lam = min(guess, -scale)
    root = scale / (sums - lam)
    for _ in range(MAX_SOLVE_STEPS):
        x = root * root
        total = float(x.sum())
        slope = 2 / scale * float((x * root).sum())
        moved = min(lam + 2 * (total - total * math.sqrt(total)) / slope, -scale)
        if abs(total - 1) <= SOLVED or moved == lam:
            break
        lam = moved
        root = scale / (sums - lam)
    return lam, root * root
