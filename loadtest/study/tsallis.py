"""Counts and moments of the losses of each run."""

from __future__ import annotations

import numpy as np

from loadtest.study.players import Mask, Player, Turn
from service.learners.base import FloatArray, IntArray, draw
from service.learners.maths import add_arms, remove_arms
from service.learners.multiscale_state import (
    DELAYED,
    EXPERTS,
    LARGEST_RISE,
    MEAN_MEMORY,
    MEMORY,
    MIXTURE_SHARE,
    SHARE,
)
from service.learners.multiscale_tsallis import (
    COSTS,
    FLOOR_SHARE,
    LARGEST_CORRECTION,
    LARGEST_FALL,
    MEMORY_OF,
    POOL_CAP,
    PRIOR,
    PROVISIONAL_POOL_CAP,
    SHARPNESS,
    TAIL,
)
from service.learners.tsallis import solve_rows


class Moments:
    """Counts and moments of the losses of each run, shape (runs,)."""

    def __init__(self, runs: int) -> None:
        self.events, self.dropped = np.zeros((2, runs), dtype=np.int64)
        self.mean, self.square_sum, self.square_max, self.size_sum, self.delay_sum = np.zeros((5, runs))

    def open(self, outstanding: IntArray) -> None:
        """Open a slot."""
        self.delay_sum += outstanding
        self.known, self.shift = self.events > 0, self.mean.copy()

    def squares(self, t: int) -> tuple[FloatArray, FloatArray]:
        """Return (V + M)/(n + 1) if an event came, and max(t - those dropped, n)."""
        slots = np.maximum(t - self.dropped, self.events).astype(float)
        return (self.square_sum + self.square_max) / (self.events + 1), slots

    def delayed(self) -> FloatArray:
        """Return D (A/n)^2."""
        term: FloatArray = self.delay_sum * (self.size_sum / np.maximum(self.events, 1)) ** 2
        return term

    def learn(self, runs: IntArray, losses: FloatArray) -> None:
        """Count losses."""
        deviation = np.where(self.known[runs], losses - self.shift[runs], 0.0)
        self.square_sum[runs] += deviation**2
        self.size_sum[runs] += abs(deviation)
        self.square_max[runs] = np.maximum(self.square_max[runs], deviation**2)
        self.events[runs] += 1
        self.mean[runs] += (losses - self.mean[runs]) / self.events[runs]

    def correct(self, runs: IntArray, losses: FloatArray, default: float) -> None:
        """Put losses in the place of the default."""
        known = self.known[runs]
        deviation = np.where(known, losses - self.shift[runs], 0.0)
        before = np.where(known, default - self.shift[runs], 0.0)
        self.square_sum[runs] = np.maximum(self.square_sum[runs] + deviation**2 - before**2, 0.0)
        self.size_sum[runs] = np.maximum(self.size_sum[runs] + abs(deviation) - abs(before), 0.0)
        self.square_max[runs] = np.maximum(self.square_max[runs], deviation**2)
        self.mean[runs] += (losses - default) / self.events[runs]


