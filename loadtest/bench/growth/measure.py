"""All that grows, one after the other."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from loadtest.bench.growth.arms import FIRST as FIRST_ARMS
from loadtest.bench.growth.arms import grow_arms, pass_milliseconds
from loadtest.bench.growth.events import grow_events
from loadtest.bench.growth.outstanding import FIRST as FIRST_OUTSTANDING
from loadtest.bench.growth.outstanding import grow_outstanding, most_of
from loadtest.bench.growth.rows import as_json, sizes_to
from loadtest.bench.growth.scene import GrowthOptions, running_scene
from loadtest.bench.growth.sessions import FIRST as FIRST_SESSIONS
from loadtest.bench.growth.sessions import grow_sessions
from loadtest.bench.growth.workers import grow_workers
from loadtest.bench.measured import machine


def steps_of(options: GrowthOptions) -> int:
    """Return how often ``measure`` advances."""
    decimal = ((options.sessions, FIRST_SESSIONS), (options.arms, FIRST_ARMS), (options.events, 1))
    counts = [len(sizes_to(most, min(first, most))) for most, first in decimal]
    outstanding = sum(len(sizes_to(most, min(FIRST_OUTSTANDING, most))) for most in most_of(options).values())
    return sum(counts) + outstanding + len(sizes_to(options.workers, factor=2))


def measure(options: GrowthOptions, logs: Path, advance: Callable[[], object]) -> dict[str, Any]:
    """Return the summary.

    Raises
    ------
    LoadTestError
        where something does not start, or a request fails.
    """
    before = machine()
    with running_scene(options, logs) as scene:
        compared = {
            "at_rest_ms": scene.at_rest(),
            "floor_ms": scene.floor_milliseconds(),
            "pass_ms": pass_milliseconds(options.arms),
        }
        of_one = [row for grow in (grow_arms, grow_outstanding, grow_events) for row in grow(scene, advance)]
    rows = [*grow_sessions(options, logs, advance), *of_one, *grow_workers(options, logs, advance)]
    return {"rows": as_json(rows), "compared": compared, "options": options._asdict(), "machine": before}
