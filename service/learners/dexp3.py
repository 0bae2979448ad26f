"""DEXP3 (Algorithm 1 of the paper): exponential weights for losses whose slot is unknown."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, cast

import numpy as np
from pydantic import Field, model_validator

from ..errors import FieldValueError
from .base import ArmLearner, FloatArray, Information, IntArray, Log, Slot, Steps, at
from .maths import add_arms, remove_arms
from .rates import RatedSpec, RateFields, RateMode
from .specs import MAX_COUNT, ArmsSpec, Horizon, LearningRate, MaxDelay, Rate, RateScale, TotalDelay, Whole

# -- The log of DEXP3: a distribution and the events since, from which a reader makes the state again.
#
# Of few arms p_open is stored, and the events since the slot opened. Of many no state has a vector: the log is
# stored beside it, and a commit adds its events.

MAX_STEPS = 32
"""Most events since the slot opened by which p is stored."""
LOGGED_ARMS = 1_000
"""Arms from which on a session is stored as a log; with fewer, p_open is stored, and the few steps since."""
KEPT_STEPS = 128
"""Most events in a log after which, when a slot opens, another begins."""
ARMS_PER_STEP = 32
"""Arms for which a log has one event more: fewer arms are sooner stored anew than many events are read."""


def kept_steps(n_arms: int) -> int:
    """Return after how many events another log begins, when a slot opens."""
    return min(KEPT_STEPS, n_arms // ARMS_PER_STEP)


def at_start(p: FloatArray) -> Log | None:
    """Return the log before slot 1 at ``p``, shape (n_arms,); None of many arms, whose log begins with the slot."""
    return Log(p, (), 0) if p.size < LOGGED_ARMS else None


def at_opening(log: Log | None, p: FloatArray) -> Log | None:
    """Return the log of a slot that opens at ``p``: the same as long as it may grow, else one that begins here.

    Parameters
    ----------
    log : of the slot before; None where it is not known
    p : after the latest event, shape (..., n_arms)

    Returns
    -------
    the log; None for many runs at once, which are not stored
    """
    if log is not None and log.is_stored and len(log.steps) < kept_steps(p.size):
        return log._replace(opened=len(log.steps))
    return Log(p, (), 0, p.size >= LOGGED_ARMS) if p.ndim == 1 else None


def with_steps(log: Log | None, steps: Steps) -> Log | None:
    """Return the log with more events; None where they are too many, or where it was not known before.

    Parameters
    ----------
    log : of the open slot
    steps : what the events did, in their order
    """
    if log is None:
        return None
    most = 2 * kept_steps(log.base.size) if log.is_stored else MAX_STEPS
    if len(log.steps) + len(steps) > most:
        return None
    return Log(log.base, log.steps + steps, log.opened, log.is_stored)


def read(log: Log, p_open: FloatArray) -> Log:
    """Return a log that was read as it is kept from now on: stored or not, by its number of arms.

    Parameters
    ----------
    log : as it was stored
    p_open : to which its steps before the open slot lead
    """
    if log.base.size >= LOGGED_ARMS:
        return log._replace(is_stored=True)
    return Log(p_open, log.steps[log.opened :], 0)


ANYTIME_SCALE = 2.0
"""c of the anytime rates."""
MAX_EXPONENT = 700.0
"""exp(-700) is still a normal double: no weight becomes 0, which with one arm would mean 0 divided by 0."""


class Rates(NamedTuple):
    """eta, delta_1 and delta_2."""

    learning_rate: float
    loss_clip: float
    probability_floor: float


def theorem_rates(n_arms: int, horizon: int, max_delay: int, total_delay: int, scale: float = 1.0) -> Rates:
    """Return the rates of Theorem 1, with d-bar = 0 taken as 1.

    Parameters
    ----------
    n_arms : K
    horizon : T, in slots
    max_delay : d-bar, in slots
    total_delay : D, in slots
    scale : c, a factor of eta, from which delta_1 follows

    Raises
    ------
    ValueError
        where horizon + total_delay <= 2 max(1, max_delay): delta_1 would not be positive.
    """
    slots, delay = horizon + total_delay, max(1, max_delay)
    if slots <= 2 * delay:
        raise FieldValueError(
            "max_delay", "horizon + total_delay must exceed 2 max_delay (and 2), else loss_clip is not positive"
        )
    eta = scale * math.sqrt((1 + math.log(n_arms)) / (delay * n_arms * slots))
    floor = 1 / slots
    return Rates(eta, 1 / (2 * eta * delay) - floor / eta, floor)


def anytime_rates(n_arms: int, t: int, total_delay: float) -> Rates:
    """Return the rates of slot ``t``; no bound is proved for them.

    Parameters
    ----------
    n_arms : K
    t : slot, from 1
    total_delay : D, the sum over the slots so far of the decisions outstanding at their start, capped where the
        learner has a cap
    """
    floor = min(1 / (t + total_delay), 0.25)
    eta = ANYTIME_SCALE * math.sqrt((1 + math.log(n_arms)) / (n_arms * t + total_delay))
    return Rates(eta, 4 * (0.5 - floor) / eta, floor)


class Dexp3Spec(RatedSpec, ArmsSpec):
    """DEXP3: arm known, slot unknown. The paper's learner with a proof for unlabelled feedback."""

    rate_fields: ClassVar = RateFields(
        given=Rates._fields, theorem=("horizon", "max_delay", "total_delay"), anytime=True
    )

    kind: Literal["dexp3"] = "dexp3"
    rate_scale: RateScale | None = None
    horizon: Horizon | None = None
    max_delay: MaxDelay | None = None
    total_delay: TotalDelay | None = None
    learning_rate: LearningRate | None = None
    loss_clip: Annotated[Rate, Field(description="delta_1, the bound on an estimated loss.")] | None = None
    probability_floor: Annotated[Rate, Field(le=1, description="delta_2")] | None = None
    max_outstanding: Annotated[Whole, Field(ge=1, le=MAX_COUNT)] | None = None

    @model_validator(mode="after")
    def _rates_are_positive(self) -> Dexp3Spec:
        if self.max_outstanding is not None and self.mode is not RateMode.ANYTIME:
            raise FieldValueError("max_outstanding", "max_outstanding belongs to the anytime rates")
        self.fixed_rates()
        return self

    def fixed_rates(self) -> Rates | None:
        """Return the rates where they are the same in every slot, else None."""
        if self.mode is RateMode.GIVEN:
            return Rates(*(cast("float", getattr(self, name)) for name in Rates._fields))
        if self.horizon is None or self.max_delay is None or self.total_delay is None:
            return None
        scale = self.rate_fields.scale(self)
        return theorem_rates(self.arm_count, self.horizon, self.max_delay, self.total_delay, scale)

    def build(self) -> Dexp3:
        return Dexp3(self.arm_count, self.fixed_rates(), self.max_outstanding, self.mode)


