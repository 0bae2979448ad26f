"""The three sources of a learner's rates; the fields that a client posts decide which one is used."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Any, ClassVar, NamedTuple, Self

from pydantic import model_validator

from ..errors import FieldValueError
from .base import Spec


class RateMode(StrEnum):
    """Where a learner's rates come from; a session view names it."""

    GIVEN = "given"
    THEOREM = "theorem"
    ANYTIME = "anytime"


def _together(names: Sequence[str]) -> str:
    """Write names as in ``a, b and c together``."""
    return f"{', '.join(names[:-1])} and {names[-1]} together" if len(names) > 1 else names[0]


class RateFields(NamedTuple):
    """The fields of a specification that decide its rates.

    A ``RatedSpec`` holds one as ``rate_fields`` and declares the fields itself, ``rate_scale`` among them.
    """

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

    def mode(self, spec: Spec) -> RateMode:
        """Return which of the three ways a specification uses.

        Raises
        ------
        ValueError
            for a mixture, naming the fields of both ways.
        """
        given, theorem, unused = (
            [getattr(spec, name) is not None for name in names] for names in (self.given, self.theorem, self.unused)
        )
        if all(given) and not any(theorem) and not any(unused):
            return RateMode.GIVEN
        if all(theorem) and not any(given):
            return RateMode.THEOREM
        alone = all(name in self.with_anytime for name, has in zip(self.given, given, strict=True) if has)
        if self.anytime and alone and not any(theorem) and not any(unused):
            return RateMode.ANYTIME
        raise FieldValueError(self._wrong(spec), self._mixture())

    def _wrong(self, spec: Spec) -> str:
        """Return the field that a mixture is reported of: the first that is given, or that could be."""
        names = (*self.given, *self.theorem, *self.unused)
        return next((name for name in names if getattr(spec, name) is not None), names[0])

    def _mixture(self) -> str:
        if len(self.given) == 1 and not self.anytime:
            return f"give {self.given[0]}, or {_together(self.theorem)}, not both"
        without = "it" if len(self.given) == 1 else "them"
        ways = [f"give {_together(self.given)}", f"give {_together(self.theorem)} without {without}"]
        return ", or ".join([*ways, *(["give none of these (anytime rates)"] if self.anytime else [])])

    def check(self, spec: Spec) -> None:
        """Refuse a mixture, and a ``rate_scale`` without rates of the theorem to multiply.

        Raises
        ------
        ValueError
            for either.
        """
        mode = self.mode(spec)
        if getattr(spec, "rate_scale", None) is not None and mode is not RateMode.THEOREM:
            raise FieldValueError(
                "rate_scale", f"rate_scale multiplies the theorem's rates, and these are {mode.value}"
            )

    def scale(self, spec: Spec) -> float:
        """Return c, the factor on the theorem's rates: ``rate_scale``, or 1."""
        scale: float | None = getattr(spec, "rate_scale", None)
        return 1.0 if scale is None else scale

    def resolved(self, spec: Spec) -> dict[str, Any]:
        """Return ``rate_scale`` as it is in force, by name, where it multiplies rates."""
        return {"rate_scale": self.scale(spec)} if self.mode(spec) is RateMode.THEOREM else {}


class RatedSpec(Spec):
    """A learner whose rates are given, or follow from a theorem, or are anytime rates."""

    rate_fields: ClassVar[RateFields]

    @property
    def mode(self) -> RateMode:
        """Where the rates come from."""
        return self.rate_fields.mode(self)

    @model_validator(mode="after")
    def _one_way_to_give_rates(self) -> Self:
        self.rate_fields.check(self)
        return self

    def resolved(self) -> dict[str, Any]:
        return super().resolved() | self.rate_fields.resolved(self)
