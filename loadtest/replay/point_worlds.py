"""Worlds of points: convex losses on the unit ball, known in closed form."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from loadtest.replay.arm_worlds import Baseline, BestFixed, Outcome
from service.engine.ledger import Action, PointAction
from service.learners.base import FloatArray, Information

RADIUS = 1.0
BISECTIONS = 200


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
        """Return the same world, ended after ``slots`` slots."""

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
        return {"dim": self.dim, "feasible_set": {"kind": "ball", "radius": RADIUS}}

    def session_fields(self) -> dict[str, Any]:
        """Return the session's fields that the losses decide: none, points have no loss range."""
        return {}

    def player(self) -> PointPlayer:
        """Return a player of this world."""
        return PointPlayer(self)

    def best_fixed(self) -> BestFixed:
        """Return the point of the ball with the smallest sum of losses."""
        x = self.total().minimiser(RADIUS)
        return BestFixed(x.tolist(), "x*", self.losses_at(x))

    def baseline(self) -> Baseline:
        """Standing still at the ball's center."""
        return Baseline("standing still", self.losses_at(np.zeros(self.dim)))


class PointPlayer(NamedTuple):
    """Plays points against a world."""

    world: PointWorld

    def play(self, action: Action, p: FloatArray | None) -> Outcome:  # noqa: ARG002 - points have none
        """Return the outcome of ``action``: dim+1 losses where it came with query points, else the gradient."""
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
