"""Sums of losses of several follow-the-regularised-leader experts, in many runs."""

from __future__ import annotations

import numpy as np

from loadtest.study.players.player import Mask
from service.learners.base import FloatArray, IntArray
from service.learners.maths import add_arms, remove_arms
from service.learners.multiscale_state import LARGEST_RISE
from service.learners.multiscale_tsallis import FLOOR_SHARE
from service.learners.tsallis import solve_rows


class Sums:
    """Sums, scales and distributions of several experts, shape (runs, experts, arms) or (runs, experts)."""

    def __init__(self, runs: int, arms: int, memory: FloatArray, share: FloatArray) -> None:
        self.keep, self.memory, self.share = 1 - 1 / memory, memory, share
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
            lam, x = solve_rows(self.sums, positive, guess)
            floor = self.floor(t)
            raised = np.minimum(self.sums, (lam + positive / np.sqrt(floor))[..., None])
            x = np.maximum(x, floor[:, None])
            x /= x.sum(axis=-1, keepdims=True)
            self.lam = np.where(live, lam, self.lam)
            self.sums, self.p = (
                (raised, x)
                if live.all()
                else (np.where(live[..., None], raised, self.sums), np.where(live[..., None], x, self.p))
            )
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
