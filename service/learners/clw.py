"""CLW (Cesa-Bianchi et al. 2018): the composite-loss wrapper around EXP3; it ignores which arm a loss is of.

With ``"base": "tsallis"`` it is wrapped around 1/2-Tsallis follow-the-regularised-leader, as Cesa-Bianchi, Cesari,
Colomboni, Gentile and Mansour (2022, "Nonstochastic Bandits with Composite Anonymous Feedback") do for regret
O(sqrt((d + 1) K T)): p minimises <x, L> - (2/eta) sum sqrt(x). eta = sqrt(2/N) for N updates minimises the bound of
the base alone, 2 sqrt(K)/eta + eta sqrt(K) N. The wrapper costs the base a constant more, so a smaller eta may be
better by a constant: here the order of the paper's bound holds, and not its constant.
"""

from __future__ import annotations

import math
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, Self, cast

import numpy as np
from pydantic import Field, model_validator

from ..errors import FieldValueError
from . import maths, tsallis
from .base import ArmLearner, FixedArray, FloatArray, IntArray, PointLearner, RateMode, Slot, Spec, at, draw
from .descent import Rates, TwoRatesSpec
from .maths import Clock, FeasibleSet, Schedule
from .specs import ArmsSpec, MaxDelay, NullIs, OneRateSpec

NO_ARM = -1
"""The arm in force after that was removed, until the next slot draws."""


_MEANS = "Learner of the sums: EXP3, the default, or Tsallis entropy (Cesa-Bianchi et al. 2022)."
BASES: dict[str, Any] = {"exp3": maths, "tsallis": tsallis}
"""Modules that make a distribution of weights, kept as logarithms for EXP3, and change these when arms change."""


class CompositeSpec(Spec):
    """A learner that is wrapped: what its schedule follows from."""

    max_delay: MaxDelay
    schedule: Annotated[Literal["blocks", "random"], NullIs("blocks")] = "blocks"
    """Update every 2 max_delay slots, or at random times about as often."""

    @model_validator(mode="after")
    def _window_is_kept(self) -> Self:
        if self.schedule == "random" and self.max_delay > maths.MAX_RANDOM_DELAY:
            text = f"schedule random keeps max_delay + 1 sums: max_delay may be at most {maths.MAX_RANDOM_DELAY}"
            raise FieldValueError("max_delay", text)
        return self


class ClwSpec(CompositeSpec, ArmsSpec, OneRateSpec):
    """CLW: arm known, slot unknown; holds an arm for about 2 max_delay slots and learns once from it."""

    kind: Literal["clw"] = "clw"
    base: Annotated[Literal["exp3", "tsallis"], Field(description=_MEANS)] | None = None

    def build_schedule(self) -> Schedule:
        """Make the schedule."""
        return Schedule(self.schedule, self.max_delay, values=1)

    def theorem_rate(self, horizon: int, scale: float) -> float:
        updates = self.build_schedule().updates(horizon)
        if self.base == "tsallis":
            return scale * math.sqrt(2 / updates)
        return maths.exp3_rate(self.arm_count, updates, scale)

    def build(self) -> Clw:
        return Clw(self.arm_count, self.rate(), self.mode, self.build_schedule(), BASES[self.base or "exp3"])

    def resolved(self) -> dict[str, Any]:
        return super().resolved() | {"base": self.base or "exp3"}


class State(NamedTuple):
    """The base learner's weights, the arm in force, and the fields of the schedule's ``Clock``."""

    log_weights: FloatArray
    """Shape (..., n_arms); where the base is Tsallis these are minus eta times the sums of losses."""
    p: FloatArray
    """The distribution of the weights, shape (..., n_arms)."""
    arm: int
    """``NO_ARM`` where it has been removed."""
    redraw: bool
    """Whether the open slot draws."""
    sums: FixedArray
    t: int
    quiet: int
    updating: bool

    @property
    def clock(self) -> Clock:
        """The fields of the schedule."""
        return Clock(self.sums, self.t, self.quiet, self.updating)


