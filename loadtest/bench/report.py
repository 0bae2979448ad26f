"""The tables of the bench, for a terminal and for the page of figures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from loadtest.bench.goals import Compared, compared
from loadtest.bench.markdown import number, spread_text, table
from loadtest.bench.measured import VERSIONS_SHOWN
from loadtest.bench.targets import FLOORS, LABELS, MOST_OF, PAGE
from loadtest.study.page import wrapped

MARKS = ("<!-- bench: what follows is written by the command -->", "<!-- bench: end -->")
HEAD = ("target", "per second", "over N's", "over G's", "processor time, us", "over N's")
GOALS_HEAD = ("what", "0.1", "goal", "measured: median (least to most)", "reached")


def section(summary: Mapping[str, Any]) -> str:
    """Return the text between the marks of the page."""
    one = table(HEAD, target_rows(summary, "1"))
    return "\n\n".join([machine(summary), one, table(GOALS_HEAD, goal_rows(summary))])


def target_rows(summary: Mapping[str, Any], workers: str) -> Iterator[Sequence[str]]:
    """Yield a row for each target, as ``HEAD`` names its cells."""
    found, options = summary["workers"][workers], summary["options"]
    for name, rates in found["per_second"].items():
        sessions = options["sessions"]
        sizes = {"sessions": f"{sessions:,}", "most": f"{MOST_OF * sessions:,}"}
        label = LABELS[name].format(**sizes, bulk=options["bulk"], page=PAGE)
        over = [found["rate_over"][floor].get(name) for floor in FLOORS]
        used, over_n = found["cpu_microseconds"][name], found["cpu_over"][FLOORS[0]].get(name)
        yield (label, *map(spread_cell, (rates, *over, used, over_n)))


def goal_rows(summary: Mapping[str, Any]) -> Iterator[Sequence[str]]:
    """Yield a row for each goal, as ``GOALS_HEAD`` names its cells."""
    return map(_goal_row, compared(summary))


def _goal_row(each: Compared) -> Sequence[str]:
    goal, found = each
    sign = "at most" if goal.at_most else "at least"
    reached = "" if found is None else "yes" if goal.is_reached(found["median"]) else "no"
    return (goal.name, goal.before, f"{sign} {goal.wanted:g}", spread_cell(found) or "not measured", reached)


def spread_cell(found: Mapping[str, Any] | None) -> str:
    """Return median and extremes; the median alone where these look the same, nothing where there is none."""
    if found is None:
        return ""
    if number(found["min"]) == number(found["max"]):
        return number(found["median"])
    return spread_text(found["median"], found["min"], found["max"])


def machine(summary: Mapping[str, Any]) -> str:
    """Say what made the figures, on what, and when."""
    about, options = summary["machine"], summary["options"]
    versions = ", ".join(f"{name} {about['versions'][name]}" for name in VERSIONS_SHOWN)
    return wrapped(
        f"One worker; {options['repetitions']} rounds of {options['seconds']:g} s a target; load: "
        f"{summary['generator']}. {about['cpus']} cores, load average {about['load_average'][0]:.1f} before the "
        f"command; Python {about['python']}, Redis {about['redis_server']}, {versions}; {summary['date']}."
    )
