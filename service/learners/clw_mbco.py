"""CLW-BCO: the composite-loss wrapper (Cesa-Bianchi et al. 2018) around the (K+1)-point method."""

from __future__ import annotations

import math
from typing import Any, ClassVar, Literal, NamedTuple, cast

import numpy as np
from pydantic import model_validator

from .base import FloatArray, Information, PointLearner, Slot
from .clw import ScheduleKind, check_window
from .dbgd import Rates
from .maths.block_schedules import Clock, Kind, Schedule
from .maths.feasible_sets import FeasibleSet
from .maths.gradients import bounded, forward_difference, query_points
from .mbco import TwoRatesSpec
from .rates import RateMode
from .specs import MaxDelay


class ClwMbcoSpec(TwoRatesSpec):
    """CLW-BCO: bundles of dim+1 losses, slot unknown; holds a point for about 2 max_delay slots."""

    kind: Literal["clw_mbco"] = "clw_mbco"
    max_delay: MaxDelay
    schedule: ScheduleKind = "blocks"

    @model_validator(mode="after")
    def _window_is_long_enough(self) -> ClwMbcoSpec:
        check_window(self.schedule, self.max_delay)
        return self

    def theorem_rates(self, horizon: int, scale: float) -> Rates:
        """Return eta for the number of updates and delta for the number of slots."""
        updates = Schedule(Kind(self.schedule), self.max_delay, values=0).updates(horizon)
        return Rates(scale / math.sqrt(self.dim * updates), scale / horizon)

    def build(self) -> ClwMbco:
        schedule = Schedule(Kind(self.schedule), self.max_delay, values=self.dim + 1)
        return ClwMbco(self.build_set(), self.rates(), self.mode, schedule)


class State(NamedTuple):
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


class ClwMbco(PointLearner[State]):
    """One point is played until the schedule's next update, a step on the scaled sum of recent bundles.

    Parameters
    ----------
    feasible_set : X; x_1 is its center
    rates : eta and delta
    mode : where the rates come from, for the view
    schedule : when to update
    """

    information: ClassVar = Information.LOSSES
    state_type: ClassVar = State
    second_stream: ClassVar = True

    def __init__(self, feasible_set: FeasibleSet, rates: Rates, mode: RateMode, schedule: Schedule) -> None:
        self.dim = feasible_set.center.size
        self.mode = mode
        self.feasible_set = feasible_set
        self._rates = rates
        self._schedule = schedule
        self._shrunk = feasible_set.shrunk(rates.perturbation)

    def start(self) -> State:
        return State(self.feasible_set.center, *self._schedule.start())

    def open(self, state: State, slot: Slot) -> State:
        """Close the open slot with its step, if it has one."""
        x = state.x
        if np.any(state.updating):
            x = np.where(np.asarray(state.updating)[..., None], self._stepped(state), x)
        return State(x, *self._schedule.open(state.clock, slot))

    def _stepped(self, state: State) -> FloatArray:
        g = forward_difference(self._schedule.loss(state.clock), self._rates.perturbation)
        return self._shrunk.project(state.x - cast("float", self._rates.learning_rate) * g)

    def x(self, state: State) -> FloatArray:
        return state.x

    def query_points(self, state: State) -> FloatArray:
        return query_points(state.x, self._rates.perturbation)

    def settle(self, state: State, values: FloatArray, outstanding: int) -> State:  # noqa: ARG002 - eta is fixed
        return state._replace(sums=self._schedule.add(state.clock, bounded(values)).sums)

    def rates(self, state: State) -> dict[str, Any]:  # noqa: ARG002 - the rates are fixed
        return {"rates": self.mode} | self._rates._asdict()
