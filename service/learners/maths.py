"""Mathematics that several learners share: feasible sets, gradients, schedules, distributions, weights.

Imports nothing else of the project but the array types of ``learners.base``.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, NamedTuple

import numpy as np

from .base import FloatArray, IntArray, Slot, at

# -- Exact Euclidean projections onto simplices, by sorting (Held et al. 1974; Duchi et al. 2008).


def project_onto_face(z: FloatArray, total: float) -> FloatArray:
    """Return the nearest point of {x >= 0, sum x = total} to each point of ``z``.

    Parameters
    ----------
    z : points anywhere, shape (..., dim)
    total : positive

    Notes
    -----
    The answer is max(z - theta, 0), where theta makes the sum right. It does not change when all of z is
    shifted, nor when entries more than ``total`` below the largest are raised to that depth: they are 0
    either way. Both are done first, so that theta is accurate for z of any size.
    """
    depth = np.maximum(z - z.max(axis=-1, keepdims=True), -total)
    falling = -np.sort(-depth, axis=-1)
    excess = np.cumsum(falling, axis=-1) - total
    counts = np.arange(1, z.shape[-1] + 1)
    positive = np.count_nonzero(falling * counts > excess, axis=-1, keepdims=True)
    theta = np.take_along_axis(excess, positive - 1, axis=-1) / positive
    nearest: FloatArray = np.maximum(depth - theta, 0.0)
    return nearest


def project_onto_simplex(z: FloatArray, total: float) -> FloatArray:
    """Return the nearest point of {x >= 0, sum x <= total} to each point of ``z``, shape (..., dim)."""
    clipped = np.maximum(z, 0.0)
    if not (outside := clipped.sum(axis=-1, keepdims=True) > total).any():
        return clipped
    return np.where(outside, project_onto_face(z, total), clipped)


# -- Feasible sets, and projection onto the shrunk set that query points need.
#
# A point x is kept in the shrunk set c + (1 - delta/r)(X - c), where c is the center of the ball of radius r
# inscribed in X. That set plus any vector no longer than delta lies in X, so every query point is feasible.


def shrunk_scale(delta: float, dim: int, inradius: float, reach: float) -> float:
    """Return the scale of the shrunk set, 1 - delta/inradius less a margin for rounding.

    Parameters
    ----------
    delta : largest distance of a query point from x
    dim : coordinates of a point; the margin grows with it
    inradius : radius of the ball inscribed in X
    reach : bound on the size of any coordinate of a point of X, which gives the margin

    Raises
    ------
    ValueError
        unless 0 <= delta < inradius, by more than the margin.
    """
    margin = (2.0 * dim + 16.0) * math.ulp(reach)
    scale = 1 - (delta + margin) / inradius
    if not (delta >= 0 and scale > 0):
        raise ValueError(f"perturbation must be smaller than the feasible set's inradius, {inradius:.17g}")
    return scale


@dataclass(frozen=True)
class FeasibleSet(ABC):
    """A convex body X. Points may carry leading axes."""

    center: FloatArray
    inradius: float
    reach: float
    """Bound on the size of any coordinate of a point of X."""
    diameter: float
    """Largest distance between two points of X."""

    @abstractmethod
    def project_scaled(self, z: FloatArray, scale: float) -> FloatArray:
        """Return the nearest point of c + scale (X - c), scale in (0, 1], to each of ``z``, shape (..., dim)."""

    def onto_shrunk(self, delta: float) -> Callable[[FloatArray], FloatArray]:
        """Return the projection onto the points x for which x and x + delta e_k lie in X, also after rounding.

        These are the shrunk set described above, smaller by a few units in the last place: by
        (2 dim + 16) ulps of ``reach``, more than projecting and adding delta err together.

        Parameters
        ----------
        delta : distance of the query points from x, in [0, inradius)

        Raises
        ------
        ValueError
            unless 0 <= delta < inradius, by more than that rounding margin.
        """
        scale = shrunk_scale(delta, self.center.size, self.inradius, self.reach)
        return partial(self.project_scaled, scale=scale)


@dataclass(frozen=True)
class Ball(FeasibleSet):
    """{x : |x - center| <= inradius}."""

    def project_scaled(self, z: FloatArray, scale: float) -> FloatArray:
        radius = scale * self.inradius
        offset = z - self.center
        distance = np.sqrt(np.square(offset).sum(axis=-1, keepdims=True))
        return np.where(distance > radius, self.center + offset * (radius / np.maximum(distance, radius)), z)


@dataclass(frozen=True)
class Box(FeasibleSet):
    """{x : lower <= x <= upper}; its center is the midpoint."""

    lower: FloatArray
    upper: FloatArray

    def project_scaled(self, z: FloatArray, scale: float) -> FloatArray:
        half = scale * (self.upper - self.lower) / 2
        return np.clip(z, self.center - half, self.center + half)


@dataclass(frozen=True)
class Simplex(FeasibleSet):
    """{x >= 0 : sum x <= total}; every coordinate of its center equals the inradius."""

    total: float

    def project_scaled(self, z: FloatArray, scale: float) -> FloatArray:
        corner = (1 - scale) * self.inradius
        return corner + project_onto_simplex(z - corner, scale * self.total)


# -- Gradients as learners over points use them, estimated or reported.

LARGEST_VALUE = 1e100
"""Losses and gradient entries beyond this size are cut to it, so that no step and no sum of squares overflows."""
LARGEST_DELAYS = 2**53
"""Sums of delays stay there: it is the last whole number that all readers of JSON, and floats, know exactly."""


def query_points(x: FloatArray, perturbation: float) -> FloatArray:
    """Return x + delta e_k for each k, shape (..., dim, dim)."""
    return x[..., None, :] + _offsets(x.shape[-1], perturbation)


@lru_cache(maxsize=4)
def _offsets(dim: int, perturbation: float) -> FloatArray:
    """Return delta e_k for each k; learners don't keep it, as it takes dim times the memory of a point."""
    return perturbation * np.eye(dim)


