"""Distributions over arms: when arms are removed or added, over some arms only, and with a floor."""

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
    """Return ``p`` with ``count`` more arms at 1/n each of n in all; the others share the rest in their ratios.

    Parameters
    ----------
    p : shape (..., n_arms)
    count : one or more
    """
    before = p.shape[-1]
    n_arms = before + count
    return np.concatenate([p * (before / n_arms), np.full((*p.shape[:-1], count), 1 / n_arms)], axis=-1)


def spread(p: FloatArray, eligible: IntArray, n_arms: int) -> FloatArray:
    """Return numbers of the arms at ``eligible`` over all arms, shape (..., n_arms), 0 for the others.

    Parameters
    ----------
    p : one number for each of these arms, shape (..., len(eligible))
    eligible : positions of the arms
    n_arms : arms in all
    """
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
