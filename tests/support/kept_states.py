"""Sessions as some version wrote them, kept in tests/states, one file for each kind of learner and schema.

``python -m tests.support.kept_states`` writes the files that the newest schema lacks; those that exist are never
written again, as sessions like them lie in somebody's store. Files of schema 1 have no number in their name.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from service.commit.session_cache import CachedSession
from service.engine.actions import ArmAction
from service.engine.arm_run import ArmRun
from service.engine.feedback import ArmFeedback, PointFeedback
from service.engine.run import Run
from service.learners import REGISTRY
from service.learners.base import Information
from service.models.specification import Specification
from service.models.stored import Stored
from service.serialization import records
from service.serialization import state as codec
from service.sessions.views import session_view
from service.store.base import Snapshot
from tests.support import vectors

WRITE = "python -m tests.support.kept_states"
FOLDER = Path(__file__).parent.parent / "states"
LABELS = ["a", "b", "c", "d"]
ACTS = 12


def names() -> list[str]:
    """Kind, a dot and the schema; of schema 1 the kind alone."""
    return sorted(file.stem for file in FOLDER.glob("*.json"))


def load(name: str) -> dict[str, Any]:
    return json.loads((FOLDER / f"{name}.json").read_text())


def read(kept: dict[str, Any]) -> tuple[Snapshot, CachedSession]:
    """A kept session, as a worker reads it from the store."""
    snapshot = Snapshot("v-1", kept["spec"].encode(), bytes.fromhex(kept["state"]), 1_700_000_000.0, None)
    beside = {key.encode(): bytes.fromhex(record) for key, record in kept["records"].items()}
    return snapshot, CachedSession.of(snapshot).with_records(beside)


def view(kept: dict[str, Any]) -> dict[str, Any]:
    """What a client sees of a kept session."""
    shown = session_view("kept", *read(kept))
    return json.loads(shown if isinstance(shown, bytes) else "".join(shown))


def go_on(run: Run) -> list[dict[str, Any]]:
    """What a run does next: three acts, and what the view shows after their losses."""
    shown = []
    for _ in range(3):
        action = run.act()
        settle(run, action)
        shown.append({"arm": action.arm, "p": action.probability} if isinstance(action, ArmAction) else {})
        shown[-1] |= {} if isinstance(action, ArmAction) else {"x": action.x.tolist()}
    return shown


def settle(run: Run, action: Any) -> None:
    if isinstance(action, ArmAction):
        run.settle(ArmFeedback(action.arm, 0.25, action.slot))
    else:
        extra = run.learner.information is Information.LOSSES
        run.settle(PointFeedback(np.linspace(0.1, 0.9, action.x.size + extra)))


def specification(kind: str) -> Specification:
    """A session with expiry; over arms, with labels."""
    fields = dict(vectors.traces(kind)[0]["spec"])
    if "n_arms" in fields:
        del fields["n_arms"]
        fields["arms"] = LABELS
    learner = REGISTRY[kind].model_validate(fields)
    return Specification.model_validate({"learner": learner, "seed": 7, "expiry": {"after_seconds": 640.0}})


def played(run: Run) -> Run:
    """Acts over some time, most losses late or missing, a void, and a change of arms where there are any.

    The last thing is an event in the open slot.
    """
    waiting = []
    for t in range(ACTS):
        run.advance(1_700_000_000.0 + 9 * t)
        waiting.append(run.act())
        if t % 3 == 2:
            settle(run, waiting.pop(0))
    if isinstance(run, ArmRun):
        run.change_arms(run.arms.change(["e"], ["b"]))
        if run.learner.takes_eligible:
            run.arms = run.arms.with_pauses([], ["d"])
        run.act()
    action = run.act()
    run.void(ArmFeedback(action.arm, 0.0, action.slot) if isinstance(action, ArmAction) else None)
    if isinstance(run, ArmRun):
        run.act()
    settle(run, run.act())
    return run


def write(kind: str) -> None:
    stored = Stored.of(specification(kind))
    run = played(stored.start())
    kept: dict[str, Any] = {
        "about": f"a {kind} session as schema {codec.SCHEMA} keeps it",
        "spec": stored.encode().decode(),
        "state": CachedSession.encode(run).hex(),
        "records": {key.decode(): data.hex() for key, data in records.encode(run).items() if data is not None},
    }
    kept |= {"view": view(kept), "next": go_on(read(kept)[1].run.copy())}
    (FOLDER / f"{kind}.{codec.SCHEMA}.json").write_text(json.dumps(kept, indent=1) + "\n")


if __name__ == "__main__":
    for each in sorted(REGISTRY):
        if f"{each}.{codec.SCHEMA}" not in names():
            write(each)
