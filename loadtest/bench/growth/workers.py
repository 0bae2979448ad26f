"""How the rate grows with worker processes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from loadtest.bench.growth.rows import PER_SECOND, Row, sizes_to
from loadtest.bench.growth.scene import SESSIONS, GrowthOptions, running_scene
from loadtest.bench.growth.sessions import calls_in, new_sessions

MANY = 1000
"""Sessions."""


def grow_workers(options: GrowthOptions, logs: Path, advance: Callable[[], object]) -> list[Row]:
    """Return the row of workers."""
    sessions = min(MANY, options.sessions)
    row = Row(f"act and feedback, {sessions:,} sessions", "workers", PER_SECOND, [])
    for workers in sizes_to(options.workers, factor=2):
        with running_scene(options, logs, workers) as scene:
            scene.fill(SESSIONS, new_sessions(0, sessions))
            row.steps.append(scene.step(workers, partial(scene.rate, calls_in(scene, sessions))))
        advance()
    return [row]
