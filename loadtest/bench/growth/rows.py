"""What was measured: for each thing that grows, a row of steps, with the exponents between them."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

MILLISECONDS, PER_SECOND, OF_G = "ms", "per second", "of G's rate"


class Step(NamedTuple):
    """One size."""

    size: int
    values: Sequence[float]
    """Of each repetition, in the row's unit."""
    livez_ms: float
    """The longest wait for an answer of ``GET /livez`` meanwhile, in milliseconds."""

    @property
    def median(self) -> float:
        """The median of the repetitions."""
        return statistics.median(self.values)

    def with_value(self, value: float, livez_ms: float) -> Step:
        """Add a repetition."""
        return Step(self.size, [*self.values, value], max(self.livez_ms, livez_ms))


class Exponent(NamedTuple):
    """How time grows between two sizes: as the size to this power."""

    middle: float
    """Of the medians."""
    least: float
    """From the slowest before to the quickest after."""

    @property
    def is_superlinear(self) -> bool:
        """Whether time grows faster than the size, beyond the spread."""
        return self.least > 1


class Row(NamedTuple):
    """Times or rates of one thing at growing sizes."""

    name: str
    grows: str
    """What the sizes count."""
    unit: str
    steps: list[Step]

    def times(self, values: Sequence[float]) -> list[float]:
        """Return values of this row as times: a rate's is its inverse."""
        return list(values) if self.unit == MILLISECONDS else [1000 / value for value in values]

    def exponents(self) -> list[Exponent]:
        """Return the exponent of time between each step and the next."""
        found = []
        for before, after in zip(self.steps, self.steps[1:], strict=False):
            one, other, factor = self.times(before.values), self.times(after.values), after.size / before.size
            middle = statistics.median(other) / statistics.median(one)
            found.append(Exponent(_power(middle, factor), _power(min(other) / max(one), factor)))
        return found


def _power(ratio: float, factor: float) -> float:
    return math.log(ratio) / math.log(factor)


def sizes_to(most: int, first: int = 1, factor: int = 10) -> list[int]:
    """Return the sizes from ``first`` on, each ``factor`` times the one before, with ``most`` as the last one."""
    found = []
    while first < most:
        found.append(first)
        first *= factor
    return [*found, most]


def as_json(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Rows as JSON has them."""
    return [row._asdict() | {"steps": [step._asdict() for step in row.steps]} for row in rows]


def of_json(rows: Sequence[Mapping[str, Any]]) -> list[Row]:
    """Invert ``as_json``."""
    return [Row(**{**row, "steps": [Step(**step) for step in row["steps"]]}) for row in rows]
