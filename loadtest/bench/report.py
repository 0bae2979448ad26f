"""What the service should reach beside what was measured, and the tables, for a terminal and for the page."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any, Literal, NamedTuple

from loadtest.bench.measured import ratios, spread
from loadtest.bench.throughput import FLOORS, LABELS, MOST_OF, PAGE
from loadtest.bench.turns import LARGE_REQUESTS
from loadtest.study.page import page_with, wrapped
from loadtest.study.tables import markdown

Found = Mapping[str, Any]
"""The summary of a run, as ``summary.json`` has it."""
MANY_SESSIONS = 1000
"""Sessions that goals name; fewer say nothing of the goals that name so many, nor of a worker's memory for each."""
SHOWN = ("fastapi", "uvicorn", "pydantic", "numpy")
"""Packages whose versions the page names."""


class Goal(NamedTuple):
    """One line of the table."""

    name: str
    sign: Literal["at least", "at most"]
    wanted: float
    measure: Callable[[Found], Mapping[str, float]]
    """Finds median, least and most in a summary; KeyError where that part was not measured."""
    sessions: int = 0
    """Sessions without which the run says nothing of it."""

    def is_reached(self, median: float) -> bool:
        """Return whether a median is as good as wanted."""
        return median <= self.wanted if self.sign == "at most" else median >= self.wanted


def compared(summary: Found) -> Iterator[tuple[Goal, Mapping[str, float] | None]]:
    """Yield all goals with what a summary has of them; None where the run left it out."""
    for goal in GOALS:
        try:
            is_large = summary["options"]["sessions"] >= goal.sessions
            yield goal, goal.measure(summary) if is_large else None
        except KeyError:
            yield goal, None


def _at(*keys: str, unit: float = 1.0) -> Callable[[Found], Mapping[str, float]]:
    """Find what a summary has under these keys: a spread, or a number in a smaller unit."""

    def find(summary: Found) -> Mapping[str, float]:
        found: Any = summary
        for key in keys:
            found = found[key]
        return found if isinstance(found, Mapping) else spread([found / unit])

    return find


def _one(*keys: str) -> Callable[[Found], Mapping[str, float]]:
    """Find what one worker came to."""
    return _at("workers", "1", *keys)


def _two(*keys: str) -> Callable[[Found], Mapping[str, float]]:
    """Find what two workers came to, over one."""
    return _at("workers_ratio", "2_to_1", *keys)


def _idle(where: str) -> Callable[[Found], Mapping[str, float]]:
    return _at("stored", "idle_memory", where, unit=1000)


def _between(target: str, other: str) -> Callable[[Found], Mapping[str, float]]:
    """Compare the rates of two targets, round by round."""

    def ratio(summary: Found) -> Mapping[str, float]:
        rates = summary["workers"]["1"]["per_second"]
        return ratios({name: rates[name]["all"] for name in (target, other)}, target, other)

    return ratio


def _passes(name: str) -> Callable[[Found], Mapping[str, float]]:
    """Count passes of numpy over 100,000 weights beyond the time of a call of N."""

    def passes(summary: Found) -> Mapping[str, float]:
        rows, beside = summary["growth"]["rows"], summary["growth"]["compared"]
        steps = {step["size"]: step["values"] for row in rows if row["name"] == name for step in row["steps"]}
        return spread([max(0.0, time - beside["floor_ms"]) / beside["pass_ms"] for time in steps[100_000]])

    return passes


def _many(kind: str, floor: str, target: str) -> tuple[Callable[[Found], Mapping[str, float]], int]:
    return _one(kind, floor, target), MANY_SESSIONS


GOALS = (
    Goal("one session, rate over N", "at least", 1.2, _one("rate_over", "nothing", "hot")),
    Goal("one session, rate over G", "at least", 2.0, _one("rate_over", "redis_get", "hot")),
    Goal("1,000 sessions, rate over G", "at least", 0.9, *_many("rate_over", "redis_get", "many")),
    Goal("10,000 sessions, rate over G", "at least", 0.8, *_many("rate_over", "redis_get", "most")),
    Goal("one session, processor time over N", "at most", 0.9, _one("cpu_over", "nothing", "hot")),
    Goal("1,000 sessions, processor time over N", "at most", 2.5, *_many("cpu_over", "nothing", "many")),
    Goal("events, 100 a call, over N's requests", "at least", 40, _one("rate_over", "nothing", "bulk_events")),
    Goal("acts, 100 a call, over N's requests", "at least", 60, _one("rate_over", "nothing", "bulk_acts")),
    Goal("`appendfsync always` over `everysec`, one session", "at least", 0.8, _between("hot", "hot_everysec")),
    Goal("10,000 arms over 10, one session", "at least", 0.7, _between("most_arms", "few_arms")),
    Goal("100,000 arms, one act: passes beyond N", "at most", 3, _passes("one act")),
    Goal("100,000 arms, one event: passes beyond N", "at most", 3, _passes("one event")),
    Goal("bytes logged for a request, 10 arms", "at most", 40, _at("stored", "log_bytes", "10")),
    Goal("bytes logged for a request, 1,000 arms", "at most", 400, _at("stored", "log_bytes", "1000")),
    Goal("bytes logged for a request, 10,000 arms", "at most", 1_000, _at("stored", "log_bytes", "10000")),
    Goal("two workers over one, separate sessions", "at least", 1.7, _two("separate")),
    Goal("the same, as processor time allows", "at least", 1.7, _two("separate_cpu_allows")),
    Goal("p99 over p50, open loop at 60 %", "at most", 6, _one("open_loop_milliseconds", "p99_over_p50")),
    Goal("kB of an idle session of 100 arms: worker", "at most", 3, _idle("worker"), MANY_SESSIONS),
    Goal("kB of an idle session of 100 arms: Redis", "at most", 1.5, _idle("redis")),
    Goal("us of processor time for a session in the list", "at most", 40, _one("cpu_microseconds", "list")),
    Goal("creation, processor time over N", "at most", 3, _one("cpu_over", "nothing", "create")),
    Goal("view, processor time over N", "at most", 2, _one("cpu_over", "nothing", "view")),
    Goal("import of the application, s", "at most", 0.5, _at("start", "import_seconds")),
    Goal("start until ready, s of processor time", "at most", 1.0, _at("start", "ready_cpu_seconds")),
)

