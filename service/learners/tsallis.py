"""Distributions of 1/2-Tsallis follow-the-regularised-leader (Zimmert and Seldin 2021): one, several, few arms."""

import itertools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from . import maths as distributions
from .base import FloatArray, IntArray

MAX_SOLVE_STEPS = 64
"""Six steps are the most ever seen."""
NEARLY_SOLVED = 1e-6
"""Error of a sum of probabilities that one more step, which cubes it, reduces to rounding."""
MANY_ARMS = 1_000
"""From which on sums of products are those of BLAS: in half the time, rounded as the processor does it."""


def column(value: Any) -> FloatArray:
    """Return a number for each run with a last axis of 1, to combine with arrays over arms."""
    return np.asarray(value)[..., None]


def solve_rows(sums: FloatArray, scale: FloatArray, guess: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return lambda <= -scale with sum_k (scale/(sums_k - lambda))^2 = 1 for each row, and these squares.

    Halley's method on F^(-1/2), F being the sum. A row that is solved stays as it is while others go on, so that
    its numbers do not depend on theirs.

    Parameters
    ----------
    sums : shape (..., rows, n_arms), least entry of each row 0
    scale : positive, shape (..., rows)
    guess : lambda to start from, shape (..., rows)

    Returns
    -------
    lambda of each row, shape (..., rows), and the squares, shape (..., rows, n_arms)
    """
    if sums.ndim > 2:
        shape = sums.shape[:-1]
        runs = zip(sums, np.broadcast_to(scale, shape), np.broadcast_to(guess, shape), strict=True)
        of_runs, squares_of_runs = zip(*itertools.starmap(solve_rows, runs), strict=True)
        return np.array(of_runs), np.array(squares_of_runs)
    scales, wide, root, powers = scale.tolist(), scale[:, None], np.empty(sums.shape), np.empty((3, *sums.shape))
    at = np.minimum(guess, -scale)
    lam, wide_lam, unsolved = at.tolist(), at[:, None], list(range(len(scales)))
    for _ in range(MAX_SOLVE_STEPS):
        np.divide(wide, np.subtract(sums, wide_lam, out=root), out=root)
        total, cubes, squares = _totals(root, powers).tolist()
        unsolved = [row for row in unsolved if step(lam, row, scales[row], total[row], cubes[row], squares[row])]
        at[:] = lam
        if not unsolved:
            break
    np.divide(wide, np.subtract(sums, wide_lam, out=root), out=root)
    return at, np.multiply(root, root, out=root)


def solve(sums: FloatArray, scale: Any, guess: Any) -> tuple[Any, FloatArray]:
    """Return what ``solve_rows`` returns, for one row of each run.

    Parameters
    ----------
    sums : shape (..., n_arms), least entry 0
    scale : positive, a float or shape (...)
    guess : lambda to start from, a float or shape (...)

    Returns
    -------
    lambda, a float or shape (...), and the squares, shape (..., n_arms)
    """
    lam, x = solve_rows(sums[..., None, :], column(scale), column(guess))
    return (lam[..., 0] if sums.ndim > 1 else lam.item()), x[..., 0, :]


def _totals(root: FloatArray, powers: FloatArray) -> FloatArray:
    """Return the sums of x, x^(3/2) and x^2, shape (3, rows); ``powers`` is room for them.

    Of few arms they are the same on every processor.
    """
    x = np.multiply(root, root, out=powers[0])
    if root.shape[-1] >= MANY_ARMS:
        return np.array([np.vecdot(root, root), np.vecdot(x, root), np.vecdot(x, x)])
    np.multiply(x, root, out=powers[1])
    np.multiply(x, x, out=powers[2])
    totals: FloatArray = np.add.reduce(powers, axis=-1)
    return totals


def step(lam: list[float], row: int, scale: float, total: float, cubes: float, squares: float) -> bool:
    """Take a step in one row of ``lam``, in place, and return whether it is not solved yet.

    ``total``, ``cubes`` and ``squares`` are the row's sums of x, x^(3/2) and x^2 at its multiplier. Where the
    curvature is large Newton's step is taken.
    """
    root, before = math.sqrt(total), lam[row]
    over = total * root
    gap, slope = 1 / root - 1, cubes / over
    bend, square = gap * (3 * (cubes * cubes / total - squares) / over), slope * slope
    moved = before + 2 * scale * gap * slope / (2 * square - bend if bend < square else 2 * square)
    lam[row] = moved = -scale if -scale < moved else moved
    return abs(total - 1) > NEARLY_SOLVED and moved != before


class Few(NamedTuple):
    """A distribution over n < 8 entries; all arrays have shape (..., n)."""

    sums: FloatArray
    """The sums less their least, raised where the floor was in force."""
    p: FloatArray
    units: FloatArray
    """scale/sqrt(p), 0 where the scale is 0."""


def distribution_over_few(
    sums: FloatArray, scale: Any, before: FloatArray, floor: float, costs: Sequence[float]
) -> Few:
    """Solve for the distribution; start where it would be if it had changed little.

    Parameters
    ----------
    sums : shape (..., n)
    scale : a float or shape (...); where it is 0 the distribution stays as it is
    before : the distribution so far, positive, shape (..., n)
    floor : least probability, before p is normalised
    costs : of each entry, in units of the scale, on top of its sum
    """
    if sums.ndim > 1:
        runs = zip(sums, np.broadcast_to(scale, sums.shape[:-1]).tolist(), before, strict=True)
        alone = [distribution_over_few(*run, floor, costs) for run in runs]
        return Few(*(np.array(part) for part in zip(*alone, strict=True)))
    values = sums.tolist()
    least = min(values)
    values = [value - least for value in values]
    if not scale > 0:
        return Few(np.array(values), before, np.zeros(len(values)))
    asked = [value + scale * cost for value, cost in zip(values, costs, strict=True)]
    least = min(asked)
    asked = [value - least for value in asked]
    lam, x = _solved(asked, scale, before.tolist())
    raised = lam + scale / math.sqrt(floor)
    for place, y in enumerate(x):
        if y < floor:
            values[place] += raised - asked[place]
            x[place] = floor
    total = 0.0
    for y in x:
        total += y
    p = [y / total for y in x]
    return Few(np.array(values), np.array(p), np.array([scale / math.sqrt(share) for share in p]))


def _solved(values: list[float], scale: float, before: list[float]) -> tuple[float, list[float]]:
    """Return what ``solve_rows`` returns, for one row in plain floats."""
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


def mixture(weights: FloatArray, p: FloatArray, out: FloatArray | None = None) -> FloatArray:
    """Return the mixture of distributions, shape (..., n_arms): exactly what they are where they agree.

    Parameters
    ----------
    weights : of each, shape (..., experts)
    p : the distributions, shape (..., experts, n_arms)
    out : where it is written; None: into a new array
    """
    others = p[..., 1:, :] - p[..., :1, :]
    others *= weights[..., 1:, None]
    mixed: FloatArray = np.add.reduce(others, axis=-2, out=out)
    mixed += p[..., 0, :]
    return mixed


# -- Weights of 1/2-Tsallis follow-the-regularised-leader: minus eta times the sums of losses, the largest 0.
#
# Weights and distributions have shape (..., n_arms).


def probabilities(weights: FloatArray) -> FloatArray:
    """Return the minimiser of -<x, weights> - 2 sum sqrt(x) over distributions, shape (..., n_arms)."""
    one = np.ones(weights.shape[:-1])
    _, x = solve(-weights, one[()], -one[()])
    shares: FloatArray = x / x.sum(axis=-1, keepdims=True)
    return shares


def without(weights: FloatArray, positions: IntArray) -> FloatArray:
    """Return weights without some arms, not all of them; the others keep the ratios of their probabilities."""
    return _weights(distributions.remove_arms(probabilities(weights), positions))


def joined(weights: FloatArray, count: int) -> FloatArray:
    """Return weights with more arms behind the others, each with probability 1/n of n in all."""
    return _weights(distributions.add_arms(probabilities(weights), count))


def _weights(p: FloatArray) -> FloatArray:
    depths = 1 / np.sqrt(np.maximum(p, np.finfo(float).tiny))
    return column(depths.min(axis=-1)) - depths
