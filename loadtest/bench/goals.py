"""What the service should reach, beside what was measured."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from loadtest.bench.growth.rows import Row, of_json
from loadtest.bench.measured import spread
from loadtest.bench.targets import (
    ACTS,
    CREATE,
    EVENTS,
    EVERYSEC,
    FEW_ARMS,
    HOT,
    LIST,
    MANY,
    MOST,
    MOST_ARMS,
    NOTHING,
    READ,
    SEPARATE,
    VIEW,
)

Found = Mapping[str, Any]
"""The summary of a run, as ``summary.json`` has it."""
KILO = 1000.0
MANY_SESSIONS = 1000
"""Sessions that goals name; fewer say nothing of the goals that name so many, nor of a worker's memory for each."""


class Goal(NamedTuple):
    """One line of the table."""

    name: str
    before: str
    """Of version 0.1."""
    wanted: float
    measure: Callable[[Found], Mapping[str, float]]
    """Finds median, least and most in a summary; KeyError where that part was not measured."""
    at_most: bool = False
    """Whether less is better."""

    def is_reached(self, median: float) -> bool:
        """Return whether a median is as good as wanted."""
        return median <= self.wanted if self.at_most else median >= self.wanted


class Compared(NamedTuple):
    """A goal and what was measured; None where the run left it out."""

    goal: Goal
    found: Mapping[str, float] | None


def compared(summary: Found) -> Sequence[Compared]:
    """Return all goals with what a summary has of them."""
    return [Compared(goal, _found(goal, summary)) for goal in GOALS]


def _found(goal: Goal, summary: Found) -> Mapping[str, float] | None:
    try:
        return goal.measure(summary)
    except KeyError:
        return None


def _over(kind: str, floor: str, target: str) -> Callable[[Found], Mapping[str, float]]:
    def ratio(summary: Found) -> Mapping[str, float]:
        if target in (MANY, MOST):
            _check_many(summary)
        return _one_worker(summary)[kind][floor][target]  # type: ignore[no-any-return]

    return ratio


def _check_many(summary: Found) -> None:
    """Raise KeyError where a run used fewer sessions than the goals name."""
    if summary["options"]["sessions"] < MANY_SESSIONS:
        raise KeyError(MANY)


def _one_worker(summary: Found) -> Mapping[str, Any]:
    return summary["workers"]["1"]  # type: ignore[no-any-return]


def _between(target: str, other: str) -> Callable[[Found], Mapping[str, float]]:
    """Compare the rates of two targets, round by round."""

    def ratios(summary: Found) -> Mapping[str, float]:
        rates = _one_worker(summary)["per_second"]
        return spread([one / two for one, two in zip(rates[target]["all"], rates[other]["all"], strict=True)])

    return ratios


def _growth(summary: Found, name: str, size: int) -> Sequence[float]:
    rows: Sequence[Row] = of_json(summary["growth"]["rows"])
    for row in rows:
        for step in row.steps:
            if (row.name, step.size) == (name, size):
                return step.values
    raise KeyError(name)


def _passes(name: str) -> Callable[[Found], Mapping[str, float]]:
    """Count passes of numpy over 100,000 weights beyond the time of a call of N."""

    def passes(summary: Found) -> Mapping[str, float]:
        beside = summary["growth"]["compared"]
        times = _growth(summary, name, 100_000)
        return spread([max(0.0, time - beside["floor_ms"]) / beside["pass_ms"] for time in times])

    return passes


def _once(measure: Callable[[Found], float]) -> Callable[[Found], Mapping[str, float]]:
    return lambda summary: spread([measure(summary)])


def _logged(n_arms: int) -> Callable[[Found], Mapping[str, float]]:
    return _once(lambda summary: summary["stored"]["log_bytes"][str(n_arms)])