MARKS = ("<!-- bench: what follows is written by the command -->", "<!-- bench: end -->")
HEAD = ("target", "per second", "over N's", "over G's", "processor time, us", "over N's")
GROWTH_HEAD = ("what grows", "to", "what is measured", "ms: median (least to most)", "exponent")
GOALS_HEAD = ("what", "goal", "measured: median (least to most)", "reached")


def section(summary: Mapping[str, Any]) -> str:
    """Return the text between the marks of the page."""
    one = markdown([HEAD, *target_rows(summary, "1")])
    return "\n\n".join([machine_text(summary), one, markdown([GOALS_HEAD, *goal_rows(summary)])])


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
    for goal, found in compared(summary):
        reached = "" if found is None else "yes" if goal.is_reached(found["median"]) else "no"
        yield goal.name, f"{goal.sign} {goal.wanted:g}", spread_cell(found) or "not measured", reached


def spread_cell(found: Mapping[str, Any] | None) -> str:
    """Return median and extremes; the median alone where these look the same, nothing where there is none."""
    if found is None:
        return ""
    if number(found["min"]) == number(found["max"]):
        return number(found["median"])
    return spread_text(found["median"], found["min"], found["max"])


def growth_rows(found: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    """Yield a line for each size; the exponent is 1 where the time grows as fast as the size."""
    for row in found["rows"]:
        names, before = (row["grows"], row["name"]), None
        for step in row["steps"]:
            middle, size, power = median(step["values"]), step["size"], ""
            if before is not None:
                power = number(math.log(middle / median(before["values"])) / math.log(size / before["size"]))
            cell = spread_text(middle, min(step["values"]), max(step["values"]))
            yield names[0], f"{size:,}", names[1], cell, power
            names, before = ("", ""), step


def machine_text(summary: Mapping[str, Any]) -> str:
    """Say what made the figures, on what, and when."""
    about, options = summary["machine"], summary["options"]
    versions = ", ".join(f"{name} {about['versions'][name]}" for name in SHOWN)
    return wrapped(
        f"One worker; {options['repetitions']} rounds of {options['seconds']:g} s a target; load: "
        f"{summary['generator']}. {about['cpus']} cores, load average {about['load_average'][0]:.1f} before the "
        f"command; Python {about['python']}, Redis {about['redis_server']}, {versions}; {summary['date']}."
    )


Printed = tuple[str, Sequence[str], Iterable[Sequence[str]]]


def tables(summary: Mapping[str, Any]) -> Iterator[Printed]:
    """Yield title, head and rows of what a run measured, for a terminal."""
    for count, found in summary.get("workers", {}).items():
        latency = {name: each["median"] for name, each in found["open_loop_milliseconds"].items()}
        open_loop = "open loop of {rate:,.0f} requests/s: p50 {p50:.1f} ms, p99 {p99:.1f} ms".format(**latency)
        yield f"{count} workers: medians (least to most); {open_loop}", HEAD, target_rows(summary, count)
    if "growth" in summary:
        yield "Growth", GROWTH_HEAD, growth_rows(summary["growth"])
    if "turns" in summary:
        rows = [(LARGE_REQUESTS[name].title, spread_cell(each)) for name, each in summary["turns"].items()]
        yield "Longest turns", ("request", "ms of processor time"), rows
    yield "Goals, one worker", GOALS_HEAD, goal_rows(summary)


def write(summary: Mapping[str, Any], page: Path) -> None:
    """Write the tables into a page, and the figures into ``results/`` beside it."""
    folder = page.parent / "results"
    folder.mkdir(exist_ok=True)
    (folder / "bench.json").write_text(json.dumps(summary, indent=1) + "\n", encoding="utf-8")
    page.write_text(page_with(page.read_text("utf-8"), MARKS, section(summary)), encoding="utf-8")


def number(value: float) -> str:
    """Return three digits, or all before the point."""
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.2f}" if value < 10 else f"{value:.1f}"


def spread_text(median: float, least: float, most: float) -> str:
    """Return median and extremes."""
    return f"{number(median)} ({number(least)} to {number(most)})"
