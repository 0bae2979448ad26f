"""Experts of arm means beside experts of weighted sums, and one that mixes them; nothing to tune.

Three experts look at the mean loss of each arm. Four are 1/2-Tsallis follow-the-regularised-leader (Zimmert and
Seldin 2021) on losses less the mean of all losses, as ``centred_tsallis``: noisier, but they follow what happens.
Some of them forget, so that the best arm may move, and one allows for delays. A loss comes without its slot: it is
divided by the mean probability that its arm had in the mixture, over the decisions still outstanding. A default
loss can be provisional: learned at the act, corrected when the loss comes. No bound is proved for this rule.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from typing import Any, ClassVar, Literal

import numpy as np

from . import multiscale_state as rule
from .base import FloatArray, InitialArm, IntArray, Log, ProvisionalLearner, Slot
from .maths import LARGEST_DELAYS, LARGEST_VALUE, add_arms, others, remove_arms, spread, with_floor
from .multiscale_state import EXPERTS, MEAN_MEMORY, MEANS, MEMORY, SUMS, State
from .specs import ArmsSpec
from .tsallis import column, distribution_over_few, mixture, solve_rows

KEEP = 1 - 1 / np.concatenate((MEMORY, MEAN_MEMORY, MEAN_MEMORY))[:, None]
"""Share of its sums, counts and totals that each row of a state keeps when a slot opens, shape (8, 1)."""
MEMORY_OF, SHARPNESS = np.array([0, 0, 1]), np.array([[2.0], [1.0], [2.0]])
"""Of each expert of means: the place of its memory, and c, by which it stretches the distance from the best arm."""
CAUTIOUS = 1.0
"""c of the expert of means by which ``best_chance`` judges."""
PRIOR = 2.0
"""Losses of the mean of all arms, in units of M/v, that each arm's mean begins with."""
TAIL = 0.717, 0.416
"""exp(-.717 z - .416 z^2) is about 2 Phi(-z), the chance that an arm beats the best so far, z >= 0."""
TAILS = -TAIL[1] * SHARPNESS * SHARPNESS, TAIL[0] * SHARPNESS
"""The same numbers for z times each sharpness."""
COSTS = (0.0, *(1.0,) * (EXPERTS - 1))
"""C: what the mixture asks of an expert before it trusts it, in units of its scale."""
FLOOR_SHARE = 0.25
"""The floor at the start, as a share of uniform play; it falls as 1/sqrt(t) until t is the expert's memory."""
FLOORS = FLOOR_SHARE / np.sqrt(np.concatenate((MEAN_MEMORY[MEMORY_OF], MEMORY)))
LARGEST_FALL, LARGEST_CORRECTION = 0.25, 1.0
"""Bounds on the fall of a sum by one event and by one correction, in units of scale/sqrt(p)."""
POOL_CAP, PROVISIONAL_POOL_CAP = 1_000, 10_000
"""Most outstanding decisions that the pools count."""


class MultiscaleTsallisSpec(ArmsSpec):
    """Multiscale Tsallis: arm known, slot unknown; nothing to tune. Our recommendation for production.

    It has no proof of sublinear regret for unlabelled feedback; DEXP3 and batched EXP3 at theorem rates have one.
    """

    arms_setting: ClassVar = "max_arms_centred"
    takes_initial: ClassVar = True
    takes_provisional: ClassVar = True
    takes_segments: ClassVar = True
    takes_features: ClassVar = True
    takes_updates: ClassVar = True

    kind: Literal["multiscale_tsallis"] = "multiscale_tsallis"

    def build(self) -> MultiscaleTsallis:
        return MultiscaleTsallis(self.arm_count)


