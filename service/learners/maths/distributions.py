"""Distributions over arms when arms are removed or added."""

from __future__ import annotations

import numpy as np

from ..base import FloatArray, IntArray


def remove_arms(p: FloatArray, positions: IntArray, floor: float = 0.0) -> FloatArray:
    """Return the probabilities of the arms that stay, in their old ratios; uniform where these are all 0.

    Parameters
    ----------
    p : shape (..., n_arms)
    positions : of the arms to remove
    floor : of n arms none stays below floor/(n (1 + floor)); where one would, p is trimmed as after an event
    """
    kept = np.delete(p, positions, axis=-1)
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
