"""The fields that learners' parameters share, and the three ways rates come."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Annotated, Any, ClassVar

from pydantic import Field, model_validator

from .base import Spec

MAX_COUNT = 2**53 - 1
"""Largest count that every JSON reader keeps digit for digit."""

Rate = Annotated[float, Field(ge=1e-12, le=1e12, allow_inf_nan=False)]
"""A step or a bound: so small that it drowns in rounding, or so large that it overflows, is refused."""
Horizon = Annotated[int, Field(ge=1, le=MAX_COUNT, description="Slots to be played, T.")]
MaxDelay = Annotated[int, Field(ge=0, le=MAX_COUNT, description="Largest delay in slots, d-bar.")]
TotalDelay = Annotated[int, Field(ge=0, le=MAX_COUNT, description="Sum of all delays in slots, D.")]
RateScale = Annotated[Rate, Field(description="c, a factor of the theorem's rates (default 1).")]
MAX_NAME = 65_536
"""Characters of any text that may be the label of an arm; a setting says how many bytes labels have."""
Name = Annotated[str, Field(max_length=MAX_NAME)]
"""What may be a label. Its bound also makes pydantic refuse what is no Unicode, such as half a surrogate pair."""
Label = Annotated[str, Field(min_length=1, max_length=MAX_NAME)]


class RateMode(StrEnum):
    """Where a learner's rates come from; a session view names it."""

    GIVEN = "given"
    THEOREM = "theorem"
    ANYTIME = "anytime"


def rate_mode(
    given: Mapping[str, Any],
    theorem: Mapping[str, Any],
    *,
    anytime: bool,
    unused: Mapping[str, Any] | None = None,
) -> RateMode:
    """Tell the three ways apart.

    Parameters
    ----------
    given, theorem : field name to value, None where the client left it out
    anytime : whether the learner has anytime rates
    unused : fields that may come with the theorem's and change nothing

    Raises
    ------
    ValueError
        for a mixture, naming the fields of both ways.
    """
    rates, fields = (", ".join(names) for names in (given, theorem))
    has_rates = [value is not None for value in given.values()]
    has_fields = [value is not None for value in theorem.values()]
    has_unused = any(value is not None for value in (unused or {}).values())
    if given and all(has_rates) and not any(has_fields) and not has_unused:
        return RateMode.GIVEN
    if theorem and all(has_fields) and not any(has_rates):
        return RateMode.THEOREM
    if anytime and not any(has_rates) and not any(has_fields) and not has_unused:
        return RateMode.ANYTIME
    neither = ", or none of them (anytime rates)" if anytime else ""
    raise ValueError(f"give all of {rates}, or all of {fields} and no rates{neither}; not a mixture")


def baseline_mode(spec: Spec, given: Sequence[str], theorem: Sequence[str]) -> RateMode:
    """The way rates come for a learner without anytime rates, by its fields' names.

    Raises
    ------
    ValueError
        for a mixture.
    """
    rates, fields = ({name: getattr(spec, name) for name in names} for names in (given, theorem))
    return rate_mode(rates, fields, anytime=False)


def check_printable(labels: Iterable[str]) -> None:
    """Refuse labels that are not printable.

    Raises
    ------
    ValueError
        for control characters, unassigned ones, and white space other than a space.
    """
    if not all(label.isprintable() for label in labels):
        raise ValueError("labels must be printable")


class ArmsSpec(Spec):
    """Arms by number or by name."""

    n_arms: Annotated[int, Field(ge=1, le=MAX_COUNT)] | None = None
    arms: Annotated[list[Label], Field(fail_fast=True, min_length=1, description="Labels of the arms.")] | None = (
        None
    )

    @model_validator(mode="after")
    def _one_way_to_name_arms(self) -> ArmsSpec:
        if (self.n_arms is None) == (self.arms is None):
            raise ValueError("give either n_arms or arms")
        if self.arms is not None:
            if len(set(self.arms)) != len(self.arms):
                raise ValueError("arms must have different labels")
            check_printable(self.arms)
        return self

    @property
    def arm_count(self) -> int:
        """Number of arms at the session's start."""
        return len(self.arms) if self.arms is not None else int(self.n_arms or 0)

    @property
    def most_arms(self) -> int:
        """Arms that the learner can have at once, for the room that it takes."""
        return MAX_COUNT


class ScaledSpec(Spec):
    """A learner whose theorem's rates can be multiplied by c."""

    rate_scale: RateScale | None = None

    @property
    def mode(self) -> RateMode:
        """Where the rates come from."""
        raise NotImplementedError

    @property
    def scale(self) -> float:
        """The factor in force, c."""
        return 1.0 if self.rate_scale is None else self.rate_scale

    @model_validator(mode="after")
    def _scale_has_rates_to_multiply(self) -> ScaledSpec:
        if self.rate_scale is not None and self.mode is not RateMode.THEOREM:
            raise ValueError(f"rate_scale multiplies the theorem's rates, and these are {self.mode.value}")
        return self

    def resolved(self) -> dict[str, Any]:
        return super().resolved() | ({"rate_scale": self.scale} if self.mode is RateMode.THEOREM else {})


class OneRateSpec(ScaledSpec):
    """A learner with one rate, given or from a theorem; it has no anytime rate."""

    theorem_fields: ClassVar[tuple[str, ...]] = ("horizon",)
    """What the theorem's rate needs."""

    horizon: Horizon | None = None
    learning_rate: Annotated[Rate, Field(description="eta")] | None = None

    @property
    def mode(self) -> RateMode:
        return baseline_mode(self, ("learning_rate",), self.theorem_fields)

    @model_validator(mode="after")
    def _one_way_to_give_rates(self) -> OneRateSpec:
        self.rate()
        return self

    def rate(self) -> float:
        """The rate in use."""
        if self.mode is RateMode.THEOREM:
            return self.theorem_rate(self.horizon or 1, self.scale)
        return self.learning_rate or 0.0

    def theorem_rate(self, horizon: int, scale: float) -> float:
        """The theorem's rate times ``scale``."""
        raise NotImplementedError
