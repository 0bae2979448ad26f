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
    guess : lambda to start from
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
    """``solve`` for one run in plain floats, which are several times faster; the same operations bit for bit."""
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


def solve_rows(sums: FloatArray, scale: FloatArray, guess: FloatArray) -> tuple[FloatArray, FloatArray]:
    """``solve`` for several problems of each run, shapes (..., rows, n_arms) and (..., rows); the same numbers."""
    return _solve_rows_of_one(sums, scale, guess) if sums.ndim == 2 else solve(sums, scale, guess)


def _solve_rows_of_one(sums: FloatArray, scale: FloatArray, guess: FloatArray) -> tuple[FloatArray, FloatArray]:
    """``solve_rows`` for one run: its few numbers a row are plain floats; the same operations bit for bit."""
    scales, width = scale.tolist(), column(scale)
    lam = [min(start, -most) for start, most in zip(guess.tolist(), scales, strict=True)]
    unsolved = list(range(len(lam)))
    root = width / (sums - np.array(lam)[:, None])
    for _ in range(MAX_SOLVE_STEPS):
        x = root * root
        totals, cubes = x.sum(axis=-1).tolist(), (x * root).sum(axis=-1).tolist()
        unsolved = [row for row in unsolved if _move(lam, row, scales[row], totals[row], cubes[row])]
        if not unsolved:
            break
        root = width / (sums - np.array(lam)[:, None])
    return np.array(lam), root * root


def _move(lam: list[float], row: int, scale: float, total: float, cube: float) -> bool:
    """Take a step of Newton's method for one row; return False, leaving lambda as it is, where it is solved."""
    moved = min(lam[row] + 2 * (total - total * math.sqrt(total)) / (2 / scale * cube), -scale)
    if abs(total - 1) <= SOLVED or moved == lam[row]:
        return False
    lam[row] = moved
    return True


def solve_few(sums: FloatArray, scale: Any, guess: Any) -> tuple[Any, FloatArray]:
    """``solve`` for fewer than eight sums a run; the same numbers, sooner."""
    if sums.ndim > 1:
        return solve(sums, scale, guess)
    values, scale = sums.tolist(), float(scale)
    lam = [min(float(guess), -scale)]
    roots = [scale / (value - lam[0]) for value in values]
    for _ in range(MAX_SOLVE_STEPS):
        total = cube = 0.0
        for root in roots:
            total += root * root
            cube += root * root * root
        if not _move(lam, 0, scale, total, cube):
            break
        roots = [scale / (value - lam[0]) for value in values]
    return lam[0], np.square(roots)
