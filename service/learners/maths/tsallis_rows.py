"""Several Tsallis distributions of each run at once, as ``tsallis.solve`` gives one."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..base import FloatArray
from .tsallis import MAX_SOLVE_STEPS, column

NEARLY_SOLVED = 1e-6
"""Error of a sum of probabilities that one more step, which cubes it, reduces to rounding."""


def solve_rows(sums: FloatArray, scale: FloatArray, guess: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return lambda <= -scale with sum_k (scale/(sums_k - lambda))^2 = 1 for each row, and these squares.

    Halley's method on F^(-1/2), F being the sum. A row that is solved stays as it is while others go on, so that
    its numbers do not depend on theirs.

    Parameters
    ----------
    sums : shape (..., rows, n_arms), least entry of each row 0
    scale, guess : positive, and lambda to start from, shape (..., rows)
    """
    if sums.ndim == 2:
        return _solve_rows_of_one(sums, scale, guess)
    lam, wide = np.minimum(guess, -scale), column(scale)
    powers, unsolved = np.empty((3, *sums.shape)), np.ones(lam.shape, dtype=bool)
    for _ in range(MAX_SOLVE_STEPS):
        totals = _totals(wide / (sums - column(lam)), powers)
        lam, unsolved = _moved(lam, unsolved, scale, totals)
        if not unsolved.any():
            break
    root = wide / (sums - column(lam))
    return lam, root * root


def _solve_rows_of_one(sums: FloatArray, scale: FloatArray, guess: FloatArray) -> tuple[FloatArray, FloatArray]:
    """``solve_rows`` for one run, whose few numbers are plain floats; the same operations bit for bit."""
    scales, wide, powers = scale.tolist(), scale[:, None], np.empty((3, *sums.shape))
    lam = [min(start, -most) for start, most in zip(guess.tolist(), scales, strict=True)]
    unsolved = list(range(len(scales)))
    root = np.empty(sums.shape)
    for _ in range(MAX_SOLVE_STEPS):
        np.subtract(sums, np.array(lam)[:, None], out=root)
        np.divide(wide, root, out=root)
        total, cubes, squares = _totals(root, powers).tolist()
        unsolved = [row for row in unsolved if step(lam, row, scales[row], total[row], cubes[row], squares[row])]
        if not unsolved:
            break
    last = np.array(lam)
    np.subtract(sums, last[:, None], out=root)
    np.divide(wide, root, out=root)
    return last, np.multiply(root, root, out=root)


def _totals(root: FloatArray, powers: FloatArray) -> FloatArray:
    """Return the sums of x, x^(3/2) and x^2, shape (3, ..., rows); ``powers`` is room for them."""
    x = np.multiply(root, root, out=powers[0])
    np.multiply(x, root, out=powers[1])
    np.multiply(x, x, out=powers[2])
    totals: FloatArray = np.add.reduce(powers, axis=-1)
    return totals


def _moved(lam: Any, unsolved: Any, scale: Any, totals: Any) -> tuple[FloatArray, FloatArray]:
    """Take a step in the rows that are not solved, and say which of them still are not.

    ``totals`` are the sums of x, x^(3/2) and x^2. Where the curvature is large Newton's step is taken.
    """
    total, cubes, squares = totals
    over = total * np.sqrt(total)
    gap, slope = 1 / np.sqrt(total) - 1, cubes / over
    bend, square = gap * (3 * (cubes * cubes / total - squares) / over), slope * slope
    move = 2 * scale * gap * slope / np.where(bend < square, 2 * square - bend, 2 * square)
    moved = np.where(unsolved, np.minimum(lam + move, -scale), lam)
    return moved, unsolved & (abs(total - 1) > NEARLY_SOLVED) & (moved != lam)


def step(lam: list[float], row: int, scale: float, total: float, cubes: float, squares: float) -> bool:
    """Take a step in one row of ``lam``, in place, and return whether it is not solved yet; see ``_moved``."""
    over = total * math.sqrt(total)
    gap, slope = 1 / math.sqrt(total) - 1, cubes / over
    bend, square = gap * (3 * (cubes * cubes / total - squares) / over), slope * slope
    before = lam[row]
    moved = before + 2 * scale * gap * slope / (2 * square - bend if bend < square else 2 * square)
    lam[row] = moved = min(moved, -scale)
    return abs(total - 1) > NEARLY_SOLVED and moved != before
