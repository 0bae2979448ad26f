"""Drawing from distributions, and states of many runs at once."""

from __future__ import annotations

from typing import Any

import numpy as np

from .types import FloatArray, IntArray, Log, S


def draw(p: FloatArray, u: Any) -> Any:
    """Return the smallest k with u < p_0 + ... + p_k, summed left to right; else the last k with p_k > 0.

    The sum of p can be below u by rounding.

    Parameters
    ----------
    p : shape (..., n_arms)
    u : float in [0, 1), or an array of them over the leading axes

    Returns
    -------
    k, an int, or an int array over the leading axes
    """
    if p.ndim == 1:
        arm = int(p.cumsum().searchsorted(u, "right"))
        return arm if arm < p.size else int(np.flatnonzero(p)[-1])
    cumulative = p.cumsum(axis=-1)
    arm = (cumulative <= np.asarray(u)[..., None]).sum(axis=-1)
    last = p.shape[-1] - 1 - np.argmax(p[..., ::-1] > 0, axis=-1)
    return np.minimum(arm, last)


def draw_all(p: FloatArray, u: FloatArray) -> IntArray:
    """Return the positions that ``draw`` returns for each uniform of one run, shape (draws,).

    Parameters
    ----------
    p : shape (n_arms,)
    u : floats in [0, 1), shape (draws,)
    """
    arms = p.cumsum().searchsorted(u, "right")
    if arms.max() == p.size:
        arms[arms == p.size] = np.flatnonzero(p)[-1]
    return arms


def at(arm: Any) -> tuple[Any, ...]:
    """Return the index of ``arm`` on the last axis: an int for one run, an int array of shape (runs,) for many."""
    if isinstance(arm, np.ndarray):
        return (np.arange(arm.shape[0]), arm)
    return (arm,)


def many(state: S, runs: int) -> S:
    """Return the state of runs that all stand at ``state``: arrays gain a leading axis, numbers do not.

    Parameters
    ----------
    state : of one run; its log, where it has one, is left out
    runs : how many runs, one or more
    """
    parts = [_repeated(part, runs) for part in state]
    return type(state)._make(parts)  # type: ignore[attr-defined, no-any-return]


def _repeated(part: Any, runs: int) -> Any:
    if isinstance(part, Log):
        return None
    if isinstance(part, tuple):
        return tuple(_repeated(row, runs) for row in part)
    return np.repeat(part[None], runs, axis=0) if isinstance(part, np.ndarray) else part
