"""The distributions that a segment mixes, and the mixture's over them: solved for when a slot opens."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .base import FixedArray, FloatArray
from .maths.tsallis_rows import over_few, solve_rows
from .segment_state import EXPERTS, MEMORIES, Segment, Shared, variance

COSTS = (0.0, 1.0, 2.0)
"""C: what the mixture asks of an expert before it trusts it, in units of its scale."""
FLOOR_SHARE = 0.25
"""The floor at the start, as a share of uniform play; it falls as 1/sqrt(t)."""


def own_distributions(
    shared: Shared, segment: Segment, slots: int, p: FloatArray, places: Any
) -> FloatArray | None:
    """Return the two distributions of a segment's own sums, held to the global part for long and for short.

    Parameters
    ----------
    shared : of the slot
    segment : whose S, n and last distributions are taken
    slots : of the segment, an open one among them
    p : the global part's distribution over all arms, positive, shape (n_arms,)
    places : positions of the arms that may be drawn, or a slice of all

    Returns
    -------
    distributions over the arms at ``places``, shape (2, places); None before losses differ
    """
    v, t = variance(shared), max(shared.t, 1)
    if not v > 0:
        return None
    played, held = max(slots, segment.events), [min(memory, t) for memory in MEMORIES]
    strengths = [played + each for each in held]
    scales = np.array([math.sqrt(each * v) for each in strengths])
    prior = np.sqrt(p[places])
    np.divide(math.sqrt(max(t, shared.events) * v), prior, out=prior)
    sums = np.multiply(np.array([each / t for each in held])[:, None], prior)
    sums += segment.sums[places]
    sums -= np.minimum.reduce(sums, axis=-1, keepdims=True)
    _, x = solve_rows(sums, scales, _guess(sums, scales, segment.full[1:, places]))
    floors = np.array([FLOOR_SHARE / math.sqrt(each) / p.size for each in strengths])
    np.maximum(x, floors[:, None], out=x)
    x /= np.add.reduce(x, axis=-1)[:, None]
    return x


def _guess(sums: FloatArray, scales: FloatArray, before: FloatArray) -> FloatArray:
    """Return multipliers to start from: near where they are if the distributions before have changed little."""
    weight = before * np.sqrt(before)
    total = np.add.reduce(weight, axis=-1)
    weight *= sums
    guess: FloatArray = (np.add.reduce(weight, axis=-1) - scales * np.add.reduce(before, axis=-1)) / total
    return guess


def next_slot(shared: Shared) -> Shared:
    """Return what is shared when a slot opens: t, n0, b0, A, and the distribution w over the experts.

    Parameters
    ----------
    shared : after all events of the slot before, of whichever segments
    """
    t, events = shared.t + 1, shared.events
    scale = math.sqrt(max(t, events) * variance(shared))
    before = shared.mixture_sums.tolist()
    least = min(before)
    sums, weights = [each - least for each in before], [1 / EXPERTS] * EXPERTS
    if scale > 0:
        asked = [each + scale * cost for each, cost in zip(sums, COSTS, strict=True)]
        least = min(asked)
        asked = [each - least for each in asked]
        floor = FLOOR_SHARE / math.sqrt(t) / EXPERTS
        raised, weights = over_few(asked, scale, shared.weights.tolist(), floor)
        sums = [each + (after - more) for each, after, more in zip(sums, raised, asked, strict=True)]
    _, _, _, _, _, mean, spread, largest, _, _, kept = shared
    return Shared(np.array(sums), np.array(weights), t, events, events, mean, spread, largest, scale, mean, kept)


def mixture(weights: FixedArray, experts: FloatArray) -> FloatArray:
    """Return the mixture of the experts' distributions; where they agree, exactly what they agree on.

    Parameters
    ----------
    weights : w, shape (3,)
    experts : their distributions, shape (3, n_arms)

    Returns
    -------
    a distribution, shape (n_arms,)
    """
    mixed: FloatArray = np.add.reduce(weights[1:, None] * (experts[1:] - experts[0]), axis=0)
    mixed += experts[0]
    return mixed
