"""The multiscale Tsallis learner with features: beside its seven experts, which see none, four that do.

These four weigh arms by the gaps between the losses that two ridge regressions expect for the visitor
(inverse-gap weighting: Foster and Rakhlin 2020), each with two rates. Regressions know their past as sums alone, so
a provisional default that is corrected by unlabelled, late events teaches them what labelled ones would, if events
bring the columns of their act. One mixture chooses among all eleven, so that useless features cost little. No bound
is proved.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar, cast

import numpy as np

from . import multiscale_state as rule
from .base import FloatArray, InitialArm, IntArray, Slot, Visit
from .maths import over, spread, with_floor
from .multiscale_state import EXPERTS, MEANS, State
from .multiscale_tsallis import (
    COSTS,
    LARGEST_CORRECTION,
    LARGEST_FALL,
    POOL_CAP,
    PROVISIONAL_POOL_CAP,
    MultiscaleTsallis,
    over_arms,
)
from .regressions import Regressions
from .tsallis import mixture

RATES = np.array([[1.0], [8.0]])
"""By how much each of a regression's two experts trusts gaps between the losses that it expects."""
GAPS = 2 * RATES.size
"""Experts of regressions."""
TIED = 1e-9
"""Gap up to which arms are equally good, in standard deviations of losses: rounding must not choose."""
LARGEST_RATIO = 60_000.0
"""Nearly the largest float16."""


