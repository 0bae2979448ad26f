"""What clients post to describe a learner: fields that learners share, rates in three ways, arms, feasible sets."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, Self

import numpy as np
from pydantic import BeforeValidator, Field, GetCoreSchemaHandler, GetJsonSchemaHandler, model_validator

from ..errors import FieldValueError
from .base import Posted, RateMode, Spec
from .maths import Ball, Box, FeasibleSet, Simplex, exp3_rate, shrunk_scale

MAX_COUNT = 2**53 - 1
"""Largest count that every JSON reader keeps digit for digit."""


def whole(value: Any) -> Any:
    """Take 3.0 for 3, as a JSON schema's integer does; a number that a float may have rounded stays one."""
    return int(value) if type(value) is float and value.is_integer() and abs(value) <= MAX_COUNT else value


Whole = Annotated[int, BeforeValidator(whole)]
"""An integer, also where it is written with a fraction of zero, as pandas, R and JavaScript do."""


@dataclass(frozen=True)
class NullIs:
    """Annotates a field, after all else: null stands for the default, as in fields whose default is null."""

    default: Any

    def _read(self, value: Any) -> Any:
        return self.default if value is None else value

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> Any:
        return BeforeValidator(self._read).__get_pydantic_core_schema__(source, handler)

    def __get_pydantic_json_schema__(self, schema: Any, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {"anyOf": [handler(schema), {"type": "null"}]}


Rate = Annotated[float, Field(ge=1e-12, le=1e12, allow_inf_nan=False)]
"""A step or a bound, within limits so that it neither vanishes by rounding nor overflows."""
Finite = Annotated[float, Field(allow_inf_nan=False)]
"""Any number but infinities and NaN."""
MaxDelay = Annotated[Whole, Field(ge=0, le=MAX_COUNT, description="Largest delay in slots, d-bar.")]
TotalDelay = Annotated[Whole, Field(ge=0, le=MAX_COUNT, description="Sum of all delays in slots, D.")]
LearningRate = Annotated[Rate, Field(description="eta")]
_MEANS = "delta, the distance of the query points."
Perturbation = Annotated[float, Field(gt=0, le=1e12, allow_inf_nan=False, description=_MEANS)]
MAX_NAMED = 40
"""Characters of a label that a message names."""
MAX_LABEL = 65_536
"""Characters of any text that may be the label of an arm; a setting limits the bytes of labels."""
LabelText = Annotated[str, Field(max_length=MAX_LABEL)]
"""Text compared with labels. The bound also makes pydantic refuse half a surrogate pair, which is not Unicode."""
NOT_IN_LABELS = frozenset(
    map(chr, [*range(32), *range(127, 160), 0x2028, 0x2029, 0x202D, 0x202E, *range(0xD800, 0xE000)])
)
"""Control characters, line separators, bidirectional overrides and halves of surrogate pairs."""


def named(label: str) -> str:
    """Return the beginning of a label in quotes, as messages name it."""
    # Halves of surrogate pairs are no Unicode: a message has the replacement character for them.
    return ascii(label[:MAX_NAMED].encode("utf-16", "surrogatepass").decode("utf-16", "replace"))


def shown_as_is(what: str) -> BeforeValidator:
    """Return what checks the characters of a name that clients choose: a label, or whatever ``what`` says."""

    def check(text: Any) -> Any:
        if isinstance(text, str) and not NOT_IN_LABELS.isdisjoint(text):
            wrong = "a control character, line separator, override of direction or surrogate"
            raise ValueError(f"the {what} {named(text)} has {wrong}")
        return text

    return BeforeValidator(check)


Label = Annotated[str, shown_as_is("label"), Field(min_length=1, max_length=MAX_LABEL)]
"""A label that an arm is given."""
Labels = Annotated[list[Label], Field(fail_fast=True, min_length=1, description="Labels of the arms.")]


class ArmsSpec(Spec):
    """A learner over arms, which are given by number or by label."""

    arms_setting: ClassVar[Literal["max_arms", "max_arms_centred"]] = "max_arms"
    """The setting that limits the arms of this learner's sessions."""

    n_arms: Annotated[Whole, Field(ge=1, le=MAX_COUNT)] | None = None
    arms: Labels | None = None

    @model_validator(mode="after")
    def _one_way_to_name_arms(self) -> ArmsSpec:
        if (self.n_arms is None) == (self.arms is None):
            raise FieldValueError("n_arms" if self.arms is None else "arms", "give either n_arms or arms")
        if self.arms is not None and len(set(self.arms)) != len(self.arms):
            (label, times), *_ = Counter(self.arms).most_common(1)
            text = f"arms must have different labels, and {named(label)} is there {times} times"
            raise FieldValueError("arms", text)
        return self

    @property
    def arm_count(self) -> int:
        """Number of arms at the start of the session."""
        return len(self.arms) if self.arms is not None else int(self.n_arms or 0)

    @property
    def size(self) -> int:
        return self.arm_count

    @property
    def most_arms(self) -> int:
        """Arms that the learner can have at once, so that its state stays small enough."""
        return MAX_COUNT


# -- Rates: given, or from a theorem, or anytime. The fields that a client posts decide.


def _together(names: Sequence[str]) -> str:
    """Write names as in ``a, b and c together``."""
    return f"{', '.join(names[:-1])} and {names[-1]} together" if len(names) > 1 else names[0]


class RateFields(NamedTuple):
    """The fields of a specification that decide its rates; the specification declares them itself."""

    given: tuple[str, ...]
    """Fields that are the rates."""
    theorem: tuple[str, ...]
    """Fields that the theorem's rates are computed from."""
    anytime: bool = False
    """Whether the learner has anytime rates, used where no field is given."""
    unused: tuple[str, ...] = ()
    """Fields that may come with the theorem's and change nothing."""
    with_anytime: tuple[str, ...] = ()
    """Rates that may be given alone; the others are then anytime rates."""

    def mixture(self) -> str:
        """Say which fields go together, to a client that has mixed them."""
        if len(self.given) == 1 and not self.anytime:
            return f"give {self.given[0]}, or {_together(self.theorem)}, not both"
        without = "it" if len(self.given) == 1 else "them"
        ways = [f"give {_together(self.given)}", f"give {_together(self.theorem)} without {without}"]
        return ", or ".join([*ways, *(["give none of these (anytime rates)"] if self.anytime else [])])


class RatedSpec(Spec):
    """A learner whose rates are given, or follow from a theorem, or are anytime rates."""

    rate_fields: ClassVar[RateFields]

    rate_scale: Annotated[Rate, Field(description="c, a factor of the theorem's rates (default 1).")] | None = None
    horizon: Annotated[Whole, Field(ge=1, le=MAX_COUNT, description="Slots to be played, T.")] | None = None

    @cached_property
    def mode(self) -> RateMode:
        """Where the rates come from.

        Raises
        ------
        ValueError
            for a mixture, naming the fields of both ways.
        """
        ways = self.rate_fields
        kinds = (ways.given, ways.theorem, ways.unused)
        given, theorem, unused = ([getattr(self, name) is not None for name in names] for names in kinds)
        if all(given) and not any(theorem) and not any(unused):
            return RateMode.GIVEN
        if all(theorem) and not any(given):
            return RateMode.THEOREM
        alone = all(name in ways.with_anytime for name, has in zip(ways.given, given, strict=True) if has)
        if ways.anytime and alone and not any(theorem) and not any(unused):
            return RateMode.ANYTIME
        first = next((name for names in kinds for name in names if getattr(self, name) is not None), ways.given[0])
        raise FieldValueError(first, ways.mixture())

    @model_validator(mode="after")
    def _one_way_to_give_rates(self) -> Self:
        mode = self.mode
        if self.rate_scale is not None and mode is not RateMode.THEOREM:
            text = f"rate_scale multiplies the theorem's rates, and these are {mode.value}"
            raise FieldValueError("rate_scale", text)
        return self

    @property
    def scale(self) -> float:
        """c, the factor on the theorem's rates: ``rate_scale``, or 1."""
        return 1.0 if self.rate_scale is None else self.rate_scale

    def resolved(self) -> dict[str, Any]:
        return super().resolved() | ({"rate_scale": self.scale} if self.mode is RateMode.THEOREM else {})


class OneRateSpec(RatedSpec):
    """A learner with one rate, given or from a theorem; it has no anytime rate."""

    rate_fields: ClassVar = RateFields(given=("learning_rate",), theorem=("horizon",))

    learning_rate: LearningRate | None = None

    def rate(self) -> float:
        """Return eta, the rate in use."""
        if self.mode is RateMode.THEOREM:
            return self.theorem_rate(self.horizon or 1, self.scale)
        return self.learning_rate or 0.0

    def theorem_rate(self, horizon: int, scale: float) -> float:
        """Return the theorem's eta times ``scale``, by default that of EXP3; the horizon is in slots."""
        return exp3_rate(self.size, horizon, scale)


# -- What specifications over points share: the dimension and the feasible set.

LARGEST_COORDINATE = 1e12
SMALLEST_INRADIUS = 1e-30
"""With a smaller one, a sum of squares of gradients could overflow."""
SMALLEST_RELATIVE_INRADIUS = 2e-9
"""With a smaller inradius, relative to the largest coordinate, perturbations vanish by rounding."""
SMALLEST_RELATIVE_PERTURBATION = 1e-12
"""A smaller perturbation, relative to the largest coordinate, vanishes when x + delta e_k is rounded."""

Coordinate = Annotated[float, Field(ge=-LARGEST_COORDINATE, le=LARGEST_COORDINATE, allow_inf_nan=False)]
Center = Annotated[list[Coordinate], Field(fail_fast=True, description="Center (default: the origin).")]
Size = Annotated[float, Field(gt=0, le=LARGEST_COORDINATE, allow_inf_nan=False)]


class SetSpec(Posted):
    """A feasible set as a client posts it; unknown fields and loose types are refused."""

    listed: ClassVar[str] = ""
    """A field with a number for each dimension, if there is one."""

    def inradius(self, dim: int) -> float:
        """Return the radius of the inscribed ball in ``dim`` dimensions."""
        raise NotImplementedError

    def reach(self) -> float:
        """Return a bound on the absolute value of any coordinate."""
        raise NotImplementedError

    def resolved(self, dim: int) -> dict[str, Any]:  # noqa: ARG002 - other sets need it
        """Return every field by name, with the default where the client left one out."""
        return self.model_dump(mode="json")

    def check(self, dim: int) -> None:
        """Refuse a set that is not one of ``dim`` dimensions with room inside.

        Raises
        ------
        ValueError
            naming what is wrong.
        """
        listed = getattr(self, self.listed, None)
        if listed is not None and len(listed) != dim:
            field = f"feasible_set.{self.listed}"
            raise FieldValueError(field, f"{field} must have dim = {dim} numbers, not {len(listed)}")
        if self.inradius(dim) < (thinnest := max(SMALLEST_INRADIUS, SMALLEST_RELATIVE_INRADIUS * self.reach())):
            text = f"feasible_set is too thin: its inradius must be at least {thinnest:.3g}"
            raise FieldValueError("feasible_set", text)


class BallSpec(SetSpec):
    """All points within ``radius`` of ``center``."""

    listed: ClassVar = "center"

    kind: Literal["ball"] = "ball"
    radius: Size
    """Radius of the ball."""
    center: Center | None = None

    def inradius(self, dim: int) -> float:  # noqa: ARG002 - other sets need it
        return self.radius

    def reach(self) -> float:
        return self.radius + max(map(abs, self.center or ()), default=0.0)

    def build(self, dim: int) -> Ball:
        center = np.zeros(dim) if self.center is None else np.array(self.center)
        return Ball(center, self.radius, self.reach(), 2 * self.radius)

    def resolved(self, dim: int) -> dict[str, Any]:
        return super().resolved(dim) | {"center": self.center or [0.0] * dim}


class BoxSpec(SetSpec):
    """All points between ``lower`` and ``upper``, coordinate by coordinate."""

    listed: ClassVar = "lower"

    kind: Literal["box"] = "box"
    lower: Annotated[list[Coordinate], Field(fail_fast=True, min_length=1)]
    """Smallest value of each coordinate."""
    upper: Annotated[list[Coordinate], Field(fail_fast=True, min_length=1)]
    """Largest value of each coordinate."""

    @model_validator(mode="after")
    def _lower_below_upper(self) -> BoxSpec:
        if len(self.lower) != len(self.upper):
            raise FieldValueError("upper", "lower and upper must have the same length")
        for index, (low, high) in enumerate(zip(self.lower, self.upper, strict=True)):
            if low >= high:
                text = f"lower must be below upper in every coordinate; it is not at index {index}"
                raise FieldValueError(f"upper.{index}", text)
        return self

    def inradius(self, dim: int) -> float:  # noqa: ARG002 - other sets need it
        return min(high - low for low, high in zip(self.lower, self.upper, strict=True)) / 2

    def reach(self) -> float:
        return max(map(abs, self.lower + self.upper))

    def build(self, dim: int) -> Box:
        lower, upper = np.array(self.lower), np.array(self.upper)
        diameter = float(np.linalg.norm(upper - lower))
        return Box((lower + upper) / 2, self.inradius(dim), self.reach(), diameter, lower, upper)


class SimplexSpec(SetSpec):
    """All points with no negative coordinate and a sum of at most ``total``."""

    kind: Literal["simplex"] = "simplex"
    total: Annotated[Size, NullIs(1.0)] = 1.0
    """Largest sum of the coordinates."""

    def inradius(self, dim: int) -> float:
        return self.total / (dim + math.sqrt(dim))

    def reach(self) -> float:
        return self.total

    def build(self, dim: int) -> Simplex:
        inradius, diameter = self.inradius(dim), self.total * (math.sqrt(2) if dim > 1 else 1.0)
        return Simplex(np.full(dim, inradius), inradius, self.reach(), diameter, self.total)


FEASIBLE_SETS = frozenset(spec.model_fields["kind"].default for spec in (BallSpec, BoxSpec, SimplexSpec))
"""Their kinds."""


class PointsSpec(Spec):
    """A learner over the points of a convex set."""

    dim: Annotated[Whole, Field(ge=1, le=MAX_COUNT)]
    """Number of coordinates of a point."""
    feasible_set: Annotated[BallSpec | BoxSpec | SimplexSpec, Field(discriminator="kind")]
    """Where points and query points must lie."""

    @model_validator(mode="after")
    def _set_fits_dim(self) -> PointsSpec:
        self.feasible_set.check(self.dim)
        return self

    @property
    def size(self) -> int:
        return self.dim

    def resolved(self) -> dict[str, Any]:
        return super().resolved() | {"feasible_set": self.feasible_set.resolved(self.dim)}

    def build_set(self) -> FeasibleSet:
        """Make the feasible set."""
        return self.feasible_set.build(self.dim)

    def check_perturbation(self, delta: float) -> None:
        """Refuse a delta that does not fit into the set, or that vanishes by rounding.

        Raises
        ------
        ValueError
            naming the bound.
        """
        reach = self.feasible_set.reach()
        if delta < (smallest := SMALLEST_RELATIVE_PERTURBATION * reach):
            text = f"perturbation is {delta:.3g}; for this set it must be at least {smallest:.3g}"
            raise FieldValueError("perturbation", text)
        try:
            shrunk_scale(delta, self.dim, self.feasible_set.inradius(self.dim), reach)
        except ValueError as error:
            raise FieldValueError("perturbation", str(error)) from error
