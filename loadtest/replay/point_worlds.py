"""Worlds of points: convex losses on the unit ball, known in closed form."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np

from loadtest.errors import DataError
from loadtest.replay.arm_worlds import SYNTHETIC_SLOTS, Baseline, BestFixed, Outcome
from service.engine.actions import Action, PointAction
from service.learners.base import FloatArray, Information

RADIUS = 1.0
BISECTIONS = 200
YACHT_COLUMNS = 7
YACHT_PAGE = "https://archive.ics.uci.edu/dataset/243/yacht+hydrodynamics"


@dataclass(frozen=True)
class PointWorld(ABC):
    """A sum of convex quadratics on the unit ball around 0."""

    informations: ClassVar = (Information.LOSSES, Information.GRADIENT)

    name: str

    @property
    @abstractmethod
    def slots(self) -> int:
        """T."""

    @property
    @abstractmethod
    def dim(self) -> int:
        """Length of a point."""

    @abstractmethod
    def head(self, slots: int) -> PointWorld:
        """The same world, ended after ``slots`` slots."""

    @abstractmethod
    def loss(self, t: int, x: FloatArray) -> FloatArray:
        """f_t at points of shape (..., dim)."""

    @abstractmethod
    def gradient(self, t: int, x: FloatArray) -> FloatArray:
        """The gradient of f_t at points of shape (..., dim)."""

    @abstractmethod
    def losses_at(self, x: FloatArray) -> FloatArray:
        """f_1(x) .. f_T(x) at one point, shape (slots,)."""

    @abstractmethod
    def total(self) -> Quadratic:
        """The sum of all f_t."""

    def learner_fields(self) -> dict[str, Any]:
        """What a learner has to be told of the world."""
        return {"dim": self.dim, "feasible_set": {"kind": "ball", "radius": RADIUS}}

    def session_fields(self) -> dict[str, Any]:
        """What a session has to be told of the losses: nothing, points have no loss range."""
        return {}

    def player(self) -> PointPlayer:
        """Something that plays this world slot by slot."""
        return PointPlayer(self)

    def best_fixed(self) -> BestFixed:
        """The point of the ball with the smallest sum of losses."""
        x = self.total().minimiser(RADIUS)
        return BestFixed(x.tolist(), "x*", self.losses_at(x))

    def baseline(self) -> Baseline:
        """Standing still at the ball's center."""
        return Baseline("standing still", self.losses_at(np.zeros(self.dim)))


class PointPlayer(NamedTuple):
    """Plays points against a world."""

    world: PointWorld

    def play(self, action: Action, p: FloatArray | None) -> Outcome:  # noqa: ARG002 - points have none
        """The outcome of ``action``: dim+1 losses where it came with query points, else the gradient."""
        assert isinstance(action, PointAction)  # noqa: S101 - a world of points is given learners over points
        t = action.slot
        if action.query_points is None:
            loss = float(self.world.loss(t, action.x))
            return Outcome(None, self.world.gradient(t, action.x), loss, loss)
        values = self.world.loss(t, np.vstack([action.x, action.query_points]))
        return Outcome(None, values, float(values[0]), float(values[0]))


class Quadratic(NamedTuple):
    """x' a x + b . x + constant, with ``a`` positive semi-definite."""

    a: FloatArray
    b: FloatArray

    def minimiser(self, radius: float) -> FloatArray:
        """The minimiser on the ball around 0: -(a + m)^-1 b/2, with the least m >= 0 that keeps it inside."""
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
class IsotropicWorld(PointWorld):
    """f_t(x) = a_t |x|^2 + b_t . x."""

    a: FloatArray
    b: FloatArray

    @property
    def slots(self) -> int:
        return len(self.a)

    @property
    def dim(self) -> int:
        return int(self.b.shape[1])

    def head(self, slots: int) -> IsotropicWorld:
        return replace(self, a=self.a[:slots], b=self.b[:slots])

    def loss(self, t: int, x: FloatArray) -> FloatArray:
        return np.asarray(self.a[t - 1] * np.square(x).sum(axis=-1) + (x * self.b[t - 1]).sum(axis=-1))

    def gradient(self, t: int, x: FloatArray) -> FloatArray:
        return np.asarray(2 * self.a[t - 1] * x + self.b[t - 1])

    def losses_at(self, x: FloatArray) -> FloatArray:
        return np.asarray(self.a * np.square(x).sum() + (self.b * x).sum(axis=1))

    def total(self) -> Quadratic:
        return Quadratic(np.eye(self.dim) * self.a.sum(), self.b.sum(axis=0))


@dataclass(frozen=True)
class RegressionWorld(PointWorld):
    """f_t(x) = (y_t - x . w_t)^2 / 2."""

    w: FloatArray
    y: FloatArray

    @property
    def slots(self) -> int:
        return len(self.y)

    @property
    def dim(self) -> int:
        return int(self.w.shape[1])

    def head(self, slots: int) -> RegressionWorld:
        return replace(self, w=self.w[:slots], y=self.y[:slots])

    def loss(self, t: int, x: FloatArray) -> FloatArray:
        return np.asarray(np.square(self.y[t - 1] - (x * self.w[t - 1]).sum(axis=-1)) / 2)

    def gradient(self, t: int, x: FloatArray) -> FloatArray:
        w = self.w[t - 1]
        return np.asarray(((x * w).sum(axis=-1, keepdims=True) - self.y[t - 1]) * w)

    def losses_at(self, x: FloatArray) -> FloatArray:
        return np.asarray(np.square(self.y - (self.w * x).sum(axis=1)) / 2)

    def total(self) -> Quadratic:
        return Quadratic(self.w.T @ self.w / 2, -self.w.T @ self.y)


def bco_synthetic(slots: int = SYNTHETIC_SLOTS) -> IsotropicWorld:
    """The paper's synthetic convex losses in five dimensions, as printed."""
    t = np.arange(1, slots + 1, dtype=float)
    sine, cosine = np.sin(2 * t), np.cos(2 * t)
    b = np.stack([2 * sine + 1, cosine - 2, sine, 2 * sine - 2, np.full_like(t, 2.0)], axis=1)
    return IsotropicWorld("bco_synthetic", np.cos(3 * t) + 3, b)


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
