"""Recording a vector file: a learner is played for some slots with delayed feedback, and what it answers is kept.

A recording holds a learner to what it does now; it does not show that this is right. Traces done by hand do, so
recording never changes them.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import ValidationError

from service.engine.ledger import Draws
from service.learners import REGISTRY
from service.learners.base import ArmLearner, Information, Learner, PointLearner, Record, Slot, SlotLearner
from tests.support import vectors

SLOTS = 20
DELAYS = (0, 2, 1, 3)
"""In slots, in turn; the feedback of the last slots is never seen."""
SEED = 1
ARMS = {"n_arms": 3}
POINTS = {"dim": 2, "feasible_set": {"kind": "ball", "radius": 1.0}}
RATES: tuple[dict[str, Any], ...] = (
    {},
    {"learning_rate": 0.25},
    {"learning_rate": 0.25, "perturbation": 0.125},
    {"max_delay": 3},
    {"max_delay": 3, "learning_rate": 0.25},
    {"max_delay": 3, "learning_rate": 0.25, "perturbation": 0.125},
)
"""Fields tried one after the other until the learner accepts its specification."""
TARGET = 0.5
"""Losses at points are the squared distance to the point whose coordinates all are this."""


def missing() -> list[str]:
    """Kinds without a vector file."""
    return [kind for kind in REGISTRY if not vectors.has(kind)]


def record(kind: str, fields: dict[str, Any] | None = None) -> Path:
    """Write the recorded trace of a learner into its vector file, beside the traces done by hand.

    Parameters
    ----------
    kind : of the learner
    fields : parameters to record it with; without them the first of ``RATES`` that it accepts

    Raises
    ------
    ValueError
        where the learner accepts none of them.
    """
    path = vectors.VECTORS / f"{kind}.json"
    document = vectors.load(kind) if path.exists() else {"learner": kind, "tolerance": 1e-12, "traces": []}
    needed = fields if fields is not None else document.get("contract") or _accepted(kind)
    if needed and not path.exists():
        document = {"learner": kind, "contract": needed, "tolerance": 1e-12, "traces": []}
    document["traces"] = [trace for trace in document["traces"] if not trace.get("recorded")]
    document["traces"].append(trace(kind, needed))
    path.write_text(_text(document))
    return path


def trace(kind: str, fields: dict[str, Any]) -> dict[str, Any]:
    """Play a learner and return the trace, as tests read it."""
    spec = {"kind": kind} | _size(kind) | fields
    learner = REGISTRY[kind].model_validate(spec).build()
    head = {"name": "recorded", "about": "Recorded, not done by hand.", "recorded": True, "spec": spec}
    if isinstance(learner, ArmLearner):
        slots, state = _play_arms(learner)
        return head | {"slots": slots, "p_end": learner.probabilities(state).tolist()}
    assert isinstance(learner, PointLearner)
    slots, state = _play_points(learner)
    return head | {"slots": slots, "x_end": learner.x(state).tolist()}


def _text(document: dict[str, Any]) -> str:
    """JSON with a slot of a trace on each line."""
    short = [
        each | {"slots": [f"@{a}.{b}@" for b in range(len(each["slots"]))]}
        for a, each in enumerate(document["traces"])
    ]
    text = json.dumps(document | {"traces": short}, indent=1) + "\n"
    for a, each in enumerate(document["traces"]):
        for b, row in enumerate(each["slots"]):
            text = text.replace(f'"@{a}.{b}@"', json.dumps(row))
    return text


def _accepted(kind: str) -> dict[str, Any]:
    for fields in RATES:
        try:
            REGISTRY[kind].model_validate({"kind": kind} | _size(kind) | fields)
        except ValidationError as error:
            refusal = error
        else:
            return fields
    raise ValueError(f"no fields to record {kind} with; name them with --vector-fields. The last try: {refusal}")


def _size(kind: str) -> dict[str, Any]:
    return ARMS if "n_arms" in REGISTRY[kind].model_fields else POINTS


def _opened(learner: Learner[Any], t: int, outstanding: int) -> tuple[Slot, dict[str, float]]:
    """Slot ``t``, and the uniforms its row in the file needs."""
    row = {"u": Draws(SEED).uniform(t)} if isinstance(learner, ArmLearner) else {}
    if learner.second_stream:
        row["v"] = Draws(SEED, stream=1).uniform(t)
    return Slot(t, outstanding, row.get("u", 0.0), row.get("v", 0.0)), row


def _arriving(t: int) -> Iterator[int]:
    """Slots whose feedback arrives in slot ``t``."""
    return (slot for slot in range(1, t + 1) if slot + DELAYS[slot % len(DELAYS)] == t)


def _play_arms(learner: ArmLearner[Any]) -> tuple[list[dict[str, Any]], Any]:
    state, rows, outstanding = learner.start(), [], 0
    arms: dict[int, int] = {}
    records: dict[int, Record] = {}
    for t in range(1, SLOTS + 1):
        slot, row = _opened(learner, t, outstanding)
        state, arms[t] = learner.draw(learner.open(state, slot), slot)
        row |= {"p": learner.distribution(state).tolist(), "arm": arms[t], "events": []}
        if isinstance(learner, SlotLearner):
            records[t] = learner.record(state, arms[t])
        outstanding += 1
        for opened in _arriving(t):
            outstanding -= 1
            event = {"arm": arms[opened], "loss": (1 + arms[opened]) / 4, "slot": opened}
            kept = {"record": records.pop(opened)} if isinstance(learner, SlotLearner) else {}
            state = learner.settle(state, event["arm"], event["loss"], **kept)
            row["events"].append(event | {"p": learner.probabilities(state).tolist()})
        rows.append(row)
    return rows, state


def _play_points(learner: PointLearner[Any]) -> tuple[list[dict[str, Any]], Any]:
    state, rows, outstanding = learner.start(), [], 0
    values: dict[int, Any] = {}
    for t in range(1, SLOTS + 1):
        slot, row = _opened(learner, t, outstanding)
        state = learner.open(state, slot)
        row |= {"x": learner.x(state).tolist(), "events": []}
        values[t] = _values(learner, state)
        outstanding += 1
        for opened in _arriving(t):
            outstanding -= 1
            state = learner.settle(state, values[opened], outstanding)
            row["events"].append({"values": values[opened].tolist(), "x": learner.x(state).tolist()})
        rows.append(row)
    return rows, state


def _values(learner: PointLearner[Any], state: Any) -> Any:
    """A gradient, or the losses at the point and its query points."""
    x, points = learner.x(state), learner.query_points(state)
    if learner.information is Information.GRADIENT or points is None:
        return 2 * (x - TARGET)
    return np.square(np.vstack([x, points]) - TARGET).sum(axis=-1)
