"""What the service should reach beside what was measured, and the tables, for a terminal and for the page."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

from loadtest.bench.measured import ratios, spread
from loadtest.bench.throughput import LABELS, MOST_OF, OUTSTANDING, PAGE
from loadtest.bench.turns import ALL, AT_MANY_ARMS
from loadtest.study.page import wrapped, write_between
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


def _ratio(
    target: str, other: str = "nothing", times: float = 1, part: str = "rates"
) -> Callable[[Found], Mapping[str, float]]:
    """Compare processor times of two targets of a part, round by round; the other is N if not given."""

    def ratio(summary: Found) -> Mapping[str, float]:
        used = summary[part]["cpu_microseconds"]
        return ratios(
            {target: [times * one for one in used[target]["all"]], other: used[other]["all"]}, target, other
        )

    return ratio


def _workers(target: str, workers: int) -> Callable[[Found], Mapping[str, float]]:
    """Compare a service with more workers with one that has one."""
    return _ratio(f"{target}_{workers}", f"{target}_1", part="workers")


def _conflicts(target: str, workers: int) -> Callable[[Found], Mapping[str, float]]:
    return _at("workers", "shares", "conflict", f"{target}_{workers}")


def _idle(where: str) -> Callable[[Found], Mapping[str, float]]:
    return _at("stored", "idle_memory", where, unit=1000)


def _longest_turn(summary: Found) -> Mapping[str, float]:
    """Find the longest of the turns at 100,000 arms, as they would be on the machine of ``ASGI_MICROSECONDS``."""
    longest = max((summary["turns"][name] for name in AT_MANY_ARMS), key=lambda each: float(each["median"]))
    faster = ASGI_MICROSECONDS / summary["rates"]["cpu_microseconds"]["asgi"]["median"]
    return spread([faster * one for one in longest["all"]])


ASGI_MICROSECONDS = 31
"""What bare ASGI takes on the machine whose times are goals."""
_AS_THERE = f", if bare ASGI takes {ASGI_MICROSECONDS} us"
GOALS = (
    Goal("one session, over N", "at most", 0.6, _ratio("hot")),
    Goal("1,000 sessions, over N", "at most", 1.0, _ratio("many"), MANY_SESSIONS),
    Goal("10,000 sessions, over N", "at most", 1.3, _ratio("most"), MANY_SESSIONS),
    Goal("N over an event of 100 a call", "at least", 40, _ratio("nothing", "bulk_events")),
    Goal("N over an act of 100 a call", "at least", 80, _ratio("nothing", "bulk_acts")),
    Goal("README's session with ids, over N", "at most", 1.2, _ratio("readme_hot")),
    Goal("1,000 of README's sessions, over N", "at most", 1.8, _ratio("readme_many"), MANY_SESSIONS),
    Goal(
        "README's commits that are plain, share", "at least", 0.95, _at("rates", "shares", "plain", "readme_many")
    ),
    Goal("two workers over one, 1,000 sessions", "at most", 1.15, _workers("many", 2), MANY_SESSIONS),
    Goal("four workers over one, one session", "at most", 1.3, _workers("hot", 4)),
    Goal("commits in conflict, two workers, share", "at most", 0.05, _conflicts("many", 2), MANY_SESSIONS),
    Goal("commits in conflict, four workers, share", "at most", 0.05, _conflicts("many", 4), MANY_SESSIONS),
    Goal("the same, one session", "at most", 0.05, _conflicts("hot", 4)),
    Goal("10,000 arms over 10, `dexp3`", "at most", 1.3, _ratio("most_arms", "few_arms")),
    Goal("10,000 arms over 10, `multiscale_tsallis`", "at most", 4, _ratio("most_tsallis", "few_tsallis")),
    Goal("1,000,000 outstanding over 10,000", "at most", 1.3, _ratio("most_open", "few_open"), MANY_SESSIONS),
    Goal("bytes logged for a request, 10 arms", "at most", 45, _at("stored", "log_bytes", "10")),
    Goal("bytes logged for a request, 1,000 arms", "at most", 400, _at("stored", "log_bytes", "1000")),
    Goal("bytes logged for a request, 10,000 arms", "at most", 1_000, _at("stored", "log_bytes", "10000")),
    Goal("all pages of 10,000 segments over those of 2,500", "at most", 6, _at("segments", "ratio")),
    Goal("kB of an idle session of 100 arms: worker", "at most", 2.5, _idle("worker"), MANY_SESSIONS),
    Goal("the same in Redis, all arms reported", "at most", 2.0, _idle("redis")),
    Goal(f"us for a session in the list{_AS_THERE}", "at most", 25, _ratio("list", "asgi", ASGI_MICROSECONDS)),
    Goal(f"ms of the longest turn at 100,000 arms{_AS_THERE}", "at most", 10, _longest_turn),
    Goal("`appendfsync always` over `everysec`, one session", "at most", 1.25, _ratio("hot_always", "hot")),
    Goal("p99 over p50, open loop at 60 %", "at most", 6, _at("rates", "open_loop_milliseconds", "p99_over_p50")),
    Goal("creation, over N", "at most", 3, _ratio("create")),
    Goal("view, over N", "at most", 2, _ratio("view")),
    Goal("import of the application, s", "at most", 0.5, _at("start", "import_seconds")),
    Goal("start until ready, s of processor time", "at most", 1.0, _at("start", "ready_cpu_seconds")),
)

MARKS = ("<!-- bench: what follows is written by the command -->", "<!-- bench: end -->")
HEAD = ("target", "per second", "over N's", "processor time, us", "over N's")
GOALS_HEAD = ("processor time, if nothing else is said", "goal", "measured: median (least to most)", "reached")


def section(summary: Mapping[str, Any]) -> str:
    """Return the text between the marks of the page."""
    rows = [HEAD, *(row for part in ("rates", "workers") for row in target_rows(summary, part, _median))]
    tables = (
        markdown([GOALS_HEAD, *goal_rows(summary)]),
        markdown([(label, rate, time) for label, rate, _, time, _ in rows]),
    )
    return "\n\n".join([machine_text(summary), *tables])


def target_rows(
    summary: Mapping[str, Any], part: str, cell: Callable[[Mapping[str, Any] | None], str]
) -> Iterator[Sequence[str]]:
    """Yield a row for each target of a part, as ``HEAD`` names its cells, each shown by ``cell``."""
    found, options = summary[part], summary["options"]
    numbers = {"sessions": 1, "most": MOST_OF, **OUTSTANDING}
    sizes = {name: f"{number * options['sessions']:,}" for name, number in numbers.items()}
    for name, rates in found["per_second"].items():
        target, _, workers = name.rpartition("_") if part == "workers" else (name, "", "")
        label = LABELS[target].format(**sizes, bulk=options["bulk"], page=PAGE)
        label = label.replace("service", f"{workers} x worker") if workers else label
        cells = (rates, found["rate_over"].get(name), found["cpu_microseconds"][name], found["cpu_over"].get(name))
        yield (label, *map(cell, cells))


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


def _median(found: Mapping[str, Any] | None) -> str:
    return "" if found is None else number(found["median"])


def machine_text(summary: Mapping[str, Any]) -> str:
    """Say what made the figures, on what, and when."""
    about, options = summary["machine"], summary["options"]
    versions = ", ".join(f"{name} {about['versions'][name]}" for name in SHOWN)
    return wrapped(
        f"One worker; {options['repetitions']} rounds of {options['seconds']:g} s a target; load: "
        f"{summary['generator']}. {about['cpus']} cores, load average {about['load_average'][0]:.1f} before the "
        f"command; Python {about['python']}, Redis {summary['redis_server']}, {versions}; {summary['date']}."
    )


Printed = tuple[str, Sequence[str], Iterable[Sequence[str]]]


def tables(summary: Mapping[str, Any]) -> Iterator[Printed]:
    """Yield title, head and rows of what a run measured, for a terminal."""
    for part in ("rates", "workers"):
        if part in summary:
            yield f"{part.capitalize()}: medians (least to most)", HEAD, target_rows(summary, part, spread_cell)
    if "turns" in summary:
        rows = [(ALL[name].title, spread_cell(each)) for name, each in summary["turns"].items()]
        yield "Longest turns", ("request", "ms of processor time"), rows
    yield "Goals that were measured", GOALS_HEAD, [row for row in goal_rows(summary) if row[-1]]


def write(summary: Mapping[str, Any], page: Path) -> None:
    """Write the tables into a page, and the figures into ``results/`` beside it."""
    folder = page.parent / "results"
    folder.mkdir(exist_ok=True)
    (folder / "bench.json").write_text(json.dumps(summary, indent=1) + "\n", encoding="utf-8")
    write_between(MARKS, section(summary), page)


def number(value: float) -> str:
    """Return three digits, or all before the point."""
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.2f}" if value < 10 else f"{value:.1f}"


def spread_text(median: float, least: float, most: float) -> str:
    """Return median and extremes."""
    return f"{number(median)} ({number(least)} to {number(most)})"
