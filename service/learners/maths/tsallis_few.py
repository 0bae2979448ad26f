"""A Tsallis distribution over a handful of entries, as a mixture of a few experts needs it."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from ..base import FloatArray
from .tsallis import MAX_SOLVE_STEPS, column
from .tsallis_rows import solve_rows, step


class Few(NamedTuple):
    """A distribution over n < 8 entries; all arrays have shape (..., n)."""

    sums: FloatArray
    """The sums less their least, raised where the floor was in force."""
    p: FloatArray
    units: FloatArray
    """scale/sqrt(p), 0 where the scale is 0."""


def distribution_over_few(sums: FloatArray, scale: Any, before: FloatArray, floor: float) -> Few:
    """Solve for the distribution; start where it would be if it had changed little.

    Parameters
    ----------
    sums : shape (..., n)
    scale : a float or shape (...); where it is 0 the distribution stays as it is
    before : the distribution so far, positive, shape (..., n)
    floor : least probability, before p is normalised
    """
    if sums.ndim > 1:
        return _of_many(sums, scale, before, floor)
    values = sums.tolist()
    least = min(values)
    values = [value - least for value in values]
    if not scale > 0:
        return Few(np.array(values), before, np.zeros(len(values)))
    lam, x = _solved(values, scale, before.tolist())
    values = [lam + scale / math.sqrt(floor) if y < floor else v for v, y in zip(values, x, strict=True)]
    x = [floor if y < floor else y for y in x]
    total = 0.0
    for y in x:
        total += y
    p = [y / total for y in x]
    return Few(np.array(values), np.array(p), np.array([scale / math.sqrt(share) for share in p]))


def _solved(values: list[float], scale: float, before: list[float]) -> tuple[float, list[float]]:
    """``solve_rows`` for one row, in plain floats."""
    over = under = 0.0
    for value, share in zip(values, before, strict=True):
        root = math.sqrt(share)
        over += (value - scale / root) * (share * root)
        under += share * root
    lam = [min(over / under, -scale)]
    for _ in range(MAX_SOLVE_STEPS):
        total = cubes = squares = 0.0
        for value in values:
            root = scale / (value - lam[0])
            x = root * root
            total, cubes, squares = total + x, cubes + x * root, squares + x * x
        if not step(lam, 0, scale, total, cubes, squares):
            break
    roots = [scale / (value - lam[0]) for value in values]
    return lam[0], [root * root for root in roots]


def _of_many(sums: FloatArray, scale: Any, before: FloatArray, floor: float) -> Few:
    """Of many runs; the same operations bit for bit as for one."""
    sums = sums - sums.min(axis=-1, keepdims=True)
    live = column(scale) > 0
    wide = np.where(live, column(scale), 1.0)
    root = np.sqrt(before)
    weight = before * root
    guess = np.add.reduce((sums - wide / root) * weight, axis=-1) / np.add.reduce(weight, axis=-1)
    lam, solved = solve_rows(sums[..., None, :], np.broadcast_to(wide, (*guess.shape, 1)), guess[..., None])
    x, low = solved[..., 0, :], (solved[..., 0, :] < floor) & live
    raised = np.where(low, lam + wide / math.sqrt(floor), sums)
    x = np.where(x < floor, floor, x)
    p = np.where(live, x / np.add.reduce(x, axis=-1, keepdims=True), before)
    return Few(raised, p, np.where(live, wide / np.sqrt(p), 0.0))
