"""EXP3 (Auer et al. 2002): exponential weights for losses that name their slot."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from .base import Record, SlotLearner, at
from .maths.exponential_weights import exp3_rate
from .rates import RateMode
from .specs import MAX_COUNT, ArmsSpec, NullIs, OneRateSpec, Whole
from .weights_learner import State, WeightsLearner

DEFAULT_MAX_OPEN_SLOTS = 10_000

MaxOpenSlots = Annotated[
    Whole,
    Field(
        ge=1,
        le=MAX_COUNT,
        description="Largest number of open slots. One more drops the oldest, which counts as expired.",
    ),
]


class Exp3Spec(ArmsSpec, OneRateSpec):
    """EXP3: arm and slot known. Divides a loss by the arm's probability in its own slot."""

    kind: Literal["exp3"] = "exp3"
    max_open_slots: Annotated[MaxOpenSlots, NullIs(DEFAULT_MAX_OPEN_SLOTS)] = DEFAULT_MAX_OPEN_SLOTS

    def theorem_rate(self, horizon: int, scale: float) -> float:
        return exp3_rate(self.arm_count, horizon, scale)

    def build(self) -> Exp3:
        return Exp3(self.arm_count, self.rate(), self.mode, self.max_open_slots)


class Exp3(WeightsLearner, SlotLearner[State]):
    """A loss of slot s is divided by p_s(arm), which the slot's record keeps.

    Parameters
    ----------
    n_arms : K
    learning_rate : eta
    mode : where the rate comes from, for the view
    max_open_slots : records kept
    """

    takes_eligible: ClassVar = True

    def __init__(self, n_arms: int, learning_rate: float, mode: RateMode, max_open_slots: int) -> None:
        super().__init__(n_arms, learning_rate, mode)
        self.max_open_slots = max_open_slots

    def record(self, state: State, arm: Any) -> Record:
        """Return p_s(arm)."""
        return (state.p_open[at(arm)],)

    def settle(self, state: State, arm: Any, loss: Any, count: int = 1, record: Record = ()) -> State:
        """Apply eq. (est.exp3) with the record's p_s."""
        (divisor,) = record
        return self.learned(state, arm, count * loss, divisor)