class FeatureTsallis(MultiscaleTsallis):
    """A learner of one run, whose slots have columns of a visitor, and whose events may have them."""

    mixture_share: ClassVar = 0.25
    costs: ClassVar = (*COSTS, *(3.0,) * GAPS)

    def __init__(self, n_arms: int, n_columns: int) -> None:
        super().__init__(n_arms)
        self.n_columns = n_columns

    def start(self) -> State:
        state, n, none = super().start(), len(self.costs), np.zeros(len(self.costs))
        even = np.full((MEANS, self.n_arms), 1 / self.n_arms)
        kept = Regressions.start(self.n_arms, self.n_columns)
        weights = np.full(n, 1 / n)
        return state._replace(pools=even, mixture_sums=none, mixture_units=none, weights=weights, regressions=kept)

    def warmed(self, state: State, initial: Sequence[InitialArm]) -> State:
        state, kept = super().warmed(state, initial), known(state)
        for arm in initial:
            kept = kept.warmed(arm.position, arm.acts, arm.mean)
        return state._replace(regressions=kept)

    def open(self, state: State, slot: Slot) -> State:
        kept, eligible = known(state).opened(), slot.eligible
        state = self._solved_for(state, slot)
        slots, v = max(state.t - state.dropped, state.events), rule.variance(state)
        every = advice = over_arms(state, None)
        x = kept.mean_columns(0) if slot.x is None else slot.x
        expected, n_arms = kept.predictions(x, state.shift), every.shape[-1]
        if eligible is not None and eligible.size < n_arms:
            advice = over_arms(state, eligible)
            gaps = spread(gap_weighted(expected[:, eligible], slots, v), eligible, n_arms)
        else:
            gaps = gap_weighted(expected, slots, v)
        advice = np.concatenate((advice, gaps))
        drawn = with_floor(mixture(state.weights, advice), slot.floor, eligible)
        weight = min(slot.outstanding, PROVISIONAL_POOL_CAP if slot.provisional else POOL_CAP)
        pool = state.shown * weight
        pool += drawn
        pool *= 1 / (weight + 1)
        kept = Regressions(*kept[:7], slots, v, slot.floor, advice)
        return State(state.sums, state.p, every[:MEANS], pool, *state[4:19], drawn, kept)

    def ratios(self, state: State, arm: int) -> tuple[float, ...]:
        """Return how likely each expert made the arm that was just drawn, relative to all, as float16 has it."""
        advice, drawn = known(state).advice, state.drawn
        if advice is None or drawn is None:
            raise ValueError("no arm was just drawn")
        found = np.minimum(advice[:, arm] / drawn[arm], LARGEST_RATIO).astype(np.float16)
        return cast("tuple[float, ...]", tuple(found.tolist()))

    def advice(self, state: State, x: FloatArray, left_out: tuple[int, float] | None = None) -> FloatArray:
        """Return what each expert would advise of all arms for a visitor, shape (11, arms), as of the last open.

        ``left_out`` is an arm, and the loss of a decision of it with these columns that the regressions hold: the
        arm's predicted loss is without it.
        """
        kept = known(state)
        expected = kept.predictions(x, state.shift)
        if left_out is not None:
            arm, loss = left_out
            weight = kept.leverages(arm, x)
            expected[:, arm] += weight / (1 - weight) * (expected[:, arm] - loss)
        return np.concatenate((state.pools, state.p, gap_weighted(expected, kept.slots, kept.spread)))

    def for_visitor(self, state: State, x: FloatArray) -> FloatArray:
        """Return the distribution over all arms for a visitor's columns, shape (arms,), without opening a slot."""
        return with_floor(mixture(state.weights, self.advice(state, x)), known(state).floor, None)

    def _ratios_of(self, state: State, arm: int, visit: Visit, learned: float | None) -> tuple[float, ...] | None:
        """Return the ratios that an event brings, or about those that its act had.

        Parameters
        ----------
        state : before the event
        arm : its position
        visit : what the event says
        learned : the loss that the regressions hold for its decision already; None if they hold none
        """
        if visit.ratios is not None or not state.mixture_units.any():
            return visit.ratios or (0.0,) * len(self.costs)
        kept = known(state)
        x = kept.mean_columns(arm) if visit.x is None else visit.x
        advice = self.advice(state, x, None if learned is None else (arm, learned))[:, arm]
        likely = (1 - kept.floor) * (state.weights @ advice) + kept.floor / len(kept.arms)
        return tuple((advice / likely).tolist())

    def told(self, state: State, arm: int, loss: float, visit: Visit) -> State:
        """Learn from a decision's loss, as ``settle`` does, and from what is known of its visitor."""
        ratios = self._ratios_of(state, arm, visit, None)
        state = State(*state[:20], known(state).told(arm, visit.x, loss, 1))
        return rule.learned(state, arm, loss, LARGEST_FALL, 1, state.shown.item(arm), ratios)

    def told_better(self, state: State, arm: int, loss: float, before: float, visit: Visit) -> State:
        """Learn a loss in the place of another one, as ``correct`` does."""
        ratios = self._ratios_of(state, arm, visit, before)
        state = State(*state[:20], known(state).told(arm, visit.x, loss - before, 0))
        return rule.corrected(state, arm, loss, before, LARGEST_CORRECTION, state.shown.item(arm), ratios)

    def taken_back(self, state: State, arm: int, default: float, visit: Visit) -> State:
        """Take back a decision that was charged with the default, as ``uncharge`` does."""
        ratios = self._ratios_of(state, arm, visit, default)
        state = State(*state[:20], known(state).taken_back(arm, visit.x, default, state.shift))
        return rule.uncharged(state, arm, default, LARGEST_FALL, state.shown.item(arm), ratios)

    def remove_arms(self, state: State, positions: IntArray) -> State:
        return super().remove_arms(state, positions)._replace(regressions=known(state).without(positions))

    def add_arms(self, state: State, count: int) -> State:
        return super().add_arms(state, count)._replace(regressions=known(state).with_more(count))

    def probabilities(self, state: State, eligible: IntArray | None = None, floor: float = 0.0) -> FloatArray:  # noqa: ARG002
        """Return the pool: the mean, over outstanding decisions, of the distributions that they were drawn from."""
        return over(state.shown, eligible, uniform=True)

    def rates(self, state: State) -> dict[str, Any]:
        return super().rates(state) | {"feature_weight": float(state.weights[EXPERTS:].sum())}


def known(state: State) -> Regressions:
    """Return the regressions of a state with features."""
    if state.regressions is None:
        raise ValueError("a state without features")
    return state.regressions


def gap_weighted(expected: FloatArray, slots: int, v: float) -> FloatArray:
    """Return distributions by the gaps between expected losses: uniform if v is 0.

    Parameters
    ----------
    expected : loss of each arm by both regressions, shape (2, arms)
    slots : s
    v : variance of losses

    Returns
    -------
    shape (4, arms): of the first regression with both rates, then of the second
    """
    size = expected.shape[1]
    if not v > 0:
        return np.full((GAPS, size), 1 / size)
    gaps, unit = expected - np.minimum.reduce(expected, axis=1, keepdims=True), math.sqrt(v)
    p: FloatArray = gaps[:, None, :] * (math.sqrt(slots * size) / unit * RATES)
    p += size
    np.divide(1.0, p, out=p)
    # The first of the best arms, at 1/size so far, gets what is left.
    left = 1 - np.add.reduce(p, axis=2)
    for of_one, rest, best in zip(p, left, (gaps <= TIED * unit).argmax(axis=1).tolist(), strict=True):
        of_one[:, best] += rest
    return p.reshape(GAPS, size)
