"""Fields that specifications of learners share."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Field, GetCoreSchemaHandler, GetJsonSchemaHandler, model_validator

from ..errors import FieldValueError
from .base import Spec
from .rates import RatedSpec, RateFields, RateMode

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
Horizon = Annotated[Whole, Field(ge=1, le=MAX_COUNT, description="Slots to be played, T.")]
MaxDelay = Annotated[Whole, Field(ge=0, le=MAX_COUNT, description="Largest delay in slots, d-bar.")]
TotalDelay = Annotated[Whole, Field(ge=0, le=MAX_COUNT, description="Sum of all delays in slots, D.")]
RateScale = Annotated[Rate, Field(description="c, a factor of the theorem's rates (default 1).")]
LearningRate = Annotated[Rate, Field(description="eta")]
Perturbation = Annotated[
    float, Field(gt=0, le=1e12, allow_inf_nan=False, description="delta, the distance of the query points.")
]
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


def _check_label(label: Any) -> Any:
    if isinstance(label, str) and not NOT_IN_LABELS.isdisjoint(label):
        raise ValueError(
            f"the label {named(label)} has a control character, line separator, override of direction or surrogate"
        )
    return label


Label = Annotated[str, BeforeValidator(_check_label), Field(min_length=1, max_length=MAX_LABEL)]
"""A label that an arm is given."""


class ArmsSpec(Spec):
    """A learner over arms, which are given by number or by label."""

    arms_setting: ClassVar[Literal["max_arms", "max_arms_centred"]] = "max_arms"
    """The setting that limits the arms of this learner's sessions."""

    n_arms: Annotated[Whole, Field(ge=1, le=MAX_COUNT)] | None = None
    arms: Annotated[list[Label], Field(fail_fast=True, min_length=1, description="Labels of the arms.")] | None = (
        None
    )

    @model_validator(mode="after")
    def _one_way_to_name_arms(self) -> ArmsSpec:
        if (self.n_arms is None) == (self.arms is None):
            raise FieldValueError("n_arms" if self.arms is None else "arms", "give either n_arms or arms")
        if self.arms is not None and len(set(self.arms)) != len(self.arms):
            (label, times), *_ = Counter(self.arms).most_common(1)
            raise FieldValueError(
                "arms", f"arms must have different labels, and {named(label)} is there {times} times"
            )
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


class OneRateSpec(RatedSpec):
    """A learner with one rate, given or from a theorem; it has no anytime rate."""

    rate_fields: ClassVar = RateFields(given=("learning_rate",), theorem=("horizon",))

    rate_scale: RateScale | None = None
    horizon: Horizon | None = None
    learning_rate: LearningRate | None = None

    def rate(self) -> float:
        """Return eta, the rate in use."""
        if self.mode is RateMode.THEOREM:
            return self.theorem_rate(self.horizon or 1, self.rate_fields.scale(self))
        return self.learning_rate or 0.0

    def theorem_rate(self, horizon: int, scale: float) -> float:
        """Return the theorem's eta times ``scale``.

        Parameters
        ----------
        horizon : T, in slots
        scale : c
        """
        raise NotImplementedError
