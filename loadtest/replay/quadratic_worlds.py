"""The paper's worlds of points: isotropic quadratics, and squared errors of a linear regression."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from loadtest.errors import DataError
from loadtest.replay.arm_worlds import SYNTHETIC_SLOTS
from loadtest.replay.point_worlds import PointWorld, Quadratic
from service.learners.base import FloatArray

YACHT_COLUMNS = 7
YACHT_PAGE = "https://archive.ics.uci.edu/dataset/243/yacht+hydrodynamics"


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
    """Return the paper's synthetic convex losses in five dimensions, as printed."""
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