class MultiscaleTsallis(ProvisionalLearner[State]):
    """Distributions are solved for when a slot opens; events only move sums, counts and totals."""

    takes_eligible: ClassVar = True
    counts_dropped: ClassVar = True
    memory: ClassVar = MEMORY.reshape(-1, 1)
    mixture_share: ClassVar[float] = rule.MIXTURE_SHARE
    costs: ClassVar[Sequence[float]] = COSTS
    """Of each expert."""

    def start(self) -> State:
        pools, n = np.full((EXPERTS + 1, self.n_arms), 1 / self.n_arms), len(self.costs)
        sums, zeros, none, even = np.zeros((len(KEEP), self.n_arms)), np.zeros(SUMS), np.zeros(n), np.full(n, 1 / n)
        numbers = (0, 0, 0.0, 0, 0, 0, 0.0, 0.0, 0.0, 0.0)
        return State(sums, pools[:SUMS].copy(), pools, pools[0].copy(), zeros, zeros, none, even, none, *numbers)

    def warmed(self, state: State, initial: Sequence[InitialArm]) -> State:
        warmed = super().warmed(state, initial)
        counts, totals = np.zeros((2, MEAN_MEMORY.size, self.n_arms))
        for arm in initial:
            counts[:, arm.position] = arm.acts * np.minimum(1.0, MEAN_MEMORY / warmed.events)
            totals[:, arm.position] = counts[:, arm.position] * arm.mean
        return warmed._replace(sums=np.concatenate((warmed.sums, counts, totals)))

    def _solved_for(self, state: State, slot: Slot, room: Any) -> State:
        """Return the state with the Tsallis experts' distributions and the mixture's weights for a slot.

        Its sums and distributions are written into the first two parts of ``room``, as ``parts_of`` returns them;
        its pools and what is shown are the others, as they are.
        """
        t, delays = state.t + 1, min(state.delay_sum + slot.outstanding, LARGEST_DELAYS)
        lam, scales = _solve(state, t, delays, *room[:2])
        scale = rule.mixture_scale(state, t, self.mixture_share)
        floor = FLOOR_SHARE / math.sqrt(t) / len(self.costs)
        few = distribution_over_few(state.mixture_sums, scale, state.weights, floor, self.costs)
        # Made of all its fields: `_replace` takes as long as solving for the mixture.
        numbers = (t, delays, state.mean, state.events, *state[13:19])
        return State._make((*room, lam, scales, *few, *numbers, None, None, None))

    def open(self, state: State, slot: Slot) -> State:
        eligible, before, log, (*runs, _, n_arms) = slot.eligible, state.pools, state.log, state.p.shape
        # Distributions of all experts stand one behind the other: those over means are not stored.
        size, is_logged = (rule.ROWS + MEANS) * n_arms, not runs and n_arms >= rule.LOGGED_ARMS
        room = memory = np.empty((*runs, size + rule.NUMBERS * is_logged))
        room = memory[..., :size].reshape(*runs, -1, n_arms)
        state = self._solved_for(state, slot, rule.parts_of(room[..., MEANS:, :]))
        pools, weights, over = state.pools, state.weights, over_arms(state, None, room[..., :EXPERTS, :])
        drawn = shown = mixture(weights, over, state.shown)
        if eligible is not None and eligible.size < shown.shape[-1]:
            over = over_arms(state, eligible)
            drawn = mixture(weights, over)
        drawn = with_floor(drawn, slot.floor, eligible)
        # Means over outstanding decisions, with the open slot's.
        weight = min(slot.outstanding, PROVISIONAL_POOL_CAP if slot.provisional else POOL_CAP)
        if weight:
            np.multiply(before, weight, out=pools)
            pools[..., :-1, :] += over
            pools[..., -1, :] += drawn
            pools *= 1 / (weight + 1)
        else:
            pools[..., :-1, :], pools[..., -1, :] = over, drawn
        if not is_logged:  # Many runs at once are not stored.
            return State(*state[:19], drawn, None, None)
        if log is None or eligible is not None or len(log.steps) >= rule.kept_steps(n_arms):
            memory[size:] = rule.numbers_of(state)
            log = Log(memory[MEANS * n_arms :], (), 0)
        else:
            steps = rule.steps_of(rule.OPEN, slot.provisional, slot.outstanding, {rule.FLOOR: slot.floor or None})
            steps = log.steps + steps
            log = Log(log.base, steps, len(steps))
        return State(*state[:19], drawn, None, log)

    def replayed(self, state: State, log: Log) -> State:
        """Return a state of one run with the vectors that a log leads to.

        Raises
        ------
        ArithmeticError, IndexError, ValueError
            if they are not those of this state.
        """
        base, found, done = log.base, log.before, 0
        known: Log | None = None if found is None else found.log
        if known is not None and log.steps[: len(known.steps)] == known.steps and np.array_equal(known.base, base):
            done = len(known.steps)
        else:
            found = rule.begun(base)
        opened = sum(place % rule.KINDS == rule.OPEN for place, _ in log.steps)
        if opened > rule.kept_steps(found.p.shape[-1]):
            raise ValueError("a log of more slots than any has")
        given = dict[int, float]()
        with np.errstate(all="ignore"):
            for place, number in log.steps[done:]:
                arm, kind = divmod(place, rule.KINDS)
                if not 0 <= number <= LARGEST_VALUE:
                    raise ValueError("not a step")
                if kind == rule.GIVEN:
                    given[arm] = number
                    continue
                short = found._replace(log=Log(base, (), 0, found.log.late))  # Else it would begin again.
                found = self._redone(short, kind, arm, number, given)
                given = {}
        is_whole = (found.t, found.events, found.dropped) == (state.t, state.events, state.dropped)
        if not is_whole or not all(np.isfinite(part).all() for part in (found.whole_sums, *found[1:4])):
            raise ValueError("not the steps of this state")
        # Another processor may have rounded otherwise: numbers are those that are stored.
        log = Log(base, log.steps, log.opened, found.log.late)
        return State._make((*found[:4], *state[4:19], None, None, log))

    def _redone(self, state: State, kind: int, arm: int, number: float, given: Mapping[int, float]) -> State:
        divisor = given.get(rule.DIVISOR)
        match kind:
            case rule.OPEN:
                slot = Slot(state.t + 1, int(number), 0.0, floor=given.get(rule.FLOOR, 0.0), provisional=bool(arm))
                return self.open(state, slot)
            case rule.SETTLE:
                return self.settle(state, arm, number, int(given.get(rule.COUNT, 1)), divisor)
            case rule.CORRECT:
                return self.correct(state, arm, number, given[rule.BEFORE], divisor)
            case rule.UNCHARGE:
                return self.uncharge(state, arm, number, divisor)
            case rule.EXPIRE:
                return self.expire(state, int(number))
        raise ValueError("not a step")

    def settle(self, state: State, arm: Any, loss: Any, count: int = 1, divisor: rule.Divisor = None) -> State:
        return rule.learned(state, arm, loss, LARGEST_FALL, count, divisor)

    def settle_all(self, state: State, arms: Sequence[int], losses: Sequence[float]) -> State:
        if len(arms) == 1:  # In plain floats, in less than half the time.
            return self.settle(state, arms[0], losses[0])
        return rule.all_learned(state, arms, losses, LARGEST_FALL)

    def correct(self, state: State, arm: Any, loss: Any, before: float, divisor: rule.Divisor = None) -> State:
        return rule.corrected(state, arm, loss, before, LARGEST_CORRECTION, divisor)

    def correct_all(self, state: State, arms: Sequence[int], losses: Sequence[float], default: float) -> State:
        if len(arms) == 1:
            return self.correct(state, arms[0], losses[0], default)
        return rule.all_corrected(state, arms, losses, default, LARGEST_CORRECTION)

    def uncharge(self, state: State, arm: Any, default: float, divisor: rule.Divisor = None) -> State:
        return rule.uncharged(state, arm, default, LARGEST_FALL, divisor)

    def give_up(self, state: State, count: int) -> State:  # noqa: ARG002 - a session counts what is outstanding
        return state

    def expire(self, state: State, count: int) -> State:
        return rule.dropped(state, count)

    def remove_arms(self, state: State, positions: IntArray) -> State:
        """Return the state without these arms; what they were charged stays in the mean of losses."""
        return _changed(state, partial(remove_arms, positions=positions), others(state.whole_sums, positions))

    def add_arms(self, state: State, count: int) -> State:
        new = np.zeros((*state.sums.shape[:-1], count))
        return _changed(state, partial(add_arms, count=count), np.concatenate((state.whole_sums, new), axis=-1))

    def distribution(self, state: State) -> FloatArray:
        return state.shown if state.drawn is None else state.drawn

    def probabilities(self, state: State, eligible: IntArray | None = None, floor: float = 0.0) -> FloatArray:
        few = eligible is not None and eligible.size < state.shown.shape[-1]
        p = mixture(state.weights, over_arms(state, eligible)) if few else state.shown
        return with_floor(p, floor, eligible)

    def best_chance(self, state: State) -> FloatArray | None:
        """Return about the chance that each arm is the best, from what has come, shape (n_arms,).

        None before two losses differ. It is cautious: see docs/learners.md.
        """
        if not (v := rule.variance(state)) > 0:
            return None
        # One memory, and so one count and one total of each arm.
        (z,) = _distances(state.whole_sums[SUMS :: MEAN_MEMORY.size], v, state.variance_max)
        x = _tail(z, -TAIL[1] * CAUTIOUS * CAUTIOUS, TAIL[0] * CAUTIOUS)
        chances: FloatArray = x / x.sum()
        return chances