class State(NamedTuple):
    """Distributions, the open slot's rates, and the sum of delays so far."""

    p: FloatArray
    """After the latest event, p_t^n of the paper, shape (..., n_arms)."""
    p_open: FloatArray
    """p_t of the open slot, shape (..., n_arms)."""
    learning_rate: float
    loss_clip: float
    probability_floor: float
    delay_sum: int
    log: Log | None = None
    """By which p_open and p follow from an earlier p; None where the steps are too many, or arms were changed."""

    def replayed(self, log: Log) -> State:
        """Return the state of one run with the vectors that a log leads to.

        Raises
        ------
        IndexError
            where a step is of an arm that there is not.
        ValueError
            where all weights are 0.
        """
        if not log.steps:
            return self._replace(p=log.base, p_open=log.base, log=read(log, log.base))
        with np.errstate(all="ignore"):
            try:
                p_open = _trimmed(log.base, log.steps[: log.opened])
                p = _trimmed(p_open, log.steps[log.opened :])
            except ZeroDivisionError as error:
                raise ValueError("weights without a sum") from error
            return self._replace(p=p, p_open=p_open, log=read(log, p_open))


class Dexp3(ArmLearner[State]):
    """Every event changes the weights, and its loss is divided by p_t of the start of the slot it arrives in.

    Parameters
    ----------
    n_arms : K at the start
    rates : fixed rates, or None for the anytime ones
    max_outstanding : cap on what one slot adds to the anytime delay sum; None for no cap
    mode : where the rates come from, for the view
    """

    information: ClassVar = Information.ARM
    state_type: ClassVar = State

    def __init__(
        self,
        n_arms: int,
        rates: Rates | None = None,
        max_outstanding: int | None = None,
        mode: RateMode = RateMode.ANYTIME,
    ) -> None:
        self.n_arms = n_arms
        self.mode = mode
        self._rates = rates
        self._cap = MAX_COUNT if max_outstanding is None else max_outstanding

    def start(self) -> State:
        p = np.full(self.n_arms, 1 / self.n_arms)
        rates = self._rates or anytime_rates(self.n_arms, 1, 0)
        return State(p, p, *rates, delay_sum=0, log=at_start(p))

    def open(self, state: State, slot: Slot) -> State:
        delay_sum = state.delay_sum + min(slot.outstanding, self._cap)
        rates = self._rates or anytime_rates(state.p.shape[-1], slot.t, delay_sum)
        return State(state.p, state.p, *rates, delay_sum, at_opening(state.log, state.p))

    def open_all(self, state: State, slot: Slot, count: int) -> tuple[State, int]:
        """Open all slots: p changes with events alone, and of anytime rates those of the last slot stay."""
        uncapped = min(max(self._cap - slot.outstanding, 0), count)
        delays = uncapped * slot.outstanding + uncapped * (uncapped - 1) // 2 + (count - uncapped) * self._cap
        delay_sum = state.delay_sum + delays
        rates = self._rates or anytime_rates(state.p.shape[-1], slot.t + count - 1, delay_sum)
        return State(state.p, state.p, *rates, delay_sum, at_opening(state.log, state.p)), count

    def settle(self, state: State, arm: Any, loss: Any, count: int = 1) -> State:
        """Apply eqs. (estloss), (tildew1), (w1), (tildep1); ``count`` multiplies the exponent before one trim."""
        index = at(arm)
        return self._step(state, index, count * np.minimum(state.loss_clip, loss / state.p_open[index]))

    def settle_all(self, state: State, arms: Sequence[int], losses: Sequence[float]) -> State:
        """Settle events one after the other; what does not depend on those before is computed of all at once."""
        if len(arms) == 1:
            factors = [_factor(state, losses[0], state.p_open[arms[0]])]
        else:
            estimates = np.minimum(state.loss_clip, losses / state.p_open[list(arms)])
            factors = np.exp(-np.minimum(state.learning_rate * estimates, MAX_EXPONENT)).tolist()
        least = state.probability_floor / len(state.p)
        steps = tuple((arm, factor, least) for arm, factor in zip(arms, factors, strict=True))
        p, log = _trimmed(state.p, steps), with_steps(state.log, steps)
        return State(p, *state[1:-1], log)

    def _step(self, state: State, index: tuple[Any, ...], estimate: Any) -> State:
        w = state.p.copy()
        factor = np.exp(-np.minimum(state.learning_rate * estimate, MAX_EXPONENT))
        w[index] *= factor
        w /= w.sum(axis=-1, keepdims=True)
        least = state.probability_floor / w.shape[-1]
        np.maximum(w, least, out=w)
        w /= w.sum(axis=-1, keepdims=True)
        log = with_steps(state.log, ((int(index[0]), float(factor), least),)) if w.ndim == 1 else None
        return state._replace(p=w, log=log)

    def remove_arms(self, state: State, positions: IntArray) -> State:
        p, p_open = (remove_arms(part, positions, state.probability_floor) for part in (state.p, state.p_open))
        return state._replace(p=p, p_open=p_open, log=None)

    def add_arms(self, state: State, count: int) -> State:
        return state._replace(p=add_arms(state.p, count), p_open=add_arms(state.p_open, count), log=None)

    def distribution(self, state: State) -> FloatArray:
        return state.p_open

    def probabilities(self, state: State, eligible: IntArray | None = None, floor: float = 0.0) -> FloatArray:  # noqa: ARG002
        return state.p

    def rates(self, state: State) -> dict[str, Any]:
        return {"rates": self.mode} | {name: getattr(state, name) for name in Rates._fields}