class Clw(ArmLearner[State]):
    """One arm is played until the next update, where the base learns from the scaled sum of recent losses."""

    second_stream: ClassVar = True

    def __init__(self, n_arms: int, learning_rate: float, mode: RateMode, schedule: Schedule, base: Any) -> None:
        super().__init__(n_arms, learning_rate, mode)
        self._base, self._schedule = base, schedule

    def start(self) -> State:
        return State(np.zeros(self.n_arms), np.full(self.n_arms, 1 / self.n_arms), 0, True, *self._schedule.start())

    def open(self, state: State, slot: Slot) -> State:
        """Close the open slot with its update, if it has one; the next slot then draws again."""
        redraw = state.redraw if state.t == 0 else state.updating | (state.arm < 0)
        log_weights, p = state.log_weights, state.p
        updating = state.updating & (state.arm >= 0)
        if np.any(updating):
            loss = self._schedule.loss(state.clock)[..., 0]
            updated = maths.lowered(log_weights, state.arm, self.learning_rate, loss, p[at(state.arm)])
            log_weights = np.where(np.asarray(updating)[..., None], updated, log_weights)
            p = self._base.probabilities(log_weights)
        return State(log_weights, p, state.arm, redraw, *self._schedule.open(state.clock, slot))

    def draw(self, state: State, slot: Slot) -> tuple[State, Any]:
        """Draw an arm where ``state.redraw`` says so, and keep the one in force otherwise."""
        if not np.any(state.redraw):
            return state, state.arm
        arm = np.where(state.redraw, draw(state.p, slot.u), state.arm)
        drawn: Any = arm if arm.ndim else int(arm)
        return state._replace(arm=drawn), drawn

    def settle(self, state: State, arm: Any, loss: Any, count: int = 1) -> State:  # noqa: ARG002 - composite losses name no arm
        return state._replace(sums=self._schedule.add(state.clock, np.asarray(count * loss)[..., None]).sums)

    def remove_arms(self, state: State, positions: IntArray) -> State:
        """Remove arms; if the arm in force is one of them, drop its block's losses and let the next slot draw."""
        arm = np.where(np.isin(state.arm, positions), NO_ARM, state.arm - np.searchsorted(positions, state.arm))
        log_weights = self._base.without(state.log_weights, positions)
        sums = np.where((arm == NO_ARM)[..., None, None], 0.0, state.sums)
        held: Any = arm if arm.ndim else int(arm)
        return state._replace(log_weights=log_weights, p=self._base.probabilities(log_weights), arm=held, sums=sums)

    def add_arms(self, state: State, count: int) -> State:
        log_weights = self._base.joined(state.log_weights, count)
        return state._replace(log_weights=log_weights, p=self._base.probabilities(log_weights))


# -- CLW-BCO: the composite-loss wrapper (Cesa-Bianchi et al. 2018) around the (K+1)-point method.


class ClwMbcoSpec(CompositeSpec, TwoRatesSpec):
    """CLW-BCO: bundles of dim+1 losses, slot unknown; holds a point for about 2 max_delay slots."""

    kind: Literal["clw_mbco"] = "clw_mbco"

    def theorem_rates(self, horizon: int, scale: float) -> Rates:
        """Return eta for the number of updates and delta for the number of slots."""
        updates = Schedule(self.schedule, self.max_delay, values=0).updates(horizon)
        return Rates(scale / math.sqrt(self.dim * updates), scale / horizon)

    def build(self) -> ClwMbco:
        schedule = Schedule(self.schedule, self.max_delay, values=self.dim + 1)
        return ClwMbco(self.build_set(), self.rates(), self.mode, schedule)


class StateClwMbco(NamedTuple):
    """The point in force and the fields of the schedule's ``Clock``."""

    x: FloatArray
    """Shape (..., dim)."""
    sums: FloatArray
    t: int
    quiet: int
    updating: bool

    @property
    def clock(self) -> Clock:
        """The fields of the schedule."""
        return Clock(*self[1:])


class ClwMbco(PointLearner[StateClwMbco]):
    """One point, first the center, is played until the next update, a step on the scaled sum of recent bundles."""

    second_stream: ClassVar = True

    def __init__(self, feasible_set: FeasibleSet, rates: Rates, mode: RateMode, schedule: Schedule) -> None:
        super().__init__(feasible_set, mode, rates.perturbation)
        self._rates, self._schedule = rates, schedule

    def start(self) -> StateClwMbco:
        return StateClwMbco(self.feasible_set.center, *self._schedule.start())

    def open(self, state: StateClwMbco, slot: Slot) -> StateClwMbco:
        """Close the open slot with its step, if it has one."""
        x = state.x
        if np.any(state.updating):
            g = maths.forward_difference(self._schedule.loss(state.clock), self._rates.perturbation)
            stepped = self._project(x - cast("float", self._rates.learning_rate) * g)
            x = np.where(np.asarray(state.updating)[..., None], stepped, x)
        return StateClwMbco(x, *self._schedule.open(state.clock, slot))

    def query_points(self, state: StateClwMbco) -> FloatArray:
        return maths.query_points(state.x, self._rates.perturbation)

    def settle(self, state: StateClwMbco, values: FloatArray, outstanding: int) -> StateClwMbco:  # noqa: ARG002 - eta is fixed
        return state._replace(sums=self._schedule.add(state.clock, maths.bounded(values)).sums)

    def rates(self, state: StateClwMbco) -> dict[str, Any]:  # noqa: ARG002 - the rates are fixed
        return {"rates": self.mode} | self._rates._asdict()
