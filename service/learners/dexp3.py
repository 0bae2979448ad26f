"""DEXP3 (Algorithm 1 of the paper): exponential weights for losses whose slot is unknown, stored as a log."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, cast

import numpy as np
from pydantic import Field, model_validator

from ..errors import FieldValueError
from .base import ArmLearner, FloatArray, IntArray, Log, RateMode, Slot, Steps, at
from .maths import add_arms, remove_arms
from .specs import MAX_COUNT, ArmsSpec, LearningRate, MaxDelay, Rate, RatedSpec, RateFields, TotalDelay, Whole

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


class Dexp3Spec(RatedSpec, ArmsSpec):
    """DEXP3: arm known, slot unknown. The paper's learner with a proof for unlabelled feedback."""

    rate_fields: ClassVar = RateFields(
        given=Rates._fields, theorem=("horizon", "max_delay", "total_delay"), anytime=True
    )

    kind: Literal["dexp3"] = "dexp3"
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
        return theorem_rates(self.arm_count, self.horizon, self.max_delay, self.total_delay, self.scale)

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
        opened, later = log.steps[: log.opened], log.steps[log.opened :]
        with np.errstate(all="ignore"):
            try:
                p_open = _trimmed(log.base, opened)
                p = _trimmed(p_open, later)
            except ZeroDivisionError as error:
                raise ValueError("weights without a sum") from error
        kept = log._replace(is_stored=True) if p.size >= LOGGED_ARMS else Log(p_open, later, 0)
        return self._replace(p=p, p_open=p_open, log=kept)


class Dexp3(ArmLearner[State]):
    """Every event changes the weights, and its loss is divided by p_t of the start of the slot it arrives in.

    Parameters
    ----------
    n_arms : K at the start
    rates : fixed rates, or None for the anytime ones
    max_outstanding : cap on what one slot adds to the anytime delay sum; None for no cap
    mode : where the rates come from, for the view
    """

    state_type: ClassVar = State

    def __init__(
        self,
        n_arms: int,
        rates: Rates | None = None,
        max_outstanding: int | None = None,
        mode: RateMode = RateMode.ANYTIME,
    ) -> None:
        super().__init__(n_arms, mode=mode)
        self._rates = rates
        self._cap = MAX_COUNT if max_outstanding is None else max_outstanding

    def start(self) -> State:
        p = np.full(self.n_arms, 1 / self.n_arms)
        state = self.open(State(p, p, 0.0, 0.0, 0.0, 0), Slot(1, 0, 0.0))
        return state if p.size < LOGGED_ARMS else state._replace(log=None)  # It begins with the first slot.

    def open(self, state: State, slot: Slot) -> State:
        """Open a slot; no bound is proved for the anytime rates, of which D is the sum of delays, with the cap."""
        p, log, delay_sum = state.p, state.log, state.delay_sum + min(slot.outstanding, self._cap)
        if self._rates is None:
            n_arms, t = p.shape[-1], slot.t
            eta = ANYTIME_SCALE * math.sqrt((1 + math.log(n_arms)) / (n_arms * t + delay_sum))
            floor = min(1 / (t + delay_sum), 0.25)
            rates = Rates(eta, 4 * (0.5 - floor) / eta, floor)
        else:
            rates = self._rates
        if log is not None and log.is_stored and len(log.steps) < kept_steps(p.size):
            log = log._replace(opened=len(log.steps))
        else:  # Another log begins here; many runs at once are not stored.
            log = Log(p, (), 0, p.size >= LOGGED_ARMS) if p.ndim == 1 else None
        return State(p, p, *rates, delay_sum, log)

    def open_all(self, state: State, slot: Slot, count: int) -> tuple[State, int]:
        """Open all slots: p changes with events alone, and of anytime rates those of the last slot stay."""
        more, outstanding = count - 1, slot.outstanding
        uncapped = min(max(self._cap - outstanding, 0), more)
        delays = uncapped * outstanding + uncapped * (uncapped - 1) // 2 + (more - uncapped) * self._cap
        last = slot._replace(t=slot.t + more, outstanding=outstanding + more)
        return self.open(state._replace(delay_sum=state.delay_sum + delays), last), count

    def settle(self, state: State, arm: Any, loss: Any, count: int = 1) -> State:
        """Apply eqs. (estloss), (tildew1), (w1), (tildep1); ``count`` multiplies the exponent before one trim."""
        if state.p.ndim == 1:
            return self.settle_all(state, (arm,), (loss,), count)
        w, index = state.p.copy(), at(arm)
        estimate = count * np.minimum(state.loss_clip, loss / state.p_open[index])
        w[index] *= np.exp(-np.minimum(state.learning_rate * estimate, MAX_EXPONENT))
        w /= w.sum(axis=-1, keepdims=True)
        np.maximum(w, state.probability_floor / w.shape[-1], out=w)
        w /= w.sum(axis=-1, keepdims=True)
        return state._replace(p=w)

    def settle_all(self, state: State, arms: Sequence[int], losses: Sequence[float], count: int = 1) -> State:
        """Settle events of one run one after the other; ``count``, as for ``settle``, is of an event alone."""
        p, log, least = state.p, state.log, state.probability_floor / len(state.p)
        if len(arms) == 1:  # Numbers take less time than arrays of one, and trimming than to find the least.
            (arm,), (loss,) = arms, losses
            estimate = count * min(loss / state.p_open[arm], state.loss_clip)
            factor = float(np.exp(-min(state.learning_rate * estimate, MAX_EXPONENT)))
            steps: Steps = ((arm, factor, least),)
            # A sum as an array without axes takes less time to divide by than a number.
            p, sum_of, total = p.copy(), np.add.reduce, np.empty(())
            p[arm] *= factor
            p /= sum_of(p, out=total)
            np.maximum(p, least, out=p)
            p /= sum_of(p, out=total)
        else:  # What does not depend on the events before is computed of all at once.
            estimates = np.minimum(state.loss_clip, losses / state.p_open[list(arms)])
            factors = np.exp(-np.minimum(state.learning_rate * estimates, MAX_EXPONENT)).tolist()
            steps = tuple((arm, factor, least) for arm, factor in zip(arms, factors, strict=True))
            p = _trimmed(p, steps)
        if log is not None:  # None again where the steps are too many.
            most, steps = 2 * kept_steps(p.size) if log.is_stored else MAX_STEPS, log.steps + steps
            log = None if len(steps) > most else Log(log.base, steps, log.opened, log.is_stored)
        return State(p, *state[1:-1], log)

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


def _trimmed(p: FloatArray, steps: Steps) -> FloatArray:
    """Return p of one run, shape (n_arms,), with weights multiplied one after the other, trimmed after each.

    A pass over the weights is left out where it would change none: to trim them while none is below ``lowest``, to
    divide by 1. ``least`` is at most the least weight: a division keeps the order of weights, ties included.
    """
    if not steps:
        return p
    w, sum_of, total = p.copy(), np.add.reduce, np.empty(())
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
