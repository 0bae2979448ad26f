"""DEXP3 (Algorithm 1 of the paper): exponential weights for losses whose slot is unknown.

The state has weights and their sum, not p, which is the weights divided by it: so an event changes one weight and
the sum, and passes over the arms are rare.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, cast

import numpy as np
from pydantic import Field, model_validator

from ..errors import FieldValueError
from .base import ArmLearner, FloatArray, IntArray, Log, RateMode, Slot, Steps
from .maths import LARGEST_DELAYS, add_arms, remove_arms
from .specs import MAX_COUNT, ArmsSpec, LearningRate, MaxDelay, Rate, RatedSpec, RateFields, TotalDelay, Whole

# -- The log of many arms: weights, and those that were set since. No state of many arms has a vector: the log is
# stored beside it, and a commit adds the weights that it set.

LOGGED_ARMS = 1_000
"""Arms from which on a session is stored as a log."""
KEPT_STEPS = 128
"""Most weights set in a log after which, when a slot opens, another begins."""
ARMS_PER_STEP = 32
"""Arms for which a log has one step more: fewer arms are sooner stored anew than many steps are read."""


def kept_steps(n_arms: int) -> int:
    """Return after how many steps another log begins, when a slot opens."""
    return min(KEPT_STEPS, n_arms // ARMS_PER_STEP)


ANYTIME_SCALE = 2.0
"""c of the anytime rates."""
MAX_DRIFT = 64.0
"""Changes of a sum, each rounded twice by at most 2^-53 of it, until it is added up anew: so its error stays below
64 * 2^-52 = 1.5e-14 of it. If the sum falls, it is so sooner."""
SMALL = 2.0**-8
"""Sum below which all weights are multiplied by a power of two, which rounds none of them."""
NEARLY = 1e-9
"""Error of a stored sum, as a share of it, that shows that it is of other weights."""


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
        text = "horizon + total_delay must exceed 2 max_delay (and 2), else loss_clip is not positive"
        raise FieldValueError("max_delay", text)
    eta = scale * math.sqrt((1 + math.log(n_arms)) / (delay * n_arms * slots))
    floor = 1 / slots
    return Rates(eta, 1 / (2 * eta * delay) - floor / eta, floor)


class Dexp3Spec(RatedSpec, ArmsSpec):
    """DEXP3: arm known, slot unknown. The paper's learner with a proof for unlabelled feedback."""

    rate_fields: ClassVar = RateFields(Rates._fields, ("horizon", "max_delay", "total_delay"), anytime=True)

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
    """Weights and their sums, the open slot's rates, and the sum of delays so far.

    Of many runs at once the numbers that events change are arrays over the leading axes, once they differ.
    """

    weights: FloatArray
    """After the latest event, shape (..., n_arms)."""
    opened: FloatArray
    """Those of the opening of the slot, shape (..., n_arms)."""
    total: float
    """Sum of ``weights``."""
    total_open: float
    """Sum of ``opened``."""
    drift: float
    """The totals before each change since they were added up; 2^-52 of their sum bounds the error of the last."""
    learning_rate: float
    loss_clip: float
    probability_floor: float
    delay_sum: int
    least: float = 0.0
    """No weight is smaller; 0 if none is known."""
    log: Log | None = None
    """By which the weights follow from earlier ones; None for few arms, and if too many weights were changed."""

    @property
    def p(self) -> FloatArray:
        """After the latest event, p_t^n of the paper, shape (..., n_arms)."""
        p: FloatArray = self.weights / np.asarray(self.total)[..., None]
        return p

    @property
    def p_open(self) -> FloatArray:
        """p_t of the open slot, shape (..., n_arms)."""
        p: FloatArray = self.opened / np.asarray(self.total_open)[..., None]
        return p

    def at(self, weights: FloatArray, opened: FloatArray) -> State:
        """Return the state with other weights; they need not have the sum 1."""
        total, total_open = (w.sum(axis=-1) if w.ndim > 1 else w.sum().item() for w in (weights, opened))
        return State(weights, opened, total, total_open, 0.0, *self[5:9])

    def checked(self) -> State:
        """Return the state of one run, whose weights were read, with the least of them.

        Raises
        ------
        ValueError
            if one of them is not positive, or they have other sums.
        """
        both = ((self.opened, self.total_open), (self.weights, self.total))
        for weights, total in both[self.weights is self.opened :]:
            if not ((least := weights.min().item()) > 0 and abs(weights.sum() - total) <= NEARLY * total):
                raise ValueError("weights with another sum")
        return self._replace(least=least)