class Sums:
    """Sums, scales and distributions of several experts, shape (runs, experts, arms) or (runs, experts)."""

    def __init__(
        self, runs: int, arms: int, memory: FloatArray, share: FloatArray, costs: FloatArray | float = 0.0
    ) -> None:
        self.keep, self.memory, self.share, self.costs = 1 - 1 / memory, memory, share, costs
        shape = runs, len(memory), arms
        self.sums, self.p = np.zeros(shape), np.full(shape, 1 / arms)
        self.scale, self.lam = np.zeros(shape[:2]), np.zeros(shape[:2])

    def floor(self, t: int) -> FloatArray:
        """Return the least probability of an arm in each expert, before p is normalised."""
        slots = np.minimum(t, self.memory)
        shares: FloatArray = FLOOR_SHARE / np.sqrt(slots) / self.p.shape[-1]
        return shares

    def open(self, t: int, squares: FloatArray) -> None:
        """Let sums fade and solve for p at the scales ``share sqrt(squares)``; p stays where these are 0."""
        scale = self.share * np.sqrt(squares)
        self.sums *= self.keep[:, None]
        least = self.sums.min(axis=-1)
        self.sums -= least[..., None]
        live = scale > 0
        if live.any():
            positive = np.where(live, scale, 1.0)
            before = np.where(self.scale > 0, self.scale, 1.0)
            guess = np.where(self.scale > 0, (self.lam * self.keep - least) * (positive / before), -positive)
            asked = self.sums + positive[..., None] * self.costs
            asked -= asked.min(axis=-1, keepdims=True)
            lam, x = solve_rows(asked, positive, guess)
            floor = self.floor(t)
            raised = self.sums + (np.minimum(asked, (lam + positive / np.sqrt(floor))[..., None]) - asked)
            x = np.maximum(x, floor[:, None])
            x /= x.sum(axis=-1, keepdims=True)
            self.lam = np.where(live, lam, self.lam)
            pairs = ((raised, self.sums), (x, self.p))
            self.sums, self.p = (np.where(live[..., None], new, old) for new, old in pairs)
        self.scale = scale

    def over(self, t: int, eligible: Mask) -> FloatArray:
        """Return each expert's distribution over the eligible arms alone, at the same sums and scale."""
        live, among = (self.scale > 0)[..., None], eligible[:, None, :]
        positive = np.where(self.scale > 0, self.scale, 1.0)
        sums = np.where(among, self.sums, np.inf)
        _, x = solve_rows(sums - sums.min(axis=-1, keepdims=True), positive, -positive)
        x = np.where(among, np.where(live, np.maximum(x, self.floor(t)[:, None]), 1.0), 0.0)
        shares: FloatArray = x / x.sum(axis=-1, keepdims=True)
        return shares

    def step(self, runs: IntArray, arms: IntArray, ratio: FloatArray, fall: float) -> None:
        """Move the sums of arms by the clipped ratio."""
        unit = self.scale[runs] / np.sqrt(self.p[runs, :, arms])
        self.sums[runs, :, arms] += np.clip(ratio[:, None], -fall * unit, LARGEST_RISE * unit)

    def change(self, squares: FloatArray, removed: IntArray | None, added: int) -> None:
        """Remove and add arms; ``squares`` are those of the slot that would open now."""
        scale = self.share * np.sqrt(squares)
        positive, live = np.where(scale > 0, scale, 1.0), (scale > 0)[..., None]
        faded = self.sums * self.keep[:, None]
        _, x = solve_rows(faded - faded.min(axis=-1, keepdims=True), positive, -positive)
        x, self.p = (changed(part, removed, added) for part in (np.where(live, x, self.p), self.p))
        depths = scale[..., None] / np.sqrt(x)
        self.sums = (depths - depths.min(axis=-1, keepdims=True)) / self.keep[:, None]
        self.lam = -self.scale / (self.keep * np.sqrt(x.max(axis=-1)))


def changed(p: FloatArray, removed: IntArray | None, added: int) -> FloatArray:
    """Return distributions after arms were removed, and others added."""
    p = p if removed is None else remove_arms(p, removed)
    return add_arms(p, added) if added else p