def forward_difference(losses: FloatArray, perturbation: float) -> FloatArray:
    """Return the forward differences of eq. (estgrad), (f(x + delta e_k) - f(x)) / delta, shape (..., dim).

    The losses are f(x), then f(x + delta e_k) for each k, shape (..., dim+1).
    """
    values = bounded(losses)
    return (values[..., 1:] - values[..., :1]) / perturbation


def bounded(values: FloatArray) -> FloatArray:
    """Return ``values`` cut to +-``LARGEST_VALUE``."""
    return np.clip(values, -LARGEST_VALUE, LARGEST_VALUE)


def squared_norm(vector: FloatArray) -> Any:
    """Return |vector|^2 over the last axis: a float for one run, an array over the leading axes for many."""
    total = np.square(vector).sum(axis=-1)
    return total if total.ndim else float(total)


# -- When the composite-loss wrapper (Cesa-Bianchi et al. 2018) updates its inner learner, and on which sum of
# losses.
#
# The wrapper plays one action for many slots and adds up all losses that arrive in a slot. In an update it gives
# a scaled sum over the last slots to an inner learner as if that were the loss of the action.

MAX_RANDOM_DELAY = 10_000
"""The random schedule keeps the sums of max_delay + 1 slots; longer windows are refused."""


class Clock(NamedTuple):
    """Where a run stands in its schedule."""

    sums: FloatArray
    """Losses that arrived, shape (..., window, values): per slot of the window, or their sum in one row."""
    t: int
    quiet: Any
    """Number of slots in a row, up to this one, that drew no update (drawn with probability 1/(2d))."""
    updating: Any
    """Whether the open slot ends in an update."""


class Schedule:
    """A schedule for a largest delay.

    Parameters
    ----------
    kind : ``"blocks"`` or ``"random"``
    max_delay : d-bar; 0 is taken as 1 in blocks
    values : numbers per loss: 1, or dim+1 for bundles
    """

    def __init__(self, kind: str, max_delay: int, values: int) -> None:
        self._random = kind == "random"
        self._delay = max_delay + 1 if self._random else max(1, max_delay)
        self._rows = self._delay if self._random else 1
        self._values = values

    def start(self) -> Clock:
        """Return the clock before the first slot."""
        return Clock(np.zeros((self._rows, self._values)), 0, 0, False)

    def updates(self, horizon: int) -> float:
        """Return the expected number of updates in ``horizon`` slots, at least 1, for the theorem's rates."""
        length = 2 * self._delay
        if not self._random:
            return max(1.0, horizon / length)
        return max(1.0, horizon / length * (1 - 1 / length) ** (length - 2))

    def loss(self, clock: Clock) -> FloatArray:
        """Return the loss, shape (..., values), from which the inner learner learns if the closing slot updates."""
        total: FloatArray = clock.sums.sum(axis=-2) / (2 * self._delay if self._random else self._delay)
        return total

    def open(self, clock: Clock, slot: Slot) -> Clock:
        """Return the clock of the next slot, with its sum at 0 and whether it ends in an update.

        The random schedule updates by the slot's ``v``.
        """
        t, length = clock.t + 1, 2 * self._delay
        sums = clock.sums
        if self._random or (t - 1) % self._delay == 0:
            sums = sums.copy()
            sums[..., t % self._rows, :] = 0.0
        if not self._random:
            return Clock(sums, t, clock.quiet, t % length == 0)
        heads = slot.v < 1 / length
        updating = heads & (clock.quiet >= length - 2)
        return Clock(sums, t, np.where(heads, 0, clock.quiet + 1)[()], updating)

    def add(self, clock: Clock, loss: Any) -> Clock:
        """Return the clock of the open slot after a loss, shape (..., values), has arrived."""
        sums = clock.sums.copy()
        sums[..., clock.t % self._rows, :] += loss
        return clock._replace(sums=sums)