def _solve(state: State, t: int, delay_sum: int, sums: FloatArray, p: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Write sums and distributions that fit the scales of slot ``t``; return multipliers, and these scales."""
    scales = rule.scales_at(state, t, delay_sum)
    np.multiply(state.sums, KEEP, out=sums)
    for arm, late in () if state.log is None else state.log.late.items():
        sums[:, arm : arm + 1] = late * KEEP
    own = sums[..., :SUMS, :]  # A view: what is done to it is done to the sums.
    least = np.minimum.reduce(own, axis=-1)
    own -= least[..., None]
    # Lists of four numbers take a fraction of the time of arrays.
    if not any(strengths := scales.ravel().tolist()):
        p[...] = state.p
        return state.lam, scales
    # Multipliers start from the last ones, moved as the sums were; scales are 1 where they are 0.
    positive, guess, are_positive = scales, state.lam * KEEP[:SUMS, 0] - least, all(strengths)
    if are_positive and all(state.scales.ravel().tolist()):
        guess *= scales / state.scales
    else:
        positive, before = np.where(scales > 0, scales, 1.0), np.where(state.scales > 0, state.scales, 1.0)
        guess = np.where(state.scales > 0, guess * (positive / before), -positive)
    lam, x = solve_rows(own, positive, guess)
    floor, roots = _floors(t, x.shape[-1])
    np.maximum(x, floor[MEANS:], out=p)
    p *= 1 / np.add.reduce(p, axis=-1, keepdims=True)
    highest = (lam + positive / roots)[..., None]
    if are_positive:
        np.minimum(own, highest, out=own)
        return lam, scales
    live = scales > 0
    lam, live = np.where(live, lam, state.lam), live[..., None]
    np.minimum(own, highest, out=own, where=live)
    np.copyto(p, state.p, where=~live)
    return lam, scales


@lru_cache(maxsize=64)
def _floors(t: int, n_arms: int) -> tuple[FloatArray, FloatArray]:
    """Return each expert's least probability in slot ``t``, before p is normalised, and roots of Tsallis experts'.

    Shapes are (7, 1) and (4,).
    """
    floors = np.maximum(FLOOR_SHARE / math.sqrt(max(t, 1)), FLOORS)[:, None] / n_arms
    return floors, np.sqrt(floors[MEANS:, 0])


def over_arms(state: State, eligible: IntArray | None, room: FloatArray | None = None) -> FloatArray:
    """Return each expert's distribution over the arms at ``eligible``, shape (..., 7, n_arms); None: over all.

    ``room`` may be used for those over all arms; in its last part it has the state's ``p`` already.

    Those of Tsallis experts over fewer arms are solved for at the same sums and scale, with the same least
    probability of an arm. All are uniform if v is 0.
    """
    v: Any = rule.variance(state)
    largest: Any = state.variance_max
    n_arms = state.p.shape[-1]
    size, known = n_arms if eligible is None else eligible.size, None  # Runs in which v is not 0, if not all.
    if isinstance(v, np.ndarray) and not (v > 0).all():
        known = (v > 0)[:, None, None]
        largest, v = np.where(v > 0, largest, 1.0), np.where(v > 0, v, 1.0)
    if isinstance(v, float) and not v > 0:
        over = np.full((*state.p.shape[:-2], EXPERTS, size), 1 / size)
        return over if eligible is None else spread(over, eligible, n_arms)
    (floors, _), p, sums = _floors(state.t, n_arms), state.p, state.whole_sums
    if eligible is not None:
        x = _from_nothing(np.take(sums[..., :SUMS, :], eligible, axis=-1), state.scales)
        p = np.where(column(state.scales) > 0, np.maximum(x, floors[MEANS:]), 1.0)
        p /= p.sum(axis=-1, keepdims=True)
    # Of both experts that remember everything the distances are the same, and one is twice as sure of them.
    x = _tail(_distances(sums[..., SUMS:, :], v, largest, eligible).take(MEMORY_OF, axis=-2), *TAILS)
    np.maximum(x, floors[:MEANS] * np.add.reduce(x, axis=-1, keepdims=True), out=x)
    np.multiply(x, 1 / np.add.reduce(x, axis=-1, keepdims=True), out=x if room is None else room[..., :MEANS, :])
    over = np.concatenate((x, p), axis=-2) if room is None else room
    over = over if known is None else np.where(known, over, 1 / size)
    return over if eligible is None else spread(over, eligible, n_arms)


def _distances(heard: FloatArray, v: Any, largest: Any, eligible: IntArray | None = None) -> FloatArray:
    """Return how far each arm's mean loss is above the least, in standard errors of the difference.

    Parameters
    ----------
    heard : N of each memory, and then L, shape (..., 2 memories, n_arms)
    v : positive variance of losses, a float or shape (...)
    largest : M
    eligible : positions of the arms that are compared; None: all

    Returns
    -------
    shape (..., memories, eligible)
    """
    half, of_all = heard.shape[-2] // 2, np.add.reduce(heard, axis=-1, keepdims=True)
    heard = heard if eligible is None else np.take(heard, eligible, axis=-1)
    prior = PRIOR * largest / v
    if not isinstance(prior, float):
        prior, v = column(column(prior)), column(column(v))
    counts = heard[..., :half, :] + prior
    mean = of_all[..., half:, :] / np.maximum(of_all[..., :half, :], 2.0**-1022)
    means: FloatArray = heard[..., half:, :] + prior * mean
    means /= counts
    best = means.argmin(axis=-1, keepdims=True)
    best += means.shape[-1] * np.arange(best.size).reshape(best.shape)
    means -= means.take(best)
    # Squared standard errors of the means, v/(N + prior).
    errors: FloatArray = np.divide(v, counts, out=counts)
    errors += errors.take(best)
    means /= np.sqrt(errors, out=errors)
    return means


def _tail(z: FloatArray, square: Any, linear: Any) -> FloatArray:
    """Return exp(square z^2 - linear z), z >= 0: see ``TAIL``."""
    power = z * square
    power -= linear
    power *= z
    tail: FloatArray = np.exp(power, out=power)
    return tail


def _from_nothing(sums: FloatArray, scales: FloatArray) -> FloatArray:
    """Return each Tsallis expert's x at its scale, or at 1 if that is 0, without a multiplier to start from."""
    positive = np.where(scales > 0, scales, 1.0)
    return solve_rows(sums - sums.min(axis=-1, keepdims=True), positive, -positive)[1]


def _changed(state: State, change: Callable[[FloatArray], FloatArray], sums: FloatArray) -> State:
    """Return the state after a change of arms, with sums that give the changed x in the next slot.

    ``change`` does it to distributions; in ``sums``, shape (..., 8, n_arms), counts and totals are changed already.
    """
    scales, keep = rule.scales_at(state, state.t + 1, state.delay_sum), KEEP[:SUMS]
    x = _from_nothing(state.whole_sums[..., :SUMS, :] * keep, scales)
    x = change(np.where(column(scales) > 0, x, state.p))
    depths = column(scales) / np.sqrt(x)
    lam = -state.scales / (keep[:, 0] * np.sqrt(x.max(axis=-1)))
    sums[..., :SUMS, :] = (depths - depths.min(axis=-1, keepdims=True)) / keep
    p, pools, shown = change(state.p), change(state.pools), change(state.shown)
    return state._replace(sums=sums, p=p, pools=pools, shown=shown, lam=lam, drawn=None, log=None)
