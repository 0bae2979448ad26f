"""Reading the vector files, and stepping a learner through one of their traces.

A trace has a ``name``, ``about`` (how it was computed), ``spec`` (the specification that is played), ``slots`` in
order, and ``p_end`` (arms: ``probabilities``) or ``x_end`` (points: ``x``) after the last event. ``start`` (arms:
the field ``p`` of the state before the first slot) and ``tolerance`` (in place of the file's: relative, and
absolute near 0) may be left out.

A slot has ``u`` and ``v`` (its uniforms; 0 if left out), ``p`` (arms: ``distribution``) or ``x`` (points) when it
is open, and the ``events`` that arrive in it, in order; it may have ``arm`` (the position that ``u`` draws) and
``rates`` by name. An event is ``{"arm": 0, "loss": "1/2", "slot": 1}`` with the slot that the decision was made
in, or ``{"values": [...]}`` over points, and may have the ``p`` or ``x`` after it. Numbers of ``p``, ``p_end``,
``start`` and ``loss`` may be fractions, such as ``"1/3"``.

A file ``arms_<kind>.json`` has ``steps`` in place of ``slots``: ``{"open": 1, "outstanding": 0, "u": 0.1}`` (slot
1), ``{"event": 0, "loss": "1/2", "slot": 1}`` (an event of arm 0), ``{"add": 1}`` (how many) or ``{"remove":
[0]}`` (positions), each with ``p`` afterwards.
"""

import json
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from service.learners import REGISTRY, dexp3
from service.learners.base import ArmLearner, FloatArray, IntArray, Learner, PointLearner, Record, Slot, SlotLearner

VECTORS = Path(__file__).parent.parent / "vectors"
RECORD = "pytest tests/learners --update-vectors"
"""The command that records the files of learners that have none."""


def load(name: str) -> dict[str, Any]:
    """Read a vector file.

    Raises
    ------
    FileNotFoundError
        naming the command that records it.
    """
    try:
        text = (VECTORS / f"{name}.json").read_text()
    except FileNotFoundError as error:
        raise FileNotFoundError(f"tests/vectors/{name}.json is missing: record it with `{RECORD}`") from error
    return json.loads(text)


def kinds() -> list[str]:
    """Kinds that have a vector file."""
    return [kind for kind in REGISTRY if has(kind)]


def over_arms() -> dict[str, dict[str, Any]]:
    """Every kind of learner over arms, with the fields that contract tests create its sessions with."""
    arms = [kind for kind in kinds() if "n_arms" in REGISTRY[kind].model_fields]
    return {kind: load(kind).get("contract", {}) for kind in arms}


def with_eligible_arms() -> list[str]:
    """Kinds over arms whose slots may name the arms that may be drawn."""
    return [kind for kind in over_arms() if learner_over_arms(kind).takes_eligible]


def learner_over_arms(kind: str, n_arms: int = 3) -> ArmLearner[Any]:
    """The learner that contract tests of this kind play."""
    learner = build({"spec": {"kind": kind, "n_arms": n_arms} | over_arms()[kind]})
    assert isinstance(learner, ArmLearner)
    return learner


def settled(learner: ArmLearner[Any], state: Any, arm: Any, loss: Any) -> Any:
    """The state after a loss that comes back in its own slot, with the record where one is kept."""
    if isinstance(learner, SlotLearner):
        return learner.settle(state, arm, loss, record=learner.record(state, arm))
    return learner.settle(state, arm, loss)


def has(name: str) -> bool:
    """Whether there is such a vector file."""
    return (VECTORS / f"{name}.json").exists()


def traces(kind: str) -> list[dict[str, Any]]:
    document = load(kind)
    return [{"tolerance": document["tolerance"], **trace} for trace in document["traces"]]


