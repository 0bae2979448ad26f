"""The JSON of actions, in texts of bounded size."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from ...engine.point_run import PointRun
from ...engine.run import Run
from ...engine.slot_run import SlotRun
from ...learners.base import FloatArray, PointLearner
from ...serialization.journal import Acted, Ended, Journal


def actions_json(actions: Sequence[Iterable[str]]) -> Iterator[str]:
    """The JSON of a list of actions."""
    start = '{"actions":['
    for action in actions:
        yield start
        yield from action
        start = ","
    yield "]}"


def action_json(run: Run, journal: Journal) -> Iterable[str]:
    """Open the next slot, and note it; the JSON of its action.

    A point's JSON is made when it is sent, from the state, which is much smaller.
    """
    if isinstance(run, PointRun):
        return point_json(run.open_slot(), run.learner, run.state)
    if isinstance(run, SlotRun) and (dropped := run.next_dropped()) is not None:
        journal.append(Ended(dropped, "expired"))
    action, names = run.act(), run.arms.names
    name = None if names is None else names[action.arm]
    journal.append(Acted(action.slot, action.arm, action.probability, action.eligible, name))
    label = "" if name is None else f',"label":{json.dumps(name)}'
    return (f'{{"slot":{action.slot},"arm":{action.arm},"probability":{action.probability!r}{label}}}',)


def point_json(slot: int, learner: PointLearner[Any], state: Any) -> Iterator[str]:
    """The JSON of a point and its query points."""
    x = learner.x(state)
    numbers = [repr(number) for number in x.tolist()]
    yield f'{{"slot":{slot},"x":[{",".join(numbers)}]'
    if (changes := _changes(x, learner.query_points(state))) is None:
        yield "}"
        return
    start = ',"query_points":['
    for changed in changes:
        point = list(numbers)
        for place, number in changed:
            point[place] = repr(number)
        yield f"{start}[{','.join(point)}]"
        start = ","
    yield "]}"


def _changes(x: FloatArray, points: FloatArray | None) -> Sequence[Sequence[tuple[int, float]]] | None:
    """For each query point the places, mostly few, where it differs from ``x``, and its numbers there."""
    if points is None:
        return None
    changes: list[list[tuple[int, float]]] = [[] for _ in points]
    rows, places = np.nonzero(points.view(np.int64) != x.view(np.int64))
    for row, place, number in zip(*(each.tolist() for each in (rows, places, points[rows, places])), strict=True):
        changes[row].append((place, number))
    return changes