def _workers(name: str) -> Callable[[Found], Mapping[str, float]]:
    def ratio(summary: Found) -> float:
        if summary["options"]["sessions"] < summary["options"]["clients"]:
            raise KeyError(SEPARATE)
        return summary["workers_ratio"]["2_to_1"][name]  # type: ignore[no-any-return]

    return _once(ratio)


def _worker_memory(summary: Found) -> float:
    _check_many(summary)
    return summary["stored"]["idle_memory"]["worker"] / KILO  # type: ignore[no-any-return]


GOALS = (
    Goal("one session, rate over N", ".65 to .69", 1.2, _over("rate_over", NOTHING, HOT)),
    Goal("one session, rate over G", "1.1 to 1.3", 2.0, _over("rate_over", READ, HOT)),
    Goal("1,000 sessions, rate over G", ".39 to .42", 0.9, _over("rate_over", READ, MANY)),
    Goal("10,000 sessions, rate over G", ".35", 0.8, _over("rate_over", READ, MOST)),
    Goal("one session, processor time over N", "1.4 to 1.7", 0.9, _over("cpu_over", NOTHING, HOT), at_most=True),
    Goal("1,000 sessions, processor time over N", "5", 2.5, _over("cpu_over", NOTHING, MANY), at_most=True),
    Goal("events, 100 a call, over N's requests", "5 to 7", 40, _over("rate_over", NOTHING, EVENTS)),
    Goal("acts, 100 a call, over N's requests", "6 to 10", 60, _over("rate_over", NOTHING, ACTS)),
    Goal("`appendfsync always` over `everysec`, one session", "1", 0.8, _between(HOT, EVERYSEC)),
    Goal("10,000 arms over 10, one session", ".43 to .83", 0.7, _between(MOST_ARMS, FEW_ARMS)),
    Goal("100,000 arms, one act: passes beyond N", "21 to 34 ms", 3, _passes("one act"), at_most=True),
    Goal("100,000 arms, one event: passes beyond N", "21 to 34 ms", 3, _passes("one event"), at_most=True),
    Goal("bytes logged for a request, 10 arms", "32", 40, _logged(10), at_most=True),
    Goal("bytes logged for a request, 1,000 arms", "1,782", 400, _logged(1_000), at_most=True),
    Goal("bytes logged for a request, 10,000 arms", "15,766", 1_000, _logged(10_000), at_most=True),
    Goal("two workers over one, separate sessions", "", 1.7, _workers(SEPARATE)),
    Goal("the same, as processor time allows", "1.7 to 1.9", 1.7, _workers(f"{SEPARATE}_cpu_allows")),
    Goal(
        "p99 over p50, open loop at 60 %",
        "3 to 4.6",
        6,
        lambda found: _one_worker(found)["open_loop_milliseconds"]["p99_over_p50"],
        at_most=True,
    ),
    Goal(
        "kB of an idle session of 100 arms: worker",
        "13.1",
        3,
        _once(_worker_memory),
        at_most=True,
    ),
    Goal(
        "kB of an idle session of 100 arms: Redis",
        "3.3",
        1.5,
        _once(lambda found: found["stored"]["idle_memory"]["redis"] / KILO),
        at_most=True,
    ),
    Goal(
        "us of processor time for a session in the list",
        "820",
        40,
        lambda found: _one_worker(found)["cpu_microseconds"][LIST],
        at_most=True,
    ),
    Goal("creation, processor time over N", "8", 3, _over("cpu_over", NOTHING, CREATE), at_most=True),
    Goal("view, processor time over N", "5", 2, _over("cpu_over", NOTHING, VIEW), at_most=True),
    Goal("import of the application, s", ".9", 0.5, lambda found: found["start"]["import_seconds"], at_most=True),
    Goal(
        "start until ready, s of processor time",
        "1.5",
        1.0,
        lambda found: found["start"]["ready_cpu_seconds"],
        at_most=True,
    ),
)
"""Each with the figure of version 0.1; where a goal has none, the cell is empty."""