class Dexp3(ArmLearner[State]):
    """Every event changes the weights, and its loss is divided by p_t of the start of the slot it arrives in.

    Parameters
    ----------
    n_arms : K at the start
    rates : fixed rates, or None for the anytime ones
    cap : on what one slot adds to the anytime delay sum; None for no cap
    mode : where the rates come from, for the view
    """

    def __init__(
        self, n_arms: int, rates: Rates | None, cap: int | None = None, mode: RateMode = RateMode.ANYTIME
    ) -> None:
        super().__init__(n_arms, mode=mode)
        self._rates = rates
        self._cap = MAX_COUNT if cap is None else cap

    def start(self) -> State:
        weights, total = np.ones(self.n_arms), float(self.n_arms)
        state = State(weights, weights, total, total, 0.0, 0.0, 0.0, 0.0, 0, 1.0)
        return self.open(state, Slot(1, 0, 0.0))._replace(log=None)  # It begins with the first slot.

    def open(self, state: State, slot: Slot) -> State:
        """Open a slot; no bound is proved for the anytime rates, of which D is the sum of delays, with the cap."""
        weights, _, total, _, drift, _, _, _, delay_sum, least, log = state
        n_arms, t = weights.shape[-1], slot.t
        delay_sum = min(delay_sum + min(slot.outstanding, self._cap), LARGEST_DELAYS)
        if (rates := self._rates) is None:
            eta = ANYTIME_SCALE * math.sqrt((1 + math.log(n_arms)) / (n_arms * t + delay_sum))
            floor = min(1 / (t + delay_sum), 0.25)
            rates = Rates(eta, 4 * (0.5 - floor) / eta, floor)
        if n_arms >= LOGGED_ARMS and weights.ndim == 1:  # Many runs at once are not stored.
            log = Log(weights, (), 0) if log is None or len(log.steps) >= kept_steps(n_arms) else log
            log = Log(log.base, log.steps, len(log.steps))
        return State(weights, weights, total, total, drift, *rates, delay_sum, least, log)

    def open_all(self, state: State, slot: Slot, count: int) -> tuple[State, int]:
        """Open all slots: p changes with events alone, and of anytime rates those of the last slot stay."""
        more, outstanding = count - 1, slot.outstanding
        uncapped = min(max(self._cap - outstanding, 0), more)
        delays = uncapped * outstanding + uncapped * (uncapped - 1) // 2 + (more - uncapped) * self._cap
        last = slot._replace(t=slot.t + more, outstanding=outstanding + more)
        return self.open(state._replace(delay_sum=state.delay_sum + delays), last), count

    def settle(self, state: State, arm: Any, loss: Any, count: int = 1) -> State:
        """Apply eqs. (estloss), (tildew1), (w1), (tildep1); ``count`` multiplies the exponent before one trim."""
        if state.weights.ndim == 1:
            return self.settle_all(state, (arm,), (loss,), count)
        numbers = (*state[2:10], arm, loss)
        columns: list[Any] = [np.broadcast_to(each, len(state.weights)).tolist() for each in numbers]
        runs = zip(state.weights, state.opened, *columns, strict=True)
        alone = [self.settle_all(State._make((*run[:10], None)), run[10:11], run[11:], count) for run in runs]
        weights, _, total, _, drift, *_, least, _ = (np.array(part) for part in zip(*alone, strict=True))
        return State(weights, state.opened, total, state.total_open, drift, *state[5:9], least)  # type: ignore[arg-type]

    def settle_all(self, state: State, arms: Sequence[int], losses: Sequence[float], count: int = 1) -> State:
        """Settle events of one run one after the other; ``count``, as for ``settle``, is of an event alone.

        A trim changes weights below ``low`` alone. Others than the event's are not looked at while ``least`` shows
        that there is none: so what is computed does not depend on how well ``least`` is known.
        """
        before, opened, total, total_open, drift, eta, clip, floor, delay_sum, least, log = state
        if before.size == 1:
            return state
        weights, lowest, is_pass = before.copy(), floor / before.size, False
        own, shares = cast("Any", (weights.data, opened.data))  # A number takes half the time of an array's.
        for arm, loss in zip(arms, losses, strict=True):
            estimate = loss * total_open / shares[arm]
            exponent = eta * count * (clip if estimate > clip else estimate)
            old = own[arm]
            own[arm] = new = old * math.exp(-exponent)
            drift += total
            total += new - old
            if drift > MAX_DRIFT * total:
                total, drift = np.add.reduce(weights).item(), 0.0
            low = lowest * total
            if least < low:
                least = np.delete(weights, arm).min().item()
            if least < low:
                np.maximum(weights, low, out=weights)
                total, drift, new, least, is_pass = np.add.reduce(weights).item(), 0.0, low, low, True
            elif new < low:
                drift += total
                total += low - new
                own[arm] = new = low
            least = new if new < least else least
            if total < SMALL:
                scale, is_pass = math.ldexp(1.0, -math.frexp(total)[1]), True
                weights *= scale
                total, drift, least = total * scale, drift * scale, least * scale
        if log is not None:
            places = np.flatnonzero(weights != before).tolist() if is_pass else dict.fromkeys(arms)
            steps = log.steps + tuple((place, own[place]) for place in places)
            log = log._replace(steps=steps) if len(steps) <= 2 * kept_steps(weights.size) else None
        return State(weights, opened, total, total_open, drift, eta, clip, floor, delay_sum, least, log)

    def replayed(self, state: State, log: Log) -> State:
        """Return the state of one run with the weights that a log leads to.

        Raises
        ------
        IndexError
            if a step is of an arm that there is not.
        ValueError
            if they are not the weights of this state.
        """
        opened = _with(log.base, log.steps[: log.opened])
        weights = _with(opened, log.steps[log.opened :])
        return state._replace(weights=weights, opened=opened, log=log).checked()

    def remove_arms(self, state: State, positions: IntArray) -> State:
        return state.at(*(remove_arms(p, positions, state.probability_floor) for p in (state.p, state.p_open)))

    def add_arms(self, state: State, count: int) -> State:
        return state.at(add_arms(state.p, count), add_arms(state.p_open, count))

    def weights(self, state: State) -> tuple[FloatArray, Any]:
        return state.opened, state.total_open

    def distribution(self, state: State) -> FloatArray:
        return state.p_open

    def probabilities(self, state: State, eligible: IntArray | None = None, floor: float = 0.0) -> FloatArray:  # noqa: ARG002
        return state.p

    def rates(self, state: State) -> dict[str, Any]:
        _, _, _, _, _, eta, clip, floor, *_ = state
        return {"rates": self.mode, "learning_rate": eta, "loss_clip": clip, "probability_floor": floor}


def _with(weights: FloatArray, steps: Steps) -> FloatArray:
    """Return the weights with those that the steps set, one after the other; the same array without steps."""
    weights = weights.copy() if steps else weights
    for arm, weight in steps:
        weights[arm] = weight
    return weights
