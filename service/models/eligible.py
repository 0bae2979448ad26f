"""Which arms an act may draw, as clients name them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, NamedTuple

from pydantic import AfterValidator, Field, WithJsonSchema, model_validator

from ..errors import FieldValueError
from ..learners.base import Posted
from ..learners.specs import whole

MAX_NAMES = 10_000
"""Arms that one act may name."""

Names = Sequence[int] | Sequence[str]
"""Arms by index or by label."""


class Choice(NamedTuple):
    """The arms that an act names."""

    field: str
    """``eligible``: only these arms may be drawn; ``exclude``: these may not."""
    names: Names


def _of_one_kind(names: list[Any]) -> list[Any]:
    """Check all names at once: for pydantic to check each of 10,000 would keep other requests waiting."""
    kinds = set(map(type, names))
    if float in kinds:
        names = [whole(name) for name in names]
        kinds = set(map(type, names))
    if kinds == {int}:
        if min(names) < 0:
            raise ValueError("an index is 0 or more")
    elif kinds == {str}:
        try:
            "".join(names).encode()
        except UnicodeEncodeError as error:
            raise ValueError("labels must be Unicode") from error
    elif kinds:
        raise ValueError("must be all labels or all indexes")
    return names


def _schema(least: int) -> dict[str, Any]:
    size = {"type": "array", "maxItems": MAX_NAMES} | ({"minItems": least} if least else {})
    return {
        "anyOf": [
            size | {"items": {"type": "string"}},
            size | {"items": {"type": "integer", "minimum": 0}},
            {"type": "null"},
        ]
    }


_OneKind = Annotated[list[Any], Field(max_length=MAX_NAMES), AfterValidator(_of_one_kind)]
_Some = Annotated[list[Any], Field(min_length=1, max_length=MAX_NAMES), AfterValidator(_of_one_kind)]


class Eligibility(Posted):
    """The arms that may be drawn."""

    eligible: Annotated[
        _Some | None,
        WithJsonSchema(_schema(1)),
        Field(
            description="Only these arms may be drawn: labels or indexes, one kind in a list. Names of arms that "
            "are removed, paused or unknown are skipped. The draw's probabilities are the learner's own for these "
            "arms. Some learners do not define them, and refuse it."
        ),
    ] = None
    exclude: Annotated[
        _OneKind | None,
        WithJsonSchema(_schema(0)),
        Field(description="These arms may not be drawn; instead of ``eligible``."),
    ] = None

    @model_validator(mode="after")
    def _one_way_to_name_arms(self) -> Eligibility:
        if self.eligible is not None and self.exclude is not None:
            raise FieldValueError("exclude", "give either eligible or exclude")
        return self

    @property
    def choice(self) -> Choice | None:
        """What was named; None where nothing was."""
        if self.eligible is not None:
            return Choice("eligible", self.eligible)
        return None if self.exclude is None else Choice("exclude", self.exclude)