def _factor(state: State, loss: float, p: np.float64) -> float:
    """Return what one event multiplies the weight of its arm by; numbers take less time than arrays of one number.

    Parameters
    ----------
    state : of one run
    loss : of the event
    p : of its arm, at the opening of the slot
    """
    estimate = loss / p
    exponent = state.learning_rate * (state.loss_clip if estimate > state.loss_clip else estimate)
    return float(np.exp(-(MAX_EXPONENT if exponent > MAX_EXPONENT else exponent)))


def _trimmed(p: FloatArray, steps: Steps) -> FloatArray:
    """Return p of one run, shape (n_arms,), with weights multiplied one after the other, trimmed after each.

    A pass over the weights is left out where it would change none: to trim them while none is below ``lowest``, to
    divide by 1. ``least`` is at most the least weight: a division keeps the order of weights, ties included.
    """
    if not steps:
        return p
    # A sum as an array without axes takes less time to divide by than a number.
    w, sum_of, total = p.copy(), np.add.reduce, np.empty(())
    if len(steps) == 1:  # To find the least weight takes longer than to trim once.
        ((arm, factor, lowest),) = steps
        w[arm] *= factor
        w /= sum_of(w, out=total)
        np.maximum(w, lowest, out=w)
        w /= sum_of(w, out=total)
        return w
    least = p.min().item()
    for arm, factor, lowest in steps:
        w[arm] = moved = w.item(arm) * factor
        w /= sum_of(w, out=total)
        least = (moved if moved < least else least) / total.item()
        if not least >= lowest:
            np.maximum(w, lowest, out=w)
            least = lowest
        if (number := sum_of(w, out=total).item()) != 1.0:
            w /= total
            least /= number
    return w
