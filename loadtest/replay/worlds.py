"""Worlds of known losses: the paper's and those of clicks, over arms and over points; and the paper's delays."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from loadtest.errors import DataError
from loadtest.replay.jester import BEST, WORST, Ratings
from service.engine.ledger import Action, ArmAction, LossRange, PointAction
from service.learners.base import FloatArray, Information, IntArray

PATTERN = (1, 2, 1, 0, 3, 0, 2)
"""The paper's d_t of slots 1, 2, ...; repeated."""
SYNTHETIC_SLOTS = 2000
SYNTHETIC_ARMS = 5
CHANGE = 500
"""Where the paper's synthetic losses change."""
CLICKS = LossRange(best=1.0, worst=0.0)
NO_CLICK = 0.0
"""What is posted for it, where something is; the default loss of a session that learns from clicks alone."""
CLICK_ABOVE = 5.0
"""A rating above this is a click."""
RADIUS = 1.0
BISECTIONS = 200
YACHT_COLUMNS = 7
YACHT_PAGE = "https://archive.ics.uci.edu/dataset/243/yacht+hydrodynamics"


class TotalDelay(NamedTuple):
    """D under both ways of ending the stream."""

    strict: int
    """Every delay is cut at the last slot."""
    last: int
    """Only the last slot's delay is cut; this is the number the paper prints."""


def periodic_delays(slots: int) -> IntArray:
    """Return the pattern over ``slots`` slots, shape (slots,); element t-1 is d_t."""
    return np.resize(np.array(PATTERN, dtype=np.int64), slots)


def strict_delays(slots: int) -> IntArray:
    """``d_t = min(d_t, T - t)``: all feedback is there by the end of slot T."""
    return np.minimum(periodic_delays(slots), np.arange(slots - 1, -1, -1))


def total_delay(slots: int) -> TotalDelay:
    """D of a stream of ``slots`` slots."""
    return TotalDelay(int(strict_delays(slots).sum()), int(periodic_delays(slots)[:-1].sum()))


def log_normal_delays(slots: int, median: float, sigma: float, seed: int) -> FloatArray:
    """Delays in seconds with a heavy tail, shape (slots,); ``sigma`` is that of their logarithm."""
    return median * np.random.default_rng(seed).lognormal(0.0, sigma, slots)


class Outcome(NamedTuple):
    """What a slot's action caused: what is posted later, and what it cost."""

    arm: int | None
    posted: Any
    """A loss in the unit of ``loss_range``, a bundle of dim+1 losses, or a gradient."""
    loss: float
    """The played loss as regret counts it."""
    expected: float
    """Its expectation over the slot's distribution, p_t . l_t."""


class BestFixed(NamedTuple):
    """The best fixed action over the whole stream."""

    action: int | list[float]
    label: str
    losses: FloatArray
    """Shape (slots,)."""


class Baseline(NamedTuple):
    """The expected losses of a player who never learns."""

    name: str
    losses: FloatArray
    """Shape (slots,)."""


@dataclass(frozen=True)
class ArmWorld:
    """Losses of all arms in all slots.

    Parameters
    ----------
    name : the scenario's name
    posted : shape (slots, n_arms), in the unit of ``loss_range``
    loss_range : how a posted loss becomes the learner's
    arm_name : what the world calls an arm; its arms count from 1, the service's from 0
    """

    informations: ClassVar = (Information.ARM, Information.SLOT)
    """What its learners may have."""

    name: str
    posted: FloatArray
    loss_range: LossRange
    arm_name: str = "arm"

    @property
    def slots(self) -> int:
        """T."""
        return len(self.posted)

    @cached_property
    def losses(self) -> FloatArray:
        """Losses as the learner sees them, with the arithmetic of ``LossRange.learned``, shape (slots, n_arms)."""
        best, worst, normalize, _ = self.loss_range
        return (self.posted - best) / (worst - best) if normalize else self.posted

    def head(self, slots: int) -> ArmWorld:
        """Return the same world, ended after ``slots`` slots."""
        return replace(self, posted=self.posted[:slots])

    def learner_fields(self) -> dict[str, Any]:
        """Return the learner's fields that the world decides."""
        return {"n_arms": self.posted.shape[1]}

    def session_fields(self) -> dict[str, Any]:
        """Return the session's fields that the losses decide."""
        best, worst, normalize, _ = self.loss_range
        return {"loss_range": [best, worst], "normalize_losses": normalize}

    def play(self, action: Action, p: FloatArray | None) -> Outcome:
        """Return the outcome of ``action``, drawn from ``p``."""
        assert isinstance(action, ArmAction)  # noqa: S101 - a world of arms is given learners over arms
        losses = self.losses[action.slot - 1]
        posted = float(self.posted[action.slot - 1, action.arm])
        return Outcome(action.arm, posted, float(losses[action.arm]), float((p * losses).sum()))

    def best_fixed(self) -> BestFixed:
        """Return the arm with the smallest sum of losses."""
        arm = int(self.losses.sum(axis=0).argmin())
        return BestFixed(arm, f"{self.arm_name} {arm + 1}", self.losses[:, arm])

    def baseline(self) -> Baseline:
        """Uniform play."""
        return Baseline("uniform play", self.losses.mean(axis=1))