# -- Distributions over arms: when arms are removed or added, over some arms only, and with a floor.


def others(p: FloatArray, positions: IntArray) -> FloatArray:
    """Return ``p``, shape (..., n_arms), without some arms, row by row in memory.

    So are states that are read, and numpy rounds a sum by the order in memory.
    """
    return np.ascontiguousarray(np.delete(p, positions, axis=-1))


def remove_arms(p: FloatArray, positions: IntArray, floor: float = 0.0) -> FloatArray:
    """Return the probabilities of the arms that stay, in their old ratios; uniform where these are all 0.

    Parameters
    ----------
    p : shape (..., n_arms)
    positions : of the arms to remove
    floor : of n arms none stays below floor/(n (1 + floor)); where one would, p is trimmed as after an event
    """
    kept = others(p, positions)
    n_arms = kept.shape[-1]
    total = kept.sum(axis=-1, keepdims=True)
    shares = np.where(total > 0, kept / np.where(total > 0, total, 1.0), 1 / n_arms)
    low = (shares < floor / (n_arms * (1 + floor))).any(axis=-1, keepdims=True)
    trimmed = np.maximum(shares, floor / n_arms)
    return np.where(low, trimmed / trimmed.sum(axis=-1, keepdims=True), shares)


def add_arms(p: FloatArray, count: int) -> FloatArray:
    """Return ``p`` with ``count`` more arms at 1/n each of n in all; the others share the rest in their ratios."""
    before = p.shape[-1]
    n_arms = before + count
    return np.concatenate([p * (before / n_arms), np.full((*p.shape[:-1], count), 1 / n_arms)], axis=-1)


def spread(p: FloatArray, eligible: IntArray, n_arms: int) -> FloatArray:
    """Return numbers of the arms at ``eligible`` over all arms, shape (..., n_arms), 0 for the others."""
    everywhere = np.zeros((*p.shape[:-1], n_arms))
    everywhere[..., eligible] = p
    return everywhere


def with_floor(p: FloatArray, floor: float, eligible: IntArray | None = None) -> FloatArray:
    """Return (1 - floor) p, with ``floor`` shared by the eligible arms alike.

    Parameters
    ----------
    p : shape (..., n_arms), 0 for arms that are not eligible
    floor : in [0, 1); at 0 the distribution is p itself
    eligible : positions of the arms that share it; None: all arms
    """
    if not floor:
        return p
    mixed: FloatArray = (1 - floor) * p
    if eligible is None:
        mixed += floor / p.shape[-1]
    else:
        mixed[..., eligible] += floor / eligible.size
    return mixed


def over(p: FloatArray, eligible: IntArray | None, *, uniform: bool) -> FloatArray:
    """Return ``p`` over some arms alone, in their ratios and with sum 1, shape (..., n_arms), 0 for the others.

    Parameters
    ----------
    p : shape (..., n_arms)
    eligible : positions of these arms; None, or all arms: p as it is
    uniform : whether these arms are alike where the probabilities of all of them are 0; else they stay 0
    """
    if eligible is None or eligible.size == p.shape[-1]:
        return p
    part = p[..., eligible]
    total = part.sum(axis=-1, keepdims=True)
    shares = np.where(total > 0, part / np.where(total > 0, total, 1.0), float(uniform) / eligible.size)
    return spread(shares, eligible, p.shape[-1])


# -- Exponential weights kept as logarithms, so that no step underflows to a division by 0.
#
# The largest log-weight is always 0. Log-weights and distributions have shape (..., n_arms).

SMALLEST_DIVISOR = 1e-180
"""Smaller probabilities are replaced by this one: either way the arm's weight becomes 0 as a double."""
LOWEST = -1e300
"""Log-weights stop falling here, far below where their weight is 0 as a double."""


def exp3_rate(n_arms: int, updates: float, scale: float = 1.0) -> float:
    """Return EXP3's learning rate for T updates, c sqrt((1 + ln K)/(K T)) (Auer et al. 2002, up to constants)."""
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
        return spread(probabilities(part - part.max(axis=-1, keepdims=True)), eligible, log_weights.shape[-1])
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
    """Return the log-weights without some arms, not all of them, shifted so that the largest is 0."""
    kept = others(log_weights, positions)
    shifted: FloatArray = kept - kept.max(axis=-1, keepdims=True)
    return shifted


def joined(log_weights: FloatArray, count: int) -> FloatArray:
    """Return the log-weights with more arms at the mean weight of the others: probability 1/n of n in all."""
    mean = np.log(np.exp(log_weights).mean(axis=-1, keepdims=True))
    return np.concatenate([log_weights, np.repeat(mean, count, axis=-1)], axis=-1)