class Means:
    """The experts of means: N and L of both memories, shape (runs, 2, arms)."""

    def __init__(self, runs: int, arms: int) -> None:
        self.count, self.total = np.zeros((2, runs, MEAN_MEMORY.size, arms))

    def open(self) -> None:
        """Open a slot."""
        for part in (self.count, self.total):
            part *= (1 - 1 / MEAN_MEMORY)[:, None]

    def learn(self, runs: IntArray, arms: IntArray, losses: FloatArray) -> None:
        """Count losses."""
        self.count[runs, :, arms] += 1
        self.total[runs, :, arms] += losses[:, None]

    def correct(self, runs: IntArray, arms: IntArray, change: FloatArray) -> None:
        """Change losses that were counted."""
        self.total[runs, :, arms] += np.minimum(self.count[runs, :, arms], 1.0) * change[:, None]

    def distribution(self, t: int, variance: FloatArray, largest: FloatArray, eligible: Mask | None) -> FloatArray:
        """Return the experts' distributions, shape (runs, 3, arms); uniform if the variance is 0."""
        arms, live = self.count.shape[-1], (variance > 0)[:, None, None]
        among = np.ones((1, 1, arms), dtype=bool) if eligible is None else eligible[:, None, :]
        v = np.where(live, variance[:, None, None], 1.0)
        prior = PRIOR * np.where(live, largest[:, None, None], 1.0) / v
        seen = np.maximum(self.count.sum(axis=-1, keepdims=True), np.finfo(float).tiny)
        mean = (self.total + prior * self.total.sum(axis=-1, keepdims=True) / seen) / (self.count + prior)
        mean, error = np.where(among, mean, np.inf), v / (self.count + prior)
        best = mean.argmin(axis=-1)[..., None]
        gap = mean - np.take_along_axis(mean, best, axis=-1)
        z = (gap / np.sqrt(error + np.take_along_axis(error, best, axis=-1)))[:, MEMORY_OF] * SHARPNESS
        x = np.exp(-z * (TAIL[0] + TAIL[1] * z))
        floor = FLOOR_SHARE / np.sqrt(np.minimum(t, MEAN_MEMORY[MEMORY_OF]))[:, None] / arms
        x = np.where(among, np.where(live, np.maximum(x / x.sum(axis=-1, keepdims=True), floor), 1.0), 0.0)
        shares: FloatArray = x / x.sum(axis=-1, keepdims=True)
        return shares

    def change(self, removed: IntArray | None, added: int) -> None:
        """Remove and add arms."""
        for name in ("count", "total"):
            part = getattr(self, name)
            part = part if removed is None else np.delete(part, removed, axis=-1)
            setattr(self, name, np.concatenate([part, np.zeros((*part.shape[:-1], added))], axis=-1))


class MultiscaleTsallis(Player):
    """``multiscale_tsallis`` in many runs: provisional, or waiting for the window, or with full feedback.

    Parameters
    ----------
    default : the loss of a missing event; None with full feedback
    provisional : whether it is learned at the act
    """

    def __init__(self, runs: int, arms: int, default: float | None, *, provisional: bool = False) -> None:
        super().__init__(default)
        self._provisional = provisional and default is not None
        self._cap = PROVISIONAL_POOL_CAP if self._provisional else POOL_CAP
        self._experts = Sums(runs, arms, MEMORY, SHARE)
        self._mixture = Sums(runs, EXPERTS, np.array([np.inf]), np.array([MIXTURE_SHARE]), np.array(COSTS))
        self._means = Means(runs, arms)
        self._pools, self._pool = np.full((runs, EXPERTS, arms), 1 / arms), np.full((runs, arms), 1 / arms)
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
        self._means.open()
        variance = np.where(self._moments.events > 0, self._moments.squares(self._t)[0], 0.0)
        means = self._means.distribution(self._t, variance, self._moments.square_max, turn.eligible)
        over = np.concatenate([means, over], axis=1)
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
        self._means.learn(runs, arms, losses)
        self._moments.learn(runs, losses)

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
        self._means.correct(runs, arms, losses - self.default)
        self._moments.correct(runs, losses, self.default)

    def expire(self, runs: IntArray, arms: IntArray, slots: IntArray) -> None:
        if self.default is None:
            self._moments.dropped[runs] += 1
        elif not self._provisional:
            super().expire(runs, arms, slots)

    def _change(self, removed: IntArray | None, added: int) -> None:
        self._experts.change(self._squares(self._t + 1)[0], removed, added)
        self._pools, self._pool = (changed(part, removed, added) for part in (self._pools, self._pool))
        self._means.change(removed, added)


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