def mab_synthetic(slots: int = SYNTHETIC_SLOTS, change: int = CHANGE) -> ArmWorld:
    """Return the paper's synthetic losses as printed: up to 2, so the session takes them raw from a range [0, 2].

    ``change`` is the last slot before the sudden change.
    """
    t = np.arange(1, slots + 1)[:, None]
    k = np.arange(1, SYNTHETIC_ARMS + 1)
    losses = np.where(t <= change, 0.4 * k * np.abs(np.cos(t)), 0.2 * k * np.abs(np.sin(2 * t)))
    return ArmWorld("mab_synthetic", losses, LossRange(0.0, 2.0, normalize=False))


def mab_jester(ratings: Ratings, fill_seed: int = 0) -> ArmWorld:
    """Jokes as arms and users as slots; the loss is 1 minus the rating's place in [-10, 10].

    Missing entries are posted as the rating that stands for their drawn score.
    """
    return ArmWorld("mab_jester", ratings.filled(fill_seed), LossRange(BEST, WORST), arm_name="joke")


def jester_clicks(ratings: Ratings, fill_seed: int = 0) -> ArmWorld:
    """Users as visitors, jokes as items: a visitor clicks the jokes they would have rated above ``CLICK_ABOVE``.

    In worlds of clicks one is posted as 1 and costs nothing, a missing one costs 1 and is never posted.
    """
    return ArmWorld("jester_clicks", (ratings.filled(fill_seed) > CLICK_ABOVE).astype(float), CLICKS, "joke")


def steady_clicks(slots: int, rates: Sequence[float], seed: int) -> ArmWorld:
    """Independent clicks: each visitor would click item k with probability ``rates[k]``, all the time."""
    clicked = np.random.default_rng(seed).random((slots, len(rates))) < rates
    return ArmWorld("steady_clicks", clicked.astype(float), CLICKS, "item")


class Quadratic(NamedTuple):
    """x' a x + b . x + constant, with ``a`` positive semi-definite."""

    a: FloatArray
    b: FloatArray

    def minimiser(self, radius: float) -> FloatArray:
        """Return the minimiser on the ball around 0: -(a + m)^-1 b/2, with the least m >= 0 that keeps it in."""
        values, vectors = np.linalg.eigh(self.a)
        rotated = vectors.T @ self.b / 2

        def point(multiplier: float) -> FloatArray:
            return -rotated / (values + multiplier)

        low, high = 0.0, float(np.linalg.norm(rotated)) / radius
        if values[0] > 0 and np.linalg.norm(point(0.0)) <= radius:
            return vectors @ point(0.0)
        for _ in range(BISECTIONS):
            middle = (low + high) / 2
            low, high = (middle, high) if np.linalg.norm(point(middle)) > radius else (low, middle)
        return vectors @ point(high)


