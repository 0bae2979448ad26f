"""The table of growth, as the page of figures holds it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from loadtest.bench.growth.rows import Exponent, Row, Step, of_json
from loadtest.bench.markdown import number, spread_text, table
from loadtest.study.page import wrapped

MARKS = ("<!-- growth: what follows is written by the command -->", "<!-- growth: end -->")
PICTURE = "![Times, and the longest wait of other requests, against sizes](results/growth.png)"
HEAD = ("what grows", "to", "what is measured", "median (least to most)", "exponent", "longest `/livez`, ms")


def section(summary: Mapping[str, Any]) -> str:
    """Return the text between the marks of the page."""
    rows = of_json(summary["rows"])
    arms = _arms(rows, summary["compared"])
    return "\n\n".join([_machine(summary), table(HEAD, cells_of(rows)), _verdict(rows), arms, PICTURE])


def cells_of(rows: Sequence[Row]) -> Iterator[tuple[str, ...]]:
    """Yield the cells of the table, a line for each step."""
    for row in rows:
        exponents: list[Exponent | None] = [None, *row.exponents()]
        for place, (step, exponent) in enumerate(zip(row.steps, exponents, strict=True)):
            begin = (row.grows, f"{step.size:,}", f"{row.name}, {row.unit}")
            yield (*(begin if place == 0 else ("", begin[1], "")), *_measured(step, exponent))


def _measured(step: Step, exponent: Exponent | None) -> tuple[str, str, str]:
    spread = spread_text(step.median, min(step.values), max(step.values))
    power = "" if exponent is None else f"{exponent.middle:.2f}"
    if exponent is not None and exponent.is_superlinear:
        power = f"**{power}**"
    return spread, power, number(step.livez_ms)


def _verdict(rows: Sequence[Row]) -> str:
    """Say which steps grow faster than the size, or that none does."""
    steps = [
        (exponent, f"{row.name}, {before.size:,} to {after.size:,} {row.grows}")
        for row in rows
        for exponent, before, after in zip(row.exponents(), row.steps, row.steps[1:], strict=False)
    ]
    if not steps:
        return "One size alone has no exponent."
    if faster := [f"{name} ({exponent.middle:.2f})" for exponent, name in steps if exponent.is_superlinear]:
        return wrapped(f"Faster than the size, beyond the spread of the repetitions: {'; '.join(faster)}.")
    most, name = max(steps)
    begin = "Nothing grows faster than the size, beyond the spread of the repetitions."
    return wrapped(f"{begin} The largest exponent is {most.middle:.2f}: {name}.")


def _arms(rows: Sequence[Row], compared: Mapping[str, float]) -> str:
    """Say how many passes of numpy an act and an event take at the most arms."""
    times = {row.name: row.steps[-1] for row in rows if row.grows == "arms"}
    size = max(step.size for step in times.values())
    floor, one_pass = compared["floor_ms"], compared["pass_ms"]
    more = [
        f"{name} takes {max(0.0, step.median - floor) / one_pass:.0f} such sums" for name, step in times.items()
    ]
    return wrapped(
        f"At {size:,} arms numpy's cumulative sum of the weights takes {one_pass:.3f} ms, and a call of N "
        f"{floor:.2f} ms. Beyond N's time {' and '.join(more)}."
    )


def _machine(summary: Mapping[str, Any]) -> str:
    machine, options = summary["machine"], summary["options"]
    made = "wrk" if options["wrk"] else "clients in Python"
    return wrapped(
        f"{machine['cpus']} cores, load average {machine['load_average'][0]:.1f} before the command; Python "
        f"{machine['python']}; {options['repetitions']} repetitions; rates by {options['clients']} clients for "
        f"{options['seconds']:g} s ({made}). "
        f"Without other requests the longest wait of `/livez` was {summary['compared']['at_rest_ms']:.1f} ms."
    )
