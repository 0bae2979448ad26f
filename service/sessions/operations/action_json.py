"""The JSON of actions, in texts of bounded size."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from ...engine.actions import ArmActions
from ...learners.base import FloatArray, PointLearner


def arms_json(drawn: Iterable[ArmActions], names: Sequence[str] | None, skipped: int, *, single: bool) -> str:
    """The JSON of drawn arms, or of a ``single`` one; ``skipped`` is named in it unless it is 0.

    An arm has one probability in all slots of an ``ArmActions``, so its part of the text is made once.
    """
    more = f',"skipped":{skipped}' if skipped else ""
    texts: list[str] = []
    for actions in drawn:
        arms = actions.arms
        parts = {
            arm: f',"arm":{arm},"probability":{p!r}{"" if names is None else _label_json(names[arm])}'
            for arm, p in dict(zip(arms, actions.probabilities, strict=True)).items()
        }
        texts += [f'{{"slot":{slot}{parts[arm]}' for slot, arm in enumerate(arms, actions.slot)]
    return f"{texts[0]}{more}}}" if single else f'{{"actions":[{"},".join(texts)}}}]{more}}}'


def _label_json(label: str) -> str:
    return f',"label":{json.dumps(label)}'


def points_json(points: Iterable[Iterable[str]]) -> Iterator[str]:
    """The JSON of a list of points."""
    start = '{"actions":['
    for point in points:
        yield start
        yield from point
        start = ","
    yield "]}"


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