@dataclass(frozen=True)
class PointWorld(ABC):
    """A sum of convex quadratics on the unit ball around 0, each made of a vector and a number.

    Parameters
    ----------
    vectors : shape (slots, dim)
    numbers : shape (slots,)
    """

    informations: ClassVar = (Information.LOSSES, Information.GRADIENT)

    name: str
    vectors: FloatArray
    numbers: FloatArray

    @property
    def slots(self) -> int:
        """T."""
        return len(self.numbers)

    def head(self, slots: int) -> Self:
        """Return the same world, ended after ``slots`` slots."""
        return replace(self, vectors=self.vectors[:slots], numbers=self.numbers[:slots])

    @abstractmethod
    def loss(self, t: int, x: FloatArray) -> FloatArray:
        """f_t at points of shape (..., dim)."""

    @abstractmethod
    def gradient(self, t: int, x: FloatArray) -> FloatArray:
        """Return the gradient of f_t at points of shape (..., dim)."""

    @abstractmethod
    def losses_at(self, x: FloatArray) -> FloatArray:
        """f_1(x) .. f_T(x) at one point, shape (slots,)."""

    @abstractmethod
    def total(self) -> Quadratic:
        """Return the sum of all f_t."""

    def learner_fields(self) -> dict[str, Any]:
        """Return the learner's fields that the world decides."""
        return {"dim": self.vectors.shape[1], "feasible_set": {"kind": "ball", "radius": RADIUS}}

    def session_fields(self) -> dict[str, Any]:
        """Return the session's fields that the losses decide: none, points have no loss range."""
        return {}

    def play(self, action: Action, p: FloatArray | None) -> Outcome:  # noqa: ARG002 - points have none
        """Return the outcome of ``action``: dim+1 losses where it came with query points, else the gradient."""
        assert isinstance(action, PointAction)  # noqa: S101 - a world of points is given learners over points
        t = action.slot
        if action.query_points is None:
            loss = float(self.loss(t, action.x))
            return Outcome(None, self.gradient(t, action.x), loss, loss)
        values = self.loss(t, np.vstack([action.x, action.query_points]))
        return Outcome(None, values, float(values[0]), float(values[0]))

    def best_fixed(self) -> BestFixed:
        """Return the point of the ball with the smallest sum of losses."""
        x = self.total().minimiser(RADIUS)
        return BestFixed(x.tolist(), "x*", self.losses_at(x))

    def baseline(self) -> Baseline:
        """Standing still at the ball's center."""
        return Baseline("standing still", self.losses_at(np.zeros(self.vectors.shape[1])))


World = ArmWorld | PointWorld


class IsotropicWorld(PointWorld):
    """f_t(x) = a_t |x|^2 + b_t . x, with b_t the vector and a_t the number."""

    def loss(self, t: int, x: FloatArray) -> FloatArray:
        a, b = self.numbers[t - 1], self.vectors[t - 1]
        return np.asarray(a * np.square(x).sum(axis=-1) + (x * b).sum(axis=-1))

    def gradient(self, t: int, x: FloatArray) -> FloatArray:
        return np.asarray(2 * self.numbers[t - 1] * x + self.vectors[t - 1])

    def losses_at(self, x: FloatArray) -> FloatArray:
        return np.asarray(self.numbers * np.square(x).sum() + (self.vectors * x).sum(axis=1))

    def total(self) -> Quadratic:
        return Quadratic(np.eye(self.vectors.shape[1]) * self.numbers.sum(), self.vectors.sum(axis=0))


class RegressionWorld(PointWorld):
    """f_t(x) = (y_t - x . w_t)^2 / 2, with w_t the vector and y_t the number."""

    def loss(self, t: int, x: FloatArray) -> FloatArray:
        return np.asarray(np.square(self.numbers[t - 1] - (x * self.vectors[t - 1]).sum(axis=-1)) / 2)

    def gradient(self, t: int, x: FloatArray) -> FloatArray:
        w = self.vectors[t - 1]
        return np.asarray(((x * w).sum(axis=-1, keepdims=True) - self.numbers[t - 1]) * w)

    def losses_at(self, x: FloatArray) -> FloatArray:
        return np.asarray(np.square(self.numbers - (self.vectors * x).sum(axis=1)) / 2)

    def total(self) -> Quadratic:
        return Quadratic(self.vectors.T @ self.vectors / 2, -self.vectors.T @ self.numbers)


def bco_synthetic(slots: int = SYNTHETIC_SLOTS) -> IsotropicWorld:
    """Return the paper's synthetic convex losses in five dimensions, as printed."""
    t = np.arange(1, slots + 1, dtype=float)
    sine, cosine = np.sin(2 * t), np.cos(2 * t)
    b = np.stack([2 * sine + 1, cosine - 2, sine, 2 * sine - 2, np.full_like(t, 2.0)], axis=1)
    return IsotropicWorld("bco_synthetic", b, np.cos(3 * t) + 3)


def bco_yacht(path: Path) -> RegressionWorld:
    """Linear regression on the yacht data: features and target scaled to [0, 1], rows in file order.

    Raises
    ------
    DataError
        where the file is missing or isn't seven columns of numbers.
    """
    try:
        values = np.loadtxt(path, ndmin=2)
    except (OSError, ValueError) as error:
        raise DataError(f"{path}: not the yacht data of {YACHT_PAGE} ({error})") from error
    if values.shape[1:] != (YACHT_COLUMNS,) or not np.isfinite(values).all():
        raise DataError(f"{path}: expected {YACHT_COLUMNS} columns of numbers, as on {YACHT_PAGE}")
    low, high = values.min(axis=0), values.max(axis=0)
    if not (low < high).all():
        raise DataError(f"{path}: a column has one value only, so it can't be scaled to [0, 1]")
    scaled = (values - low) / (high - low)
    return RegressionWorld("bco_yacht", scaled[:, :-1], scaled[:, -1])
