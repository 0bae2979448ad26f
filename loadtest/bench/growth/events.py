"""How a call grows with the number of its events."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from loadtest.bench.growth.rows import MILLISECONDS, Row, sizes_to
from loadtest.bench.growth.scene import Scene
from loadtest.bench.growth.session import REMEMBERED, Session


def grow_events(scene: Scene, advance: Callable[[], object]) -> list[Row]:
    """Return the row of events in a call."""
    options, measures = scene.options, {}
    for size in sizes_to(options.events):
        session = Session(scene, f"events-{size}", {"learner": {"kind": "dexp3", "n_arms": 100}})
        calls = min(options.calls, max(1, REMEMBERED // size))
        bodies = iter([[session.events(size) for _ in range(calls)] for _ in range(options.repetitions)])
        measures[size] = partial(_settle_next, session, bodies)
        advance()
    return [Row("one call", "events in a call", MILLISECONDS, scene.in_turn(measures))]


def _settle_next(session: Session, bodies: Iterator[list[bytes]]) -> float:
    return session.settle_all(next(bodies))
