"""The JSON of actions, in texts of bounded size."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from ...engine.actions import ArmAction
from ...learners.base import FloatArray, PointLearner


def actions_json(actions: Sequence[Iterable[str]], skipped: int = 0) -> Iterator[str]:
    """The JSON of a list of actions; ``skipped`` is named in it unless it is 0."""
    start = '{"actions":['
    for action in actions:
        yield start
        yield from action
        start = ","
    yield "]" + _skipped_json(skipped) + "}"


def arm_json(action: ArmAction, names: Sequence[str] | None, skipped: int = 0) -> Iterable[str]:
    """The JSON of a drawn arm; ``skipped`` is named in it unless it is 0."""
    label = "" if names is None else f',"label":{json.dumps(names[action.arm])}'
    head = f'{{"slot":{action.slot},"arm":{action.arm},"probability":{action.probability!r}'
    return (f"{head}{label}{_skipped_json(skipped)}}}",)


def _skipped_json(skipped: int) -> str:
    return f',"skipped":{skipped}' if skipped else ""


def point_json(slot: int, learner: PointLearner[Any], state: Any) -> Iterator[str]:
    """The JSON of a point and its query points.

    It is made when it is sent, from the state, which is much smaller.
    """
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
