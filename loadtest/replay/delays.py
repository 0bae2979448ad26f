"""The paper's periodic delays, and the two ways of ending them with the stream."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from service.learners.base import FloatArray, IntArray

PATTERN = (1, 2, 1, 0, 3, 0, 2)
"""d_t of slots 1, 2, ...; repeated."""


class TotalDelay(NamedTuple):
    """D under both ways of ending the stream."""

    strict: int
    """Every delay is cut at the last slot."""
    last: int
    """Only the last slot's delay is cut; this is the number the paper prints."""


def periodic(slots: int) -> IntArray:
    """Return the pattern over ``slots`` slots, shape (slots,); element t-1 is d_t."""
    return np.resize(np.array(PATTERN, dtype=np.int64), slots)


def strict(slots: int) -> IntArray:
    """``d_t = min(d_t, T - t)``: all feedback is there by the end of slot T."""
    return np.minimum(periodic(slots), np.arange(slots - 1, -1, -1))


def last(slots: int) -> IntArray:
    """``d_T = 0``, the other delays as they are."""
    delays = periodic(slots)
    delays[-1:] = 0
    return delays


def total_delay(slots: int) -> TotalDelay:
    """D of a stream of ``slots`` slots."""
    return TotalDelay(int(strict(slots).sum()), int(last(slots).sum()))


def log_normal(slots: int, median: float, sigma: float, seed: int) -> FloatArray:
    """Delays in seconds with a heavy tail, shape (slots,); ``sigma`` is that of their logarithm."""
    return median * np.random.default_rng(seed).lognormal(0.0, sigma, slots)
