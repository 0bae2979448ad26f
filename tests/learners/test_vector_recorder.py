"""What the recorder writes is a trace that the learner follows, and hand-made traces are left alone."""

import json
import subprocess
import sys

import pytest

from service.learners import REGISTRY
from service.learners.base import ArmLearner
from tests.support import vector_recorder, vectors

NEVER_CHANGE = {"fixed"}
"""Learners that learn nothing: their probabilities stay."""

CONTRACTS = {kind: vectors.load(kind).get("contract") for kind in REGISTRY if vectors.has(kind)}
"""What a learner was recorded with, if ``RATES`` have not all that it needs."""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty folder in place of tests/vectors."""
    monkeypatch.setattr(vectors, "VECTORS", tmp_path)
    return tmp_path


def moments(trace):
    """What the learner answers where the trace says it was answered."""
    learner = vectors.build(trace)
    over_arms = isinstance(learner, ArmLearner)
    played = vectors.arm_moments(learner, trace) if over_arms else vectors.point_moments(learner, trace)
    points = dict.fromkeys(("open", "event"), "x")
    answer = {"open": "distribution", "event": "probabilities"} if over_arms else points
    return [getattr(learner, answer[what])(state).tolist() for what, _, state, _ in played if what in answer]


@pytest.mark.parametrize("kind", REGISTRY)
def test_every_learner_can_be_recorded_and_follows_its_trace(kind, folder):
    vector_recorder.record(kind, CONTRACTS.get(kind))

    (trace,) = vectors.traces(kind)
    field = "p" if "p_end" in trace else "x"
    written = [[row[field], *(event[field] for event in row["events"])] for row in trace["slots"]]
    assert trace["recorded"]
    assert trace["about"].startswith("Recorded")
    assert moments(trace) == [answer for row in written for answer in row]
    assert kind in NEVER_CHANGE or len({str(answer) for row in written for answer in row}) > 2


def test_only_the_recorded_trace_of_a_file_is_written_again(folder):
    hand = {"name": "hand", "about": "By hand.", "spec": {"kind": "dexp3", "n_arms": 2}, "slots": []}
    before = {"learner": "dexp3", "tolerance": 1e-9, "traces": [hand, {"recorded": True}], "theorem": []}
    (folder / "dexp3.json").write_text(json.dumps(before))

    vector_recorder.record("dexp3")

    after = vectors.load("dexp3")
    assert after["traces"] == [hand, vector_recorder.trace("dexp3", {})]
    assert after | {"traces": []} == before | {"traces": []}


@pytest.mark.parametrize("kind", sorted(REGISTRY, key=vectors.has))
def test_every_learner_has_its_vectors(kind):
    """Those that have none come first, so that a quick run, which leaves out parameters, tries one of them."""
    assert vectors.traces(kind)


@pytest.mark.recipes
def test_a_quick_run_finds_each_learner_by_its_name():
    """Which parameters it leaves out is decided among those that ``-k`` has left."""
    collect = [sys.executable, "-m", "pytest", "-q", "-n", "0", "--collect-only", "tests/learners"]
    for kind in list(REGISTRY)[1:3]:
        command = [*collect, "-k", f"test_every_learner_has_its_vectors and {kind}"]
        found = subprocess.run(command, cwd=vectors.VECTORS.parents[1], capture_output=True, text=True, check=False)

        assert f"test_every_learner_has_its_vectors[{kind}]" in found.stdout


def test_a_missing_file_is_refused_with_the_command_that_records_it(folder):
    with pytest.raises(FileNotFoundError, match=r"vectors/exp3\.json is missing: record it with `pytest tests/l"):
        vectors.traces("exp3")
    assert vector_recorder.missing() == list(REGISTRY)


def test_a_learner_that_accepts_no_fields_names_the_option(folder, monkeypatch):
    monkeypatch.setattr(vector_recorder, "RATES", ({"gamma": 1},))

    with pytest.raises(ValueError, match="no fields to record exp3 with; name them with --vector-fields"):
        vector_recorder.record("exp3")
