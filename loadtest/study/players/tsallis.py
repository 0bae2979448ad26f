"""The Tsallis learners in many runs, each with its own counts; with a sixth expert where that is to be measured."""

from __future__ import annotations

import numpy as np

from loadtest.study.players.expert_sums import Sums, changed
from loadtest.study.players.moments import Moments
from loadtest.study.players.player import Player, Turn
from loadtest.study.players.sixth_expert import ByArm
from service.learners.base import FloatArray, IntArray, draw
from service.learners.multiscale_state import DELAYED, LARGEST_RISE, MEMORY, MIXTURE_SHARE, SHARE
from service.learners.multiscale_tsallis import LARGEST_CORRECTION, LARGEST_FALL, POOL_CAP, PROVISIONAL_POOL_CAP


class MultiscaleTsallis(Player):
    """``multiscale_tsallis`` in many runs: provisional, or waiting for the window, or with full feedback.

    Parameters
    ----------
    default : the loss of a missing event; None with full feedback
    provisional : whether it is learned at the act
    sixth : whether a sixth expert, ``ByArm``, is among those mixed
    """

    def __init__(
        self, runs: int, arms: int, default: float | None, *, provisional: bool = False, sixth: bool = False
    ) -> None:
        super().__init__(default)
        self._provisional = provisional and default is not None
        self._cap = PROVISIONAL_POOL_CAP if self._provisional else POOL_CAP
        self._experts = Sums(runs, arms, MEMORY, SHARE)
        size = len(MEMORY) + sixth
        self._mixture = Sums(runs, size, np.array([np.inf]), np.array([MIXTURE_SHARE]))
        self._sixth = ByArm(runs, arms) if sixth else None
        self._pools, self._pool = np.full((runs, size, arms), 1 / arms), np.full((runs, arms), 1 / arms)
        self._moments, self._t, self._all = Moments(runs), 0, np.arange(runs)

    def _squares(self, t: int) -> tuple[FloatArray, FloatArray]:
        """Return the squared scales of experts and mixture, before their shares, shape (runs, experts)."""
        variance, slots = self._moments.squares(t)
        known = self._moments.events > 0
        squares = np.minimum(slots[:, None], self._experts.memory) * variance[:, None]
        squares[:, DELAYED] += self._moments.delayed()
        return np.where(known[:, None], squares, 0.0), np.where(known, slots * variance, 0.0)[:, None]

    def act(self, turn: Turn) -> tuple[FloatArray, IntArray]:
        self._t += 1
        self._moments.open(turn.outstanding)
        squares, mixture_squares = self._squares(self._t)
        self._experts.open(self._t, squares)
        self._mixture.open(self._t, mixture_squares)
        over = self._experts.p if turn.eligible is None else self._experts.over(self._t, turn.eligible)
        if self._sixth is not None:
            last = self._sixth.distribution(self._t, turn.eligible)
            over = np.concatenate([over, last[:, None, :]], axis=1)
        p = np.add.reduce(self._mixture.p[:, 0, :, None] * over, axis=1)
        weight = np.minimum(turn.outstanding, self._cap)[:, None]
        self._pool = (self._pool * weight + p) / (weight + 1)
        self._pools = (self._pools * weight[..., None] + over) / (weight[..., None] + 1)
        arms = draw(p, turn.u)
        if self._provisional and self.default is not None:
            self._learn(self._all, arms, np.full(len(arms), self.default))
        return p, arms

    def _learn(self, runs: IntArray, arms: IntArray, losses: FloatArray) -> None:
        self._step(runs, arms, losses - self._moments.shift[runs], LARGEST_FALL)
        self._moments.learn(runs, losses)
        if self._sixth is not None:
            self._sixth.learn(runs, arms, losses)
            self._sixth.seen(runs, losses)

    def _step(self, runs: IntArray, arms: IntArray, deviation: FloatArray, fall: float) -> None:
        pool = self._pool[runs, arms]
        ratio = np.where(pool > 0, deviation, 0.0) / np.where(pool > 0, pool, 1.0)
        self._experts.step(runs, arms, ratio, fall)
        unit = self._mixture.scale[runs] / np.sqrt(self._mixture.p[runs, 0])
        moves = ratio[:, None] * self._pools[runs, :, arms]
        self._mixture.sums[runs, 0] += np.clip(moves, -fall * unit, LARGEST_RISE * unit)

    def settle(self, runs: IntArray, arms: IntArray, losses: FloatArray, slots: IntArray) -> None:  # noqa: ARG002 - slots unknown
        if not self._provisional or self.default is None:
            self._learn(runs, arms, losses)
            return
        self._step(runs, arms, losses - self.default, LARGEST_CORRECTION)
        self._moments.correct(runs, losses, self.default)
        if self._sixth is not None:
            self._sixth.learn(runs, arms, losses - self.default, 0)
            self._sixth.seen(runs, losses)

    def expire(self, runs: IntArray, arms: IntArray, slots: IntArray) -> None:
        if not self._provisional:
            super().expire(runs, arms, slots)

    def _change(self, removed: IntArray | None, added: int) -> None:
        self._experts.change(self._squares(self._t + 1)[0], removed, added)
        self._pools, self._pool = (changed(part, removed, added) for part in (self._pools, self._pool))
        if self._sixth is not None:
            self._sixth.change(removed, added)


class CentredTsallis(Player):
    """``centred_tsallis`` in many runs; with ``tracking`` it keeps exploring more."""

    def __init__(self, runs: int, arms: int, default: float | None) -> None:
        super().__init__(default)
        self._sums = Sums(runs, arms, np.array([np.inf]), np.array([1.0]))
        self._pool = np.full((runs, arms), 1 / arms)
        self._weight, self._moments, self._t = np.zeros(runs), Moments(runs), 0

    def _squares(self, t: int) -> FloatArray:
        variance, slots = self._moments.squares(t)
        return (slots * variance)[:, None]

    def act(self, turn: Turn) -> tuple[FloatArray, IntArray]:
        self._t += 1
        self._moments.open(turn.outstanding)
        self._sums.open(self._t, self._squares(self._t))
        over = self._sums.p if turn.eligible is None else self._sums.over(self._t, turn.eligible)
        p, weight = over[:, 0], self._weight[:, None]
        self._pool = (self._pool * weight + p) / (weight + 1)
        self._weight = np.minimum(self._weight + 1, POOL_CAP)
        return p, draw(p, turn.u)

    def settle(self, runs: IntArray, arms: IntArray, losses: FloatArray, slots: IntArray) -> None:  # noqa: ARG002 - slots unknown
        pool, deviation = self._pool[runs, arms], losses - self._moments.shift[runs]
        ratio = np.where(pool > 0, deviation, 0.0) / np.where(pool > 0, pool, 1.0)
        self._sums.step(runs, arms, ratio, LARGEST_FALL)
        self._moments.learn(runs, losses)
        self._weight[runs] = np.maximum(self._weight[runs] - 1, 0)

    def expire(self, runs: IntArray, arms: IntArray, slots: IntArray) -> None:
        if self.default is None:
            self._weight[runs] = np.maximum(self._weight[runs] - 1, 0)
        else:
            super().expire(runs, arms, slots)

    def _change(self, removed: IntArray | None, added: int) -> None:
        self._sums.change(self._squares(self._t + 1), removed, added)
        self._pool = changed(self._pool, removed, added)
