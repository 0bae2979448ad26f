"""A distribution that stays as it is: the control group beside a learner."""

from __future__ import annotations

import math
from functools import cached_property
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import numpy as np
from pydantic import BeforeValidator, Discriminator, Field, Tag, model_validator

from ..errors import FieldValueError
from .base import ArmLearner, FloatArray, IntArray, Slot
from .maths import add_arms, over, remove_arms, with_floor
from .specs import ArmsSpec

SUM_TOLERANCE = 1e-9
"""Largest error of the sum of the probabilities that a client gives."""

Probability = Annotated[float, Field(ge=0, le=1)]
BY_LABEL, BY_POSITION = "by_label", "by_position"
"""Tags that pydantic puts between ``probabilities`` and what is wrong with them."""


def _first_wrong(value: Any) -> Any:
    """Refuse an object with a wrong member; pydantic would go on and report each of many."""
    if isinstance(value, dict):
        for number in value.values():
            if type(number) not in {int, float} or not 0 <= number <= 1:
                raise ValueError("must be numbers from 0 to 1")
        try:
            "".join(value).encode()
        except UnicodeEncodeError as error:
            raise ValueError("labels must be Unicode") from error
    return value


Probabilities = Annotated[
    Annotated[dict[str, Probability], Tag(BY_LABEL)]
    | Annotated[list[Probability], Field(fail_fast=True), Tag(BY_POSITION)],
    Discriminator(lambda value: BY_LABEL if isinstance(value, dict) else BY_POSITION),
    BeforeValidator(_first_wrong),
]


class FixedSpec(ArmsSpec):
    """Fixed probabilities: takes losses and learns nothing. For the control group of a learner."""

    takes_updates: ClassVar = True

    kind: Literal["fixed"] = "fixed"
    probabilities: Probabilities | None = None
    """Of every arm, by label or in the order of the arms; they sum to 1. Null: all alike."""

    @model_validator(mode="after")
    def _one_probability_for_each_arm(self) -> FixedSpec:
        given = self.probabilities
        if isinstance(given, dict) and given.keys() != set(self.arms or ()):
            raise FieldValueError("probabilities", "probabilities must name every label in arms, and no other")
        if isinstance(given, list) and len(given) != self.arm_count:
            raise FieldValueError("probabilities", "probabilities must have one number for each arm")
        if given is not None and not abs(math.fsum(self.by_position) - 1) <= SUM_TOLERANCE:
            raise FieldValueError("probabilities", "probabilities must sum to 1")
        return self

    @cached_property
    def by_position(self) -> list[float]:
        """The probabilities at the start, in the order of the arms; there may be many, and views show them."""
        if self.probabilities is None:
            return [1 / self.arm_count] * self.arm_count
        if isinstance(self.probabilities, dict):
            return [self.probabilities[label] for label in self.arms or ()]
        return self.probabilities

    def resolved(self) -> dict[str, Any]:
        return super().resolved() | {"probabilities": self.by_position}

    def build(self) -> Fixed:
        return Fixed(self.arm_count, np.array(self.by_position, dtype=np.float64))


class State(NamedTuple):
    """Both have shape (..., n_arms)."""

    p: FloatArray
    """The distribution over all arms, without the floor."""
    drawn: FloatArray | None = None
    """The distribution that the open slot's arm is drawn from, where it is not p."""


class Fixed(ArmLearner[State]):
    """Arms are drawn from the same distribution in every slot, renormalised over the eligible ones."""

    takes_eligible: ClassVar = True

    def __init__(self, n_arms: int, p: FloatArray) -> None:
        super().__init__(n_arms)
        self._p = p

    def start(self) -> State:
        return State(self._p)

    def open(self, state: State, slot: Slot) -> State:
        p = self.probabilities(state, slot.eligible, slot.floor)
        return state._replace(drawn=None if p is state.p else p)

    def open_all(self, state: State, slot: Slot, count: int) -> tuple[State, int]:
        return self.open(state, slot), count

    def can_draw(self, state: State, eligible: IntArray, floor: float) -> bool:
        """Return whether the eligible arms have a positive probability, or there is a floor."""
        return floor > 0 or bool((state.p[..., eligible].sum(axis=-1) > 0).all())

    def settle(self, state: State, arm: Any, loss: Any, count: int = 1) -> State:  # noqa: ARG002 - nothing is learned
        return state

    def correct(self, state: State, arm: Any, loss: Any, before: float) -> State:  # noqa: ARG002 - as above
        return state

    def remove_arms(self, state: State, positions: IntArray) -> State:
        return State(remove_arms(state.p, positions))

    def add_arms(self, state: State, count: int) -> State:
        return State(add_arms(state.p, count))

    def distribution(self, state: State) -> FloatArray:
        return state.p if state.drawn is None else state.drawn

    def probabilities(self, state: State, eligible: IntArray | None = None, floor: float = 0.0) -> FloatArray:
        return with_floor(over(state.p, eligible, uniform=floor > 0), floor, eligible)
