"""Sessions as the program writes them, kept in tests/states: one for each kind of learner, and some more.

``python -m tests.support.kept_states`` writes all files again: until the first release a change of what is stored
does so in its own commit. Those with segments begin with ``segments_``, that with features with ``features_``.
"""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from service.commit.cache import CachedSession
from service.engine.arm_run import ArmRun, Change
from service.engine.ledger import ArmAction, ArmFeedback, PointFeedback
from service.engine.run import FeatureRun, Run
from service.engine.segment_run import KeptSegment, SegmentRun
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
WITH_SEGMENTS, WITH_FEATURES = "segments_", "features_"
FEATURES = {"age": {"kind": "number", "range": [0, 10]}, "page": {"kind": "category", "buckets": 3}}
SEGMENTS = ("home", "cart", "search")
"""Those that a session plays; it keeps one less, so that the first was dropped."""


def names() -> list[str]:
    return sorted(file.stem for file in FOLDER.glob("*.json"))


def load(name: str) -> dict[str, Any]:
    return json.loads((FOLDER / f"{name}.json").read_text())


def read(kept: dict[str, Any]) -> tuple[Snapshot, CachedSession]:
    """A kept session, as a worker reads it from the store."""
    snapshot = Snapshot("v-1", kept["spec"].encode(), bytes.fromhex(kept["state"]), 1_700_000_000.0, None)
    beside = {key.encode(): bytes.fromhex(record) for key, record in kept["records"].items()}
    cached = CachedSession.of(snapshot).with_records(beside)
    if isinstance(cached.run, SegmentRun):
        cached = cached._replace(run=with_segments(cached.run, stored_segments(kept)))
    return snapshot, cached


def with_segments(run: SegmentRun, stored: dict[bytes, tuple[int, bytes]]) -> SegmentRun:
    """A run and all segments that the store has."""
    found: dict[str, KeptSegment | None] = dict.fromkeys(SEGMENTS)
    found |= {name.decode(): records.decode_segment(name, each, run.arms) for name, (_, each) in stored.items()}
    oldest = sorted((slot, name.decode()) for name, (slot, _) in stored.items())
    return replace(run, segments=run.segments.read(found, oldest))


def stored_segments(kept: dict[str, Any]) -> dict[bytes, tuple[int, bytes]]:
    """The segments of a kept session as a store has them: by name, the last slot and the record."""
    return {name.encode(): (slot, bytes.fromhex(each)) for name, (slot, each) in kept.get("segments", {}).items()}


def segments_of(run: SegmentRun) -> dict[str, tuple[int, str]]:
    """The last slots and the records of the segments that were played and not dropped."""
    made = {name: records.encode_segment(run, name) for name in run.segments.changes}
    return {name: (each[0], each[1].hex()) for name, each in made.items() if each is not None}


def view(kept: dict[str, Any]) -> dict[str, Any]:
    """What a client sees of a kept session."""
    shown = session_view("kept", *read(kept))
    return json.loads(shown if isinstance(shown, bytes) else "".join(shown))


def go_on(run: Run) -> list[dict[str, Any]]:
    """What a run does next: three acts, each of another segment if there are any, and their losses."""
    shown = []
    for segment in SEGMENTS:
        action = act(run, segment)
        settle(run, action, segment)
        shown.append({"arm": action.arm, "p": action.probability} if isinstance(action, ArmAction) else {})
        shown[-1] |= {} if isinstance(action, ArmAction) else {"x": action.x.tolist()}
    return shown


def act(run: Run, segment: str) -> Any:
    if isinstance(run, FeatureRun):
        return run.act(None, run.encoder.encode({"age": run.slot, "page": segment}))
    return run.act(segment=segment) if isinstance(run, SegmentRun) else run.act()


def settle(run: Run, action: Any, segment: str) -> None:
    if isinstance(action, ArmAction):
        loss = 0.25 * (1 + action.arm) if isinstance(run, SegmentRun) else 0.25
        run.settle(ArmFeedback(action.arm, loss, action.slot, segment=segment, visit=action.visit))
    else:
        extra = run.learner.information is Information.LOSSES
        run.settle(PointFeedback(np.linspace(0.1, 0.9, action.x.size + extra)))


def specification(name: str) -> Specification:
    """A session with expiry; over arms, with labels."""
    kind = name.removeprefix(WITH_SEGMENTS).removeprefix(WITH_FEATURES)
    fields = dict(vectors.traces(kind)[0]["spec"])
    if "n_arms" in fields:
        del fields["n_arms"]
        fields["arms"] = LABELS
    learner = REGISTRY[kind].model_validate(fields)
    session: dict[str, Any] = {"learner": learner, "seed": 7, "expiry": {"after_seconds": 640.0}}
    if name.startswith(WITH_SEGMENTS):
        session["segments"] = {"max": len(SEGMENTS) - 1}
        if learner.takes_provisional:
            session["expiry"]["default_loss"] = 1.0
    if name.startswith(WITH_FEATURES):
        session["features"] = FEATURES
        session["expiry"]["default_loss"] = 1.0
    return Specification.model_validate(session)


def played(run: Run) -> Run:
    """Acts over some time, most losses late or missing, a void, and a change of arms where there are any.

    The last thing is an event in the open slot.
    """
    waiting: list[tuple[Any, str]] = []
    first, *_, last = SEGMENTS
    for t in range(ACTS):
        segment = first if t < 2 else SEGMENTS[1 + t % 2]
        run.advance(1_700_000_000.0 + 9 * t)
        waiting.append((act(run, segment), segment))
        if t % 3 == 2:
            settle(run, *waiting.pop(0))
    run.ledger.logged = 19
    if isinstance(run, ArmRun):
        run.act_times.expire(run.ledger.time, [0, 1])
        run.ledger.judge(20, 3)
        change = run.arms.change(["e"], ["b"])
        run.change_arms(change, run.arms.changed(change, 1_800_000_000.0))
        if run.learner.takes_eligible:
            run.arms = run.arms.with_pauses([], ["d"])
        act(run, last)
    action = act(run, last)
    run.void(ArmFeedback(action.arm, 0.0, action.slot, segment=last) if isinstance(action, ArmAction) else None)
    if isinstance(run, ArmRun):
        act(run, last)
    settle(run, act(run, last), last)
    return run


def write(name: str) -> None:
    stored = Stored.of(specification(name))
    run = played(stored.start())
    beside = records.encode(run)
    if isinstance(run, ArmRun):
        before, stored = stored.start().arms, stored._replace(arms=run.arms)
        beside |= records.encode_removed(before, run.arms, Change([before.labels["b"]], []))
    kept: dict[str, Any] = {
        "spec": stored.encode().decode(),
        "state": codec.encode(run).hex(),
        "records": {key.decode(): data.hex() for key, data in beside.items() if data is not None},
    }
    if isinstance(run, SegmentRun):
        kept["segments"] = segments_of(run)
    kept |= {"view": view(kept), "next": go_on(read(kept)[1].run.copy())}
    (FOLDER / f"{name}.json").write_text(json.dumps(kept, indent=1) + "\n")


if __name__ == "__main__":
    kinds = sorted(REGISTRY)
    for each in (*kinds, *(WITH_SEGMENTS + kind for kind in kinds if REGISTRY[kind].takes_segments)):
        write(each)
    write(f"{WITH_FEATURES}multiscale_tsallis")