def all_traces(field: str) -> list[Any]:
    """The traces of every learner that has such a field, ``n_arms`` or ``dim``."""
    named = [(kind, trace) for kind in kinds() if field in REGISTRY[kind].model_fields for trace in traces(kind)]
    return [pytest.param(trace, id=f"{kind}-{trace['name']}") for kind, trace in named]


def traces_of(prefix: str) -> list[Any]:
    """The traces of every file ``<prefix>_<kind>``, of learners over arms."""
    return [
        pytest.param(trace, id=f"{kind}-{trace['name']}")
        for kind in over_arms()
        if has(f"{prefix}_{kind}")
        for trace in traces(f"{prefix}_{kind}")
    ]


def specs() -> list[Any]:
    """Every specification in the vector files, once: what contract tests of learners run on."""
    found: dict[str, Any] = {}
    for kind in kinds():
        document = load(kind)
        for case in document["traces"] + document.get("theorem", []):
            text = json.dumps(case["spec"], sort_keys=True)
            found.setdefault(text, pytest.param(case["spec"], id=f"{kind}-{len(found)}"))
    return list(found.values())


def number(value: float | str) -> float:
    """A number, or an exact fraction written as text."""
    return float(Fraction(value)) if isinstance(value, str) else float(value)


def numbers(values: list[float | str]) -> FloatArray:
    return np.array([number(value) for value in values])


def positions(arms: list[int] | None) -> IntArray | None:
    """Which arms may be drawn, as a slot has them."""
    return None if arms is None else np.array(arms, dtype=np.int64)


def build(trace: dict[str, Any]) -> Learner[Any]:
    return REGISTRY[trace["spec"]["kind"]].model_validate(trace["spec"]).build()


def start_of(learner: Learner[Any], trace: dict[str, Any]) -> Any:
    """The state in which a trace starts: the learner's first one but for the fields that the trace names."""
    given = {n: numbers(at) if isinstance(at, list) else at for n, at in trace.get("start", {}).items()}
    state = learner.start()
    return state.at(given["p"], given["p"]) if isinstance(state, dexp3.State) else state._replace(**given)


class Moment(NamedTuple):
    """A learner's state when a slot has opened, when an event has been applied, or at a slot's end."""

    what: str
    row: dict[str, Any]
    state: Any
    arm: int | None = None


def arm_moments(learner: ArmLearner[Any], trace: dict[str, Any]) -> Iterator[Moment]:
    """Open, draw (where the trace gives u) and settle, as one session would."""
    state, outstanding = learner.start(), 0
    records: dict[int, Record] = {}
    if "start" in trace:
        state = state.at(numbers(trace["start"]), numbers(trace["start"]))
    for t, row in enumerate(trace["slots"], start=1):
        slot = Slot(t, outstanding, row.get("u", 0.0), row.get("v", 0.0))
        state, arm = learner.draw(learner.open(state, slot), slot)
        yield Moment("open", row, state, arm)
        outstanding += 1
        if isinstance(learner, SlotLearner):
            records[t] = learner.record(state, arm)
        for event in row["events"]:
            outstanding = max(outstanding - 1, 0)
            record = {"record": records.pop(event["slot"])} if isinstance(learner, SlotLearner) else {}
            state = learner.settle(state, event["arm"], number(event["loss"]), **record)
            yield Moment("event", event, state)
        yield Moment("end", row, state)


def point_moments(learner: PointLearner[Any], trace: dict[str, Any]) -> Iterator[Moment]:
    """Open and settle, as one session would."""
    state, outstanding = learner.start(), 0
    for t, row in enumerate(trace["slots"], start=1):
        state = learner.open(state, Slot(t, outstanding, 0.0, row.get("v", 0.0)))
        yield Moment("open", row, state)
        outstanding += 1
        for event in row["events"]:
            outstanding -= 1
            assert event.get("outstanding", outstanding) == outstanding
            state = learner.settle(state, np.array(event["values"]), outstanding)
            yield Moment("event", event, state)
        yield Moment("end", row, state)
