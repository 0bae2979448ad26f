"""How acts and events grow with the outstanding decisions of a session."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import closing
from functools import partial
from typing import Any

from loadtest.bench.growth.livez import running_probe
from loadtest.bench.growth.rows import MILLISECONDS, PER_SECOND, Row, Step, sizes_to
from loadtest.bench.growth.scene import Caller, GrowthOptions, Scene
from loadtest.bench.growth.session import CALL, Session
from loadtest.processes import running_service

FIRST = 10_000
DAY = 86_400
HOLDERS: Mapping[str, Mapping[str, Any]] = {
    "expiry": {"learner": {"kind": "dexp3", "n_arms": 100}, "expiry": {"after_seconds": DAY}},
    "open slots": {"learner": {"kind": "exp3", "n_arms": 100, "learning_rate": 0.01, "max_open_slots": 1_000_000}},
}
"""What remembers outstanding decisions: times of acts, counted in buckets, or a record of each slot."""


def most_of(options: GrowthOptions) -> dict[str, int]:
    """Return the most outstanding decisions for each way to remember them."""
    return {"expiry": options.outstanding, "open slots": options.open_slots}


def grow_outstanding(scene: Scene, advance: Callable[[], object]) -> list[Row]:
    """Return the rows of outstanding decisions, for each way in which they are remembered."""
    held = {}
    for holder, most in most_of(scene.options).items():
        held[holder] = _sessions(scene, holder, most, advance)
    found = []
    for holder, sessions in held.items():
        acted = scene.in_turn({size: session.act for size, session in sessions.items()})
        settled = scene.in_turn({size: session.settle for size, session in sessions.items()})
        found += [_row("one act", holder, acted), _row("one event", holder, settled)]
    found += [_row("first act of a new worker", *steps) for steps in _first_acts(scene, held).items()]
    for holder, sessions in held.items():
        gathered = scene.in_turn({size: partial(session.gather, CALL) for size, session in sessions.items()})
        found.append(_row(f"acts, {CALL:,} in a call", holder, gathered, PER_SECOND))
    return found


def _row(name: str, holder: str, steps: list[Step], unit: str = MILLISECONDS) -> Row:
    return Row(f"{name} ({holder})", "outstanding decisions", unit, steps)


def _sessions(scene: Scene, holder: str, most: int, advance: Callable[[], object]) -> Mapping[int, Session]:
    """Return sessions by their outstanding decisions."""
    found = {}
    with scene.without_waiting_for_the_disk():
        for size in sizes_to(most, min(FIRST, most)):
            found[size] = Session(scene, f"{holder.replace(' ', '-')}-{size}", HOLDERS[holder])
            found[size].gather(size)
            advance()
    return found


def _first_acts(scene: Scene, held: Mapping[str, Mapping[int, Session]]) -> dict[str, list[Step]]:
    """Start another service for each repetition, which has to read each session; return steps by holder."""
    steps = {holder: {size: Step(size, [], 0) for size in sessions} for holder, sessions in held.items()}
    for _ in range(scene.options.repetitions):
        with (
            running_service(scene.logs, "--store-url", scene.redis_url) as service,
            running_probe(service.port, 1) as probe,
            closing(Caller(service.port)) as caller,
        ):
            for holder, sessions in held.items():
                for size, session in sessions.items():
                    before, taken = steps[holder][size], caller.milliseconds("POST", f"{session.path}/act")
                    steps[holder][size] = before.with_value(taken, probe.longest())
    scene.service.reconnect()
    for sessions in held.values():
        for session in sessions.values():
            session.act()  # reads what the others have committed
    return {holder: list(by_size.values()) for holder, by_size in steps.items()}
