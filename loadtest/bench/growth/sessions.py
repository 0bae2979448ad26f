"""How it grows with the number of sessions."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise
from pathlib import Path
from statistics import median
from urllib.parse import urlencode

from loadtest.bench.growth.rows import MILLISECONDS, OF_G, PER_SECOND, Row, Step, sizes_to
from loadtest.bench.growth.scene import SESSIONS, GrowthOptions, Scene, running_scene
from loadtest.bench.targets import READ, Target, calls_in_turn

LEARNER = {"kind": "dexp3", "n_arms": 100, "learning_rate": 0.01, "loss_clip": 1.0, "probability_floor": 0.1}
FIRST = 100
TIMED = 900
"""Of the sessions that are created, those whose creation is timed."""
PAGE = 100
"""Sessions on a page of the list."""


def grow_sessions(options: GrowthOptions, logs: Path, advance: Callable[[], object]) -> list[Row]:
    """Return the rows of sessions: creating them, calls in them, the same over G's rate, and a page of the list."""
    rows = [
        Row("creating a session", "sessions", PER_SECOND, []),
        Row("act and feedback, random sessions", "sessions", PER_SECOND, []),
        Row("the same over G", "sessions", OF_G, []),
        Row(f"page of {PAGE} in the list", "sessions", MILLISECONDS, []),
    ]
    sizes = sizes_to(options.sessions, min(FIRST, options.sessions))
    with running_scene(options, logs) as scene:
        for before, size in pairwise([0, *sizes]):
            timed_from = max(before, size - TIMED)
            if timed_from > before:
                with scene.without_waiting_for_the_disk():
                    scene.fill(SESSIONS, new_sessions(before, timed_from))
            created = scene.step(size, partial(_create_next, scene, _parts(timed_from, size, options.repetitions)))
            called = scene.step(size, partial(scene.rate, calls_in(scene, size)))
            floors = [scene.rate(scene.floors[READ]) for _ in called.values]
            ratios = [ours / floor for ours, floor in zip(called.values, floors, strict=True)]
            listed = scene.step(size, partial(_list, scene, _pages(scene)))
            for row, step in zip(rows, (created, called, Step(size, ratios, called.livez_ms), listed), strict=True):
                row.steps.append(step)
            advance()
    return rows


def calls_in(scene: Scene, sessions: int) -> Target:
    """Act and feedback in one of so many sessions, drawn for each pair."""
    return calls_in_turn(scene.port, scene.pids, f"{SESSIONS}/s%d/act", f"{SESSIONS}/s%d/feedback", sessions)


def new_sessions(first: int, end: int) -> Iterator[bytes]:
    """Return the bodies that create the sessions with these numbers."""
    for number in range(first, end):
        yield json.dumps({"session_id": f"s{number}", "learner": LEARNER, "seed": number}).encode()


def _parts(first: int, end: int, count: int) -> Iterator[Iterator[bytes]]:
    bounds = [first + (end - first) * part // count for part in range(count + 1)]
    return (new_sessions(*part) for part in pairwise(bounds))


def _create_next(scene: Scene, parts: Iterator[Iterator[bytes]]) -> float:
    return scene.fill(SESSIONS, next(parts))


def _list(scene: Scene, pages: Iterator[str]) -> float:
    return median(scene.service.milliseconds("GET", next(pages)) for _ in range(scene.options.calls))


def _pages(scene: Scene) -> Iterator[str]:
    """Return the paths of one page after the other, from the first again after the last."""
    cursor = None
    while True:
        path = f"{SESSIONS}?{urlencode({'limit': PAGE} | ({'cursor': cursor} if cursor else {}))}"
        yield path
        cursor = scene.service.call("GET", path)["next_cursor"]
