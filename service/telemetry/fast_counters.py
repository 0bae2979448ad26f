"""Adding to prometheus_client's numbers where they lie, past its layers.

In a folder that workers share a number is eight bytes of a mapped file. Written there it outlives the worker, also
one that is killed, and the next scrape of any worker tells it: nothing waits to be flushed. Only the event loop's
thread adds, so there is no lock.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from typing import Any, NamedTuple

from prometheus_client import Counter, Histogram, values

Add = Callable[..., None]
"""Takes the amount, 1 where there is none."""
Observe = Callable[[float], None]


class Cell(NamedTuple):
    """A number in a file."""

    doubles: memoryview[float]
    place: int


def shared_value(number: int) -> type[Any]:
    """What prometheus_client keeps the numbers of the worker at place ``number`` in."""
    locked: Any = values.MultiProcessValue(lambda: number)

    class SharedValue(locked):  # type: ignore[misc]
        """A number in the folder."""

        def cell(self) -> Cell:
            """Where it lies."""
            file = self._file
            return Cell(memoryview(file._m).cast("d"), file._positions[self._key] // 8)  # noqa: SLF001 - see test_cells

        def inc(self, amount: float) -> None:
            doubles, place = self.cell()
            doubles[place] += amount

    return SharedValue


def adder(counter: Counter) -> Add:
    """What adds to a counter; its labels, if any, are given."""
    value: Any = counter._value  # noqa: SLF001 - see test_cells
    if not hasattr(value, "cell"):
        return counter.inc
    doubles, place = value.cell()

    def add(amount: float = 1.0) -> None:
        doubles[place] += amount

    return add


def observer(histogram: Histogram) -> Observe:
    """What observes for a histogram; its labels, if any, are given."""
    total: Any = histogram._sum  # noqa: SLF001 - see test_cells
    if not hasattr(total, "cell"):
        return histogram.observe
    doubles, sum_place = total.cell()
    places = [bucket.cell().place for bucket in histogram._buckets]  # noqa: SLF001
    bounds = histogram._upper_bounds[:-1]  # noqa: SLF001

    def observe(amount: float) -> None:
        doubles[sum_place] += amount
        doubles[places[bisect_left(bounds, amount)]] += 1.0

    return observe
